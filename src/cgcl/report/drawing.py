"""Figures for an HTML page, as SVG: panels of two axes with lines, areas, bars and words.

Every colour is a CSS variable of the page with a colour to fall back to outside of it, so that one
drawing serves light mode, dark mode and paper.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

Values = npt.ArrayLike
Limits = tuple[float, float]

INK = "var(--ink, #1c2430)"
MUTED = "var(--muted, #5d6876)"
FIRST = "var(--first, #1f5fa8)"
SECOND = "var(--second, #b8560f)"
THIRD = "var(--third, #2f7d55)"
_GRID = "var(--grid, #dfe3e8)"

SOLID: tuple[float, ...] = ()
"""A line without gaps; else dash, gap, dash, gap in widths of the line."""

# On a phone about a unit per pixel, so that letters of 9 units stay legible.
_WIDTH = 324.0
HEIGHT = 223.0
"""How high a figure of one panel is, if nothing else is said."""
# Half of the last number below sticks out.
_RIGHT = 10.0

_LINE, _FINE, _RULE = 1.5, 0.7, 0.9
_DOT = 2.2
_KEY, _KEY_GAP, _ROW = 15.0, 10.0, 12.0
_TICK, _SMALL = 3.0, 8.0
# Between the words of an axis and what they stand beside.
_GAP = 3.5
# Free room around the data, of its width.
_AIR = 0.05
# Of a letter in most fonts, in sizes of the font. Wide names get a little too much room.
_LETTER = 0.56
# The step from tick to tick reads well if it is one of these times a power of ten.
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


def drawing(
    name: str,
    description: str,
    panels: Sequence[Panel],
    *,
    height: float = HEIGHT,
    shares: Sequence[float] = (1.0,),
) -> str:
    """Return a figure as an `<svg>` element for an HTML page; same panels, same bytes.

    Args:
        name: A prefix that keeps the ids of this figure apart from those of others on the page.
        description: What the figure shows, for those who cannot see it.
        panels: From top to bottom, on the same horizontal axis: only the last has numbers below.
        height: Of the whole figure, in units; the width is always the same.
        shares: How the panels share it.
    """
    rooms = [panel.room(_WIDTH - _RIGHT) for panel in panels]
    left = max(room[0] for room in rooms)
    free = height - sum(above for _, above, _ in rooms) - rooms[-1][2]
    drawn = ""
    top = 0.0
    for number, (panel, share) in enumerate(zip(panels, shares, strict=True), start=1):
        top += rooms[number - 1][1]
        high = free * share / sum(shares)
        frame = Frame(left, top, _WIDTH - _RIGHT - left, high, *panel.limits())
        drawn += panel.draw(frame, f"{name}-panel-{number}", numbers=number == len(panels))
        top += high
    box, label = f"0 0 {_short(_WIDTH)} {_short(height)}", html.escape(description, quote=True)
    return f'<svg viewBox="{box}" role="img" aria-label="{label}">{drawn}</svg>'


@dataclass(frozen=True)
class Frame:
    """Where a panel lies in its figure, and which numbers its edges stand for."""

    left: float
    top: float
    width: float
    height: float
    x_limits: Limits
    y_limits: Limits

    def x(self, values: Values) -> Any:  # noqa: ANN401, a float or an array, as it was given
        """Return where some numbers lie from left to right."""
        low, high = self.x_limits
        return self.left + (_numbers(values) - low) / (high - low) * self.width

    def y(self, values: Values) -> Any:  # noqa: ANN401
        """Return where some numbers lie from top to bottom."""
        low, high = self.y_limits
        return self.top + (high - _numbers(values)) / (high - low) * self.height

    @property
    def right(self) -> float:
        """The right edge."""
        return self.left + self.width

    @property
    def bottom(self) -> float:
        """The lower edge."""
        return self.top + self.height


@dataclass
class Panel:
    """What one pair of axes shows; drawn when its place is known."""

    xlabel: str
    ylabel: str
    grid: str = "both"
    """Which lines run behind the data: both, x for upright ones only, or none."""
    x_limits: Limits | None = None
    """What the left and the right edge stand for; by default the data with some air."""
    y_limits: Limits | None = None
    """What the lower and the upper edge stand for."""
    is_counted: bool = False
    """Whether only whole numbers stand below."""
    x_ticks: Sequence[float] | None = None
    """Where numbers stand below; by default round ones."""
    y_steps: int = 8
    """The most steps between the numbers at the left."""
    rows: dict[float, str] = field(default_factory=dict)
    """Names at the left instead of numbers, by place."""
    _marks: list[Callable[[Frame], str]] = field(default_factory=list)
    _loose: list[Callable[[Frame], str]] = field(default_factory=list)
    _keys: list[tuple[str, Callable[[float, float], str]]] = field(default_factory=list)
    _x: list[float] = field(default_factory=list)
    _y: list[float] = field(default_factory=list)

    def line(
        self,
        x: Values,
        y: Values,
        color: str,
        *,
        dashes: Sequence[float] = SOLID,
        width: float = _LINE,
        label: str = "",
    ) -> None:
        """Draw a line through points; a single point would be invisible and becomes a dot."""
        x, y = self._reach(x, y)
        style = _stroke(color, width, dashes)
        self._marks.append(lambda frame: _path(_points(frame.x(x), frame.y(y)), style))
        if x.size == 1:
            self.dots(x, y, color)
        self._key_of_line(label, style)

    def across(self, y: float, color: str, dashes: Sequence[float]) -> None:
        """Draw a level line from edge to edge."""
        self._reach([], [y])
        style = _stroke(color, _RULE, dashes)
        self._marks.append(
            lambda frame: _path(f"{_start(frame.left, frame.y(y))}H{_short(frame.right)}", style)
        )

    def upright(self, x: float, color: str, dashes: Sequence[float], label: str) -> None:
        """Draw an upright line from edge to edge."""
        self._reach([x], [])
        style = _stroke(color, _RULE, dashes)
        self._marks.append(
            lambda frame: _path(f"{_start(frame.x(x), frame.bottom)}V{_short(frame.top)}", style)
        )
        self._key_of_line(label, style)

    def area(
        self,
        x: Values,
        top: Values,
        color: str,
        *,
        base: Values = 0.0,
        opacity: float = 0.12,
        label: str = "",
    ) -> None:
        """Fill what lies between two lines over the same places."""
        x, top = _numbers(x), _numbers(top)
        base = np.broadcast_to(_numbers(base), top.shape)
        around = np.concatenate([x, x[::-1]]), np.concatenate([top, base[::-1]])
        style = self._fill(*around, color, opacity)
        self._key(label, lambda x, y: _path(f"{_start(x, y + 3)}v-6h{_KEY}v6Z", style))

    def bar(
        self, row: float, start: float, end: float, color: str, *, thick: float, opacity: float
    ) -> None:
        """Draw a level bar."""
        low, high = row - thick / 2, row + thick / 2
        self._fill([start, end, end, start], [low, low, high, high], color, opacity)

    def dots(self, x: Values, y: Values, color: str, label: str = "") -> None:
        """Draw a dot at every point."""
        x, y = self._reach(x, y)
        style = f"fill: {color}"

        def draw(frame: Frame) -> str:
            places = zip(frame.x(x).tolist(), frame.y(y).tolist(), strict=True)
            return "".join(_dot(across, down, style) for across, down in places)

        self._marks.append(draw)
        self._key(label, lambda left, y: _dot(left + _KEY / 2, y, style))

    def interval(self, start: Limits, end: Limits, color: str) -> None:
        """Draw a level or upright line with a cap at both ends."""
        self._reach([start[0], end[0]], [start[1], end[1]])
        style = _stroke(color, 1.1)
        cap = "m0 -2.5v5" if start[1] == end[1] else "m-2.5 0h5"

        def draw(frame: Frame) -> str:
            one, other = (_start(frame.x(x), frame.y(y)) for x, y in (start, end))
            return _path(f"{one}L{other[1:]}{one}{cap}{other}{cap}", style)

        self._marks.append(draw)

    def say(
        self,
        text: str,
        x: float | None,
        y: float,
        *,
        color: str = INK,
        size: float = _SMALL,
        right: float = 0.0,
        down: float = 0.0,
        bold: bool = False,
    ) -> None:
        """Write beside a point.

        Args:
            text: What to write.
            x: The point; None for the right edge, where the text then ends.
            y: The point.
            color: Of the letters.
            size: Of the letters.
            right: How far to the right of the point the text begins.
            down: How far below the point its base line is.
            bold: Whether the letters are heavy.
        """
        anchor = "end" if x is None else "start"

        def draw(frame: Frame) -> str:
            place = right + (frame.right if x is None else frame.x(x)), frame.y(y) + down
            return _words(text, *place, size=size, color=color, anchor=anchor, bold=bold)

        self._loose.append(draw)

    def room(self, width: float) -> tuple[float, float, float]:
        """Return the room that words need: at the left, above, and below.

        Args:
            width: Of the whole figure.
        """
        labels = [_text_width(label, self._label_size) for _, label in self._rows_or_ticks()]
        left = max(labels, default=0.0) + _TICK + _GAP + (13.0 if self.ylabel else 2.0)
        rows = self._legend(left, width)[1]
        return left, rows * _ROW + (4.0 if rows else 6.0), 26.0 if self.xlabel else 14.0

    def draw(self, frame: Frame, name: str, *, numbers: bool = True) -> str:
        """Return the panel as SVG.

        Args:
            frame: Its place.
            name: An id of its own.
            numbers: Whether there are numbers and words below.
        """
        box = f'x="{_short(frame.left)}" y="{_short(frame.top)}"'
        box += f' width="{_short(frame.width)}" height="{_short(frame.height)}"'
        clip = f'<clipPath id="{name}"><rect {box}/></clipPath>'
        marks = "".join(mark(frame) for mark in self._marks)
        marks = f'<g clip-path="url(#{name})">{marks}</g>'
        loose = "".join(loose(frame) for loose in self._loose)
        return clip + self._draw_axes(frame, numbers) + marks + loose + self._draw_legend(frame)

    def limits(self) -> tuple[Limits, Limits]:
        """Return what the edges stand for, left to right and bottom to top."""
        return self.x_limits or _around(self._x), self.y_limits or _around(self._y)

    @property
    def _label_size(self) -> float:
        return _SMALL if self.rows else 9.0

    def _rows_or_ticks(self) -> list[tuple[float, str]]:
        """Return what stands at the left: places and words."""
        if self.rows:
            return list(self.rows.items())
        return _labelled(ticks(*self.limits()[1], self.y_steps))

    def _x_ticks(self, limits: Limits) -> Sequence[float]:
        if self.x_ticks is not None:
            return self.x_ticks
        found = ticks(*limits)
        return [place for place in found if place == round(place)] if self.is_counted else found

    def _draw_axes(self, frame: Frame, numbers: bool) -> str:
        left, right, top, bottom = frame.left, frame.right, frame.top, frame.bottom
        behind = tiny = written = ""
        for value, label in _labelled(self._x_ticks(frame.x_limits)):
            below = _start(frame.x(value), bottom)
            behind += f"{below}V{_short(top)}" if self.grid != "none" else ""
            tiny += f"{below}v{_TICK}"
            if numbers:
                written += _words(label, frame.x(value), bottom + 12, anchor="middle")
        size = self._label_size
        for value, label in self._rows_or_ticks():
            beside = _start(left, frame.y(value))
            behind += f"{beside}H{_short(right)}" if self.grid == "both" else ""
            tiny += "" if self.rows else f"{beside}h-{_TICK}"
            place = left - _TICK - _GAP, frame.y(value) + 0.35 * size
            written += _words(label, *place, size=size, anchor="end")
        if self.xlabel and numbers:
            written += _words(self.xlabel, (left + right) / 2, bottom + 24, anchor="middle")
        if self.ylabel:
            written += _words(self.ylabel, 9, (top + bottom) / 2, anchor="middle", upright=False)
        edges = f"{_start(left, top)}V{_short(bottom)}H{_short(right)}"
        grid = _path(behind, _stroke(_GRID, _FINE)) if behind else ""
        return grid + _path(edges + tiny, _stroke(MUTED, _FINE)) + written

    def _legend(self, left: float, width: float) -> tuple[list[tuple[float, int]], int]:
        """Return where each key begins and in which row, and how many rows there are."""
        places: list[tuple[float, int]] = []
        x, row = left, 0
        for label, _ in self._keys:
            needed = _KEY + _GAP + _text_width(label, _SMALL)
            if x > left and x + needed > width:
                x, row = left, row + 1
            places.append((x, row))
            x += needed + _KEY_GAP
        return places, row + 1 if places else 0

    def _draw_legend(self, frame: Frame) -> str:
        """Return the legend above the panel, where it covers nothing."""
        places, rows = self._legend(frame.left, frame.right)
        drawn = ""
        for (label, key), (x, row) in zip(self._keys, places, strict=True):
            y = frame.top - 7 - _ROW * (rows - 1 - row)
            drawn += key(x, y) + _words(label, x + _KEY + _GAP, y + 2.8, size=_SMALL)
        return drawn

    def _fill(self, x: Values, y: Values, color: str, opacity: float) -> str:
        """Fill what some points go around and return the style of it."""
        x, y = self._reach(x, y)
        style = f"fill: {color}; fill-opacity: {opacity}"
        self._marks.append(lambda frame: _path(f"{_points(frame.x(x), frame.y(y))}Z", style))
        return style

    def _key(self, label: str, draw: Callable[[float, float], str]) -> None:
        if label:
            self._keys.append((label, draw))

    def _key_of_line(self, label: str, style: str) -> None:
        self._key(label, lambda left, y: _path(f"{_start(left, y)}h{_KEY}", style))

    def _reach(
        self, x: Values, y: Values
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Take note of how far the data go, and return them as arrays."""
        across, up = _numbers(x), _numbers(y)
        self._x += across.tolist()
        self._y += up.tolist()
        return across, up


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Return round numbers between two ends, at most `most` + 1 of them.

    Args:
        low: The lower end.
        high: The upper end, above it.
        most: The most steps.

    Example:
        >>> ticks(0, 1, 5)
        [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
        >>> ticks(-3, 12, 4)
        [0.0, 5.0, 10.0]
    """
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(step for step in _STEPS if step * power >= rough * (1 - 1e-9)) * power
    # A hair beyond the ends, where rounding may have put them.
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    # Rounded to what the step shows: 3 * 0.1 is no 0.3.
    return [round(number * step, _decimals(step) + 2) + 0.0 for number in range(first, last + 1)]


def tick_label(value: float, step: float) -> str:
    """Return what is written at a tick.

    Args:
        value: Where it stands.
        step: How far the next one is.

    Example:
        >>> tick_label(1200, 200), tick_label(0.5, 0.25)
        ('1,200', '0.50')
    """
    return f"{value:,.{_decimals(step)}f}".replace("-", "\N{MINUS SIGN}")


def _decimals(step: float) -> int:
    """Return how many decimals tell the multiples of a step apart."""
    step = float(f"{step:.6g}")  # a difference of ticks is not quite as round as they are
    decimals = max(0, -math.floor(math.log10(step)))
    return decimals + (abs(round(step, decimals) - step) > 1e-9 * step)


def _labelled(places: Sequence[float]) -> list[tuple[float, str]]:
    step = places[1] - places[0] if len(places) > 1 else 1.0
    return [(place, tick_label(place, step)) for place in places]


def _numbers(values: Values) -> npt.NDArray[np.float64]:
    return np.asarray(values, dtype=np.float64)


def _around(values: Sequence[float]) -> Limits:
    """Return limits with some air around the data; data without extent get some."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    if high - low <= 1e-12 * max(abs(low), abs(high)):
        half = 0.05 * abs(low) or 0.5
        return low - half, high + half
    air = _AIR * (high - low)
    return low - air, high + air


def _text_width(text: str, size: float) -> float:
    """Return about how wide a text is."""
    return _LETTER * size * len(text)


def _short(value: float) -> str:
    """Return a coordinate with two decimals at most; nobody sees a hundredth of a unit.

    Example:
        >>> _short(12.0), _short(0.125), _short(-0.001)
        ('12', '0.12', '0')
    """
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def _start(x: float, y: float) -> str:
    """Return the command with which a path begins at a point."""
    return f"M{_short(x)} {_short(y)}"


def _points(x: Iterable[float], y: Iterable[float]) -> str:
    """Return the way through some points, as the commands of a path.

    Points that lie on the one before, to a fifth of a unit, are left out.
    """
    places = zip(x, y, strict=True)
    groups = groupby(places, key=lambda place: (round(5 * place[0]), round(5 * place[1])))
    return "M" + "L".join(_start(*next(group))[1:] for _, group in groups)


def _stroke(color: str, width: float, dashes: Sequence[float] = SOLID) -> str:
    """Return the style of a line."""
    found = f"fill: none; stroke: {color}; stroke-width: {_short(width)}"
    if dashes:
        found += f"; stroke-dasharray: {' '.join(_short(width * part) for part in dashes)}"
    return found


def _path(commands: str, style: str) -> str:
    return f'<path d="{commands}" style="{style}"/>'


def _dot(x: float, y: float, style: str) -> str:
    return f'<circle cx="{_short(x)}" cy="{_short(y)}" r="{_DOT}" style="{style}"/>'


def _words(
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
    turn = "" if upright else f' transform="rotate(-90 {_short(x)} {_short(y)})"'
    style = f"font: {'bold ' if bold else ''}{_short(size)}px var(--sans, sans-serif)"
    style += f"; text-anchor: {anchor}; fill: {color}"
    place = f'x="{_short(x)}" y="{_short(y)}"{turn}'
    return f'<text {place} style="{style}">{html.escape(text)}</text>'
