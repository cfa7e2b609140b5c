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
_Key = tuple[str, Callable[[float, float], str]]
"""A line of a legend: what it says, and what draws its sign at a place."""

INK = "var(--ink, #1c2430)"
MUTED = "var(--muted, #5d6876)"
FIRST = "var(--first, #1f5fa8)"
SECOND = "var(--second, #b8560f)"
THIRD = "var(--third, #2f7d55)"
_GRID = "var(--grid, #dfe3e8)"

# On a phone about a unit per pixel, so that letters of 9 units stay legible.
_WIDTH, _HEIGHT = 324.0, 223.0
# Half of the last number below sticks out.
_RIGHT = 10.0

_FINE = 0.7
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


def drawing(name: str, description: str, *panels: Panel, height: float = _HEIGHT) -> str:
    """Return a figure as an `<svg>` element for an HTML page; same panels, same bytes.

    Args:
        name: A prefix that keeps the ids of this figure apart from those of others on the page.
        description: What the figure shows, for those who cannot see it.
        panels: From top to bottom, on the same horizontal axis: only the last has numbers below.
        height: Of the whole figure, in units; the width is always the same.
    """
    right = _WIDTH - _RIGHT
    lefts, above, below = zip(*(panel.room(right) for panel in panels), strict=True)
    unit = (height - sum(above) - below[-1]) / sum(panel.share for panel in panels)
    drawn, bottom = "", 0.0
    for number, panel in enumerate(panels):
        top = bottom + above[number]
        bottom = top + unit * panel.share
        frame = Frame(max(lefts), top, right, bottom, *panel.limits())
        is_last = panel is panels[-1]
        drawn += panel.draw(frame, f"{name}-panel-{number + 1}", numbers=is_last)
    box, label = f"0 0 {_short(_WIDTH)} {_short(height)}", html.escape(description, quote=True)
    return f'<svg viewBox="{box}" role="img" aria-label="{label}">{drawn}</svg>'


def stroke(color: str, width: float = 1.5, dashes: Sequence[float] = ()) -> str:
    """Return the style of a line.

    Args:
        color: Of the line.
        width: Of the line.
        dashes: Dash, gap, dash, gap in widths of the line; none for a line without gaps.
    """
    found = f"fill: none; stroke: {color}; stroke-width: {_short(width)}"
    if dashes:
        found += f"; stroke-dasharray: {' '.join(_short(width * part) for part in dashes)}"
    return found


def fill(color: str, opacity: float | None = None) -> str:
    """Return the style of an area, a bar or a dot."""
    return f"fill: {color}" + ("" if opacity is None else f"; fill-opacity: {opacity}")


def font(size: float = 9, anchor: str = "start", color: str = INK, weight: str = "") -> str:
    """Return the style of a text.

    Args:
        size: Of the letters.
        anchor: What of the text is at its point: start, middle or end.
        color: Of the letters.
        weight: Such as bold.
    """
    letters = f"{weight} {_short(size)}px".lstrip()
    return f"font: {letters} var(--sans, sans-serif); text-anchor: {anchor}; fill: {color}"


@dataclass(frozen=True)
class Frame:
    """Where the edges of a panel lie in its figure, and which numbers they stand for."""

    left: float
    top: float
    right: float
    bottom: float
    x_limits: Limits
    y_limits: Limits

    def x(self, values: Values) -> Any:  # noqa: ANN401, a float or an array, as it was given
        """Return where some numbers lie from left to right."""
        low, high = self.x_limits
        share = (np.asarray(values, dtype=np.float64) - low) / (high - low)
        return self.left + share * (self.right - self.left)

    def y(self, values: Values) -> Any:  # noqa: ANN401
        """Return where some numbers lie from top to bottom."""
        low, high = self.y_limits
        share = (high - np.asarray(values, dtype=np.float64)) / (high - low)
        return self.top + share * (self.bottom - self.top)


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
    share: float = 1.0
    """How much of a figure's height it has, against the other panels there."""
    rows: dict[float, str] = field(default_factory=dict)
    """Names at the left instead of numbers, by place."""
    _marks: list[Callable[[Frame], str]] = field(default_factory=list)
    _loose: list[Callable[[Frame], str]] = field(default_factory=list)
    _keys: list[_Key] = field(default_factory=list)
    _x: list[float] = field(default_factory=list)
    _y: list[float] = field(default_factory=list)

    def line(self, x: Values, y: Values, style: str, label: str = "") -> None:
        """Draw a line through points."""
        self._mark(x, y, lambda _, x, y: _path(_points(x, y), style))
        self._key_of_line(label, style)

    def across(self, y: float, style: str) -> None:
        """Draw a level line from edge to edge."""
        self._mark(
            [], [y], lambda f, _, y: _path(f"{_start(f.left, y[0])}H{_short(f.right)}", style)
        )

    def upright(self, x: float, style: str, label: str) -> None:
        """Draw an upright line from edge to edge."""
        self._mark(
            [x], [], lambda f, x, _: _path(f"{_start(x[0], f.bottom)}V{_short(f.top)}", style)
        )
        self._key_of_line(label, style)

    def area(
        self, x: Values, top: Values, style: str, label: str = "", *, base: Values = 0.0
    ) -> None:
        """Fill what lies between two lines over the same places."""
        x, top, base = np.broadcast_arrays(x, top, base)
        self._fill(np.append(x, x[::-1]), np.append(top, base[::-1]), style)
        self._key(label, lambda x, y: _path(f"{_start(x, y + 3)}v-6h{_KEY}v6Z", style))

    def bar(self, row: float, start: float, end: float, style: str, *, thick: float) -> None:
        """Draw a level bar."""
        low, high = row - thick / 2, row + thick / 2
        self._fill([start, end, end, start], [low, low, high, high], style)

    def dots(self, x: Values, y: Values, style: str, label: str = "") -> None:
        """Draw a dot at every point."""
        self._mark(x, y, lambda _, x, y: "".join(map(_dot, x, y, [style] * len(x))))
        self._key(label, lambda left, y: _dot(left + _KEY / 2, y, style))

    def interval(self, start: Limits, end: Limits, style: str) -> None:
        """Draw a level or upright line with a cap at both ends."""
        cap = "m0 -2.5v5" if start[1] == end[1] else "m-2.5 0h5"

        def draw(_: Frame, x: Any, y: Any) -> str:  # noqa: ANN401
            one, other = map(_start, x, y)
            return _path(f"{one}L{other[1:]}{one}{cap}{other}{cap}", style)

        self._mark([start[0], end[0]], [start[1], end[1]], draw)

    def say(
        self, text: str, x: float, y: float, style: str = "", *, right: float = 0, down: float = 0
    ) -> None:
        """Write beside a point.

        Args:
            text: What to write.
            x: The point; infinite for the right edge.
            y: The point.
            style: How the letters look; small by default.
            right: How far to the right of the point the text is.
            down: How far below the point its base line is.
        """

        def draw(frame: Frame) -> str:
            across = min(frame.x(x), frame.right) + right
            return _words(text, across, frame.y(y) + down, style or font(_SMALL))

        self._loose.append(draw)

    def room(self, width: float) -> tuple[float, float, float]:
        """Return the room that words need: at the left, above, and below.

        Args:
            width: Of the whole figure.
        """
        labels = [_text_width(label, self._label_size) for _, label in self._rows_or_ticks()]
        left = max(labels, default=0.0) + _TICK + _GAP + (13.0 if self.ylabel else 2.0)
        rows = len(self._legend(left, width))
        return left, rows * _ROW + (4.0 if rows else 6.0), 26.0 if self.xlabel else 14.0

    def draw(self, frame: Frame, name: str, *, numbers: bool = True) -> str:
        """Return the panel as SVG.

        Args:
            frame: Its place.
            name: An id of its own.
            numbers: Whether there are numbers and words below.
        """
        wide, high = frame.right - frame.left, frame.bottom - frame.top
        box = f'x="{_short(frame.left)}" y="{_short(frame.top)}"'
        box += f' width="{_short(wide)}" height="{_short(high)}"'
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
        return list(self.rows.items()) or labelled(ticks(*self.limits()[1], self.y_steps))

    def _x_ticks(self, limits: Limits) -> Sequence[float]:
        found = self.x_ticks or ticks(*limits)
        return [place for place in found if place == round(place)] if self.is_counted else found

    def _draw_axes(self, frame: Frame, numbers: bool) -> str:
        left, right, top, bottom = frame.left, frame.right, frame.top, frame.bottom
        middle, beside = font(anchor="middle"), font(self._label_size, "end")
        behind = tiny = written = ""
        for value, label in labelled(self._x_ticks(frame.x_limits)):
            x = frame.x(value)
            behind += f"{_start(x, bottom)}V{_short(top)}" if self.grid != "none" else ""
            tiny += f"{_start(x, bottom)}v{_TICK}"
            written += _words(label, x, bottom + 12, middle) if numbers else ""
        for value, label in self._rows_or_ticks():
            y = frame.y(value)
            behind += f"{_start(left, y)}H{_short(right)}" if self.grid == "both" else ""
            tiny += "" if self.rows else f"{_start(left, y)}h-{_TICK}"
            written += _words(label, left - _TICK - _GAP, y + 0.35 * self._label_size, beside)
        if self.xlabel and numbers:
            written += _words(self.xlabel, (left + right) / 2, bottom + 24, middle)
        if self.ylabel:
            y = (top + bottom) / 2
            turn = f' transform="rotate(-90 9 {_short(y)})"'
            written += _words(self.ylabel, 9, y, middle, turn)
        edges = f"{_start(left, top)}V{_short(bottom)}H{_short(right)}"
        grid = _path(behind, stroke(_GRID, _FINE)) if behind else ""
        return grid + _path(edges + tiny, stroke(MUTED, _FINE)) + written

    def _legend(self, left: float, width: float) -> list[list[tuple[float, _Key]]]:
        """Return the rows of the legend: its keys, and where each begins."""
        rows: list[list[tuple[float, _Key]]] = []
        x = math.inf
        for key in self._keys:
            needed = _KEY + _GAP + _text_width(key[0], _SMALL)
            if x + needed > width:
                x = left
                rows.append([])
            rows[-1].append((x, key))
            x += needed + _KEY_GAP
        return rows

    def _draw_legend(self, frame: Frame) -> str:
        """Return the legend above the panel, where it covers nothing."""
        drawn, y = "", frame.top - 7
        rows = self._legend(frame.left, frame.right)
        y -= _ROW * (len(rows) - 1)
        for row in rows:
            for x, (label, key) in row:
                drawn += key(x, y) + _words(label, x + _KEY + _GAP, y + 2.8, font(_SMALL))
            y += _ROW
        return drawn

    def _fill(self, x: Values, y: Values, style: str) -> None:
        """Fill what some points go around."""
        self._mark(x, y, lambda _, x, y: _path(f"{_points(x, y)}Z", style))

    def _key(self, label: str, draw: Callable[[float, float], str]) -> None:
        if label:
            self._keys.append((label, draw))

    def _key_of_line(self, label: str, style: str) -> None:
        self._key(label, lambda left, y: _path(f"{_start(left, y)}h{_KEY}", style))

    def _mark(self, x: Values, y: Values, draw: Callable[[Frame, Any, Any], str]) -> None:
        """Take note of how far the data go and of what draws them, from places in the figure."""
        across, up = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
        self._x += across.tolist()
        self._y += up.tolist()
        self._marks.append(lambda frame: draw(frame, frame.x(across), frame.y(up)))


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


def labelled(places: Sequence[float]) -> list[tuple[float, str]]:
    """Return ticks with what is written at them, with as many decimals as tell them apart.

    Example:
        >>> labelled([1000, 1200]), labelled([0.25, 0.5])
        ([(1000, '1,000'), (1200, '1,200')], [(0.25, '0.25'), (0.5, '0.50')])
    """
    decimals = _decimals(places[1] - places[0] if len(places) > 1 else 1.0)
    return [(at, f"{at:,.{decimals}f}".replace("-", "\N{MINUS SIGN}")) for at in places]


def _decimals(step: float) -> int:
    """Return how many decimals tell the multiples of a step apart."""
    step = float(f"{step:.6g}")  # a difference of ticks is not quite as round as they are
    decimals = max(0, -math.floor(math.log10(step)))
    return decimals + (abs(round(step, decimals) - step) > 1e-9 * step)


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


def _path(commands: str, style: str) -> str:
    return f'<path d="{commands}" style="{style}"/>'


def _dot(x: float, y: float, style: str) -> str:
    return f'<circle cx="{_short(x)}" cy="{_short(y)}" r="{_DOT}" style="{style}"/>'


def _words(text: str, x: float, y: float, style: str, turn: str = "") -> str:
    """Return a text whose base line is at `y`; all of it is shown, none of it is markup."""
    return f'<text x="{_short(x)}" y="{_short(y)}"{turn} style="{style}">{html.escape(text)}</text>'
