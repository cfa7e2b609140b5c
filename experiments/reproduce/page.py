"""Parts of the page of results, written from runs: nothing in them is typed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import product
from statistics import fmean

from cgcl.experiments import tables
from cgcl.experiments.reproduction import records_of
from cgcl.experiments.study import (
    CellId,
    Chosen,
    Experiment,
    Job,
    Protocol,
    Record,
    Selection,
    choice_name,
    choose,
    jobs_of,
    key_of,
    read_data,
    read_experiment,
)
from cgcl.experiments.tables import (
    METRICS,
    REFERENCE,
    Cell,
    Metric,
    Table,
    markdown_table,
    signed,
    table_of,
)
from cgcl.train.config import RunConfig

_NEAR = 0.5
"""Percentage points below the published number that still count as reproduced."""
_ABOVE, _WITHIN, _SPREAD = "above", f"within {_NEAR}", "within 2 sd over splits"
_NOT_RUN, _BELOW = "not run", f"below by more than {_NEAR}"
REPRODUCED = (_ABOVE, _WITHIN, _SPREAD)
"""The verdicts that count as reproduced."""
_VERDICTS = (*REPRODUCED, _BELOW, _NOT_RUN)
_EDGE = "†"
_LATE = 0.95
_SYMBOLS = {"hidden": "d_v", "lr": "r", "input_dropout": "input dropout"}
_KINDS = {
    "contradiction": "Contradictions",
    "error": "Errors",
    "silence": "What the paper does not say",
    "remark": "Remarks",
    "code": "In the authors' code",
}


class Reproduced:
    """All experiments with what was found for them."""

    def __init__(self, found: Mapping[str, Record], chosen: Chosen | None = None) -> None:
        """Remember the runs.

        Args:
            found: What came out, by key.
            chosen: The settings of each graph; by default those that the grid among the runs gives.
        """
        self.found = found
        self.paper = read_data("paper")
        grid = read_experiment("grid")
        whole = jobs_of(grid, Selection(), {})
        self.chosen = choose(grid, whole, found) if chosen is None else chosen
        # Many claims look at the same tables.
        self._places: dict[str, tuple[Experiment, dict[CellId, list[Job]]]] = {}
        self._tables: dict[str, Table] = {}

    def places(self, name: str) -> tuple[Experiment, dict[CellId, list[Job]]]:
        """Return an experiment and its runs, as far as settings have been chosen for them."""
        if name not in self._places:
            experiment = read_experiment(name)
            jobs = jobs_of(experiment, Selection(), self.chosen, only_chosen=True)
            self._places[name] = (experiment, jobs)
        return self._places[name]

    def table(self, name: str) -> Table:
        """Return what is known of a table."""
        if name not in self._tables:
            self._tables[name] = table_of(*self.places(name), self.found, self.paper)
        return self._tables[name]

    def title(self, graph: str) -> str:
        """Return a graph's name for people."""
        return str(self.paper["datasets"][graph]["title"])

    def where(self, place: CellId | Record) -> str:
        """Return the graph and the share of test links of a cell or a run."""
        return f"{self.title(place.graph)} {place.test} %"

    def missing(
        self,
        name: str,
        rows: Collection[str] | None = None,
        protocol: Protocol | None = None,
    ) -> tuple[int, int]:
        """Return how many runs of an experiment are missing, and how many there are in all.

        Args:
            name: The experiment.
            rows: Count these rows alone.
            protocol: Count this protocol alone.
        """
        experiment, places = self.places(name)
        # To count runs that wait for a choice, any choice will do.
        any_choice = {
            choice_name(row.method, graph, test): asdict(RunConfig.of(row.method, {}).settings)
            for row in experiment.rows
            for graph in experiment.graphs
            for test in experiment.test
        }
        there = total = 0
        for place, jobs in jobs_of(experiment, Selection(), any_choice).items():
            if (rows is None or place.row in rows) and protocol in (None, place.protocol):
                total += len({job.key for job in jobs})
                there += len({job.key for job in places.get(place, ())} & self.found.keys())
        return total - there, total


def progress(reproduced: Reproduced, names: Sequence[str]) -> str:
    """Return how much of each experiment has been run."""
    rows = [
        [f"`cgcl reproduce {words}`: {title}", f"{every - missing:,}", f"{every:,}"]
        for words, title, missing, every in counts_of(reproduced, names)
    ]
    return markdown_table(["experiment", "runs there", "runs in all"], rows)


def counts_of(reproduced: Reproduced, names: Sequence[str]) -> Iterator[tuple[str, str, int, int]]:
    """Yield how to ask for an experiment, its title, its missing runs and how many it has in all.

    An experiment with several protocols comes once for each.
    """
    for name in names:
        experiment = read_experiment(name)
        for protocol in experiment.protocols:
            option = f" --protocol {protocol}" if len(experiment.protocols) > 1 else ""
            counts = reproduced.missing(name, protocol=protocol)
            yield (f"{name}{option}", experiment.title, *counts)


def table(reproduced: Reproduced, name: str) -> str:
    """Return a table of the paper as Markdown, one level below a heading of the page."""
    found = reproduced.table(name)
    if not any(cell.values for cell in found.cells):
        return "Not run yet."
    _, _, body = tables.markdown(found).partition("\n")
    return body.replace("\n#", "\n##").strip()


def choices(reproduced: Reproduced) -> str:
    """Return which settings were chosen for each method and graph, and by what."""
    grid, lines = read_experiment("grid"), list[list[str]]()
    rows = {row.method: row for row in grid.rows}
    for row, graph, test in product(rows.values(), grid.graphs, grid.test):
        own = reproduced.chosen.get(choice_name(row.method, graph, test))
        if own is None:
            continue
        parts = []
        for name in row.searched:
            tried = [one.settings[name] for one in grid.rows if one.method == row.method]
            mark = _EDGE if own[name] in (min(tried), max(tried)) else ""
            parts.append(f"{_SYMBOLS.get(name, name)} = {own[name]}{mark}")
        ends = [f"{100 * own['val_auc']:.2f}", str(own["runs"])]
        lines.append([row.title, reproduced.title(graph), f"{test} %", ", ".join(parts), *ends])
    head = ["method", "graph", "test links", "chosen", "AUC on validation links, percent"]
    text = markdown_table([*head, "runs of the grid"], lines)
    if _EDGE not in text:
        return text
    note = "The smallest or the largest value that was tried: one beyond it was not."
    return f"{text}\n\n{_EDGE} {note}"


def own_cells(found: Table) -> dict[tuple[Protocol, str, int, Metric], Cell]:
    """Return CGCL's cells of a table by protocol, graph, share of test links and metric."""
    return {
        (cell.place.protocol, cell.place.graph, cell.place.test, cell.metric): cell
        for cell in found.cells
        if cell.place.row == REFERENCE
    }


def level(reproduced: Reproduced) -> str:
    """Return whether CGCL's cells come up to the published ones, cell by cell."""
    found = reproduced.table("table1")
    by_place = own_cells(found)
    rows: list[list[str]] = []
    verdicts: list[str] = []
    alone: list[str] = []
    for graph, test, metric in product(found.experiment.graphs, found.experiment.test, METRICS):
        own = by_place.get(("paper", graph, test, metric))
        if own is not None and own.published is not None:
            splits = by_place.get(("splits", graph, test, metric))
            verdicts.append(verdict_on(own, splits))
            cells = ["{:.2f} ± {:.2f}".format(*own.published), _words(own), _words(splits)]
            head = [reproduced.title(graph), f"{test} %", metric.upper()]
            rows.append([*head, *cells, verdicts[-1]])
            # What the cell would be called if there were no other than the result over splits.
            alone.append(_NOT_RUN if splits is None else verdict_on(splits, splits))
    summary = f"Of {len(verdicts)} cells, {counted(verdicts)}."
    if verdicts:
        summary += f" By the results over splits alone: {counted(alone)}."
    titles = ["graph", "test links", "metric", "published", "one split", "splits", "verdict"]
    return f"{markdown_table(titles, rows)}\n\n{summary}"


def level_of_others(reproduced: Reproduced) -> str:
    """Return how many cells of each other row come up to the published ones, over splits."""
    found, rows = reproduced.table("table1"), list[list[str]]()
    for row in (own for own in found.experiment.rows if own.name != REFERENCE):
        places = (row.name, "splits")
        own = [cell for cell in found.cells if (cell.place.row, cell.place.protocol) == places]
        verdicts = [verdict_on(cell, cell) for cell in own]
        apart = [cell.difference for cell in own if cell.difference is not None]
        ends = [signed(min(apart)), signed(max(apart))] if apart else ["", ""]
        rows.append([row.title, *(str(verdicts.count(word)) for word in _VERDICTS), *ends])
    return markdown_table(["row", *_VERDICTS, "least", "most"], rows)


def unfinished(reproduced: Reproduced) -> str:
    """Return in how many runs of Table I over splits the best epoch is among the last ones."""
    experiment, places = reproduced.places("table1")
    rows: list[list[str]] = []
    for row in experiment.rows:
        rows.append([row.title])
        for graph in experiment.graphs:
            here = {
                place: jobs
                for place, jobs in places.items()
                if (place.row, place.graph, place.protocol) == (row.name, graph, "splits")
            }
            own = records_of(here, reproduced.found)
            late = sum(one.best_epoch > _LATE * one.epochs for one in own)
            rows[-1].append(f"{late} of {len(own)}")
    return markdown_table(["", *map(reproduced.title, experiment.graphs)], rows)


def counted(verdicts: Sequence[str]) -> str:
    """Return how many cells have each verdict."""
    counts = {word: verdicts.count(word) for word in _VERDICTS if word in verdicts}
    told = ", ".join(f"{count} {word}" for word, count in counts.items())
    return told or "nothing has been run"


def _words(cell: Cell | None) -> str:
    if cell is None or cell.mean is None:
        return "not run"
    spread = "" if cell.sd is None else f" ± {cell.sd:.2f}"
    runs = "" if len(cell.values) == cell.asked else f" ({len(cell.values)} of {cell.asked} runs)"
    return f"{cell.mean:.2f}{spread}{runs}"


def verdict_on(own: Cell, splits: Cell | None) -> str:
    """Return whether ours reaches the published number, and by which measure."""
    if own.mean is None or own.published is None or own.difference is None:
        return _NOT_RUN
    if own.difference >= 0:
        return _ABOVE
    if own.difference >= -_NEAR:
        return _WITHIN
    if splits is None or splits.mean is None or splits.sd is None:
        return _BELOW
    return _SPREAD if own.published[0] <= splits.mean + 2 * splits.sd else _BELOW


def contradictions(reproduced: Reproduced) -> str:
    """Return what in the paper contradicts itself or is not said, by kind."""
    parts: list[str] = []
    for kind, title in _KINDS.items():
        own = [one for one in reproduced.paper["contradictions"] if one["kind"] == kind]
        lines = "\n".join(f"- *{one['where']}.* {one['what']}" for one in own)
        parts.append(f"### {title}\n\n{lines}")
    return "\n\n".join(parts)


def repeats(reproduced: Reproduced) -> str:
    """Return how far apart two results of the same training are, where it was made twice."""
    pairs: dict[str, dict[str, float]] = {}
    for own in reproduced.found.values():
        if own.metrics is not None:
            about = (own.graph, own.test, own.method, own.settings, own.split_seed, own.seed)
            pairs.setdefault(key_of(*about, ()), {})[own.key] = 100 * own.metrics["auc"]
    apart = [max(own.values()) - min(own.values()) for own in pairs.values() if len(own) > 1]
    if not apart:
        return "No training was made twice."
    return (
        f"{len(apart)} trainings were made twice, once with something measured besides: their AUC "
        f"is {fmean(apart):.2f} apart on average, {max(apart):.2f} at most."
    )


def budget(reproduced: Reproduced) -> str:
    """Return how many runs each method had and how long they took, on each device."""
    runs, hours = Counter[str](), defaultdict[tuple[str, str], float](float)
    for record in _runs(reproduced):
        runs[record.method] += 1
        hours[record.method, record.device] += record.seconds / 3600
    places = sorted({device for _, device in hours})
    rows = [
        [row.title, f"{runs[row.method]:,}", *(f"{hours[row.method, own]:.1f}" for own in places)]
        for row in read_experiment("table1").rows
        if runs[row.method]
    ]
    return markdown_table(["method", "runs", *(f"hours on {own}" for own in places)], rows)


def _runs(reproduced: Reproduced) -> list[Record]:
    """Return each run once: one with a measure may be found under two keys."""
    return [*{record.key: record for record in reproduced.found.values()}.values()]


def devices(reproduced: Reproduced) -> str:
    """Return where the runs were made."""
    places = Counter[str]()
    for record in _runs(reproduced):
        where = f"{record.device}, torch {record.versions.get('torch')}"
        if record.device != "cpu" and "triton" in record.versions:
            where += f", Triton {record.versions['triton']}"
        places[where] += 1
    return "\n".join(f"- {count:,} runs on {where}" for where, count in sorted(places.items()))
