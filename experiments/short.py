"""The cells of Table I in which a row stays below the paper, and what it reaches elsewhere.

Written from the runs of `cgcl reproduce table1` and of equal.py. CGCL's own cells have a table of
their own.
"""

from __future__ import annotations

from collections.abc import Iterator

import equal
import run
from cgcl.experiments.statistics import spread_of
from cgcl.experiments.tables import DIGITS, METRICS, REFERENCE, Cell, mean_words
from reproduce.page import NEAR, Reproduced, cells_of
from run import percent, table

NAMES = SPLITS, ONCE, ALIKE, AUTHORS = (
    "Table I, splits",
    "Table I, one split",
    "searched alike",
    "authors' choice",
)
_WHOLE = 10
"""So many runs a cell has."""
Reached = dict[str, tuple[float, float | None, int]]
"""By these names: mean and deviation of a cell, and of how many runs, where it was run."""


def short(reproduced: Reproduced) -> Iterator[tuple[str, Cell, Reached]]:
    """Yield the title of a row, its short cell over splits, and what it reaches in every table."""
    found, tested = reproduced.table("table1"), ((ALIKE, "run"), (AUTHORS, "choice"))
    alike = [(name, equal.runs_there(stage)) for name, stage in tested]
    for row in (own for own in found.experiment.rows if own.name != REFERENCE):
        once = cells_of(found, row.name, "paper", METRICS)
        for place, cell in sorted(cells_of(found, row.name, "splits", METRICS).items()):
            if cell.difference is None or cell.mean is None or cell.difference >= -NEAR:
                continue
            reached: Reached = {SPLITS: (cell.mean, cell.sd, len(cell.values))}
            if (mean := once[place].mean) is not None:
                reached[ONCE] = mean, once[place].sd, len(once[place].values)
            for name, runs in alike:
                if values := percent(runs.get((*place[:2], row.method), []), cell.metric):
                    spread = spread_of(values)
                    reached[name] = spread.mean, spread.sd, len(values)
            yield row.title, cell, reached


def _own(cell: Cell) -> str:
    """Return what a row's own authors publish for a cell of 10 % test links, if they do."""
    told = run.described("published").get(cell.place.row, {}).get(cell.place.row, {})
    values = told.get(cell.place.graph, []) if cell.place.test == 10 else []
    return "".join(
        f"{own:.{DIGITS}f}"
        for name, own in zip(METRICS, values, strict=False)
        if name == cell.metric
    )


def short_table(reproduced: Reproduced) -> str:
    """Each short cell, what it reaches in every table, and where it is no longer short."""
    rows: list[list[str]] = []
    for title, cell, reached in short(reproduced):
        assert cell.published is not None
        least = round(cell.published[0] - NEAR, DIGITS)
        near = [name for name, (mean, *_) in reached.items() if round(mean, DIGITS) >= least]
        place = [reproduced.title(cell.place.graph), f"{cell.place.test} %", cell.metric.upper()]
        cells = [_words(*reached[name]) if name in reached else "" for name in NAMES]
        rows.append([title, *place, mean_words(*cell.published), _own(cell), *cells])
        rows[-1].append(", ".join(near) or "none")
    head = "row | graph | test links | metric | published | by its own authors"
    head = " | ".join([head, *NAMES, "reached in"])
    ended = sum(row[-1] != "none" for row in rows)
    note = (
        f"Reached: within {NEAR} of print or above; {ended} of {len(rows)} cells in some table. "
        f"{ONCE}, is one split in {_WHOLE} runs and says less than splits. In brackets: how many "
        f"runs, where there are fewer."
    )
    return table(head, rows, note)


def _words(mean: float, sd: float | None, count: int) -> str:
    return mean_words(mean, sd) + ("" if count >= _WHOLE else f" ({count})")
