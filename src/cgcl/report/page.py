"""One page per run: what was read, how training went, how good the answers are, what to do next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cgcl.files import write_atomically
from cgcl.report import figures
from cgcl.report.document import filled, packaged
from cgcl.report.inputs import AuditFinding, Comparison, Probabilities, Suggestions
from cgcl.report.reliability import Reliability, reliability
from cgcl.report.verdict import (
    ahead_at_top,
    best_values,
    calibration_choice,
    measured,
    method_name,
    metric_name,
    shift_sentence,
    verdict,
)
from cgcl.report.words import chance, percent

if TYPE_CHECKING:
    from cgcl.graph.survey import Survey
    from cgcl.report.results import RunResults

REPORT = "report.html"

_MOST_NOTES = 50
_MOST_LINKS = 100

# What the head of the page shows of a test.
_HEADLINE = ("node_mrr", "precision@100", "auc", "ap")


def write_report(folder: Path, results: RunResults) -> Path:
    """Draw the page of a run as `report.html` in its folder and return its path.

    Raises:
        ResourceError: The disk is full.
    """
    path = folder / REPORT
    page = render_page(**vars(results))
    write_atomically(path, page.encode(errors="replace"))  # a command may hold undecodable bytes
    return path


def render_page(
    run: Mapping[str, Any],
    history: Sequence[Mapping[str, Any]],
    positive: npt.ArrayLike | None,
    negative: npt.ArrayLike | None,
    *,
    suggestions: Suggestions | None = None,
    probabilities: Probabilities | None = None,
    comparison: Comparison | None = None,
    audit: Sequence[AuditFinding] | None = None,
    survey: Survey | None = None,
) -> str:
    """Return the page of a run as one HTML document that needs nothing else.

    The same arguments give the same bytes. Everything that comes from a file, names included,
    appears as text and never as markup.

    Args:
        run: What run.json holds, `folder`, the run folder as a shell would take it, and `method`,
            what the method is called.
        history: What the run recorded about every epoch.
        positive: Scores of the test links, or None if there was no test.
        negative: Scores of the unlinked test pairs, or None if there was no test.
        suggestions: New links, None if nobody asked for them.
        probabilities: How scores became probabilities, None if they did not.
        comparison: Methods on the same held-out links, None if there are no others.
        audit: What the split audit found, empty if nothing, None if there was no audit.
        survey: The shape of the graph, None if nobody looked.
    """
    links, others = _scores(positive), _scores(negative)
    comparison = comparison if comparison and best_values(comparison.results) else None
    trust = None
    if probabilities:
        trust = reliability(probabilities.test_links, probabilities.test_others)
    parts: dict[str, Any] = {
        "survey": survey,
        "audit": audit,
        "comparison": comparison,
        "compared": _compared(comparison) if comparison else None,
        "probabilities": probabilities,
        "reliability": trust,
        **(_calibrated(probabilities) if probabilities else {}),
        "suggested": _suggested(suggestions) if suggestions else None,
    }
    return filled(
        "page.html.jinja",
        _draw(run, history, links, others) | _draw_more(comparison, trust),
        script=packaged("links.js") if suggestions and suggestions.links else "",
        run=run,
        graph=run["graph"],
        split=run["split"],
        spread=_spread(links, others),
        **_measures(run),
        **_method(run),
        last_consistency=_last_consistency(history),
        contents=_contents(parts),
        **_notes(run["graph"].get("notes") or []),
        **parts,
    )


def _measures(run: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is known about every metric, and which of the test come first."""
    from cgcl.metrics.table import METRICS

    test = run.get("test") or {}
    first = [(METRICS[key].title, test[key]) for key in _HEADLINE if key in test]
    return {"metrics": METRICS, "headline": first}


def _method(run: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the method is called, and whether there was anything to train."""
    return {"method": run.get("method"), "is_trained": "epochs" in run["config"]}


def _contents(parts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return id and title of the sections that the page has."""
    sections = (
        ("graph", "What was read", True),
        ("split", "Split", True),
        ("training", "Training", True),
        ("test", "Scores", True),
        ("comparison", "Beside simple methods", parts["comparison"]),
        ("probabilities", "Probabilities", parts["probabilities"]),
        ("links", "Suggested links", parts["suggested"]),
        ("settings", "Settings", True),
        ("reproduce", "Again", True),
    )
    return [(section, title) for section, title, is_there in sections if is_there]


def _notes(notes: Sequence[str]) -> dict[str, Any]:
    """Return the first notes about the graph, and how many there are besides."""
    return {"notes": notes[:_MOST_NOTES], "notes_left_out": max(0, len(notes) - _MOST_NOTES)}


def _suggested(suggestions: Suggestions) -> dict[str, Any]:
    """Return what the section of suggested links says."""
    from cgcl.predict.links import told_apart

    links = suggestions.links[:_MOST_LINKS]
    known = [link.probability for link in links if link.probability is not None]
    return {
        "links": links,
        "total": len(suggestions.links),
        "how_found": suggestions.how_found,
        "has_probabilities": bool(known),
        "chances": told_apart([link.probability for link in links], chance),
        "has_intervals": any(link.interval for link in links),
        "has_features": any(link.common_features is not None for link in links),
        # By linearity of expectation, however the links depend on each other.
        "expected": sum(known) if known and len(known) == len(links) else None,
    }


def _compared(comparison: Comparison) -> dict[str, Any]:
    """Return what the section of methods says."""
    best = best_values(comparison.results)
    rows = []
    for result in comparison.results:
        cells = [(percent(measured(result, key)), top) for key, top in best.items()]
        rows.append((result.method, [(words, words == top) for words, top in cells]))
    return {
        "columns": [metric_name(key) for key in best],
        "rows": rows,
        "verdict": verdict(comparison),
        "ahead": ahead_at_top(comparison),
    }


def _calibrated(probabilities: Probabilities) -> dict[str, Any]:
    """Return what the section of probabilities says about how they were made."""
    shift = probabilities.shift
    return {
        "choice": calibration_choice(probabilities),
        "losses": [
            (method_name(method), loss, method == probabilities.method)
            for method, loss in probabilities.losses.items()
        ],
        "shift": shift
        and {"sentence": shift_sentence(shift), "warning": bool(shift.get("warning"))},
    }


def _scores(scores: npt.ArrayLike | None) -> npt.NDArray[np.float64] | None:
    """Return scores as an array; None where there are none."""
    if scores is None:
        return None
    array = np.asarray(scores, dtype=np.float64).ravel()
    return array if array.size else None


def _draw(
    run: Mapping[str, Any],
    history: Sequence[Mapping[str, Any]],
    links: npt.NDArray[np.float64] | None,
    others: npt.NDArray[np.float64] | None,
) -> dict[str, str]:
    """Return the figures by name; an empty string where there is nothing to draw."""
    best_epoch = run.get("best_epoch")
    drawn = {
        "loss": figures.loss_figure(history, best_epoch),
        "validation": figures.validation_figure(history, best_epoch),
        "consistency": figures.consistency_figure(history),
    }
    if links is not None and others is not None:
        drawn["roc"] = figures.roc_figure(links, others)
        drawn["precision_recall"] = figures.precision_recall_figure(links, others)
        drawn["histogram"] = figures.score_histogram(links, others)
    return drawn


def _draw_more(comparison: Comparison | None, trust: Reliability | None) -> dict[str, str]:
    """Return the figures of the parts that a run need not have."""
    drawn = {}
    if comparison:
        drawn["comparison"] = figures.comparison_figure(comparison)
    if trust:
        drawn["reliability"] = figures.reliability_figure(trust)
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
