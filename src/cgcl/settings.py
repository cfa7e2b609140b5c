"""Settings are frozen dataclasses whose types and ranges are checked when they are made.

Nothing heavy is imported, so that the command line can ask for its options at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from operator import ge, gt, le, lt
from typing import Any, ClassVar, Literal, TypeVar, get_args, get_origin, get_type_hints

from cgcl.errors import ConfigError

# What each bound of a range asks for, in the order of its fields.
_BOUNDS = (("at least", ge), ("above", gt), ("at most", le), ("below", lt))
_KIND_IN_WORDS = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}


@dataclass(frozen=True)
class Range:
    """Which numbers a setting may be; None for no bound."""

    low: float | None = None
    above: float | None = None
    high: float | None = None
    below: float | None = None


@dataclass(frozen=True)
class Settings:
    """Base of every class of settings: it checks what its fields say."""

    RANGES: ClassVar[Mapping[str, Range]] = {}
    """The range of each number that a class adds; those of its bases hold, too."""

    def __post_init__(self) -> None:
        """Check types and ranges.

        Raises:
            ConfigError: A setting has the wrong type or is out of range.
        """
        _check_types(self)
        for kind in reversed(type(self).__mro__):
            for name, bounds in vars(kind).get("RANGES", {}).items():
                check_range(name, getattr(self, name), bounds)


Kind = TypeVar("Kind", bound=Settings)


def pick(kind: type[Kind], values: Mapping[str, Any]) -> Kind:
    """Return the settings of one kind out of a mapping that may hold others too.

    Raises:
        ConfigError: A setting has the wrong type or is out of range.
    """
    return kind(**{f.name: values[f.name] for f in fields(kind) if f.name in values})


def check_range(name: str, value: float, bounds: Range) -> None:
    """Refuse a number outside its range, or one that is no number.

    Raises:
        ConfigError: It is.
    """
    asked = [
        (bound, words, holds)
        for bound, (words, holds) in zip(vars(bounds).values(), _BOUNDS, strict=True)
        if bound is not None
    ]
    is_number = isinstance(value, int) or math.isfinite(value)
    if not (is_number and all(holds(value, bound) for bound, _, holds in asked)):
        wanted = " and ".join(f"{words} {bound:,}" for bound, words, _ in asked)
        raise ConfigError(f"{name} is {value}; it must be {wanted}.")


@cache
def _hints(kind: type[Settings]) -> dict[str, Any]:
    """Return the type of every field."""
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


def _check_types(config: Settings) -> None:
    """Refuse what its field's type does not admit: no type checker sees files and callers."""
    for name, hint in _hints(type(config)).items():
        value = getattr(config, name)
        if get_origin(hint) is Literal:
            if value not in get_args(hint):
                choices = ", ".join(get_args(hint))
                raise ConfigError(f"{name} is {value!r}; it must be one of {choices}.")
            continue
        # bool is an int to Python, but not to people; an int is as good as a float.
        kinds = (int, float) if hint is float else (hint,)
        if not isinstance(value, kinds) or (isinstance(value, bool) and hint is not bool):
            raise ConfigError(f"{name} is {value!r}; it must be {_KIND_IN_WORDS[hint]}.")
