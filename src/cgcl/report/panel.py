"""A panel of a figure: two axes and what is drawn between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from cgcl.report.svg import (
    GRID,
    INK,
    MUTED,
    SOLID,
    path,
    points,
    short,
    stroke,
    text_width,
    words,
)
from cgcl.report.ticks import tick_label, ticks

__all__ = ["Frame", "Panel"]

Values = npt.ArrayLike
Limits = tuple[float, float]

_LINE, _FINE = 1.5, 0.7
_DOT = 2.2
_KEY, _KEY_GAP, _ROW = 15.0, 10.0, 12.0
_TICK, _SMALL = 3.0, 8.0
# Between the words of an axis and what they stand beside.
_GAP = 3.5
# Free room around the data, of its width.
_AIR = 0.05


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
        return self.left + (np.asarray(values, np.float64) - low) / (high - low) * self.width

    def y(self, values: Values) -> Any:  # noqa: ANN401
        """Return where some numbers lie from top to bottom."""
        low, high = self.y_limits
        return self.top + (high - np.asarray(values, np.float64)) / (high - low) * self.height

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
        x, y = _numbers(x), _numbers(y)
        self._reach(x, y)
        style = stroke(color, width, dashes)
        self._marks.append(lambda frame: path(points(frame.x(x), frame.y(y)), style))
        if x.size == 1:
            self.dots(x, y, color)
        self._key(label, lambda left, y: path(f"M{short(left)} {short(y)}h{_KEY}", style))

    def across(self, y: float, color: str, dashes: Sequence[float], width: float = 0.9) -> None:
        """Draw a level line from edge to edge."""
        style = stroke(color, width, dashes)
        self._reach([], [y])
        self._marks.append(
            lambda frame: path(
                f"M{short(frame.left)} {short(frame.y(y))}H{short(frame.right)}", style
            )
        )

    def upright(self, x: float, color: str, dashes: Sequence[float], label: str) -> None:
        """Draw an upright line from edge to edge."""
        style = stroke(color, 0.9, dashes)
        self._reach([x], [])
        self._marks.append(
            lambda frame: path(
                f"M{short(frame.x(x))} {short(frame.bottom)}V{short(frame.top)}", style
            )
        )
        self._key(label, lambda left, y: path(f"M{short(left)} {short(y)}h{_KEY}", style))

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
        self._reach(x, [*top, *base])
        style = f"fill: {color}; fill-opacity: {opacity}"
        around = np.concatenate([x, x[::-1]]), np.concatenate([top, base[::-1]])
        self._marks.append(
            lambda frame: path(f"{points(frame.x(around[0]), frame.y(around[1]))}Z", style)
        )
        self._key(
            label,
            lambda left, y: path(f"M{short(left)} {short(y + 3)}v-6h{_KEY}v6Z", style),
        )

    def dots(
        self,
        x: Values,
        y: Values,
        color: str,
        *,
        above: Values | None = None,
        below: Values | None = None,
        label: str = "",
    ) -> None:
        """Draw a dot at every point, if asked with the interval that it may lie in."""
        x, y = _numbers(x), _numbers(y)
        self._reach(x, y)
        style = f"fill: {color}"

        def draw(frame: Frame) -> str:
            places = zip(frame.x(x).tolist(), frame.y(y).tolist(), strict=True)
            return "".join(_dot(across, down, style) for across, down in places)

        if above is not None and below is not None:
            for place, low, high in zip(x, _numbers(below), _numbers(above), strict=True):
                self.interval((place, low), (place, high), color)
        self._marks.append(draw)
        self._key(label, lambda left, y: _dot(left + _KEY / 2, y, style))

    def interval(self, start: Limits, end: Limits, color: str) -> None:
        """Draw a level or upright line with a cap at both ends."""
        style = stroke(color, 1.1)
        cap = "m0 -2.5v5" if start[1] == end[1] else "m-2.5 0h5"
        self._reach([start[0], end[0]], [start[1], end[1]])

        def draw(frame: Frame) -> str:
            one, other = (f"M{short(frame.x(x))} {short(frame.y(y))}" for x, y in (start, end))
            return path(f"{one}L{other[1:]}{one}{cap}{other}{cap}", style)

        self._marks.append(draw)

    def bar(
        self, row: float, start: float, end: float, color: str, *, thick: float, opacity: float
    ) -> None:
        """Draw a level bar."""
        x, y = [start, end, end, start], [row - thick / 2] * 2 + [row + thick / 2] * 2
        self._reach(x, y)
        style = f"fill: {color}; fill-opacity: {opacity}"
        self._marks.append(lambda frame: path(f"{points(frame.x(x), frame.y(y))}Z", style))

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

        def draw(frame: Frame) -> str:
            place = frame.right if x is None else frame.x(x)
            anchor = "end" if x is None else "start"
            level = frame.y(y) + down
            return words(
                text, place + right, level, size=size, color=color, anchor=anchor, bold=bold
            )

        self._loose.append(draw)

    def room(self, width: float) -> tuple[float, float, float]:
        """Return the room that words need: at the left, above, and below.

        Args:
            width: Of the whole figure.
        """
        labels = [label for _, label in self._rows_or_ticks()]
        widest = max((text_width(label, self._label_size) for label in labels), default=0.0)
        left = widest + _TICK + _GAP + (13.0 if self.ylabel else 2.0)
        rows = self._legend(left, width)[1]
        return left, rows * _ROW + (4.0 if rows else 6.0), 26.0 if self.xlabel else 14.0

    def draw(self, frame: Frame, name: str, *, numbers: bool = True) -> str:
        """Return the panel as SVG.

        Args:
            frame: Its place.
            name: An id of its own.
            numbers: Whether there are numbers and words below.
        """
        box = f'x="{short(frame.left)}" y="{short(frame.top)}"'
        box += f' width="{short(frame.width)}" height="{short(frame.height)}"'
        clip = f'<clipPath id="{name}"><rect {box}/></clipPath>'
        marks = "".join(mark(frame) for mark in self._marks)
        return "".join(
            [
                clip,
                self._draw_axes(frame, numbers),
                f'<g clip-path="url(#{name})">{marks}</g>',
                *(loose(frame) for loose in self._loose),
                self._draw_legend(frame),
            ]
        )

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
        below = self._x_ticks(frame.x_limits)
        behind = tiny = ""
        written: list[str] = []
        for value, label in _labelled(below):
            x = short(frame.x(value))
            behind += f"M{x} {short(bottom)}V{short(top)}" if self.grid != "none" else ""
            tiny += f"M{x} {short(bottom)}v{_TICK}"
            written.append(words(label, frame.x(value), bottom + 12, anchor="middle"))
        if not numbers:
            written.clear()
        for value, label in self._rows_or_ticks():
            y = short(frame.y(value))
            behind += f"M{short(left)} {y}H{short(right)}" if self.grid == "both" else ""
            tiny += "" if self.rows else f"M{short(left)} {y}h-{_TICK}"
            size = self._label_size
            place = left - _TICK - _GAP, frame.y(value) + 0.35 * size
            written.append(words(label, *place, size=size, anchor="end"))
        middle = (left + right) / 2, (top + bottom) / 2
        if self.xlabel and numbers:
            written.append(words(self.xlabel, middle[0], bottom + 24, anchor="middle"))
        if self.ylabel:
            written.append(words(self.ylabel, 9, middle[1], anchor="middle", upright=False))
        edges = f"M{short(left)} {short(top)}V{short(bottom)}H{short(right)}"
        grid = path(behind, stroke(GRID, _FINE)) if behind else ""
        return "".join([grid, path(edges + tiny, stroke(MUTED, _FINE)), *written])

    def _legend(self, left: float, width: float) -> tuple[list[tuple[float, int]], int]:
        """Return where each key begins and in which row, and how many rows there are."""
        places: list[tuple[float, int]] = []
        x, row = left, 0
        for label, _ in self._keys:
            needed = _KEY + _GAP + text_width(label, _SMALL)
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
            drawn += key(x, y) + words(label, x + _KEY + _GAP, y + 2.8, size=_SMALL)
        return drawn

    def _key(self, label: str, draw: Callable[[float, float], str]) -> None:
        if label:
            self._keys.append((label, draw))

    def _reach(self, x: Values, y: Values) -> None:
        self._x += _numbers(x).tolist()
        self._y += _numbers(y).tolist()


def _numbers(values: Values) -> npt.NDArray[np.float64]:
    return np.asarray(values, dtype=np.float64)


def _dot(x: float, y: float, style: str) -> str:
    return f'<circle cx="{short(x)}" cy="{short(y)}" r="{_DOT}" style="{style}"/>'


def _around(values: Sequence[float]) -> Limits:
    """Return limits with some air around the data; data without extent get some."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    if high - low <= 1e-12 * max(abs(low), abs(high)):
        half = 0.05 * abs(low) or 0.5
        return low - half, high + half
    air = _AIR * (high - low)
    return low - air, high + air


def _labelled(places: Sequence[float]) -> list[tuple[float, str]]:
    step = places[1] - places[0] if len(places) > 1 else 1.0
    return [(place, tick_label(place, step)) for place in places]
