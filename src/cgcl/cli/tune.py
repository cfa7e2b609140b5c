"""`cgcl tune`."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from cgcl.cli.settings import FLAT, HeldOut, Reading
from cgcl.cli.terminal import TrainingLine, say, say_fact
from cgcl.errors import ConfigError
from cgcl.experiments.plan import Watcher
from cgcl.methods.table import DEFAULT_METHOD
from cgcl.train.config import Resources, SplitConfig

if TYPE_CHECKING:
    from cgcl.experiments.search import Trial, Tuned
    from cgcl.experiments.space import Goal, Proposal, Space
    from cgcl.graph import Graph
    from cgcl.split import Split
    from cgcl.train.trainer import EpochRecord

__all__ = ["tune"]


def tune(
    graph: str = "cora",
    *,
    method: str = DEFAULT_METHOD,
    trials: int = 20,
    time_limit: str = "",
    epochs: int | None = None,
    goal: Literal["auc", "ap", "node_mrr"] | None = None,
    reading: Annotated[Reading, FLAT] = Reading(),  # noqa: B008
    test_edges: Path | None = None,
    val_edges: Path | None = None,
    shares: Annotated[SplitConfig, FLAT] = SplitConfig(),  # noqa: B008
    device: str = "auto",
    threads: int = 0,
    out: Path | None = None,
    quiet: bool = False,
    as_json: Annotated[bool, Parameter(name="--json")] = False,
) -> int:
    """Search for good settings of a method, by the validation links alone.

    The first trial has the defaults, the second the settings of the method's authors; a search
    that learns from the results chooses the others. The test links are not looked at. Writes the
    best settings to a file for cgcl train --config, and prints its path. Interrupted, the same
    command goes on; with more --trials a finished search goes on, too.

    Args:
        graph: A data set (cora, citeseer, pubmed, photo, computers), or a file of links.
        method: The method; cgcl methods lists them.
        trials: How many different settings to try; failed trials count, none is tried twice.
        time_limit: Begin no trial after this long, such as 90s, 30m or 2h, and drop the one that
            is running; empty for no limit.
        epochs: Train every trial so long, instead of searching for it.
        goal: What the best settings have most of, on the validation links: auc, ap, or node_mrr,
            by which the epoch of every trial is chosen then, too. If not given, what the method
            chooses its epoch by: auc, unless its settings say node_mrr.
        reading: The files.
        test_edges: A file with the links to test on, instead of drawing them.
        val_edges: A file with the links to choose by; goes with --test-edges.
        shares: What is held out.
        device: auto, cpu, cuda or cuda:N.
        threads: CPU threads; 0 takes the cores, at most 4, or as many as when the search began.
        out: The folder of the search; runs/tune-GRAPH-METHOD if not given.
        quiet: Print nothing but the file, warnings and errors.
        as_json: Print the trials as JSON instead of the file's name.
    """
    resources = Resources(device=device, threads=threads, time_limit=time_limit)
    files = HeldOut(test_edges, val_edges)
    asked = _Asked(graph, method, trials, epochs, goal, reading, files, shares, resources, out)
    return _tune(asked, quiet, as_json)


@dataclass(frozen=True)
class _Asked:
    """The options of the command."""

    graph: str
    method: str
    trials: int
    epochs: int | None
    goal: Goal | None
    reading: Reading
    files: HeldOut
    shares: SplitConfig
    resources: Resources
    out: Path | None

    @property
    def fixed(self) -> dict[str, Any]:
        """What is the same in all trials."""
        from cgcl.experiments.space import chosen_by

        epochs = {} if self.epochs is None else {"epochs": self.epochs}
        return {
            **epochs,
            **chosen_by(self.goal, self.method),
            "val": self.shares.val,
            "test": self.shares.test,
        }

    @property
    def command(self) -> str:
        """The command itself."""
        options = {
            "method": (self.method, None),
            "trials": (self.trials, 20),
            "epochs": (self.epochs, None),
            "goal": (self.goal, None),
            "out": (self.out, None),
        }
        for settings, usual in ((self.shares, SplitConfig()), (self.resources, Resources())):
            there = asdict(usual)
            options |= {name: (value, there[name]) for name, value in asdict(settings).items()}
        words = [
            word
            for name, (value, default) in options.items()
            if value != default
            for word in (f"--{name.replace('_', '-')}", str(value))
        ]
        return shlex.join(["cgcl", "tune", *self._words_of_graph, *words])

    def next_command(self, best: Path) -> str:
        """Return the command that trains with what was found."""
        return shlex.join(["cgcl", "train", *self._words_of_graph, "--config", str(best)])

    @property
    def _words_of_graph(self) -> list[str]:
        return [self.graph, *self.reading.words_of_command(), *self.files.words()]

    def refuse_at_once(self) -> None:
        """Refuse what cannot be done before anything is read.

        Raises:
            ConfigError: There is no such method, nothing to tune, or the folder has no valid name.
            ResourceError: Optuna is not installed.
        """
        from cgcl.experiments.space import Space, require_optuna

        try:
            str(self.out).encode()
        except UnicodeEncodeError as error:
            raise ConfigError(
                f"The folder name after --out is not valid UTF-8: {str(self.out)!r}. "
                f"Choose another one."
            ) from error
        require_optuna()
        Space.of(self.method, "", self.fixed)

    def read(self) -> tuple[Graph, Split]:
        """Return the graph and its split."""
        from cgcl.split import random_split

        graph, split = self.files.read(self.graph, self.reading, self.shares)
        if split is None:
            split = random_split(graph, self.shares.val, self.shares.test, self.shares.seed)
        return graph, split


def _tune(asked: _Asked, quiet: bool, as_json: bool) -> int:
    from cgcl.experiments.search import BEST
    from cgcl.experiments.search import tune as search
    from cgcl.experiments.space import Space
    from cgcl.train.signals import stop_on_signals

    asked.refuse_at_once()
    graph, split = asked.read()
    folder = asked.out or Path("runs") / f"tune-{graph.title}-{asked.method}"
    space = Space.of(asked.method, graph.title, asked.fixed)
    if not quiet:
        _tell_beginning(graph, split, space, asked, folder)
    with stop_on_signals() as request, _Story(space, asked.trials, quiet) as story:
        tuned = search(
            graph,
            split,
            asked.method,
            asked.trials,
            asked.shares.seed,
            asked.resources,
            folder=folder,
            fixed=asked.fixed,
            goal=asked.goal,
            command=asked.command,
            watcher=story,
            should_stop=request.is_set,
        )
    if tuned.damaged_lines:
        say(f"Warning: {tuned.damaged_lines} damaged line(s) in {folder} were left out.")
    if tuned.stopped == "request":
        say(
            f"Stopped. {len(tuned.trials)} of {asked.trials} trials are finished and kept. "
            f"Continue with: {asked.command}"
        )
        return request.exit_code
    _ = tuned.best  # says why if there is none
    best = folder / BEST
    if not quiet:
        _tell_end(tuned, asked, best)
    print(_as_json(tuned, best) if as_json else best)  # noqa: T201
    return 0


class _Story(Watcher):
    """What is told about the trials: a line each, on a terminal also the one that runs."""

    def __init__(self, space: Space, trials: int, quiet: bool) -> None:
        self._space = space
        self._trials = trials
        self._quiet = quiet
        self._line: TrainingLine | None = None

    def opens(self, done: int) -> None:
        if done and not self._quiet:
            say_fact("Resuming", f"{done} trial{'' if done == 1 else 's'} finished before")

    def begins(self, number: int, proposal: Proposal) -> None:  # noqa: ARG002
        # Elsewhere than on a terminal, a line per trial is enough.
        hidden = self._quiet or not sys.stderr.isatty()
        self._line = TrainingLine(proposal.settings.get("epochs", 0), hidden)
        self._line.start(0)

    def ran_epoch(self, record: EpochRecord) -> None:
        if self._line is not None:
            self._line.show(record)

    def finished(self, trial: Trial, is_best: bool) -> None:
        self._clear()
        if self._quiet:
            return
        result = f"{trial.in_words()}{'  best so far' if is_best else ''}"
        if trial.has_failed:
            result = f"failed: {trial.failure}"
        told = _in_words(self._space, trial)
        say_fact(
            f"Trial {trial.number}/{self._trials}", f"{result}  ({told}; {trial.seconds:.1f} s)"
        )

    def __enter__(self) -> _Story:
        return self

    def __exit__(self, *_: object) -> None:
        self._clear()

    def _clear(self) -> None:
        if self._line is not None:
            self._line.stop()
            self._line = None


def _in_words(space: Space, trial: Trial) -> str:
    """Return what is special about the settings of a trial."""
    if trial.origin == "defaults":
        return "the defaults"
    if trial.origin == "authors":
        told = {k: v for k, v in trial.settings.items() if v != space.base.get(k)}
    else:
        told = {name: trial.settings[name] for name in space.choices}
    listed = ", ".join(f"{name} {value}" for name, value in told.items())
    return f"its authors' {listed}" if trial.origin == "authors" else listed


def _tell_beginning(graph: Graph, split: Split, space: Space, asked: _Asked, folder: Path) -> None:
    sizes = split.sizes
    say_fact("Graph", f"{graph.title}: {graph.num_nodes:,} nodes, {graph.num_edges:,} links")
    for note in graph.notes:
        say_fact("", note)
    say_fact(
        "Split",
        f"{sizes['train']:,} links to learn from, {sizes['val']:,} to choose by, "
        f"{sizes['test']:,} that are not looked at (seed {asked.shares.seed})",
    )
    choices = "; ".join(
        f"{name} {', '.join(map(str, values))}" for name, values in space.choices.items()
    )
    say_fact("Search", f"{asked.method}, {space.size:,} settings: {choices}")
    say_fact("Folder", str(folder))


def _tell_end(tuned: Tuned, asked: _Asked, file: Path) -> None:
    from cgcl.experiments.search import TABLE
    from cgcl.metrics.table import metric_title

    best, defaults, done = tuned.best, tuned.defaults, len(tuned.trials)
    if tuned.stopped == "time limit":
        say_fact("Stopped", f"by the time limit after {done} of {asked.trials} trials;")
        say_fact("", f"continue with: {asked.command}")
    elif tuned.stopped == "all tried":
        say_fact("Finished", f"all {done} different settings have been tried")
    say_fact(
        "Best",
        f"trial {best.number} of {done}: validation {best.in_words('   ')}   at epoch "
        f"{best.best_epoch}",
    )
    say_fact("Settings", _in_words(tuned.space, best))
    before = None if defaults is None else defaults.value(tuned.goal)
    if before is None:
        say_fact("Defaults", "failed")
    elif best is not defaults:
        what = f"validation {metric_title(tuned.goal)} {before:.4f}"
        say_fact("Defaults", f"{what}; the search gains {tuned.value - before:.4f}")
    say_fact("All trials", str(file.with_name(TABLE)))
    say_fact("Next", asked.next_command(file))


def _as_json(tuned: Tuned, file: Path) -> str:
    answer = {
        "method": tuned.space.method,
        "file": str(file),
        "goal": tuned.goal,
        "best": asdict(tuned.best),
        "stopped": tuned.stopped,
        "trials": [asdict(trial) for trial in tuned.trials],
    }
    return json.dumps(answer, indent=2)
