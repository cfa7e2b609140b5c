"""A plot as an SVG file of its own: same numbers, same bytes, legible in light and dark."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Curve", "log_plot"]

_WIDTH, _HEIGHT = 420.0, 300.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 62.0, 14.0, 54.0, 44.0
# No two curves differ by colour alone: each has its own dashes and its own marks.
_STYLES = (("one", "circle"), ("two", "square"), ("three", "diamond"), ("four", "circle"))
_CSS = """
text{font:12px system-ui,-apple-system,'Segoe UI',sans-serif;fill:#1c2430}
.axis{stroke:#5d6876;stroke-width:1}.grid{stroke:#e1e4e8;stroke-width:1}
.guide{stroke:#5d6876;stroke-width:1.2;stroke-dasharray:1 4;fill:none}
.one,.two,.three,.four{stroke-width:2;fill:none}
.one{stroke:#1f5fa8}.two{stroke:#b8560f;stroke-dasharray:7 3}
.three{stroke:#2f7d55;stroke-dasharray:4 2 1 2}.four{stroke:#8a4fa3;stroke-dasharray:2 2}
.mark{stroke-dasharray:none}.mark.one{fill:#1f5fa8}.mark.two{fill:#b8560f}.mark.three{fill:#2f7d55}
.mark.four{fill:none}
@media (prefers-color-scheme:dark){
text{fill:#e4e8ee}.axis,.guide{stroke:#9aa5b4}.grid{stroke:#313945}
.one{stroke:#7db4f5}.two{stroke:#f2a565}.three{stroke:#74cfa0}.four{stroke:#d3a0e8}
.mark.one{fill:#7db4f5}.mark.two{fill:#f2a565}.mark.three{fill:#74cfa0}}
"""


@dataclass(frozen=True)
class Curve:
    """What was measured in one place."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    """Positive, one for each x."""


@dataclass(frozen=True)
class _Axis:
    """Where numbers lie along an axis: of logarithms over whole powers of ten, or of tens."""

    low: int
    high: int
    start: float
    end: float
    is_log: bool = True

    @classmethod
    def over(
        cls, values: Sequence[float], start: float, end: float, *, is_log: bool = True
    ) -> _Axis:
        steps = [math.log10(value) if is_log else value / 10 for value in values]
        low, high = math.floor(min(steps)), math.ceil(max(steps))
        return cls(low, max(high, low + 1), start, end, is_log)

    def place(self, value: float) -> float:
        step = math.log10(value) if self.is_log else value / 10
        return self.start + (step - self.low) / (self.high - self.low) * (self.end - self.start)

    def marks(self) -> list[tuple[float, str]]:
        """Return where a line of the grid is, and its number."""
        steps = range(self.low, self.high + 1)
        if self.is_log:
            return [(self.place(10.0**power), _power(power)) for power in steps]
        return [(self.place(10 * tens), str(10 * tens)) for tens in steps]


def log_plot(curves: Sequence[Curve], xlabel: str, ylabel: str, guide: str | None = None) -> str:
    """Return the curves over axes of powers of ten.

    Args:
        curves: What to draw, at most four.
        xlabel: What the horizontal axis shows.
        ylabel: What the vertical axis shows.
        guide: What to call the dotted lines of slope 1 that end where each curve ends; None for no
            such lines and a vertical axis without logarithms.
    """
    across = _Axis.over([x for c in curves for x in c.x], _LEFT, _WIDTH - _RIGHT)
    heights = [y for c in curves for y in c.y]
    up = _Axis.over(heights, _HEIGHT - _BOTTOM, _TOP, is_log=guide is not None)
    body = [*_grid(across, up), *_words(xlabel, ylabel, [c.label for c in curves], guide)]
    for curve, (style, mark) in zip(curves, _STYLES, strict=False):
        if guide is not None:
            x_last, y_last = curve.x[-1], curve.y[-1]
            first = max(curve.x[0], x_last * 10**up.low / y_last)  # not below the lowest power
            ends = [first, x_last], [y_last * first / x_last, y_last]
            body.append(_line("guide", across, up, *ends))
        body.append(_line(style, across, up, curve.x, curve.y))
        body += [
            _mark(mark, style, across.place(x), up.place(y))
            for x, y in zip(curve.x, curve.y, strict=True)
        ]
    told = "both axes" if guide is not None else "horizontal axis"
    label = html.escape(f"{ylabel} against {xlabel.lower()}, {told} logarithmic", quote=True)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" '
        f'role="img" aria-label="{label}">\n<style>{_CSS}</style>\n'
        + "\n".join(body)
        + "\n</svg>\n"
    )


def _grid(across: _Axis, up: _Axis) -> list[str]:
    lines = []
    for x, number in across.marks():
        lines.append(_segment("grid", x, up.start, x, up.end))
        lines.append(_text(number, x, up.start + 16, "middle"))
    for y, number in up.marks():
        lines.append(_segment("grid", across.start, y, across.end, y))
        lines.append(_text(number, across.start - 6, y + 4, "end"))
    lines.append(_segment("axis", across.start, up.start, across.end, up.start))
    lines.append(_segment("axis", across.start, up.start, across.start, up.end))
    return lines


def _words(xlabel: str, ylabel: str, labels: list[str], guide: str | None) -> list[str]:
    """Return the names of the axes and, above the panel where it covers nothing, the legend."""
    middle = (_TOP + _HEIGHT - _BOTTOM) / 2
    body = [
        _text(xlabel, (_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 8, "middle"),
        f'<text x="14" y="{middle:g}" text-anchor="middle" '
        f'transform="rotate(-90 14 {middle:g})">{html.escape(ylabel)}</text>',
    ]
    named = list(zip(labels, _STYLES, strict=False))
    named += [] if guide is None else [(guide, ("guide", ""))]
    for number, (label, (style, mark)) in enumerate(named):
        x, y = _LEFT + 180 * (number % 2), 14 + 18 * (number // 2)
        body.append(_segment(style, x, y, x + 26, y))
        body += [_mark(mark, style, x + 13, y)] if mark else []
        body.append(_text(label, x + 32, y + 4, "start"))
    return body


def _line(style: str, across: _Axis, up: _Axis, x: Sequence[float], y: Sequence[float]) -> str:
    points = (f"{across.place(a):.1f},{up.place(b):.1f}" for a, b in zip(x, y, strict=True))
    return f'<polyline class="{style}" points="{" ".join(points)}"/>'


def _mark(kind: str, style: str, x: float, y: float) -> str:
    if kind == "circle":
        return f'<circle class="mark {style}" cx="{x:.1f}" cy="{y:.1f}" r="2.5"/>'
    turn = f' transform="rotate(45 {x:.1f} {y:.1f})"' if kind == "diamond" else ""
    return (
        f'<rect class="mark {style}" x="{x - 2.5:.1f}" y="{y - 2.5:.1f}" width="5" height="5"'
        f"{turn}/>"
    )


def _segment(style: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{style}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(words: str, x: float, y: float, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(words)}</text>'


def _power(power: int) -> str:
    """Return a power of ten as people read it."""
    if power < 0:
        return f"{10.0**power:.{-power}f}"
    return f"{10**power:,}" if power < 4 else "10" + str(power).translate(_RAISED)


_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
