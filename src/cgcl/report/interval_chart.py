"""Bars of several methods with their intervals."""

from __future__ import annotations

import math

from cgcl.experiments.summary import METRIC_NAMES, Summary
from cgcl.report.drawing import drawing
from cgcl.report.names import legible
from cgcl.report.panel import Panel
from cgcl.report.svg import FIRST, INK, MUTED

__all__ = ["chart_caption", "interval_chart"]

# What guessing reaches, in percent: a bar's length is what a method does better than that.
_GUESSING = {"auc": 50.0, "ap": 50.0}


def interval_chart(summary: Summary) -> str:
    """Return a bar for the mean of each method with a 95 % interval, ours in colour.

    The best comes first. Empty if nothing was measured.
    """
    found = [(row, row.metrics[summary.metric]) for row in summary.rows if row.metrics]
    if not found:
        return ""
    found.sort(key=lambda item: -item[1].mean)
    base = _GUESSING.get(summary.metric, 0.0)
    panel = Panel(f"{METRIC_NAMES[summary.metric]}, %", "", "x")
    lowest = base
    for place, (row, spread) in enumerate(found):
        mean, is_ours = 100 * spread.mean, row.method == summary.reference
        low = mean if spread.low is None else max(0.0, 100 * spread.low)
        high = mean if spread.high is None else min(100.0, 100 * spread.high)
        lowest = min(lowest, low)
        color, opacity = (FIRST, 0.9) if is_ours else (MUTED, 0.5)
        panel.bar(place, base, mean, color, thick=0.66, opacity=opacity)
        panel.interval((low, place), (high, place), INK)
        panel.say(f"{mean:.2f}", high, place, right=5, down=2.8)
        panel.rows[place] = legible(row.title, 28)
    left = math.floor(lowest)
    # The last number needs room.
    panel.x_limits = (left, 100 + 0.16 * (100 - left))
    panel.y_limits = (len(found) - 0.4, -0.6)
    description = f"Bars of {METRIC_NAMES[summary.metric]} with 95 % intervals"
    return drawing("intervals", description, [panel], height=50 + 17.3 * len(found))


def chart_caption(summary: Summary) -> str:
    """Say what the chart shows."""
    base = _GUESSING.get(summary.metric)
    begin = f"; bars begin at {base:g}\N{NO-BREAK SPACE}%, what guessing reaches" if base else ""
    return f"Mean {METRIC_NAMES[summary.metric]} with 95\N{NO-BREAK SPACE}% interval{begin}"
