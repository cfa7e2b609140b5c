"""A method with its settings, the shares to hold out and a seed: all that decides a result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from cgcl.graph import Graph
from cgcl.methods.method import Method
from cgcl.methods.settings import MethodSettings, TrainedSettings
from cgcl.methods.table import method_named, no_such_setting
from cgcl.settings import pick
from cgcl.train.config import SplitConfig

__all__ = ["Recipe"]


@dataclass(frozen=True)
class Recipe:
    """How a run is made: the same recipe on the same graph gives the same result."""

    name: str
    """The method's name in the table of methods."""
    settings: MethodSettings
    split: SplitConfig

    @classmethod
    def of(cls, name: str, values: Mapping[str, Any]) -> Recipe:
        """Return the recipe of a method with these settings by name, the others as by default.

        Args:
            name: The method.
            values: Its settings, and `val`, `test` and `seed`; nothing else.

        Raises:
            ConfigError: There is no such method or setting, or one is out of range.
        """
        method = method_named(name)
        own, shared = _names(method.settings), _names(SplitConfig)
        unknown = sorted(values.keys() - own - shared)
        if unknown:
            raise no_such_setting(name, unknown, sorted(own))
        return cls(name, pick(method.settings, values), pick(SplitConfig, values))

    @classmethod
    def for_graph(cls, name: str, values: Mapping[str, Any], graph: Graph) -> Recipe:
        """Return the recipe of a method for a graph: what is not given, its rule chooses.

        Args:
            name: The method.
            values: As for `of`; None for what is left to the rule.
            graph: The graph to learn from.

        Raises:
            ConfigError: There is no such method or setting, or one is out of range.
        """
        return cls.of(name, method_named(name).settings_for(graph, values))

    @property
    def method(self) -> Method:
        """The method itself."""
        return method_named(self.name)

    @property
    def epochs(self) -> int:
        """How long it is trained; 0 if there is nothing to train."""
        return self.settings.epochs if isinstance(self.settings, TrainedSettings) else 0

    def to_json(self) -> dict[str, Any]:
        """Return all of it as one flat mapping."""
        return {"method": self.name, **self.settings.to_json(), **asdict(self.split)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Recipe:
        """Return what `to_json` gave; other names in the mapping do no harm.

        Raises:
            KeyError: It names no method.
            ConfigError: There is no such method, or a setting is out of range.
        """
        name = values["method"]
        known = _names(method_named(name).settings) | _names(SplitConfig)
        return cls.of(name, {key: value for key, value in values.items() if key in known})


def _names(kind: type) -> set[str]:
    return {field.name for field in fields(kind)}
