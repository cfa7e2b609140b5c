"""One page per run: what was read, how training went, how good the answers are, what to do next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt

from cgcl.report import figures
from cgcl.report.words import FILTERS

__all__ = ["render_page"]

_MOST_NOTES = 50

# Name in run.json, name on the page, what it says, and the least number of test links for which
# it says that.
_METRICS = (
    (
        "auc",
        "AUC",
        "The chance that a link scores above an unlinked pair; guessing gives one half.",
        1,
    ),
    ("ap", "AP", "Precision averaged over all recall levels; mistakes at the top weigh most.", 1),
    ("hits@10", "Hits@10", "Links that score above the 10th highest unlinked pair.", 10),
    ("hits@50", "Hits@50", "Links that score above the 50th highest unlinked pair.", 50),
    ("hits@100", "Hits@100", "Links that score above the 100th highest unlinked pair.", 100),
    ("mrr", "MRR", "Mean of 1/rank, each link ranked against all unlinked pairs.", 1),
)


def render_page(
    run: Mapping[str, Any],
    history: Sequence[Mapping[str, Any]],
    positive: npt.ArrayLike | None,
    negative: npt.ArrayLike | None,
) -> str:
    """Return the page of a run as one HTML document that needs nothing else.

    The same arguments give the same bytes. Everything that comes from a file, names included,
    appears as text and never as markup. Without matplotlib the page has no figures and says so.

    Args:
        run: What run.json holds, and `folder`, the run folder as a shell would take it.
        history: What the run recorded about every epoch.
        positive: Scores of the test links, or None if there was no test.
        negative: Scores of the unlinked test pairs, or None if there was no test.
    """
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    links, others = _scores(positive), _scores(negative)
    has_matplotlib = _has_matplotlib()
    drawn = _draw(run, history, links, others) if has_matplotlib else {}
    notes = run["graph"].get("notes") or []
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(FILTERS)
    folder = resources.files("cgcl.report")
    template = environment.from_string(folder.joinpath("page.html.jinja").read_text("utf-8"))
    return template.render(
        run=run,
        graph=run["graph"],
        split=run["split"],
        # S704: both come from this package, where nothing unescaped goes in.
        style=Markup(folder.joinpath("page.css").read_text("utf-8")),  # noqa: S704
        figures={name: Markup(svg) for name, svg in drawn.items()},  # noqa: S704
        has_matplotlib=has_matplotlib,
        spread=_spread(links, others),
        metrics=_METRICS,
        notes=notes[:_MOST_NOTES],
        notes_left_out=max(0, len(notes) - _MOST_NOTES),
        last_consistency=_last_consistency(history),
    )


def _scores(scores: npt.ArrayLike | None) -> npt.NDArray[np.float64] | None:
    """Return scores as an array; None where there are none."""
    if scores is None:
        return None
    array = np.asarray(scores, dtype=np.float64).ravel()
    return array if array.size else None


def _has_matplotlib() -> bool:
    """Tell whether the optional dependency for figures can be imported."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return False
    return True


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
