"""Numbers and settings as a reader wants them: the filters of the page's template."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["FILTERS", "count", "duration", "percent", "plural", "setting"]

_NOTHING = "\N{EN DASH}"


def count(number: int | None) -> str:
    """Return a number with thousands separated, or a dash.

    Example:
        >>> count(10556)
        '10,556'
    """
    return _NOTHING if number is None else f"{number:,}"


def plural(number: int, noun: str) -> str:
    """Return a count with its noun.

    Example:
        >>> plural(1, "link"), plural(4488, "link")
        ('1 link', '4,488 links')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def percent(fraction: float | None) -> str:
    r"""Return a fraction as percent with two decimals, or a dash.

    Example:
        >>> percent(0.96804)
        '96.80\xa0%'
    """
    return _NOTHING if fraction is None else f"{100 * fraction:.2f}\N{NO-BREAK SPACE}%"


def setting(value: object) -> str:
    """Return a setting in words.

    Example:
        >>> [setting(value) for value in (None, "", True, 0.01, "disjoint", [64, 32])]
        ['none', 'none', 'yes', '0.01', 'disjoint', '64, 32']
    """
    if value is None or value == "":
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(setting(item) for item in value)
    return str(value)


def duration(seconds: float) -> str:
    """Return a time span in the two units that matter.

    Example:
        >>> [duration(seconds) for seconds in (12.34, 192, 7380)]
        ['12.3 s', '3 min 12 s', '2 h 3 min']
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


FILTERS: dict[str, Callable[..., Any]] = {
    "count": count,
    "duration": duration,
    "percent": percent,
    "plural": plural,
    "setting": setting,
}
"""Every function of this module by the name that the template uses."""
