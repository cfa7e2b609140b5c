"""What a user said about the method: flags, a preset, and settings by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, get_origin, get_type_hints

from cgcl.cli.settings import given_settings
from cgcl.errors import ConfigError
from cgcl.methods.settings import CGCLSettings
from cgcl.methods.table import PAPER_METHOD, no_such_setting
from cgcl.train.config import SplitConfig

if TYPE_CHECKING:
    from cgcl.graph import Graph
    from cgcl.methods.method import Method
    from cgcl.methods.settings import MethodSettings
    from cgcl.train.config import Recipe

__all__ = ["Preset", "Told", "from_text"]

Preset = Literal["quick", "best", "paper"]
_TRUTH = {"true": True, "yes": True, "false": False, "no": False}


@dataclass(frozen=True)
class Told:
    """The options of a command that say which method to train and how."""

    method: str
    preset: Preset
    settings: CGCLSettings
    """The flags of CGCL, which hold for any method that has a setting of the same name."""
    shares: SplitConfig
    more: Mapping[str, str]
    """Settings of the method by name, as text."""

    def require_method(self) -> None:
        """Refuse an unknown method before anything is read.

        Raises:
            ConfigError: There is no such method.
        """
        from cgcl.methods.table import method_named

        method_named(self.method)

    def recipe(self, graph: Graph) -> Recipe:
        """Return the recipe for a graph.

        Raises:
            ConfigError: The method has no such setting, or it is out of range.
        """
        from cgcl.methods.table import method_named
        from cgcl.train.config import Recipe

        method = method_named(self.method)
        values: dict[str, Any] = asdict(self.settings)
        if self.method != PAPER_METHOD:
            flags = {field.name for field in fields(CGCLSettings)} & given_settings()
            named = self._preset_of(method, graph.title)
            values = {**named, **{name: values[name] for name in sorted(flags)}}
        elif self.preset == "best":
            raise _no_preset(self.preset, self.method, "quick and paper")
        values |= from_text(method.settings, self.more, self.method)
        return Recipe.for_graph(self.method, {**values, **asdict(self.shares)}, graph)

    def _preset_of(self, method: Method, graph: str) -> dict[str, Any]:
        """Return what the preset says about the settings of another method than the paper's."""
        if method.rule is not None:
            if self.preset == "paper":
                raise _no_preset(self.preset, self.method, "quick and best")
            return {"preset": self.preset}
        if self.preset == "best":
            raise _no_preset(self.preset, self.method, "quick and paper")
        return method.authors_settings(graph) if self.preset == "paper" else {}


def _no_preset(preset: str, method: str, there: str) -> ConfigError:
    remedy = " The preset best is that of --method cgcl-rank." if preset == "best" else ""
    return ConfigError(f"{method} has no preset {preset}; it has {there}.{remedy}")


def from_text(kind: type[MethodSettings], told: Mapping[str, str], method: str) -> dict[str, Any]:
    """Return settings that were given as text as what their types say.

    Raises:
        ConfigError: The method has no such setting, or the text is not of its type.
    """
    hints = get_type_hints(kind)
    known = [field.name for field in fields(kind)]
    values: dict[str, Any] = {}
    for flag, text in told.items():
        name = flag.replace("-", "_")
        if name not in known:
            raise no_such_setting(method, [name], known)
        values[name] = _converted(name, text, hints[name])
    return values


def _converted(name: str, text: str, hint: Any) -> Any:  # noqa: ANN401
    if hint is str or get_origin(hint) is Literal:
        return text
    if hint is bool:
        if text.lower() not in _TRUTH:
            raise ConfigError(f"{name} is {text!r}; it must be true or false.")
        return _TRUTH[text.lower()]
    try:
        return hint(text)
    except ValueError as error:
        kind = "a whole number" if hint is int else "a number"
        raise ConfigError(f"{name} is {text!r}; it must be {kind}.") from error
