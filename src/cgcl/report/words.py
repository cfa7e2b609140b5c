"""Numbers and settings as a reader wants them: the filters of the page's template."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cgcl.report.names import legible

__all__ = [
    "FILTERS",
    "about",
    "base_rate",
    "chance",
    "count",
    "duration",
    "one_in",
    "percent",
    "plural",
    "setting",
]

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


def chance(probability: float | None, more: int = 0) -> str:
    r"""Return a probability as percent, with so many digits more than usual.

    Example:
        >>> [chance(p).replace("\xa0", " ") for p in (0.2347, 0.0234, 0.00012345, 1e-9)]
        ['23.5 %', '2.34 %', '0.012 %', '< 0.0001 %']
        >>> [chance(p).replace("\xa0", " ") for p in (0.9978, 0.99999)]
        ['99.78 %', '> 99.99 %']
        >>> [chance(p, 2).replace("\xa0", " ") for p in (0.2347, 0.00012345, 1.5e-9, 0.99999)]
        ['23.470 %', '0.01234 %', '1.50e-07 %', '99.9990 %']
    """
    if probability is None:
        return _NOTHING
    value = 100 * probability
    if value == 0 or value == 100:
        digits = f"{value:.0f}"
    elif value < 1e-4:
        digits = f"{value:.{more}e}" if more else "< 0.0001"
    elif value > 99.99 and not more:
        digits = "> 99.99"
    elif value < 1:
        # Two significant digits, never in scientific notation: value is at least 1e-4.
        digits = f"{float(f'{value:.{2 + more}g}'):.{6 + more}f}".rstrip("0").rstrip(".")
    else:
        digits = f"{value:.{1 + more}f}" if 10 <= value < 99.5 else f"{value:.{2 + more}f}"
        if float(digits) == 100:  # nearly is not quite
            digits = f"> 99.{'9' * (2 + more)}"
    return f"{digits}\N{NO-BREAK SPACE}%"


def about(number: float) -> str:
    """Return an expected number, rounded to what it can mean.

    Example:
        >>> [about(number) for number in (1234.5, 23.4, 4.21, 0.314, 0.001)]
        ['1,234', '23', '4.2', '0.31', 'less than 0.01']
    """
    if number >= 10:
        return f"{number:,.0f}"
    if number >= 1:
        return f"{number:.1f}"
    return f"{number:.2f}" if number >= 0.01 else "less than 0.01"


def base_rate(rate: float) -> str:
    """Return a small rate in the short scientific form.

    Example:
        >>> [base_rate(rate) for rate in (0.00014, 0.000145, 0.25)]
        ['1.4e-4', '1.45e-4', '0.25']
    """
    if not 0 < rate < 0.01:
        return f"{rate:.3g}"
    digits, _, exponent = f"{rate:.2e}".partition("e")
    return f"{float(digits):g}e{int(exponent)}"


def one_in(rate: float) -> str:
    """Return a rate in words.

    Example:
        >>> [one_in(rate) for rate in (0.000145, 0.034, 0.14)]
        ['1 in 6,900', '1 in 29', '14 in 100']
    """
    if rate <= 0:
        return "none"
    if rate >= 0.1:
        return f"{100 * rate:.0f} in 100"
    return f"1 in {float(f'{1 / rate:.2g}'):,.0f}"


FILTERS: dict[str, Callable[..., Any]] = {
    "about": about,
    "base_rate": base_rate,
    "chance": chance,
    "count": count,
    "duration": duration,
    "legible": legible,
    "one_in": one_in,
    "percent": percent,
    "plural": plural,
    "setting": setting,
}
"""Every function that puts something into words, by the name that the templates use."""
