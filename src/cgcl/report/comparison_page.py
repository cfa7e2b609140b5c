"""One page per comparison: the table, a chart, how it was measured, and how to repeat it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cgcl.experiments import summary as told
from cgcl.report.document import filled, write_page

if TYPE_CHECKING:
    from cgcl.experiments.summary import Summary


def write_comparison(
    folder: Path, summary: Summary, *, by_degree: bool = False, command: str = ""
) -> Path:
    """Write `comparison.html` into the folder of a comparison and return its path.

    It is one HTML document that needs nothing else and runs no script; the same arguments give the
    same bytes. Everything that comes from a file appears as text and never as markup.

    Args:
        folder: The folder.
        summary: What was found.
        by_degree: Also show AUC by degree.
        command: What repeats the comparison.

    Raises:
        ResourceError: The disk is full.
    """
    page = filled(
        "comparison_page.html.jinja",
        summary=summary,
        ours=[row.method == summary.reference for row in summary.rows],
        verdict=told.verdict(summary),
        best={title: told.best_rows(summary, name) for name, title in told.METRIC_NAMES.items()},
        columns=told.columns_of(summary, every=True),
        wordy=told.WORDY_COLUMNS,
        footnotes=told.footnotes(summary),
        degrees=told.degree_columns_of(summary) if by_degree else {},
        degree_words=told.degree_words(summary),
        protocol=told.protocol_words(summary),
        test=told.claim_words(summary),
        command=command,
    )
    return write_page(folder / "comparison.html", page)
