"""The figures of a run's page, each a small SVG of its own.

One panel a figure: the page sets them side by side on a screen and below each other on a phone.
A figure for which there is nothing to draw is an empty string.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cgcl.report.inputs import Comparison
from cgcl.report.names import legible
from cgcl.report.reliability import Reliability
from cgcl.report.svg import (
    FIRST,
    GRID,
    INK,
    MUTED,
    SECOND,
    THIRD,
    drawing,
    stacked_drawing,
    to_svg,
)
from cgcl.report.verdict import measured, metric_name, metrics_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "comparison_figure",
    "consistency_figure",
    "loss_figure",
    "precision_recall_figure",
    "reliability_figure",
    "roc_figure",
    "score_histogram",
    "validation_figure",
]

Epochs = Sequence[Mapping[str, Any]]
Array = npt.NDArray[Any]

# What is plotted, its colour and its dashes: no two lines differ by colour alone.
_TERMS = (
    ("views", "C(A₁, A₂)", MUTED, (0, (1, 1))),
    ("view_1", "C(A₁, Ã₁)", FIRST, "solid"),
    ("view_2", "C(A₂, Ã₂)", SECOND, (0, (5, 1))),
    ("reconstructions", "C(Ã₁, Ã₂)", THIRD, (0, (3, 1, 1, 1))),
)


def loss_figure(history: Epochs, best_epoch: int | None = None) -> str:
    """Return the training loss of each view over the epochs.

    Args:
        history: One entry per epoch, with "epoch" and "losses".
        best_epoch: The epoch whose weights were kept, to be marked.
    """
    views = max((len(entry.get("losses") or ()) for entry in history), default=0)
    series = [_series(history, "losses", view) for view in range(views)]
    if not any(epochs.size for epochs, _ in series):
        return ""
    figure, axes = drawing("Epoch", "Training loss")
    styles = ((FIRST, "solid"), (SECOND, (0, (5, 1))))
    for number, ((epochs, losses), (color, dashes)) in enumerate(
        zip(series, styles, strict=False), start=1
    ):
        label = f"view {number}" if views > 1 else "training loss"
        axes.plot(epochs, losses, color=color, linestyle=dashes, label=label)
    _mark_epoch(axes, best_epoch)
    _legend(axes)
    return to_svg(figure, "loss", "Training loss over the epochs, a line for each view")


def validation_figure(history: Epochs, best_epoch: int | None = None) -> str:
    """Return validation AUC and AP over the epochs.

    Args:
        history: Entries with "epoch" and, where the epoch was evaluated, "val".
        best_epoch: The epoch whose weights were kept, to be marked.
    """
    figure, axes = drawing("Epoch", "Validation, %")
    drawn = False
    for key, label, color, dashes in (
        ("auc", "AUC", FIRST, "solid"),
        ("ap", "AP", SECOND, (0, (5, 1))),
    ):
        epochs, values = _series(history, "val", key)
        if epochs.size:
            # A single evaluation would be an invisible line.
            marker = "o" if epochs.size == 1 else None
            axes.plot(
                epochs, 100 * values, color=color, linestyle=dashes, marker=marker, label=label
            )
            drawn = True
    if not drawn:
        return ""
    _mark_epoch(axes, best_epoch)
    _legend(axes)
    return to_svg(figure, "validation", "Validation AUC and AP over the epochs")


def consistency_figure(history: Epochs) -> str:
    """Return the terms of Eq. 10 and Eq. 11 over the epochs, between Theorem 1's bounds.

    Args:
        history: Entries with "epoch" and, where it was measured, "consistency".
    """
    from cgcl.metrics import CONSISTENCY_LOWER_BOUND, CONSISTENCY_UPPER_BOUND

    figure, axes = drawing("Epoch", "Consistency C")
    drawn = False
    for key, label, color, dashes in _TERMS:
        epochs, values = _series(history, "consistency", key)
        if epochs.size:
            marker = "o" if epochs.size == 1 else None
            axes.plot(epochs, values, color=color, linestyle=dashes, marker=marker, label=label)
            drawn = True
    if not drawn:
        return ""
    for bound, words, side in (
        (CONSISTENCY_UPPER_BOUND, "upper bound", "bottom"),
        (CONSISTENCY_LOWER_BOUND, "lower bound", "top"),
    ):
        axes.axhline(bound, color=INK, linewidth=0.9, linestyle=(0, (6, 4)))
        axes.annotate(
            f"Theorem 1, {words} {bound:.3f}".replace("-", "\N{MINUS SIGN}"),
            (1, bound),
            xycoords=("axes fraction", "data"),
            xytext=(0, 3 if side == "bottom" else -3),
            textcoords="offset points",
            ha="right",
            va=side,
            color=INK,
            fontsize=8,
        )
    # Room for the words outside the bounds.
    axes.set_ylim(CONSISTENCY_LOWER_BOUND - 0.05, CONSISTENCY_UPPER_BOUND + 0.05)
    _legend(axes, columns=4)
    return to_svg(
        figure, "consistency", "Consistency terms over the epochs between the bounds of Theorem 1"
    )


def roc_figure(positive: Array, negative: Array) -> str:
    """Return the ROC curve of test scores, links against unlinked pairs."""
    from cgcl.metrics import roc_curve

    figure, axes = drawing("False positive rate", "True positive rate")
    axes.plot([0, 1], [0, 1], color=MUTED, linewidth=0.9, linestyle=(0, (4, 4)))
    axes.annotate("guessing", (0.62, 0.57), color=MUTED, fontsize=8, ha="left", va="top")
    false_rate, true_rate = roc_curve(positive, negative)
    axes.fill_between(false_rate, true_rate, color=FIRST, alpha=0.12, linewidth=0)
    axes.plot(false_rate, true_rate, color=FIRST)
    _unit_square(axes)
    return to_svg(figure, "roc", "ROC curve on the test pairs")


def precision_recall_figure(positive: Array, negative: Array) -> str:
    """Return the precision-recall curve of test scores, links against unlinked pairs."""
    from cgcl.metrics import precision_recall_curve

    figure, axes = drawing("Recall", "Precision")
    guessing = positive.size / (positive.size + negative.size)
    axes.axhline(guessing, color=MUTED, linewidth=0.9, linestyle=(0, (4, 4)))
    axes.annotate("guessing", (0.02, guessing - 0.02), color=MUTED, fontsize=8, va="top")
    recall, precision = precision_recall_curve(positive, negative)
    # Steps, because average precision is the area below steps.
    axes.fill_between(recall, precision, step="pre", color=FIRST, alpha=0.12, linewidth=0)
    axes.plot(recall, precision, drawstyle="steps-pre", color=FIRST)
    _unit_square(axes)
    return to_svg(figure, "precision-recall", "Precision-recall curve on the test pairs")


def score_histogram(positive: Array, negative: Array) -> str:
    """Return how the test scores of links and of unlinked pairs are spread."""
    figure, axes = drawing("Score", "Share of pairs, %")
    both = np.concatenate([positive, negative])
    is_probability = both.min() >= 0 and both.max() <= 1
    edges = np.histogram_bin_edges(both, bins=30, range=(0, 1) if is_probability else None)
    for scores, label, color in ((negative, "unlinked pairs", SECOND), (positive, "links", FIRST)):
        share = 100 * np.histogram(scores, edges)[0] / scores.size
        axes.stairs(share, edges, fill=True, color=color, alpha=0.25, linewidth=0)
        axes.stairs(share, edges, color=color, linewidth=1.3, label=label)
    axes.margins(x=0)
    axes.set_ylim(bottom=0)
    _legend(axes)
    return to_svg(figure, "histogram", "Histogram of test scores, links and unlinked pairs")


def reliability_figure(result: Reliability) -> str:
    """Return predicted against observed shares of links, above the counts of test pairs."""
    figure, axes, counts = stacked_drawing("Predicted probability", "Share of links", "Pairs")
    axes.plot([0, 1], [0, 1], color=MUTED, linewidth=0.9, linestyle=(0, (4, 4)), label="perfect")
    predicted = [part.predicted for part in result.bins]
    observed = [part.observed for part in result.bins]
    below = [max(0.0, part.observed - part.low) for part in result.bins]
    above = [max(0.0, part.high - part.observed) for part in result.bins]
    axes.errorbar(
        predicted,
        observed,
        yerr=(below, above),
        fmt="o",
        color=FIRST,
        ecolor=FIRST,
        markersize=4,
        elinewidth=1.1,
        capsize=2.5,
        label="observed, 95 % interval",
    )
    _unit_square(axes)
    _legend(axes, columns=2)
    edges = np.linspace(0, 1, 21)
    others, links = (np.histogram(side, edges)[0] for side in (result.others, result.links))
    # The links stand on the unlinked pairs: the outline is the count of both.
    for top, base, color, label in (
        (others, np.zeros_like(others), SECOND, "unlinked pairs"),
        (others + links, others, FIRST, "links"),
    ):
        counts.stairs(top, edges, baseline=base, fill=True, color=color, alpha=0.45, label=label)
    counts.set_ylim(bottom=0)
    _legend(counts, columns=2)
    return to_svg(
        figure,
        "reliability",
        "Predicted probability against the observed share of links, above a histogram of pairs",
    )


def comparison_figure(comparison: Comparison) -> str:
    """Return a bar for each method, grouped by metric; ours in colour."""
    metrics = metrics_of(comparison.results)
    if not metrics:
        return ""
    row = 0.0
    places: list[float] = []
    labels: list[str] = []
    rows = len(metrics) * (len(comparison.results) + 1.3)
    figure, axes = drawing("%", "", height=0.6 + 0.19 * rows)
    for key in metrics:
        axes.text(0, row, metric_name(key), color=INK, fontsize=8.5, va="center", weight="bold")
        for result in comparison.results:
            row += 1
            value = measured(result, key)
            is_ours = result.method == comparison.ours
            places.append(row)
            labels.append(legible(result.method, 28))
            if value is not None:
                color = FIRST if is_ours else MUTED
                axes.barh(row, 100 * value, 0.72, color=color, alpha=1 if is_ours else 0.55)
            axes.annotate(
                "not measured" if value is None else f"{100 * value:.1f}",
                (100 * (value or 0), row),
                xytext=(3, 0),
                textcoords="offset points",
                fontsize=8,
                color=INK,
                va="center",
            )
        row += 1.3
    # A dollar sign in a name is no formula.
    axes.set_yticks(places, labels, fontsize=8, parse_math=False)
    axes.tick_params(axis="y", length=0)
    # Bars start at zero, and the last number needs room.
    axes.set_xlim(0, 112)
    axes.set_xticks([0, 25, 50, 75, 100])
    axes.set_ylim(row - 0.5, -0.8)
    axes.grid(visible=False)
    return to_svg(figure, "comparison", "Bars of each metric for each method")


def _series(history: Epochs, field: str, item: str | int) -> tuple[Array, Array]:
    """Return the epochs at which a value was recorded, and the values, thinned for drawing."""
    from cgcl.metrics import thin_curve

    points = []
    for entry in history:
        try:
            recorded = float(entry[field][item])
        except (KeyError, IndexError, TypeError):
            continue
        # A run that diverged has NaN in its last epochs.
        if math.isfinite(recorded):
            points.append((float(entry["epoch"]), recorded))
    epochs, values = np.array(points, dtype=np.float64).reshape(-1, 2).T
    return thin_curve(epochs, values)


def _mark_epoch(axes: Axes, epoch: int | None) -> None:
    """Draw a line at the epoch whose weights were kept."""
    if epoch is not None:
        axes.axvline(
            epoch, color=INK, linewidth=0.9, linestyle=(0, (4, 3)), label=f"best epoch {epoch:,}"
        )


def _legend(axes: Axes, columns: int = 3) -> None:
    """Put the legend above the panel, where it covers nothing."""
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=columns,
        fontsize=8,
        handlelength=1.8,
        columnspacing=1.2,
        borderaxespad=0.2,
        labelcolor=INK,
        frameon=False,
    )


def _unit_square(axes: Axes) -> None:
    """Show [0, 1] on both axes, with a little air so that a perfect curve stays visible."""
    axes.set_xlim(-0.01, 1.01)
    axes.set_ylim(0, 1.02)
    axes.grid(color=GRID)
