"""One page per comparison: the table, a chart, how it was measured, and how to repeat it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

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
from cgcl.report.interval_chart import chart_caption, interval_chart

__all__ = ["PAGE", "render_comparison", "write_comparison"]

PAGE = "comparison.html"


@dataclass(frozen=True)
class _Column:
    """A column of a table on the page."""

    name: str
    cells: Sequence[str]
    best: frozenset[int] = frozenset()
    """The rows that share the best mean."""

    @property
    def is_number(self) -> bool:
        return self.name not in WORDY_COLUMNS


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
    best = {METRIC_NAMES[name]: best_rows(summary, name) for name in METRIC_NAMES}
    columns = columns_of(summary, every=True)
    degrees = degree_columns_of(summary) if by_degree else {}
    test = claim_words(summary)
    return filled(
        "comparison_page.html.jinja",
        {"intervals": interval_chart(summary)},
        graph=summary.graph,
        plan=summary.plan,
        rows=summary.rows,
        ours=[row.method == summary.reference for row in summary.rows],
        is_complete=summary.is_complete,
        is_tested=bool(test),
        verdict=verdict(summary),
        metrics=_columns(columns, ("method", *best), best),
        costs=_columns(columns, [name for name in columns if name not in best]),
        footnotes=footnotes(summary),
        caption=chart_caption(summary),
        degrees=_columns(degrees, degrees),
        degree_words=degree_words(summary),
        protocol=protocol_words(summary),
        test=test,
        machines=summary.machines,
        versions=summary.versions,
        command=command,
        contents=_contents(by_degree),
    )


def _columns(
    cells: Mapping[str, Sequence[str]],
    names: Iterable[str],
    best: Mapping[str, frozenset[int]] = MappingProxyType({}),
) -> list[_Column]:
    """Return those of the named columns that there are."""
    return [_Column(n, cells[n], best.get(n, frozenset())) for n in names if n in cells]


def _contents(by_degree: bool) -> list[tuple[str, str]]:
    """Return id and title of the sections that the page has."""
    sections = (
        ("table", "Results", True),
        ("chart", "Chart", True),
        ("degree", "By degree", by_degree),
        ("protocol", "How it was measured", True),
        ("settings", "Settings", True),
        ("machine", "Versions", True),
        ("reproduce", "Again", True),
    )
    return [(section, title) for section, title, is_there in sections if is_there]
