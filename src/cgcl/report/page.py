"""One page per run: what was read, how training went, how good the answers are, what to do next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cgcl.files import write_atomically
from cgcl.metrics import METRICS
from cgcl.report import figures
from cgcl.report.document import filled, packaged
from cgcl.report.words import ahead_at_top, standings, verdict

if TYPE_CHECKING:
    from cgcl.report.results import RunResults

REPORT = "report.html"


def write_report(folder: Path, results: RunResults) -> Path:
    """Draw the page of a run as `report.html` in its folder and return its path.

    Raises:
        ResourceError: The disk is full.
    """
    path = folder / REPORT
    page = render_page(results)
    write_atomically(path, page.encode(errors="replace"))  # a command may hold undecodable bytes
    return path


def render_page(results: RunResults) -> str:
    """Return the page of a run as one HTML document that needs nothing else.

    The same results give the same bytes. Everything that comes from a file, names included,
    appears as text and never as markup.
    """
    links, others = _scores(results.positive), _scores(results.negative)
    comparison, suggestions = results.comparison, results.suggestions
    compared = standings(comparison) if comparison else []
    return filled(
        "page.html.jinja",
        _draw(results, links, others),
        script=packaged("links.js") if suggestions and suggestions.links else "",
        **vars(results)
        | {
            "comparison": comparison if compared else None,
            "standings": compared,
            "ahead": ahead_at_top(comparison) if comparison and compared else "",
            "verdict": verdict(comparison) if comparison and compared else "",
            "spread": _spread(links, others),
            "last_consistency": _last_consistency(results.history),
            "metrics": METRICS,
        },
    )


def _scores(scores: npt.ArrayLike | None) -> npt.NDArray[np.float64] | None:
    """Return scores as an array; None where there are none."""
    if scores is None:
        return None
    array = np.asarray(scores, dtype=np.float64).ravel()
    return array if array.size else None


def _draw(
    results: RunResults,
    links: npt.NDArray[np.float64] | None,
    others: npt.NDArray[np.float64] | None,
) -> dict[str, str]:
    """Return the figures by name; an empty string where there is nothing to draw."""
    best_epoch = results.run.get("best_epoch")
    drawn = {
        "loss": figures.loss_figure(results.history, best_epoch),
        "validation": figures.validation_figure(results.history, best_epoch),
        "consistency": figures.consistency_figure(results.history),
    }
    if links is not None and others is not None:
        drawn["roc"] = figures.roc_figure(links, others)
        drawn["precision_recall"] = figures.precision_recall_figure(links, others)
        drawn["histogram"] = figures.score_histogram(links, others)
    if results.comparison:
        drawn["comparison"] = figures.comparison_figure(results.comparison)
    if results.reliability:
        drawn["reliability"] = figures.reliability_figure(results.reliability)
    return drawn


def _spread(
    links: npt.NDArray[np.float64] | None, others: npt.NDArray[np.float64] | None
) -> dict[str, Any] | None:
    """Return what the text beside the histogram says; None without test scores."""
    if links is None or others is None:
        return None
    is_probability = all(side.min() >= 0 and side.max() <= 1 for side in (links, others))
    return {
        "links": links.size,
        "others": others.size,
        "median_link": float(np.median(links)),
        "median_other": float(np.median(others)),
        # One half means something for probabilities only.
        "links_above": float(np.mean(links > 0.5)) if is_probability else None,
        "others_above": float(np.mean(others > 0.5)) if is_probability else None,
    }


def _last_consistency(history: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the consistency terms that were recorded last, None without a complete record."""
    for entry in reversed(history):
        terms = entry.get("consistency") or {}
        if all(isinstance(terms.get(key), float) for key in ("views", "reconstructions", "gap")):
            return terms
    return None
