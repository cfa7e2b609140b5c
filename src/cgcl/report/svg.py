"""From a matplotlib figure to SVG that lives inside an HTML page.

Figures are drawn in stand-in colours. On the way out each becomes a CSS variable of the page, so
that one drawing serves light mode, dark mode and paper.
"""

from __future__ import annotations

import html
import io
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "FIRST",
    "GRID",
    "INK",
    "MUTED",
    "SECOND",
    "THIRD",
    "drawing",
    "stacked_drawing",
    "to_svg",
]

# Colours that nobody would choose: they are replaced wherever they occur.
INK, MUTED, GRID = "#010203", "#020304", "#030405"
FIRST, SECOND, THIRD = "#040506", "#050607", "#060708"

# CSS variable and the colour to fall back to outside the page.
_VARIABLES = {
    INK: "var(--ink, #1c2430)",
    MUTED: "var(--muted, #5d6876)",
    GRID: "var(--grid, #dfe3e8)",
    FIRST: "var(--first, #1f5fa8)",
    SECOND: "var(--second, #b8560f)",
    THIRD: "var(--third, #2f7d55)",
}

_STYLE = {
    "font.size": 9,
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.7,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    # Text stays text: small, searchable, and in the reader's own font.
    "svg.fonttype": "none",
    # Without a salt, ids differ from call to call.
    "svg.hashsalt": "cgcl",
}

# 4.5 in are 324 units: on a phone about a unit per pixel, so that 9 units stay legible.
_WIDTH, _HEIGHT = 4.5, 3.1


def drawing(xlabel: str, ylabel: str, height: float = _HEIGHT) -> tuple[Figure, Axes]:
    """Return an empty figure with one panel in the style of the page.

    Args:
        xlabel: What the horizontal axis shows.
        ylabel: What the vertical axis shows.
        height: In inches; the width is always the same.
    """
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        axes = figure.add_subplot()
        axes.set_xlabel(xlabel)
        axes.set_ylabel(ylabel)
    return figure, axes


def stacked_drawing(xlabel: str, upper: str, lower: str) -> tuple[Figure, Axes, Axes]:
    """Return an empty figure with a large panel above a low one, on the same horizontal axis.

    Args:
        xlabel: What the horizontal axis shows.
        upper: What the vertical axis of the upper panel shows.
        lower: What that of the lower panel shows.
    """
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(_WIDTH, 1.35 * _HEIGHT), layout="constrained")
        top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
        bottom.set_xlabel(xlabel)
        top.set_ylabel(upper)
        bottom.set_ylabel(lower)
        figure.align_ylabels()
    return figure, top, bottom


def to_svg(figure: Figure, name: str, description: str) -> str:
    """Return the figure as an `<svg>` element for an HTML page; same figure, same bytes.

    Args:
        figure: A figure from `drawing`.
        name: A prefix that keeps the ids of this figure apart from those of others on the page.
        description: What the figure shows, for those who cannot see it.
    """
    import matplotlib

    buffer = io.StringIO()
    # Without these four there is no metadata block, hence no date.
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with matplotlib.rc_context(_STYLE):
        figure.savefig(buffer, format="svg", metadata=nothing, transparent=True)
    content = buffer.getvalue()
    box = re.search(r'viewBox="[^"]*"', content)
    body = content[content.index(">", content.index("<svg")) + 1 :].rstrip()
    # The style element would reach beyond its figure: its selector is "*".
    body = re.sub(r"\s*<style.*?</style>", "", body, flags=re.DOTALL)
    body = body.replace("xlink:href=", "href=")
    body = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", body)
    body = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font: \1 var(--sans, sans-serif)", body)
    for stand_in, variable in _VARIABLES.items():
        body = body.replace(stand_in, variable)
    label = html.escape(description, quote=True)
    return f'<svg {box.group() if box else ""} role="img" aria-label="{label}">{body}'
