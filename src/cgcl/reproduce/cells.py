"""From runs to the cells of a table: mean and deviation, the paper's beside them, paired tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from cgcl.compare.statistics import Difference, corrected, paired_difference, spread_of
from cgcl.methods.settings import MethodSettings
from cgcl.reproduce.described import Experiment, Row
from cgcl.reproduce.job import Job, Place
from cgcl.reproduce.record import Record
from cgcl.train.trainer import learned_nothing

__all__ = [
    "DIGITS",
    "FEWEST_TESTED",
    "METRICS",
    "REFERENCE",
    "Cell",
    "Metric",
    "Paired",
    "Table",
    "cut_note",
    "has_collapsed",
    "table_of",
]

Metric = Literal["auc", "ap"]
METRICS: tuple[Metric, ...] = ("auc", "ap")
"""What tables show, in their order."""
REFERENCE = "cgcl"
"""The row that every other one is set against."""
FEWEST_TESTED = 5
"""With fewer splits than this a difference is told without a test."""
DIGITS = 2
"""Decimals of a percentage, as the paper prints them."""
_PERCENT = 100

Runs = Sequence[tuple[Job, Record | None]]
"""The different runs of a place, each with what came out of it."""


@dataclass(frozen=True)
class Cell:
    """What a method reached on a graph, in percent."""

    place: Place
    metric: Metric
    values: tuple[float, ...]
    """One per finished run, in the order of runs."""
    asked: int
    """How many runs there are once all are finished."""
    mean: float | None
    """None without a finished run."""
    sd: float | None
    """Sample standard deviation; None with fewer than two runs."""
    published: tuple[float, float] | None
    """Mean and deviation that the paper prints for it; None if it prints none."""
    difference: float | None
    """Ours minus the published mean, both as printed."""
    caps: str = ""
    """What the method leaves out to stay affordable."""
    here: str = ""
    """Settings that differ on this graph from those of the row."""
    stopped: tuple[str, ...] = ()
    """Why trainings ended before their last epoch, a reason per run that did."""
    failed: int = 0
    """Runs that were tried and have no result."""

    @property
    def left_out(self) -> str:
        """What the method leaves out and what is set otherwise on this graph, if anything."""
        parts = [self.caps, f"on this graph {self.here}" if self.here else ""]
        return "; ".join(part for part in parts if part)


@dataclass(frozen=True)
class Paired:
    """How far the reference is ahead of another row, over the splits that both have."""

    place: Place
    """Of the other row."""
    metric: Metric
    difference: Difference
    """The reference minus the other, in percentage points."""


@dataclass(frozen=True)
class Table:
    """All that a table says, whatever it is written in."""

    experiment: Experiment
    cells: tuple[Cell, ...]
    """In the order of the experiment: protocol, share, metric, row, graph."""
    paired: tuple[Paired, ...]
    """For protocol `splits`, in the same order; empty without the reference."""
    graph_titles: Mapping[str, str]
    """By graph, its name for people."""
    epochs: int | None = None
    """What trainings were cut to; None if they were as long as described."""

    @property
    def runs(self) -> int:
        """The most runs that a cell is asked for."""
        return max((cell.asked for cell in self.cells), default=0)

    @property
    def labels(self) -> dict[str, str]:
        """By row, what it is called; what tells rows of one title apart is added to it."""
        titles = Counter(row.title for row in self.experiment.rows)
        return {
            row.name: " ".join([row.title, *row.name.split()[1:]])
            if titles[row.title] > 1
            else row.title
            for row in self.experiment.rows
        }


def table_of(
    experiment: Experiment,
    jobs: Mapping[Place, Sequence[Job]],
    found: Mapping[str, Record],
    paper: Mapping[str, Any],
    epochs: int | None = None,
) -> Table:
    """Return what is known so far; the order of `jobs` and `found` plays no part.

    Args:
        experiment: What is run.
        jobs: The part of it that is wanted, from `jobs_of`.
        found: Records by key. One without metrics counts as failed.
        paper: The published numbers, from `read_data("paper")`.
        epochs: What trainings were cut to, if they were.
    """
    rows = {row.name: row for row in experiment.rows}
    runs = {place: _runs(own, found) for place, own in jobs.items()}
    order = _order(experiment, jobs)
    # Under the name of an experiment that is no table the file may hold other things.
    printed = paper.get(experiment.name)
    published = printed if isinstance(printed, Mapping) else {}
    titles = paper.get("datasets", {})
    return Table(
        experiment=experiment,
        cells=tuple(
            _cell(place, metric, runs[place], rows[place.row], published) for place, metric in order
        ),
        paired=_corrected([own for place, metric in order for own in _paired(place, metric, runs)]),
        graph_titles={
            graph: titles.get(graph, {}).get("title", graph) for graph in experiment.graphs
        },
        epochs=epochs,
    )


def cut_note(epochs: int | None) -> str:
    """Return what a reader must know of trainings that were cut short; empty if they were not.

    Args:
        epochs: What they were cut to.
    """
    if epochs is None:
        return ""
    return f"Trained for {epochs:,} epoch{'s' if epochs > 1 else ''}, not as long as described."


def has_collapsed(record: Record) -> bool:
    """Tell whether a training broke off at chance or a loss that is not finite, or learned nothing.

    Its best epoch counts all the same.
    """
    return record.stopped is not None or learned_nothing(record.val) is not None


def _order(experiment: Experiment, places: Iterable[Place]) -> list[tuple[Place, Metric]]:
    """Return every place with every metric, in the order of the experiment."""
    rows = [row.name for row in experiment.rows]
    return sorted(
        ((place, metric) for place in places for metric in METRICS),
        key=lambda one: (
            experiment.protocols.index(one[0].protocol),
            experiment.test.index(one[0].test),
            METRICS.index(one[1]),
            rows.index(one[0].row),
            experiment.graphs.index(one[0].graph),
        ),
    )


def _runs(jobs: Sequence[Job], found: Mapping[str, Record]) -> Runs:
    # Equal jobs are one run: a formula has nothing to start from, so that all its runs on one
    # split are the same, and counting it ten times would make its deviation look measured.
    different = {job.key: job for job in jobs}
    return [(job, found.get(key)) for key, job in different.items()]


def _finished(runs: Runs, metric: Metric) -> list[tuple[Job, Record, float]]:
    """Return the runs with a result, and the result in percent."""
    return [
        (job, record, _PERCENT * record.metrics[metric])
        for job, record in runs
        if record is not None and record.metrics is not None and metric in record.metrics
    ]


def _cell(place: Place, metric: Metric, runs: Runs, row: Row, published: Mapping[str, Any]) -> Cell:
    finished = _finished(runs, metric)
    values = tuple(value for _, _, value in finished)
    spread = spread_of(values) if values else None
    printed = published.get(row.name, {}).get(place.graph, {}).get(str(place.test), {}).get(metric)
    difference = None
    if spread is not None and printed is not None:
        difference = round(round(spread.mean, DIGITS) - printed[0], DIGITS)
    return Cell(
        place=place,
        metric=metric,
        values=values,
        asked=len(runs),
        mean=None if spread is None else spread.mean,
        sd=None if spread is None else spread.sd,
        published=None if printed is None else (printed[0], printed[1]),
        difference=difference,
        caps="; ".join(sorted({record.caps for _, record, _ in finished if record.caps})),
        here=_here(row, place, runs),
        stopped=tuple(record.stopped for _, record, _ in finished if record.stopped),
        failed=sum(record is not None and record.metrics is None for _, record in runs),
    )


def _here(row: Row, place: Place, runs: Runs) -> str:
    """Say which settings the row has on this graph alone, but for what its caps tell already."""
    there = row.on.get(place.graph, {})
    names = [*there.get("settings", ()), *there.get("chosen", ())]
    return ", ".join(
        f"{name} = {getattr(job.recipe.settings, name)}"
        for job, _ in runs[:1]
        for name in names
        if not _is_told_by_caps(job.recipe.settings, name)
    )


def _is_told_by_caps(settings: MethodSettings, name: str) -> bool:
    default = replace(settings, **{name: getattr(type(settings)(), name)})
    return default.caps != settings.caps


def _paired(place: Place, metric: Metric, runs: Mapping[Place, Runs]) -> list[Paired]:
    """Return the difference of the reference to a row; empty if there is nothing to compare."""
    if place.protocol != "splits" or place.row == REFERENCE:
        return []
    ours = {
        (job.split_seed, record.split): value
        for job, record, value in _finished(runs.get(replace(place, row=REFERENCE), ()), metric)
    }
    pairs = [
        (ours[job.split_seed, record.split], value)
        for job, record, value in _finished(runs[place], metric)
        if (job.split_seed, record.split) in ours
    ]
    if not pairs:
        return []
    shares = runs[place][0][0].recipe.split
    # Whole links make n2 / n1 differ from this by less than one link's share.
    overlap = shares.test / (1 - shares.val - shares.test)
    own, others = zip(*pairs, strict=True)
    found = paired_difference(own, others, overlap)
    if len(pairs) < FEWEST_TESTED:
        found = replace(found, low=None, high=None, t=None, p=None)
    return [Paired(place, metric, found)]


def _corrected(paired: Sequence[Paired]) -> tuple[Paired, ...]:
    """Return them with p-values that allow for the number of rows on a graph (Holm)."""
    families: dict[object, list[int]] = {}
    for number, one in enumerate(paired):
        families.setdefault((one.place.graph, one.place.test, one.metric), []).append(number)
    done = list(paired)
    for family in families.values():
        differences = corrected([paired[number].difference for number in family])
        for number, difference in zip(family, differences, strict=True):
            done[number] = replace(paired[number], difference=difference)
    return tuple(done)
