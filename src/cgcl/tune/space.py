"""What a search may choose from, and what it begins with."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cgcl.errors import ConfigError
from cgcl.methods.settings import TrainedSettings
from cgcl.methods.table import method_named
from cgcl.train.recipe import Recipe
from cgcl.tune.trial import Goal, Proposal

__all__ = ["Space", "chosen_by"]


@dataclass(frozen=True)
class Space:
    """The settings of a method: which are searched, and what the others are."""

    method: str
    """The method's name in the table of methods."""
    base: Mapping[str, Any]
    """Every setting as by default, or as fixed for all trials."""
    authors: Mapping[str, Any]
    """Every setting as its authors have it on this graph, or as fixed for all trials."""
    choices: Mapping[str, tuple[Any, ...]]
    """What to try for each setting that is searched."""

    @classmethod
    def of(
        cls,
        method: str,
        graph_title: str,
        fixed: Mapping[str, Any],
        chosen: Mapping[str, Any] | None = None,
    ) -> Space:
        """Return the space of a method.

        Args:
            method: The method's name.
            graph_title: Its authors may have settings of their own for this graph.
            fixed: Settings that are the same in all trials, whatever the method would search.
            chosen: What the method's own rule chooses for the graph: its defaults there.

        Raises:
            ConfigError: There is no such method or setting, one is out of range, or there is
                nothing to search.
        """
        known = method_named(method)
        choices = {name: values for name, values in known.search.items() if name not in fixed}
        chosen = chosen or {}
        base = Recipe.of(method, {**chosen, **fixed}).settings.to_json()
        if known.search and not choices:
            raise ConfigError(
                f"There is nothing to tune: of {method}'s settings {', '.join(known.search)} are "
                f"searched, and all are fixed. Leave one of them open."
            )
        if not choices:
            raise ConfigError(
                f"There is nothing to tune: {method} has no settings that are worth a search.\n"
                f"Use it as it is: cgcl train GRAPH --method {method}"
            )
        authors = Recipe.of(method, {**chosen, **known.authors_settings(graph_title), **fixed})
        return cls(method, base, authors.settings.to_json(), choices)

    @property
    def goal(self) -> Goal:
        """By what the best trial is chosen, unless told otherwise: as its epoch, if it can be."""
        return "node_mrr" if self.base.get("choose_by") == "node_mrr" else "auc"

    @property
    def starts(self) -> list[Proposal]:
        """The first trials: the defaults, and what the authors use if that is something else."""
        first = [Proposal("defaults", dict(self.base))]
        if self.authors != self.base:
            first.append(Proposal("authors", dict(self.authors)))
        return first

    @property
    def size(self) -> int:
        """How many different settings can be chosen."""
        return math.prod(len(values) for values in self.choices.values())

    def contains(self, settings: Mapping[str, Any]) -> bool:
        """Say whether settings can be chosen: the authors may use some that cannot."""
        return all(
            value in self.choices[name] if name in self.choices else value == self.base.get(name)
            for name, value in settings.items()
        )

    def at(self, place: int) -> dict[str, Any]:
        """Return every setting at one of the `size` places of the space."""
        chosen = dict(self.base)
        for name, values in self.choices.items():
            place, digit = divmod(place, len(values))
            chosen[name] = values[digit]
        return chosen


def chosen_by(goal: Goal | None, method: str) -> dict[str, str]:
    """Return the setting that a goal asks for: by what the epoch of every trial is chosen.

    Raises:
        ConfigError: There is no such method, or nothing in it that is trained for node MRR.
    """
    is_trained = issubclass(method_named(method).settings, TrainedSettings)
    if goal == "node_mrr" and not is_trained:
        raise ConfigError(f"{method} is not trained, so its goal can be auc or ap.")
    if goal is None or not is_trained:
        return {}
    return {"choose_by": "node_mrr" if goal == "node_mrr" else "auc"}
