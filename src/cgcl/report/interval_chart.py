"""Bars of several methods with their intervals."""

from __future__ import annotations

import math

from cgcl.compare.summary import REFERENCE, Summary
from cgcl.compare.words import METRIC_NAMES
from cgcl.report.names import legible
from cgcl.report.svg import FIRST, GRID, INK, MUTED, drawing, to_svg

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
    figure, axes = drawing(f"{METRIC_NAMES[summary.metric]}, %", "", height=0.7 + 0.24 * len(found))
    lowest = base
    for place, (row, spread) in enumerate(found):
        mean, is_ours = 100 * spread.mean, row.method == REFERENCE
        low = mean if spread.low is None else max(0.0, 100 * spread.low)
        high = mean if spread.high is None else min(100.0, 100 * spread.high)
        lowest = min(lowest, low)
        color = FIRST if is_ours else MUTED
        axes.barh(place, mean - base, 0.66, left=base, color=color, alpha=0.9 if is_ours else 0.5)
        axes.errorbar(
            mean,
            place,
            xerr=([mean - low], [high - mean]),
            color=INK,
            elinewidth=1.0,
            capsize=2.5,
        )
        axes.annotate(
            f"{mean:.2f}",
            (high, place),
            xytext=(5, 0),
            textcoords="offset points",
            fontsize=8,
            color=INK,
            va="center",
        )
    labels = [legible(row.title, 28) for row, _ in found]
    # A dollar sign in a name is no formula.
    axes.set_yticks(range(len(found)), labels, fontsize=8, parse_math=False)
    axes.tick_params(axis="y", length=0)
    left = math.floor(lowest)
    # The last number needs room.
    axes.set_xlim(left, 100 + 0.16 * (100 - left))
    axes.set_ylim(len(found) - 0.4, -0.6)
    axes.grid(visible=False)
    axes.grid(axis="x", color=GRID)
    return to_svg(
        figure, "intervals", f"Bars of {METRIC_NAMES[summary.metric]} with 95 % intervals"
    )


def chart_caption(summary: Summary) -> str:
    """Say what the chart shows."""
    base = _GUESSING.get(summary.metric)
    begin = f"; bars begin at {base:g}\N{NO-BREAK SPACE}%, what guessing reaches" if base else ""
    return f"Mean {METRIC_NAMES[summary.metric]} with 95\N{NO-BREAK SPACE}% interval{begin}"
