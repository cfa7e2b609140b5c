"""Parts of the page of results, written from runs: nothing in them is typed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from itertools import product
from statistics import fmean

from cgcl.experiments import study, tables
from cgcl.experiments.reproduction import records_of
from cgcl.experiments.study import CellId, Record, read_experiment
from cgcl.experiments.tables import METRICS, REFERENCE, Cell, Metric, markdown_table, signed
from cgcl.methods.settings import PaperSettings
from cgcl.train.config import RunConfig
from cgcl.wording import joined

Place = tuple[str, int, Metric]
"""Graph, percent of test links and metric."""

NEAR = 0.5
"""Percentage points below the published number that still count as reproduced."""
_ABOVE, _WITHIN, _SPREAD = "above", f"within {NEAR}", "within 2 sd over splits"
_NOT_RUN, _BELOW = "not run", f"below by more than {NEAR}"
REPRODUCED = (_ABOVE, _WITHIN, _SPREAD)
"""The verdicts that count as reproduced."""
_VERDICTS = (*REPRODUCED, _BELOW, _NOT_RUN)
_EDGE = "†"
_LATE = 0.95
_SYMBOLS = {"hidden": "d_v", "lr": "r", "input_dropout": "input dropout"}


class Reproduced:
    """All experiments with what was found for them."""

    def __init__(self, found: Mapping[str, Record], chosen: study.Chosen | None = None) -> None:
        """Remember the runs.

        Args:
            found: What came out, by key.
            chosen: The settings of each graph; by default those that the grid among the runs gives.
        """
        self.found = found
        self.paper = study.read_data("paper")
        self.chosen = study.chosen_by_grid(found) if chosen is None else chosen
        # Many claims look at the same tables.
        self.places = cache(self._places)
        """An experiment by name, with its runs as far as settings have been chosen for them."""
        self.table = cache(self._table)
        """What is known of a table, by its name."""

    def _places(self, name: str) -> tuple[study.Experiment, dict[CellId, list[study.Job]]]:
        experiment, every = read_experiment(name), study.Selection()
        return experiment, study.jobs_of(experiment, every, self.chosen, only_chosen=True)

    def _table(self, name: str) -> tables.Table:
        return tables.table_of(*self.places(name), self.found, self.paper)

    def records(self, name: str, **where: str) -> list[Record]:
        """Return the finished runs of an experiment, each once, in its order.

        Args:
            name: The experiment.
            where: What their places in it have in common, all if nothing.
        """
        _, places = self.places(name)
        here = [p for p in places if all(getattr(p, own) == is_ for own, is_ in where.items())]
        return records_of({place: places[place] for place in here}, self.found)

    def title(self, graph: str) -> str:
        """Return a graph's name for people."""
        return str(self.paper["datasets"][graph]["title"])

    def printed(self, name: str) -> list[str]:
        """Return the rows of an experiment of which the paper prints numbers, if any."""
        there = self.paper.get(name)
        return [*there] if isinstance(there, Mapping) else []

    def where(self, place: CellId | Record) -> str:
        """Return the graph and the share of test links of a cell or a run."""
        return f"{self.title(place.graph)} {place.test} %"

    def missing(
        self,
        name: str,
        rows: Collection[str] | None = None,
        protocol: study.Protocol | None = None,
    ) -> tuple[int, int]:
        """Return how many runs of an experiment are missing, and how many there are in all.

        Args:
            name: The experiment.
            rows: Count these rows alone.
            protocol: Count this protocol alone.
        """
        _, places = self.places(name)
        there = total = 0
        for place, count in _planned(name).items():
            if (rows is None or place.row in rows) and protocol in (None, place.protocol):
                total += count
                there += len({job.key for job in places.get(place, ())} & self.found.keys())
        return total - there, total


@cache
def _planned(name: str) -> dict[CellId, int]:
    """Return how many different runs an experiment has in each place."""
    experiment = read_experiment(name)
    # To count runs that wait for a choice, any choice will do.
    cells = product(experiment.methods, experiment.graphs, experiment.test)
    any_choice = {
        study.choice_name(*cell): asdict(RunConfig.of(cell[0], {}).settings) for cell in cells
    }
    jobs = study.jobs_of(experiment, study.Selection(), any_choice)
    return {place: len({job.key for job in own}) for place, own in jobs.items()}


def progress(reproduced: Reproduced) -> str:
    """Return how much of each experiment has been run."""
    rows = [
        [f"`cgcl reproduce {words}`: {title}", f"{every - missing:,}", f"{every:,}"]
        for words, title, missing, every in counts_of(reproduced)
    ]
    return markdown_table(["experiment", "runs there", "runs in all"], rows)


def counts_of(reproduced: Reproduced) -> Iterator[tuple[str, str, int, int]]:
    """Yield how to ask for an experiment, its title, its missing runs and how many it has in all.

    An experiment with several protocols comes once for each.
    """
    for experiment in map(read_experiment, study.NAMES):
        for protocol in experiment.protocols:
            option = f" --protocol {protocol}" if len(experiment.protocols) > 1 else ""
            counts = reproduced.missing(experiment.name, protocol=protocol)
            yield (f"{experiment.name}{option}", experiment.title, *counts)


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
        own = reproduced.chosen.get(study.choice_name(row.method, graph, test))
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


def cells_of(
    found: tables.Table,
    row: str,
    protocol: study.Protocol = "splits",
    metrics: Collection[Metric] = ("auc",),
) -> dict[Place, Cell]:
    """Return the cells of a row by place, in the order of the table."""
    return {
        (cell.place.graph, cell.place.test, cell.metric): cell
        for cell in found.cells
        if (cell.place.row, cell.place.protocol) == (row, protocol) and cell.metric in metrics
    }


def _paper_grid(reproduced: Reproduced) -> Iterator[tuple[Record, list[tuple[float, float, str]]]]:
    """Yield the run that the paper's own grid chooses for each graph and share.

    Of all d_v and r at the authors' input dropout it has the best AUC on validation links. With
    each comes for each metric what it reached on test links, what is printed, and the verdict.
    """
    places = reproduced.places("grid")[1]
    wanted = defaultdict[tuple[str, int], list[study.Job]](list)
    for place, jobs in places.items():
        for job in jobs:
            dropout = getattr(job.recipe.settings, "input_dropout", None)
            if job.recipe.name == REFERENCE and dropout == PaperSettings.input_dropout:
                wanted[place.graph, place.test].append(job)
    for (graph, test), jobs in wanted.items():
        runs = [reproduced.found[job.key] for job in jobs if job.key in reproduced.found]
        if len(runs) < len(jobs):
            continue
        best = max(runs, key=study.validation_auc)
        printed = reproduced.paper["table1"][REFERENCE][graph][str(test)]
        cells = []
        for metric in METRICS:
            own = round(100 * (best.metrics or {})[metric], tables.DIGITS)
            cells.append((own, printed[metric][0], _verdict(own - printed[metric][0])))
        yield best, cells


def level_of_paper_grid(reproduced: Reproduced) -> str:
    """Return whether what the paper's own grid chooses comes up to the published numbers."""
    rows = [
        [
            *(reproduced.title(run.graph), f"{run.test} %", metric.upper()),
            *(tables.mean_words(printed), tables.mean_words(own), signed(own - printed), word),
            f"d_v = {run.settings['hidden']}, r = {run.settings['lr']}",
        ]
        for run, cells in _paper_grid(reproduced)
        for metric, (own, printed, word) in zip(METRICS, cells, strict=True)
    ]
    titles = ["graph", "test links", "metric", "published", "one run", "apart", "verdict", "chosen"]
    return f"{markdown_table(titles, rows)}\n\n{of_paper_grid(reproduced)}"


def of_paper_grid(reproduced: Reproduced) -> str:
    """Return how many published numbers the paper's own grid comes up to."""
    found = [*_paper_grid(reproduced)]
    verdicts = [word for _, cells in found for *_, word in cells]
    low = [
        f"{reproduced.where(run)} {metric.upper()}"
        for run, cells in found
        for metric, (*_, word) in zip(METRICS, cells, strict=True)
        if word == _BELOW
    ]
    if not verdicts:
        return "The paper's own grid has not been run."
    text = (
        "With the paper's own grid, 16 combinations of d_v and r at the authors' input dropout, of "
    )
    text += (
        f"{len(verdicts)} cells {counted(verdicts)}{f' ({joined(low)})' if low else ''}; one run "
    )
    return f"{text}for each graph and share, on a split of ours drawn with the authors' seed."


def level(reproduced: Reproduced) -> str:
    """Return whether CGCL's cells come up to the published ones, cell by cell."""
    found, rows, alone = reproduced.table("table1"), list[list[str]](), list[str]()
    paper, splits = (cells_of(found, REFERENCE, own, METRICS) for own in ("paper", "splits"))
    for place in product(found.experiment.graphs, found.experiment.test, METRICS):
        own, over = paper.get(place), splits.get(place)
        if own is not None and own.published is not None:
            head = [reproduced.title(own.place.graph), f"{own.place.test} %", own.metric.upper()]
            cells = [tables.mean_words(*own.published), _words(own), _words(over)]
            rows.append([*head, *cells, verdict_on(own, over)])
            # What the cell would be called if there were no other than the result over splits.
            alone.append(verdict_on(over, over))
    verdicts = [row[-1] for row in rows]
    summary = f"Of {len(verdicts)} cells, {counted(verdicts)}."
    if verdicts:
        summary += f" By the results over splits alone: {counted(alone)}."
    titles = ["graph", "test links", "metric", "published", "one split", "splits", "verdict"]
    return f"{markdown_table(titles, rows)}\n\n{summary}"


def level_of_others(reproduced: Reproduced) -> str:
    """Return how many cells of each other row come up to the published ones, over splits."""
    found, rows = reproduced.table("table1"), list[list[str]]()
    printed = {*reproduced.printed("table1")} - {REFERENCE}
    for row in (own for own in found.experiment.rows if own.name in printed):
        own = cells_of(found, row.name, metrics=METRICS).values()
        verdicts = [verdict_on(cell, cell) for cell in own]
        apart = [cell.difference for cell in own if cell.difference is not None]
        ends = [signed(min(apart)), signed(max(apart))] if apart else ["", ""]
        rows.append([row.title, *(str(verdicts.count(word)) for word in _VERDICTS), *ends])
    return markdown_table(["row", *_VERDICTS, "least", "most"], rows)


def unfinished(reproduced: Reproduced) -> str:
    """Return in how many runs of Table I over splits the best epoch is among the last ones."""
    experiment, rows = reproduced.places("table1")[0], list[list[str]]()
    for row in experiment.rows:
        rows.append([row.title])
        for graph in experiment.graphs:
            own = reproduced.records("table1", row=row.name, graph=graph, protocol="splits")
            late = sum(one.best_epoch > _LATE * one.epochs for one in own)
            rows[-1].append(f"{late} of {len(own)}" if own else "not run")
    return markdown_table(["", *map(reproduced.title, experiment.graphs)], rows)


def counted(verdicts: Sequence[str]) -> str:
    """Return how many cells have each verdict."""
    counts = {word: verdicts.count(word) for word in _VERDICTS if word in verdicts}
    told = ", ".join(f"{count} {word}" for word, count in counts.items())
    return told or "nothing has been run"


def _words(cell: Cell | None) -> str:
    if cell is None or cell.mean is None:
        return "not run"
    runs = "" if len(cell.values) == cell.asked else f" ({len(cell.values)} of {cell.asked} runs)"
    return f"{tables.mean_words(cell.mean, cell.sd)}{runs}"


def verdict_on(own: Cell | None, splits: Cell | None) -> str:
    """Return whether ours reaches the published number, and by which measure."""
    if own is None or own.published is None or own.difference is None:
        return _NOT_RUN
    found = _verdict(own.difference)
    if found != _BELOW or splits is None or splits.mean is None or splits.sd is None:
        return found
    return _SPREAD if own.published[0] <= splits.mean + 2 * splits.sd else _BELOW


def _verdict(difference: float) -> str:
    """Return by how much a number is apart from the published one, both as printed."""
    if round(difference, tables.DIGITS) < -NEAR:
        return _BELOW
    return _ABOVE if difference >= 0 else _WITHIN


def contradictions(reproduced: Reproduced) -> str:
    """Return what in the paper contradicts itself or is not said, by kind."""
    parts: list[str] = []
    for kind, title in reproduced.paper["kinds"].items():
        own = [one for one in reproduced.paper["contradictions"] if one["kind"] == kind]
        lines = "\n".join(f"- *{one['where']}.* {one['what']}" for one in own)
        parts.append(f"### {title}\n\n{lines}")
    return "\n\n".join(parts)


def repeats(reproduced: Reproduced) -> str:
    """Return how far apart two results of the same training are, where it was made twice."""
    pairs = defaultdict[str, dict[str, float]](dict)
    for own in reproduced.found.values():
        if own.metrics is not None:
            pairs[own.plain_key][own.key] = 100 * own.metrics["auc"]
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
