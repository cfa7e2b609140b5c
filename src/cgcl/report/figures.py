"""The figures of the pages, each a small SVG of its own.

One panel a figure: the page sets them side by side on a screen and below each other on a phone.
A figure for which there is nothing to draw is an empty string.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cgcl import metrics
from cgcl.report.drawing import FIRST, INK, MUTED, SECOND, THIRD, Panel, drawing, fill, font, stroke
from cgcl.report.words import legible, standings

if TYPE_CHECKING:
    from cgcl.experiments.summary import Summary
    from cgcl.predict.baselines import Compared
    from cgcl.report.results import Reliability

Epochs = Sequence[Mapping[str, Any]]
Array = npt.NDArray[Any]
Line = tuple[str | int, str, str, Sequence[float]]
"""What was recorded, its label, colour and dashes."""

# Dash and gap, in widths of the line: no two lines differ by colour alone.
_SOLID, _DASHED, _DOTTED, _MIXED = (), (5, 1), (1, 1), (3, 1, 1, 1)
# By chance, or for the perfect one: what a curve is to be seen against.
_EVEN = stroke(MUTED, 0.9, (4, 4))
_WHISKER = 1.1
_LARGEST = 1e300
# What guessing reaches, in percent: a bar's length is what a method does better than that.
_GUESSING = {"auc": 50.0, "ap": 50.0}
# A little air, so that a perfect curve stays visible.
_UNIT_X, _UNIT_Y = (-0.01, 1.01), (0.0, 1.02)

_VIEWS: tuple[Line, ...] = ((0, "view 1", FIRST, _SOLID), (1, "view 2", SECOND, _DASHED))
_TERMS: tuple[Line, ...] = (
    ("views", "C(A₁, A₂)", MUTED, _DOTTED),
    ("view_1", "C(A₁, Ã₁)", FIRST, _SOLID),
    ("view_2", "C(A₂, Ã₂)", SECOND, _DASHED),
    ("reconstructions", "C(Ã₁, Ã₂)", THIRD, _MIXED),
)


def loss_figure(history: Epochs, best_epoch: int | None = None) -> str:
    """Return the training loss of each view over the epochs.

    Args:
        history: One entry per epoch, with "epoch" and "losses".
        best_epoch: The epoch whose weights were kept, to be marked.
    """
    views = max((len(entry.get("losses") or ()) for entry in history), default=0)
    lines = _VIEWS if views > 1 else [(0, "training loss", FIRST, _SOLID)]
    panel, drawn = _over_epochs(history, "losses", lines, "Training loss", best_epoch)
    description = "Training loss over the epochs, a line for each view"
    return drawing("loss", description, panel) if drawn else ""


def validation_figure(history: Epochs, best_epoch: int | None = None) -> str:
    """Return what the epoch was chosen by, node MRR or AUC with AP, over the epochs.

    Args:
        history: Entries with "epoch" and, where the epoch was evaluated, "val".
        best_epoch: The epoch whose weights were kept, to be marked.
    """
    lines: Sequence[Line] = (("node_mrr", "node MRR", FIRST, _SOLID),)
    # A node MRR of a quarter is a good one: beside an AUC it would be a flat line.
    if not _series(history, "val", "node_mrr")[0].size:
        lines = (("auc", "AUC", FIRST, _SOLID), ("ap", "AP", SECOND, _DASHED))
    panel, drawn = _over_epochs(history, "val", lines, "Validation, %", best_epoch, scale=100)
    description = f"Validation {' and '.join(drawn)} over the epochs"
    return drawing("validation", description, panel) if drawn else ""


def consistency_figure(history: Epochs) -> str:
    """Return the terms of Eq. 10 and Eq. 11 over the epochs, between Theorem 1's bounds.

    Args:
        history: Entries with "epoch" and, where it was measured, "consistency".
    """
    panel, drawn = _over_epochs(history, "consistency", _TERMS, "Consistency C")
    if not drawn:
        return ""
    # Room for the words outside the bounds.
    panel.y_limits = metrics.CONSISTENCY_LOWER_BOUND - 0.05, metrics.CONSISTENCY_UPPER_BOUND + 0.05
    for bound, which, down in (
        (metrics.CONSISTENCY_UPPER_BOUND, "upper bound", -3.0),
        (metrics.CONSISTENCY_LOWER_BOUND, "lower bound", 9.0),
    ):
        panel.across(bound, stroke(INK, 0.9, (6, 4)))
        text = f"Theorem 1, {which} {bound:.3f}".replace("-", "\N{MINUS SIGN}")
        panel.say(text, math.inf, bound, font(8, "end"), down=down)
    description = "Consistency terms over the epochs between the bounds of Theorem 1"
    return drawing("consistency", description, panel)


def roc_figure(positive: Array, negative: Array) -> str:
    """Return the ROC curve of test scores, links against unlinked pairs."""
    panel = _unit_square("False positive rate", "True positive rate")
    panel.line([0, 1], [0, 1], _EVEN)
    panel.say("guessing", 0.62, 0.57, font(8, color=MUTED), down=7)
    false_rate, true_rate = metrics.roc_curve(positive, negative)
    _draw_curve(panel, false_rate, true_rate)
    return drawing("roc", "ROC curve on the test pairs", panel)


def precision_recall_figure(positive: Array, negative: Array) -> str:
    """Return the precision-recall curve of test scores, links against unlinked pairs."""
    panel = _unit_square("Recall", "Precision")
    guessing = positive.size / (positive.size + negative.size)
    panel.across(guessing, _EVEN)
    panel.say("guessing", 0.02, guessing - 0.02, font(8, color=MUTED), down=7)
    recall, precision = metrics.precision_recall_curve(positive, negative)
    # Steps, because average precision is the area below steps.
    _draw_curve(panel, np.repeat(recall, 2)[:-1], np.repeat(precision, 2)[1:])
    return drawing("precision-recall", "Precision-recall curve on the test pairs", panel)


def score_histogram(positive: Array, negative: Array) -> str:
    """Return how the test scores of links and of unlinked pairs are spread."""
    both = np.concatenate([positive, negative])
    is_probability = both.min() >= 0 and both.max() <= 1
    edges = np.histogram_bin_edges(both, bins=30, range=(0, 1) if is_probability else None)
    panel = Panel("Score", "Share of pairs, %", x_limits=(float(edges[0]), float(edges[-1])))
    highest = 0.0
    sides = ((negative, "unlinked pairs", SECOND), (positive, "links", FIRST))
    for scores, label, color in sides:
        share = 100 * np.histogram(scores, edges)[0] / scores.size
        highest = max(highest, float(share.max()))
        x, height = np.repeat(edges, 2), np.pad(np.repeat(share, 2), 1)
        panel.area(x, height, fill(color, 0.25))
        panel.line(x, height, stroke(color, 1.3), label)
    panel.y_limits = (0.0, 1.05 * highest)
    return drawing("histogram", "Histogram of test scores, links and unlinked pairs", panel)


def reliability_figure(result: Reliability) -> str:
    """Return predicted against observed shares of links, above the counts of test pairs."""
    panel = _unit_square("", "Share of links", share=3)
    panel.line([0, 1], [0, 1], _EVEN, "perfect")
    for part in result.bins:
        ends = (part.predicted, part.low), (part.predicted, part.high)
        panel.interval(*ends, stroke(FIRST, _WHISKER))
    predicted = [part.predicted for part in result.bins]
    observed = [part.observed for part in result.bins]
    panel.dots(predicted, observed, fill(FIRST), "observed, 95 % interval")
    edges = np.linspace(0, 1, 21)
    others, links = (np.histogram(side, edges)[0] for side in (result.others, result.links))
    # The links stand on the unlinked pairs: the outline is the count of both.
    most = max(1, int((others + links).max()))
    counts = Panel(
        "Predicted probability", "Pairs", x_limits=_UNIT_X, y_limits=(0.0, 1.05 * most), y_steps=2
    )
    x, low, high = (np.repeat(part, 2) for part in (edges, others, others + links))
    counts.area(x[1:-1], low, fill(SECOND, 0.45), "unlinked pairs")
    counts.area(x[1:-1], high, fill(FIRST, 0.45), "links", base=low)
    return drawing(
        "reliability",
        "Predicted probability against the observed share of links, above a histogram of pairs",
        panel,
        counts,
        height=301.05,
    )


def comparison_figure(comparison: Compared) -> str:
    """Return a bar for each method, grouped by metric; ours in colour."""
    measured = standings(comparison)
    if not measured:
        return ""
    row = 0.0
    # Bars start at zero, and the last number needs room.
    panel = Panel("%", "", "none", x_limits=(0.0, 112.0), x_ticks=(0, 25, 50, 75, 100))
    for one in measured:
        panel.say(one.title, 0, row, font(8.5, weight="bold"), right=2, down=3)
        for result in comparison.results:
            row += 1
            method, text, value = result["method"], "not measured", 0.0
            panel.rows[row] = legible(method, 28)
            if method in one.values:
                value = 100 * result["metrics"][one.metric]
                text = f"{value:.1f}"
                style = fill(FIRST, 1.0) if method == comparison.ours else fill(MUTED, 0.55)
                panel.bar(row, 0, value, style, thick=0.72)
            panel.say(text, value, row, right=3, down=2.8)
        row += 1.3
    panel.y_limits = (row - 0.5, -0.8)
    rows = len(measured) * (len(comparison.results) + 1.3)
    description = "Bars of each metric for each method"
    return drawing("comparison", description, panel, height=43 + 13.7 * rows)


def interval_chart(summary: Summary) -> str:
    """Return a bar for the mean of each method with a 95 % interval, ours in colour.

    The best comes first. Empty if nothing was measured.
    """
    found = [(row, row.metrics[summary.metric]) for row in summary.rows if row.metrics]
    if not found:
        return ""
    found.sort(key=lambda item: -item[1].mean)
    base = _GUESSING.get(summary.metric, 0.0)
    panel = Panel(f"{metrics.metric_title(summary.metric)}, %", "", "x")
    lowest = base
    for place, (row, spread) in enumerate(found):
        mean = 100 * spread.mean
        low = mean if spread.low is None else max(0.0, 100 * spread.low)
        high = mean if spread.high is None else min(100.0, 100 * spread.high)
        lowest = min(lowest, low)
        style = fill(FIRST, 0.9) if row.method == summary.reference else fill(MUTED, 0.5)
        panel.bar(place, base, mean, style, thick=0.66)
        panel.interval((low, place), (high, place), stroke(INK, _WHISKER))
        panel.say(f"{mean:.2f}", high, place, right=5, down=2.8)
        panel.rows[place] = legible(row.title, 28)
    left = math.floor(lowest)
    # The last number needs room.
    panel.x_limits = (left, 100 + 0.16 * (100 - left))
    panel.y_limits = (len(found) - 0.4, -0.6)
    description = f"Bars of {metrics.metric_title(summary.metric)} with 95 % intervals"
    return drawing("intervals", description, panel, height=50 + 17.3 * len(found))


def chart_caption(summary: Summary) -> str:
    """Say what the chart shows."""
    base = _GUESSING.get(summary.metric)
    begin = f"; bars begin at {base:g}\N{NO-BREAK SPACE}%, what guessing reaches" if base else ""
    return f"Mean {metrics.metric_title(summary.metric)} with 95\N{NO-BREAK SPACE}% interval{begin}"


def _over_epochs(
    history: Epochs,
    recorded: str,
    lines: Sequence[Line],
    ylabel: str,
    best_epoch: int | None = None,
    scale: float = 1.0,
) -> tuple[Panel, list[str]]:
    """Return a panel with those lines for which something was recorded, and their labels."""
    panel = Panel("Epoch", ylabel, is_counted=True)
    drawn: list[str] = []
    for item, label, color, dashes in lines:
        epochs, values = _series(history, recorded, item)
        if epochs.size:
            panel.line(epochs, scale * values, stroke(color, dashes=dashes), label)
            if epochs.size == 1:  # a line through it would be invisible
                panel.dots(epochs, scale * values, fill(color))
            drawn.append(label)
    if drawn and best_epoch is not None:  # the one whose weights were kept
        panel.upright(best_epoch, stroke(INK, 0.9, (4, 3)), f"best epoch {best_epoch:,}")
    return panel, drawn


def _series(history: Epochs, field: str, item: str | int) -> tuple[Array, Array]:
    """Return the epochs at which a value was recorded, and the values."""
    points = []
    for entry in history:
        try:
            recorded = float(entry[field][item])
        except (KeyError, IndexError, TypeError):
            continue
        # A run that diverged has NaN in its last epochs, and no axis spans what is near infinity.
        if abs(recorded) < _LARGEST:
            points.append((float(entry["epoch"]), recorded))
    epochs, values = np.array(points, dtype=np.float64).reshape(-1, 2).T
    return epochs, values


def _draw_curve(panel: Panel, x: Array, y: Array) -> None:
    """Draw a curve and fill what lies below it."""
    panel.area(x, y, fill(FIRST, 0.12))
    panel.line(x, y, stroke(FIRST))


def _unit_square(xlabel: str, ylabel: str, share: float = 1) -> Panel:
    """Return a panel that shows [0, 1] on both axes."""
    return Panel(xlabel, ylabel, x_limits=_UNIT_X, y_limits=_UNIT_Y, share=share)
