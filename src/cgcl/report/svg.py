"""Pieces of SVG that live inside an HTML page: lines, shapes and words in the page's colours.

Every colour is a CSS variable of the page with a colour to fall back to outside of it, so that one
drawing serves light mode, dark mode and paper.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from itertools import groupby

__all__ = [
    "FIRST",
    "GRID",
    "INK",
    "MUTED",
    "SECOND",
    "SOLID",
    "THIRD",
    "element",
    "path",
    "points",
    "short",
    "stroke",
    "text_width",
    "words",
]

INK = "var(--ink, #1c2430)"
MUTED = "var(--muted, #5d6876)"
GRID = "var(--grid, #dfe3e8)"
FIRST = "var(--first, #1f5fa8)"
SECOND = "var(--second, #b8560f)"
THIRD = "var(--third, #2f7d55)"

SOLID: tuple[float, ...] = ()
"""A line without gaps; else dash, gap, dash, gap in widths of the line."""

# Of a letter in most fonts, in sizes of the font. Wide names get a little too much room.
_LETTER = 0.56


def text_width(text: str, size: float) -> float:
    """Return about how wide a text is."""
    return _LETTER * size * len(text)


def short(value: float) -> str:
    """Return a coordinate with two decimals at most; nobody sees a hundredth of a unit.

    Example:
        >>> short(12.0), short(0.125), short(-0.001)
        ('12', '0.12', '0')
    """
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def points(x: Iterable[float], y: Iterable[float]) -> str:
    """Return the way through some points, as the commands of a path.

    Points that lie on the one before, to a fifth of a unit, are left out.
    """
    places = zip(x, y, strict=True)
    groups = groupby(places, key=lambda place: (round(5 * place[0]), round(5 * place[1])))
    return "M" + "L".join(f"{short(a)} {short(b)}" for a, b in (next(group) for _, group in groups))


def stroke(color: str, width: float, dashes: Sequence[float] = SOLID) -> str:
    """Return the style of a line."""
    found = f"fill: none; stroke: {color}; stroke-width: {short(width)}"
    if dashes:
        found += f"; stroke-dasharray: {' '.join(short(width * part) for part in dashes)}"
    return found


def path(commands: str, style: str) -> str:
    """Return a path."""
    return f'<path d="{commands}" style="{style}"/>'


def words(
    text: str,
    x: float,
    y: float,
    *,
    size: float = 9,
    color: str = INK,
    anchor: str = "start",
    bold: bool = False,
    upright: bool = True,
) -> str:
    """Return a text; all of it is shown, none of it is markup.

    Args:
        text: What it says.
        x: Where its start, middle or end is.
        y: Its base line.
        size: Of the font.
        color: Of the letters.
        anchor: What `x` means: start, middle or end.
        bold: Whether the letters are heavy.
        upright: Whether it reads from left to right, else from below to above.
    """
    place = f'x="{short(x)}" y="{short(y)}"'
    turn = "" if upright else f' transform="rotate(-90 {short(x)} {short(y)})"'
    weight = "bold " if bold else ""
    font = f"font: {weight}{short(size)}px var(--sans, sans-serif)"
    style = f"{font}; text-anchor: {anchor}; fill: {color}"
    return f'<text {place}{turn} style="{style}">{html.escape(text)}</text>'


def element(width: float, height: float, description: str, body: Iterable[str]) -> str:
    """Return a whole figure.

    Args:
        width: In units; the page scales it.
        height: In units.
        description: What the figure shows, for those who cannot see it.
        body: What is in it.
    """
    label = html.escape(description, quote=True)
    box = f"0 0 {short(width)} {short(height)}"
    return f'<svg viewBox="{box}" role="img" aria-label="{label}">{"".join(body)}</svg>'
