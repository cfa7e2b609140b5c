"""Tables of results: words for numbers, Markdown, CSV, TOML, LaTeX, and the tables of a study.

A study's table sets means beside the published ones and tests rows against CGCL. The same results
give the same bytes: nothing here knows a time, a date or a machine.
"""

from __future__ import annotations

import io
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from csv import writer
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Literal

from cgcl.experiments.statistics import (
    CONFIDENCE,
    LEVEL,
    Difference,
    common_difference,
    corrected,
    spread_of,
)
from cgcl.experiments.study import CellId, Experiment, Job, Protocol, Record, Row, family
from cgcl.train.trainer import learned_nothing
from cgcl.wording import counted, shown

NOTHING = "\N{EN DASH}"
"""Stands where there is nothing to say."""


def signed(number: float, digits: int = 2) -> str:
    """Return a number with its sign; with none if it is printed as zero.

    Example:
        >>> signed(0.126), signed(-0.126), signed(-0.001)
        ('+0.13', '-0.13', '0.00')
    """
    text = f"{number:+.{digits}f}"
    return text if float(text) else text[1:]


def mean_words(mean: float, sd: float | None = None) -> str:
    """Return a mean with its deviation, if it has one.

    Example:
        >>> mean_words(96.414, 0.711), mean_words(96.414)
        ('96.41 ± 0.71', '96.41')
    """
    return f"{mean:.{DIGITS}f}" + ("" if sd is None else f" ± {sd:.{DIGITS}f}")


def p_words(found: Difference | None) -> str:
    """Return a corrected p-value, or a dash where there is none."""
    return p_text(None if found is None else found.adjusted_p)


def p_text(p: float | None) -> str:
    """Return a p-value as it is printed, or a dash where there is none."""
    if p is None:
        return NOTHING
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def behind_words(found: Difference) -> str:
    """Return all that there is to say of a difference that is below zero.

    Example:
        >>> behind_words(Difference(10, -0.25, 0.2, -0.4, -0.1, -2.8, 0.02, 0.31, lost=9))
        '-0.25, 9 of 10 splits lost, p 0.020 alone, 0.310 in the family'
    """
    words = f"{signed(found.mean)}, {found.lost} of {found.runs} splits lost"
    return (
        words
        if found.p is None
        else f"{words}, p {p_text(found.p)} alone, {p_words(found)} in the family"
    )


def markdown_table(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers: Container[str] = (),
    is_padded: bool = False,
) -> str:
    """Return a table of a page.

    Args:
        head: The titles of its columns.
        rows: A cell for each column.
        numbers: The columns that are aligned on the right.
        is_padded: Whether it is to be read as it stands, too.

    Example:
        >>> print(markdown_table(["graph", "AUC"], [["Cora", "97.0"]], numbers=["AUC"]))
        | graph | AUC |
        | --- | ---: |
        | Cora | 97.0 |
    """
    lines = [head, ["---:" if name in numbers else "---" for name in head], *rows]
    if is_padded:
        widths = [max(len(row[n]) for row in (head, *lines[2:])) for n in range(len(head))]
        lines[1] = ["-" * width for width in widths]
        lines = [[c.ljust(w) for c, w in zip(row, widths, strict=True)] for row in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def csv_text(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    r"""Return rows as CSV; None becomes an empty cell.

    Example:
        >>> csv_text(["a", "b"], [[1, None]])
        'a,b\n1,\n'
    """
    file = io.StringIO()
    lines = writer(file, lineterminator="\n")
    lines.writerow(head)
    lines.writerows(rows)
    return file.getvalue()


def toml_text(tables: Mapping[str, Mapping[str, Any]], head: Iterable[str] = ()) -> str:
    """Return tables of plain values as TOML.

    Args:
        tables: By name.
        head: Lines of comment for its beginning.
    """
    # A comment stays on its line, and every file can hold it.
    lines = [f"# {shown(line, limit=sys.maxsize)}" for line in head]
    for name, values in tables.items():
        lines += ["", f"[{name}]", *(f"{key} = {_in_toml(own)}" for key, own in values.items())]
    return "\n".join(lines) + "\n"


def _in_toml(value: bool | int | float | str) -> str:
    if isinstance(value, str | bool):
        # TOML escapes as JSON does, and the one control character more that JSON leaves alone.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)


Metric = Literal["auc", "ap"]
METRICS: tuple[Metric, ...] = ("auc", "ap")
"""What tables show, in their order."""
REFERENCE = "cgcl"
"""The row that every other one is set against."""
DIGITS = 2
"""Decimals of a percentage, as the paper prints them."""
_PERCENT = 100

Runs = Sequence[tuple[Job, Record | None]]
"""The different runs of a place, each with what came out of it."""


@dataclass(frozen=True)
class Cell:
    """What a method reached on a graph, in percent."""

    place: CellId
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

    place: CellId
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
        rows = self.experiment.rows
        titles = Counter(row.title for row in rows)
        apart = {row.name: row.name.split()[1:] if titles[row.title] > 1 else [] for row in rows}
        return {row.name: " ".join([row.title, *apart[row.name]]) for row in rows}


def table_of(
    experiment: Experiment,
    jobs: Mapping[CellId, Sequence[Job]],
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
    order = [
        (place, metric)
        for protocol, test, metric in product(experiment.protocols, experiment.test, METRICS)
        for row, graph in product(experiment.rows, experiment.graphs)
        if (place := CellId(row.name, graph, test, protocol)) in jobs
    ]
    # Under the name of an experiment that is no table the file may hold other things.
    printed = paper.get(experiment.name)
    published = printed if isinstance(printed, Mapping) else {}
    about = paper.get("datasets", {})
    titles = {graph: about.get(graph, {}).get("title", graph) for graph in experiment.graphs}
    cells = [_cell(place, own, runs[place], rows[place.row], published) for place, own in order]
    return Table(experiment, tuple(cells), _paired(order, runs), titles, epochs)


def cut_note(epochs: int | None) -> str:
    """Return what a reader must know of trainings that were cut short; empty if they were not.

    Args:
        epochs: What they were cut to.
    """
    if epochs is None:
        return ""
    return f"Trained for {counted(epochs, 'epoch')}, not as long as described."


def has_collapsed(record: Record) -> bool:
    """Tell whether a training broke off at chance or a loss that is not finite, or learned nothing.

    Its best epoch counts all the same.
    """
    is_cut = record.stopped not in (None, "no better epoch")
    return is_cut or learned_nothing(record.val) is not None


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


def _cell(
    place: CellId, metric: Metric, runs: Runs, row: Row, published: Mapping[str, Any]
) -> Cell:
    finished = _finished(runs, metric)
    records, values = [record for _, record, _ in finished], tuple(own for *_, own in finished)
    spread = spread_of(values) if values else None
    printed = published.get(row.name, {}).get(place.graph, {}).get(str(place.test), {}).get(metric)
    difference = None
    if spread is not None and printed is not None:
        difference = round(round(spread.mean, DIGITS) - printed[0], DIGITS)
    return Cell(
        place,
        metric,
        values,
        asked=len(runs),
        mean=None if spread is None else spread.mean,
        sd=None if spread is None else spread.sd,
        published=printed and (printed[0], printed[1]),
        difference=difference,
        caps="; ".join(sorted({record.caps for record in records if record.caps})),
        here=_here(row, place, runs),
        stopped=tuple(record.stopped for record in records if record.stopped),
        failed=sum(record is not None and record.metrics is None for _, record in runs),
    )


def _here(row: Row, place: CellId, runs: Runs) -> str:
    """Say which settings the row has on this graph alone, but for what its caps tell already."""
    there, settings = row.on.get(place.graph, {}), runs[0][0].recipe.settings
    plain = type(settings)()
    told: list[str] = []
    for name in (*there.get("settings", ()), *there.get("chosen", ())):
        if replace(settings, **{name: getattr(plain, name)}).caps == settings.caps:
            told.append(f"{name} = {getattr(settings, name)}")
    return ", ".join(told)


def _ahead(place: CellId, metric: Metric, runs: Mapping[CellId, Runs]) -> Difference | None:
    """Return how far the reference is ahead of a row; None if there is nothing to compare."""
    if place.protocol != "splits" or place.row == REFERENCE:
        return None
    ours, others = (
        {(job.split_seed, record.split): value for job, record, value in _finished(own, metric)}
        for own in (runs.get(replace(place, row=REFERENCE), ()), runs[place])
    )
    shares = runs[place][0][0].recipe.split
    # Whole links make n2 / n1 differ from this by less than one link's share.
    found = common_difference(ours, others, shares.test / (1 - shares.val - shares.test))
    return found and found.untested(family().fewest_splits)


def _paired(
    order: Iterable[tuple[CellId, Metric]], runs: Mapping[CellId, Runs]
) -> tuple[Paired, ...]:
    """Return all differences, with p-values that allow for the number of all of them (Holm)."""
    found = {key: own for key in order if (own := _ahead(*key, runs)) is not None}
    tested = zip(found, corrected([*found.values()]), strict=True)
    return tuple(Paired(place, metric, own) for (place, metric), own in tested)


_PROTOCOLS: Mapping[Protocol, str] = {
    "paper": "One split for all runs, which differ in their first weights",
    "splits": "A split for each run, the same for every row",
}
_COLUMNS = (
    *("experiment", "protocol", "test", "graph", "row", "method", "metric", "runs", "mean", "sd"),
    *("published_mean", "published_sd", "difference", "caps", "cut_to_epochs"),
)
# Stands for where a cell has what its number is set against.
_WHERE = "{where}"
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
# A less-than sign is one as long as nothing like a tag follows.
_MARKDOWN = re.compile(r"([\\|*`]|<(?=[A-Za-z/!?]))")
_NUMBER = re.compile(r"([+-]?\d+\.\d+)")
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
    # In the text font of plain LaTeX these are other characters.
    **{character: f"${character}$" for character in "<>|"},
    # At the start of a line these would belong to the end of the line before.
    **{character: f"{{{character}}}" for character in "[*"},
    "±": r"$\pm$",
    NOTHING: "--",
}


@dataclass(frozen=True)
class _Entry:
    """What stands where a row and a column meet, or at the head of a row."""

    first: str
    """A number, or words in its place."""
    sd: str = ""
    rest: tuple[str, ...] = ()
    """What it is set against."""
    is_bold: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Grid:
    """A table of one metric."""

    head: tuple[str, ...]
    """The metric, then the graphs."""
    rows: tuple[tuple[_Entry, ...], ...]
    """The head of each row, then an entry for each graph."""
    not_run: tuple[str, ...] = ()
    """Rows that are left out because nothing of them was run, where something of others was."""

    @property
    def notes(self) -> list[str]:
        """The footnotes, as one reads."""
        return [note for row in self.rows for entry in row for note in entry.notes]


@dataclass(frozen=True)
class _Section:
    """The tables of a protocol and a share of test links, one for each metric."""

    protocol: Protocol
    title: str
    explained: str
    """What its numbers are."""
    grids: tuple[_Grid, ...]


def csv(table: Table) -> str:
    """Return a line for each cell, with all numbers in percent."""
    methods = {row.name: row.method for row in table.experiment.rows}
    rows: list[list[Any]] = []
    for cell in table.cells:
        place, own = cell.place, (cell.mean, cell.sd, *(cell.published or (None, None)))
        about = [table.experiment.name, place.protocol, place.test, place.graph, place.row]
        numbers = ["" if o is None else mean_words(o) for o in (*own, cell.difference)]
        counts = [methods[place.row], cell.metric, len(cell.values)]
        rows.append([*about, *counts, *numbers, cell.left_out, table.epochs])
    return csv_text(_COLUMNS, rows)


def markdown(table: Table) -> str:
    """Return tables with methods as rows and graphs as columns, and what explains them."""
    sections = _sections(table)
    numbers = _numbered(sections)
    parts = [f"# {_in_markdown(table.experiment.title)}"]
    if table.epochs is not None:
        parts.append(_in_markdown(cut_note(table.epochs)))
    for before, section in zip([None, *sections], sections, strict=False):
        if before is None or section.protocol != before.protocol:
            parts.append(f"## {_PROTOCOLS[section.protocol]} (`{section.protocol}`)")
        parts.append(f"### {_in_markdown(section.title)}")
        parts += [_markdown_grid(grid, numbers) for grid in section.grids]
        parts.append(_in_markdown(section.explained.replace(_WHERE, "in brackets")))
        used = [f"- {_raised(n)} {_in_markdown(o)}" for n, o in _used(section.grids, numbers)]
        parts += ["\n".join(used)] if used else []
    return "\n\n".join(parts) + "\n"


def latex(table: Table) -> str:
    r"""Return floats to `\input` in a document that loads `booktabs`."""
    sections = _sections(table)
    numbers = _numbered(sections)
    parts = [f"% {_in_latex(table.experiment.title)}\n% In the preamble: \\usepackage{{booktabs}}"]
    for section in sections:
        explained = section.explained.replace(_WHERE, "below it")
        for grid in section.grids:
            what = f"{grid.head[0]}: {section.title}. {_PROTOCOLS[section.protocol]}."
            caption = " ".join([what, explained, cut_note(table.epochs)]).rstrip()
            parts.append(_latex_grid(grid, caption, numbers))
    return "\n\n".join(parts) + "\n"


def _sections(table: Table) -> list[_Section]:
    """Return the tables in order: for each protocol the results, then the differences."""
    of = table.experiment
    sections: list[_Section] = []
    for protocol, found, test in product(of.protocols, (table.cells, table.paired), of.test):
        here = [one for one in found if (one.place.protocol, one.place.test) == (protocol, test)]
        metrics = dict.fromkeys(one.metric for one in here)
        grids = [_grid(table, [one for one in here if one.metric == own]) for own in metrics]
        if grids:
            title = f"{test} % test links, {test / 2:g} % to choose the epoch by"
            if found is table.paired:
                title = f"{table.labels[REFERENCE]} minus each other row, {test} % test links"
            explained = _explained(table, grids, are_results=found is table.cells)
            sections.append(_Section(protocol, title, explained, tuple(grids)))
    return sections


def _grid(table: Table, found: Sequence[Cell | Paired]) -> _Grid:
    there = {one.place.graph for one in found}
    graphs = [graph for graph in table.experiment.graphs if graph in there]
    labels, best = table.labels, _best(found)
    rows: list[tuple[_Entry, ...]] = []
    by_row: dict[str, dict[str, Cell | Paired]] = defaultdict(dict)
    for one in found:
        by_row[one.place.row][one.place.graph] = one
    run = {one.place.row for one in found if isinstance(one, Paired) or one.values or one.failed}
    left_out = [name for name in by_row if run and name not in run]
    for name, own in by_row.items():
        if name in left_out:
            continue
        notes = {graph: _notes(one, table, labels[name]) for graph, one in own.items()}
        # What holds wherever the row has a result is said once, at its head.
        told = [set(notes[g]) for g, o in own.items() if isinstance(o, Paired) or o.values]
        common = set.intersection(*told) if told else set()
        flat = dict.fromkeys(note for there in notes.values() for note in there if note in common)
        entries = [_Entry(labels[name], notes=tuple(flat))]
        for graph in graphs:
            left = tuple(note for note in notes.get(graph, ()) if note not in common)
            entries.append(_entry(own.get(graph), best, left))
        rows.append(tuple(entries))
    head = (found[0].metric.upper(), *(table.graph_titles[graph] for graph in graphs))
    return _Grid(head, tuple(rows), tuple(labels[name] for name in left_out))


def _best(found: Sequence[Cell | Paired]) -> dict[str, float]:
    """Return by graph the best mean as printed, where there are several to choose from."""
    means: dict[str, list[float]] = {}
    for one in found:
        if isinstance(one, Cell) and one.mean is not None:
            means.setdefault(one.place.graph, []).append(round(one.mean, DIGITS))
    return {graph: max(own) for graph, own in means.items() if len(own) > 1}


def _entry(one: Cell | Paired | None, best: Mapping[str, float], notes: tuple[str, ...]) -> _Entry:
    if one is None:
        return _Entry(NOTHING)
    if isinstance(one, Paired):
        adjusted = one.difference.adjusted_p
        is_clear = adjusted is not None and adjusted < LEVEL
        words = _test_words(one.difference)
        return _Entry(signed(one.difference.mean), rest=words, is_bold=is_clear, notes=notes)
    printed = [] if one.published is None else [mean_words(one.published[0])]
    if one.difference is not None:
        printed.append(signed(one.difference))
    rest = (f"({', '.join(printed)})",) if printed else ()
    if one.mean is None:
        return _Entry("failed" if one.failed else "not run", rest=rest)
    sd = "" if one.sd is None else mean_words(one.sd)
    is_best = round(one.mean, DIGITS) == best.get(one.place.graph)
    return _Entry(mean_words(one.mean), sd, rest, is_best, notes)


def _test_words(found: Difference) -> tuple[str, ...]:
    """Return the interval and the corrected p of a difference, as far as there are any."""
    if found.low is None or found.high is None:
        return ()
    words, p = [f"({signed(found.low)} to {signed(found.high)})"], p_words(found)
    if p != NOTHING:
        words.append(f"p < {p[1:]}" if p.startswith("<") else f"p = {p}")
    return tuple(words)


def _notes(one: Cell | Paired, table: Table, label: str) -> tuple[str, ...]:
    """Return what a reader has to know about an entry."""
    if isinstance(one, Paired):
        runs = one.difference.runs
        return () if runs == table.runs else (f"Over {runs} of {table.runs} splits.",)
    done = len(one.values)
    notes = [f"{label}: {one.left_out}."] if one.left_out else []
    if 0 < done < table.runs:
        so_far = " so far" if done < one.asked else ""
        failed = f", {one.failed} failed" if one.failed else ""
        wanted = f"; {one.asked if so_far else 'no more'} are asked for"
        fewer = wanted if one.asked < table.runs else ""
        notes.append(f"{done} of {table.runs} runs{so_far}{failed}{fewer}.")
    for reason, number in sorted(Counter(one.stopped).items()):
        early = f"{number} of {done} runs ended before the last epoch: {reason}."
        notes.append(f"{early} The best epoch counts.")
    return tuple(notes)


def _explained(table: Table, grids: Sequence[_Grid], *, are_results: bool) -> str:
    """Say what the numbers are, and how differences are tested."""
    entries = [entry for grid in grids for row in grid.rows for entry in row]
    is_dashed = any(entry.first == NOTHING for entry in entries)
    if are_results:
        over = f"mean ± standard deviation over {table.runs} runs" if table.runs > 1 else "one run"
        is_published = any(cell.published for cell in table.cells)
        published = f"; {_WHERE} what the paper prints, and ours minus that" if is_published else ""
        not_run = dict.fromkeys(label for grid in grids for label in grid.not_run)
        told = {
            f"Percent, {over}{published}.": True,
            "Bold: the best of ours in a column, as printed.": any(own.is_bold for own in entries),
            "A dash: not planned.": is_dashed,
            f"Not run: {', '.join(not_run)}.": bool(not_run),
        }
    else:
        ours = table.labels[REFERENCE]
        count = sum(one.difference.p is not None for one in table.paired)
        tests = (
            f"{100 * CONFIDENCE:g} % intervals and p of paired t-tests allow for training links "
            f"that splits share (Nadeau and Bengio, 2003); p also for all {count} tests of the "
            f"table together (Holm). Bold: p below {LEVEL:g}."
        )
        told = {
            f"Percentage points, taken split by split; above zero, {ours} is ahead.": True,
            tests: any(entry.rest for entry in entries),
            "A dash: no split with both results.": is_dashed,
        }
    return " ".join(sentence for sentence, is_so in told.items() if is_so)


def _numbered(sections: Sequence[_Section]) -> dict[str, int]:
    """Number the footnotes through, so that a number means the same in every table."""
    every = [note for section in sections for grid in section.grids for note in grid.notes]
    return {note: number for number, note in enumerate(dict.fromkeys(every), start=1)}


def _used(grids: Sequence[_Grid], numbers: Mapping[str, int]) -> list[tuple[int, str]]:
    """Return the footnotes of some tables with their numbers, in order."""
    return sorted({(numbers[note], note) for grid in grids for note in grid.notes})


def _markdown_grid(grid: _Grid, numbers: Mapping[str, int]) -> str:
    def written(entry: _Entry) -> str:
        first = _in_markdown(entry.first) + (f" ± {entry.sd}" if entry.sd else "")
        first = f"**{first}**" if entry.is_bold else first
        rest = [_in_markdown(", ".join(entry.rest))] if entry.rest else []
        return " ".join([first, *rest, *(_raised(numbers[note]) for note in entry.notes)])

    rows = [[*map(written, row)] for row in grid.rows]
    return markdown_table([*map(_in_markdown, grid.head)], rows, is_padded=True)


def _latex_grid(grid: _Grid, caption: str, numbers: Mapping[str, int]) -> str:
    lines = [
        r"\begin{table}[htbp]",
        r"\centering\setlength{\tabcolsep}{4pt}",
        rf"\caption{{{_in_latex(caption)}}}",
        rf"\begin{{tabular}}{{l{'c' * (len(grid.head) - 1)}}}",
        r"\toprule",
        " & ".join(map(_in_latex, grid.head)) + r" \\",
        r"\midrule",
    ]
    for row in grid.rows:
        lines.append(" & ".join(_latex_entry(entry, numbers) for entry in row) + r" \\")
        for place in range(max(len(entry.rest) for entry in row)):
            below = [_small(entry.rest[place : place + 1]) for entry in row]
            lines.append(" & ".join(below).lstrip() + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}"]
    for number, note in _used([grid], numbers):
        lines.append(rf"\par{{\footnotesize $^{{({number})}}$ {_in_latex(note)}}}")
    return "\n".join([*lines, r"\end{table}"])


def _latex_entry(entry: _Entry, numbers: Mapping[str, int]) -> str:
    marks = ",".join(str(numbers[note]) for note in entry.notes)
    raised = f"{{}}^{{({marks})}}" if marks else ""
    if not _NUMBER.fullmatch(entry.first):
        return _in_latex(entry.first) + (f"${raised}$" if raised else "")
    first = rf"\mathbf{{{entry.first}}}" if entry.is_bold else entry.first
    sd = rf"_{{\pm {entry.sd}}}" if entry.sd else ""
    return f"${first}{sd}{raised}$"


def _small(texts: Sequence[str]) -> str:
    """Return text for LaTeX in small type, with minus signs for the hyphens of numbers."""
    parts = [part for text in texts for part in _NUMBER.split(text)]
    words = "".join(f"${own}$" if _NUMBER.fullmatch(own) else _in_latex(own) for own in parts)
    return rf"{{\scriptsize {words}}}" if words else ""


def _in_latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in re.sub(r"\s+", " ", text))


def _in_markdown(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", " ".join(text.split()))


def _raised(number: int) -> str:
    return f"⁽{str(number).translate(_RAISED)}⁾"
