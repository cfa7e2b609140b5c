"""One page per run: what was read, how training went, how good the answers are, what to do next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cgcl.metrics import METRICS
from cgcl.report.document import filled, write_page

if TYPE_CHECKING:
    from cgcl.report.results import RunResults


def write_report(folder: Path, results: RunResults) -> Path:
    """Draw the page of a run as `report.html` in its folder and return its path.

    Raises:
        ResourceError: The disk is full.
    """
    return write_page(folder / "report.html", render_page(results))


def render_page(results: RunResults) -> str:
    """Return the page of a run as one HTML document that needs nothing else.

    The same results give the same bytes. Everything that comes from a file, names included,
    appears as text and never as markup.
    """
    suggestions = results.suggestions
    return filled(
        "page.html.jinja",
        script="links.js" if suggestions and suggestions.links else "",
        spread=_spread(results.positive, results.negative),
        last_consistency=_last_consistency(results.history),
        metrics=METRICS,
        **vars(results),
    )


def _spread(
    links: npt.NDArray[np.float64] | None, others: npt.NDArray[np.float64] | None
) -> dict[str, Any] | None:
    """Return what stands beside the histogram, of links and of others; None without scores."""
    if links is None or others is None:
        return None
    sides = (links, others)
    is_probability = all(side.min() >= 0 and side.max() <= 1 for side in sides)
    return {
        "medians": [float(np.median(side)) for side in sides],
        # One half means something for probabilities only.
        "above": [float(np.mean(side > 0.5)) for side in sides] if is_probability else None,
    }


def _last_consistency(history: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the consistency terms that were recorded last, None without a complete record."""
    for entry in reversed(history):
        terms = entry.get("consistency") or {}
        if all(isinstance(terms.get(key), float) for key in ("views", "reconstructions", "gap")):
            return terms
    return None
