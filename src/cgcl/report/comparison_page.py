"""One page per comparison: the table, a chart, how it was measured, and how to repeat it."""

from __future__ import annotations

from pathlib import Path

from cgcl.experiments.summary import (
    METRIC_NAMES,
    WORDY_COLUMNS,
    Summary,
    best_rows,
    claim_words,
    columns_of,
    degree_columns_of,
    degree_words,
    footnotes,
    protocol_words,
    verdict,
)
from cgcl.files import write_atomically
from cgcl.report.document import filled
from cgcl.report.figures import chart_caption, interval_chart

PAGE = "comparison.html"


def write_comparison(
    folder: Path, summary: Summary, *, by_degree: bool = False, command: str = ""
) -> Path:
    """Write `comparison.html` into the folder of a comparison and return its path.

    Args:
        folder: The folder.
        summary: What was found.
        by_degree: Also show AUC by degree.
        command: What repeats the comparison.

    Raises:
        ResourceError: The disk is full.
    """
    path = folder / PAGE
    page = render_comparison(summary, by_degree=by_degree, command=command)
    write_atomically(path, page.encode(errors="replace"))  # a command may hold undecodable bytes
    return path


def render_comparison(summary: Summary, *, by_degree: bool = False, command: str = "") -> str:
    """Return the page as one HTML document that needs nothing else and runs no script.

    The same arguments give the same bytes. Everything that comes from a file appears as text and
    never as markup.

    Args:
        summary: What was found.
        by_degree: Also show AUC by degree.
        command: What repeats the comparison.
    """
    return filled(
        "comparison_page.html.jinja",
        {"intervals": interval_chart(summary)},
        summary=summary,
        ours=[row.method == summary.reference for row in summary.rows],
        verdict=verdict(summary),
        best={title: best_rows(summary, name) for name, title in METRIC_NAMES.items()},
        columns=columns_of(summary, every=True),
        wordy=WORDY_COLUMNS,
        footnotes=footnotes(summary),
        caption=chart_caption(summary),
        degrees=degree_columns_of(summary) if by_degree else {},
        degree_words=degree_words(summary),
        protocol=protocol_words(summary),
        test=claim_words(summary),
        command=command,
    )
