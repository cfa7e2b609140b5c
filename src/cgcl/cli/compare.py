"""`cgcl compare`."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from cgcl.cli.settings import FLAT, Reading
from cgcl.cli.terminal import TrainingLine, say, say_fact
from cgcl.errors import ConfigError
from cgcl.experiments.plan import Listener, Metric, Plan
from cgcl.report.words import with_flags
from cgcl.train.config import Resources

if TYPE_CHECKING:
    from cgcl.experiments.comparison import Cell, Comparison, Result
    from cgcl.train.trainer import EpochRecord

__all__ = ["compare"]

Format = Literal["table", "markdown", "csv", "json"]
_FAILED = 1
_TOLD = ("node_mrr", "precision@100", "auc", "ap")


def compare(
    graph: str = "cora",
    *,
    methods: str | None = None,
    plan: Annotated[Plan, FLAT] = Plan(),  # noqa: B008
    settings: Literal["authors", "default"] = "authors",
    tuned: Path | None = None,
    epochs: int | None = None,
    metric: Metric | None = None,
    by_degree: bool = False,
    reading: Annotated[Reading, FLAT] = Reading(),  # noqa: B008
    device: str = "auto",
    threads: int = 0,
    time_limit: str = "",
    out: Path | None = None,
    output: Annotated[Format | None, Parameter(name="--format")] = None,
    as_json: Annotated[bool, Parameter(name="--json")] = False,
    quiet: bool = False,
) -> int:
    """Compare methods on the same held-out links, run by run, and test each against CGCL-rank.

    Where that is not among them, CGCL takes its place. Prints a table and writes a page. Results
    are kept as they come: interrupted, the same command goes on where it stopped; more methods or
    runs are added to what is there. A method that fails is shown as failed, stops nothing, and is
    tried again next time.

    Args:
        graph: A data set (cora, citeseer, pubmed, photo, computers), or a file of links.
        methods: Which methods, with commas: cgcl,vgae,mlp. All by default; cgcl methods lists them.
        plan: How often, and on which splits.
        settings: authors takes the settings that a method's authors published for the graph, where
            there are any; default takes those for any graph.
        tuned: A folder with what cgcl tune wrote, or with TOML files like that, such as runs. Each
            method that has one gets another row, with those settings.
        epochs: Train every method so long, whatever its settings say: for a quick look.
        metric: What methods are tested and drawn by; node MRR if not given.
        by_degree: Also show AUC by the training degree of the test pairs.
        reading: The files.
        device: auto, cpu, cuda or cuda:N.
        threads: CPU threads; 0 takes the cores, at most 4.
        time_limit: End each training at the next epoch after this long, such as 90s, 5m or 2h; the
            table says where it did.
        out: The folder of the comparison; runs/compare-GRAPH if not given.
        output: table for people; markdown, csv or json for what comes next.
        as_json: The same as --format json.
        quiet: Print nothing but the table, warnings and errors.
    """
    if as_json and output not in (None, "json"):
        raise ConfigError(f"--json and --format {output} contradict each other. Give one of them.")
    asked = _Asked(
        graph, methods, plan, settings, tuned, epochs, metric, by_degree, reading,
        Resources(device=device, threads=threads, time_limit=time_limit), out,
    )  # fmt: skip
    return _compare(asked, "json" if as_json else output or "table", quiet)


@dataclass(frozen=True)
class _Asked:
    """The options of the command."""

    graph: str
    methods: str | None
    plan: Plan
    settings: Literal["authors", "default"]
    tuned: Path | None
    epochs: int | None
    metric: Metric | None
    by_degree: bool
    reading: Reading
    resources: Resources
    out: Path | None

    @property
    def command(self) -> str:
        """What repeats the comparison."""
        words = ["cgcl", "compare", self.graph, *self.reading.words_of_command()]
        for name in ("methods", "settings", "tuned", "epochs", "metric", "out"):
            value = getattr(self, name)
            if value is not None and value != {"settings": "authors"}.get(name):
                words += [f"--{name}", str(value)]
        for settings in (self.plan, self.resources):
            for field in fields(settings):
                value = getattr(settings, field.name)
                if value != field.default:
                    words += [f"--{field.name.replace('_', '-')}", str(value)]
        return shlex.join([*words, *(["--by-degree"] if self.by_degree else [])])

    def open(self) -> tuple[Comparison, list[str]]:
        """Read the graph and open the folder; also return what to say about methods left out.

        Raises:
            CGCLError: Something that was asked for cannot be done.
        """
        from cgcl.experiments.comparison import Comparison, names_of, read_tuned, resolve_methods

        if self.reading.time is not None:
            raise ConfigError(
                "compare draws its splits at random, so --time has nothing to decide.\n"
                "Leave it out; to test on the newest links, use cgcl train --time."
            )
        names = names_of(self.methods)
        graph = self.reading.read(self.graph)
        tuned = None if self.tuned is None else read_tuned(self.tuned, graph.title)
        specs, notes = resolve_methods(
            graph, names, self.plan, settings=self.settings, tuned=tuned, epochs=self.epochs
        )
        path = self.out or Path("runs") / f"compare-{graph.title}"
        comparison = Comparison.open(graph, specs, self.plan, path, self.command)
        if comparison.others:
            notes.append(
                f"The folder also holds results of {', '.join(comparison.others)}; name them in "
                f"--methods to have them in the table."
            )
        return comparison, notes


def _compare(asked: _Asked, form: Format, quiet: bool) -> int:
    from cgcl.experiments.summary import summarise
    from cgcl.experiments.text import WRITERS
    from cgcl.report.comparison_page import write_comparison
    from cgcl.train.signals import stop_on_signals

    comparison, notes = asked.open()
    with comparison.folder as folder, stop_on_signals() as request:
        if not quiet:
            _tell_beginning(comparison, asked.resources)

        def write_page() -> Path:
            summary = summarise(comparison, asked.metric, notes)
            return write_comparison(
                folder.path, summary, by_degree=asked.by_degree, command=asked.command
            )

        with _Story(comparison, asked.resources, write_page, request.is_set, quiet) as story:
            is_finished = comparison.run(asked.resources, story)
        page = write_page()
        if not is_finished:
            say(f"Stopped: {_done(comparison, asked.resources)}. Go on with: {asked.command}")
            return request.exit_code
    summary = summarise(comparison, asked.metric, notes)
    if not quiet:
        say_fact("Report", str(page))
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    options = {"width": width} if form == "table" else {}
    sys.stdout.write(with_flags(WRITERS[form](summary, by_degree=asked.by_degree, **options)))
    return 0 if any(row.runs for row in summary.rows) else _FAILED


def _tell_beginning(comparison: Comparison, resources: Resources) -> None:
    graph, plan = comparison.graph, comparison.plan
    say_fact(
        "Graph",
        f"{graph.title}: {graph.num_nodes:,} nodes, {graph.num_edges:,} links, "
        f"{graph.num_features:,} features",
    )
    for note in graph.notes:
        say_fact("", note)
    where = "a split each" if plan.protocol == "splits" else "all on one split"
    say_fact(
        "Compare",
        f"{len(comparison.specs):,} rows, {plan.runs:,} run{'' if plan.runs == 1 else 's'} "
        f"of each, {where}; "
        f"{_done(comparison, resources)}",
    )
    say_fact("Folder", str(comparison.folder.path))
    damaged = comparison.folder.damaged_lines
    if damaged:
        say(f"Warning: {damaged} damaged lines of results are ignored; those runs are done again.")


def _done(comparison: Comparison, resources: Resources) -> str:
    total = len({cell.key for cell in comparison.cells})
    return f"{total - len(comparison.left(resources)):,} of {total:,} results are there"


class _Story(Listener):
    """Tells the person at the terminal how it goes, and keeps the page up to date."""

    def __init__(
        self,
        comparison: Comparison,
        resources: Resources,
        write_page: Callable[[], Path],
        is_stopped: Callable[[], bool],
        quiet: bool,
    ) -> None:
        self._comparison = comparison
        self._resources = resources
        self._write_page = write_page
        self._is_stopped = is_stopped
        self._quiet = quiet
        self._line: TrainingLine | None = None

    def cell_begins(self, cell: Cell) -> None:
        # One line per method is enough for a file; a person who waits sees the epochs, too.
        if sys.stderr.isatty() and cell.spec.is_trained:
            self._line = TrainingLine(cell.spec.recipe.epochs, self._quiet)
            self._line.start(0)

    def epoch_ends(self, cell: Cell, record: EpochRecord) -> None:  # noqa: ARG002
        if self._line is not None:
            self._line.show(record)

    def cell_ends(self, cell: Cell, result: Result) -> None:
        from cgcl.metrics.table import metric_title

        self._clear()
        run = f"Run {cell.run + 1}/{self._comparison.plan.runs}"
        if result.test is None:
            failure = result.failure or {}
            text = f"{failure.get('error')}: {' '.join(failure.get('reason', '').split())}"
            say(f"Warning: {cell.spec.title} failed in run {cell.run + 1}. {text}")
        elif not self._quiet:
            told = "   ".join(
                f"{metric_title(name)} {100 * result.test[name]:.2f}"
                for name in _TOLD
                if name in result.test
            )
            say_fact(
                run,
                f"{cell.spec.title}: {told}   {result.seconds:.1f} s",
            )

    def run_ends(self, run: int) -> None:  # noqa: ARG002
        from cgcl.report.words import duration

        self._write_page()
        left = self._comparison.left(self._resources)
        if left and not self._quiet:
            time = duration(self._comparison.seconds_for(left))
            say_fact("Left", f"{len(left):,} results, about {time}")

    def should_stop(self) -> bool:
        return self._is_stopped()

    def _clear(self) -> None:
        """Take the live line away."""
        if self._line is not None:
            self._line.stop()
            self._line = None

    def __enter__(self) -> _Story:
        return self

    def __exit__(self, *_: object) -> None:
        self._clear()
