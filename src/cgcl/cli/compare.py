"""`cgcl compare`."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from cgcl.cli.settings import FLAT, OnMachine, Reading, command_of
from cgcl.cli.terminal import TrainingLine, say, say_fact, tell_graph
from cgcl.errors import ConfigError
from cgcl.experiments import Listener, Plan
from cgcl.report.words import with_flags
from cgcl.train.config import Resources
from cgcl.wording import counted

if TYPE_CHECKING:
    from cgcl.experiments.comparison import Cell, Comparison, Result
    from cgcl.train.trainer import EpochRecord

Format = Literal["table", "markdown", "csv", "json"]
_FAILED = 1
_TOLD = ("node_mrr", "precision@100", "auc", "ap")


@dataclass(frozen=True)
class Options(OnMachine):
    """What is compared.

    Args:
        methods: Which methods, with commas: cgcl,vgae,mlp. All by default; cgcl methods lists them.
        settings: authors takes the settings that a method's authors published for the graph, where
            there are any; default takes those for any graph.
        tuned: A folder with what cgcl tune wrote, or with TOML files like that, such as runs. Each
            method that has one gets another row, with those settings.
        epochs: Train every method so long, whatever its settings say: for a quick look.
        metric: What methods are tested and drawn by, as run.json calls it, such as auc or
            precision@100; node_mrr if not given.
        by_degree: Also show AUC by the training degree of the test pairs.
        device: auto, cpu, cuda or cuda:N.
        threads: CPU threads; 0 takes the cores, at most 4.
        time_limit: End each training at the next epoch after this long, such as 90s, 5m or 2h; the
            table says where it did.
        out: The folder of the comparison; runs/compare-GRAPH if not given.
    """

    methods: str | None = None
    plan: Annotated[Plan, FLAT] = Plan()  # noqa: RUF009, frozen
    settings: Literal["authors", "default"] = "authors"
    tuned: Path | None = None
    epochs: int | None = None
    metric: str | None = None
    by_degree: bool = False
    reading: Annotated[Reading, FLAT] = Reading()  # noqa: RUF009, frozen
    device: str = "auto"
    threads: int = 0
    time_limit: str = ""
    out: Path | None = None

    def open(self, name: str, command: str) -> tuple[Comparison, list[str]]:
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
        graph = self.reading.read(name)
        tuned = None if self.tuned is None else read_tuned(self.tuned, graph.title)
        specs, notes = resolve_methods(
            graph, names, self.plan, settings=self.settings, tuned=tuned, epochs=self.epochs
        )
        path = self.out or Path("runs") / f"compare-{graph.title}"
        comparison = Comparison(graph, specs, self.plan, path, command)
        if comparison.others:
            also = f"The folder also holds results of {', '.join(comparison.others)}"
            notes.append(f"{also}; name them in --methods to have them in the table.")
        return comparison, notes


def compare(
    graph: str = "cora",
    *,
    asked: Annotated[Options, FLAT] = Options(),  # noqa: B008
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
        asked: What is compared.
        output: table for people; markdown, csv or json for what comes next.
        as_json: The same as --format json.
        quiet: Print nothing but the table, warnings and errors.
    """
    from cgcl.experiments.summary import WRITERS, Summary, summarise
    from cgcl.metrics.table import METRICS
    from cgcl.report.comparison_page import write_comparison
    from cgcl.train.signals import stop_on_signals

    if as_json and output not in (None, "json"):
        raise ConfigError(f"--json and --format {output} contradict each other. Give one of them.")
    if asked.metric is not None and asked.metric not in METRICS:
        raise ConfigError(f"--metric is '{asked.metric}'; it must be one of {', '.join(METRICS)}.")
    resources = asked.resources  # refused before there is a folder, if it makes no sense
    form = "json" if as_json else output or "table"
    by_degree, command = asked.by_degree, command_of("compare", graph, asked)
    comparison, notes = asked.open(graph, command)

    def write_page() -> tuple[Summary, Path]:
        summary = summarise(comparison, asked.metric, notes)
        path = comparison.folder.path
        return summary, write_comparison(path, summary, by_degree=by_degree, command=command)

    with comparison.folder, stop_on_signals() as request:
        story = _Story(comparison, resources, write_page, quiet)
        with story:
            is_finished = comparison.run(resources, story, request.is_set)
        summary, page = write_page()
        if not is_finished:
            say(f"Stopped: {story.done}. Go on with: {command}")
            return request.exit_code
    if not quiet:
        say_fact("Report", str(page))
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    options = {"width": width} if form == "table" else {}
    sys.stdout.write(with_flags(WRITERS[form](summary, by_degree=by_degree, **options)))
    return 0 if any(row.runs for row in summary.rows) else _FAILED


class LiveStory(Listener):
    """Tells the person at the terminal how it goes: a live line while something is trained.

    Elsewhere than on a terminal a line for each result is enough.
    """

    def __init__(self, quiet: bool) -> None:
        """Prepare to tell, or to say nothing but warnings."""
        self._quiet = quiet
        self._line: TrainingLine | None = None

    def start(self, epochs: int) -> None:
        """Show a training of so many epochs; nothing if there is nothing to train."""
        if epochs:
            self._line = TrainingLine(epochs, self._quiet or not sys.stderr.isatty())
            self._line.start(0)

    def epoch_ends(self, record: EpochRecord) -> None:
        """Show the epoch."""
        if self._line is not None:
            self._line.show(record)

    def clear(self) -> None:
        """Take the live line away."""
        if self._line is not None:
            self._line.stop()
            self._line = None

    def __enter__(self) -> LiveStory:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()


class _Story(LiveStory):
    """Also keeps the page up to date."""

    def __init__(
        self,
        comparison: Comparison,
        resources: Resources,
        write_page: Callable[[], Any],
        quiet: bool,
    ) -> None:
        super().__init__(quiet)
        self._comparison, self._resources = comparison, resources
        self._write_page = write_page
        if not quiet:
            self._tell_beginning()

    @property
    def done(self) -> str:
        """How many results there are."""
        total = len({cell.key for cell in self._comparison.cells})
        left = len(self._comparison.left(self._resources))
        return f"{total - left:,} of {total:,} results are there"

    def _tell_beginning(self) -> None:
        comparison, plan = self._comparison, self._comparison.plan
        tell_graph(comparison.graph, f", {comparison.graph.num_features:,} features")
        where = "a split each" if plan.protocol == "splits" else "all on one split"
        runs = f"{counted(plan.runs, 'run')} of each"
        say_fact("Compare", f"{len(comparison.specs):,} rows, {runs}, {where}; {self.done}")
        say_fact("Folder", str(comparison.folder.path))
        damaged = comparison.folder.damaged_lines
        if damaged:
            told = f"Warning: {damaged} damaged lines of results are ignored; those runs are"
            say(f"{told} done again.")

    def begins(self, job: Cell) -> None:
        self.start(job.spec.recipe.epochs)

    def ends(self, job: Cell, result: Result, *, is_best: bool = False) -> None:  # noqa: ARG002
        from cgcl.metrics.table import metric_title

        self.clear()
        if result.test is None:
            failure = result.failure or {}
            text = f"{failure.get('error')}: {' '.join(failure.get('reason', '').split())}"
            say(f"Warning: {job.spec.title} failed in run {job.run + 1}. {text}")
        elif not self._quiet:
            found = {metric_title(own): result.test[own] for own in _TOLD if own in result.test}
            told = "   ".join(f"{title} {100 * value:.2f}" for title, value in found.items())
            run = f"Run {job.run + 1}/{self._comparison.plan.runs}"
            say_fact(run, f"{job.spec.title}: {told}   {result.seconds:.1f} s")

    def run_ends(self, run: int) -> None:  # noqa: ARG002
        from cgcl.report.words import duration

        self._write_page()
        left = self._comparison.left(self._resources)
        if left and not self._quiet:
            time = duration(self._comparison.seconds_for(left))
            say_fact("Left", f"{len(left):,} results, about {time}")
