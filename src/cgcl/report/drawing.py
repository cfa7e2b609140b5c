"""A figure of one panel, or of several above each other."""

from __future__ import annotations

from collections.abc import Sequence

from cgcl.report.panel import Frame, Panel
from cgcl.report.svg import element

__all__ = ["HEIGHT", "drawing"]

# On a phone about a unit per pixel, so that letters of 9 units stay legible.
_WIDTH = 324.0
HEIGHT = 223.0
"""How high a figure of one panel is, if nothing else is said."""
# Half of the last number below sticks out.
_RIGHT = 10.0


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
    drawn: list[str] = []
    top = 0.0
    for number, (panel, share) in enumerate(zip(panels, shares, strict=True), start=1):
        top += rooms[number - 1][1]
        high = free * share / sum(shares)
        frame = Frame(left, top, _WIDTH - _RIGHT - left, high, *panel.limits())
        drawn.append(panel.draw(frame, f"{name}-panel-{number}", numbers=number == len(panels)))
        top += high
    return element(_WIDTH, height, description, drawn)
