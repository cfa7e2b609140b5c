"""`cgcl tune`."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from cgcl.cli.compare import LiveStory
from cgcl.cli.settings import (
    FLAT,
    HeldOut,
    OnMachine,
    Reading,
    check_folder_name,
    command_of,
    flags_of,
)
from cgcl.cli.terminal import say, say_fact, tell_graph
from cgcl.methods.table import DEFAULT_METHOD
from cgcl.train.config import SplitConfig
from cgcl.wording import counted

if TYPE_CHECKING:
    from cgcl.experiments.search import Space, Trial, Tuned
    from cgcl.graph import Graph
    from cgcl.split import Split


@dataclass(frozen=True)
class Options(OnMachine):
    """What is searched.

    Args:
        method: The method; cgcl methods lists them.
        trials: How many different settings to try; failed trials count, none is tried twice.
        time_limit: Begin no trial after this long, such as 90s, 30m or 2h, and drop the one that is
            running; empty for no limit.
        epochs: Train every trial so long, instead of searching for it.
        goal: What the best settings have most of, on the validation links: auc, ap, or node_mrr, by
            which the epoch of every trial is chosen then, too. If not given, what the method
            chooses its epoch by: auc, unless its settings say node_mrr.
        test_edges: A file with the links to test on, instead of drawing them.
        val_edges: A file with the links to choose by; goes with --test-edges.
        device: auto, cpu, cuda or cuda:N.
        threads: CPU threads; 0 takes the cores, at most 4, or as many as when the search began.
        out: The folder of the search; runs/tune-GRAPH-METHOD if not given.
    """

    method: str = DEFAULT_METHOD
    trials: int = 20
    time_limit: str = ""
    epochs: int | None = None
    goal: Literal["auc", "ap", "node_mrr"] | None = None
    reading: Annotated[Reading, FLAT] = Reading()  # noqa: RUF009, frozen
    test_edges: Path | None = None
    val_edges: Path | None = None
    shares: Annotated[SplitConfig, FLAT] = SplitConfig()  # noqa: RUF009, frozen
    device: str = "auto"
    threads: int = 0
    out: Path | None = None

    @property
    def held_out(self) -> HeldOut:
        """Which links are held out."""
        return HeldOut(self.test_edges, self.val_edges)

    @property
    def fixed(self) -> dict[str, Any]:
        """What is the same in all trials."""
        from cgcl.experiments.search import chosen_by

        epochs = {} if self.epochs is None else {"epochs": self.epochs}
        shares = {"val": self.shares.val, "test": self.shares.test}
        return {**epochs, **chosen_by(self.goal, self.method), **shares}

    def refuse_at_once(self) -> None:
        """Refuse what cannot be done before anything is read.

        Raises:
            ConfigError: There is no such method, nothing to tune, or the folder has no valid name.
            ResourceError: Optuna is not installed.
        """
        from cgcl.experiments.search import Space, require_optuna

        check_folder_name(self.out)
        require_optuna()
        Space.of(self.method, "", self.fixed)


def tune(
    graph: str = "cora",
    *,
    asked: Annotated[Options, FLAT] = Options(),  # noqa: B008
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
        asked: What is searched.
        quiet: Print nothing but the file, warnings and errors.
        as_json: Print the trials as JSON instead of the file's name.
    """
    from cgcl.experiments.search import BEST, Space
    from cgcl.experiments.search import tune as search
    from cgcl.train.signals import stop_on_signals

    asked.refuse_at_once()
    found, split = asked.held_out.read(graph, asked.reading, asked.shares)
    folder = asked.out or Path("runs") / f"tune-{found.title}-{asked.method}"
    space = Space.of(asked.method, found.title, asked.fixed)
    command = command_of("tune", graph, asked)
    if not quiet:
        _tell_beginning(found, split, space, asked, folder)
    with stop_on_signals() as request, _Story(space, asked.trials, quiet) as story:
        tuned = search(
            found,
            split,
            asked.method,
            asked.trials,
            asked.shares.seed,
            asked.resources,
            folder=folder,
            fixed=asked.fixed,
            goal=asked.goal,
            command=command,
            listener=story,
            should_stop=request.is_set,
        )
    if tuned.damaged_lines:
        say(f"Warning: {tuned.damaged_lines} damaged line(s) in {folder} were left out.")
    if tuned.stopped == "request":
        done = f"{len(tuned.trials)} of {asked.trials} trials are finished and kept"
        say(f"Stopped. {done}. Continue with: {command}")
        return request.exit_code
    _ = tuned.best  # says why if there is none
    if not quiet:
        _tell_end(tuned, graph, asked, folder / BEST)
    print(_as_json(tuned, folder / BEST) if as_json else folder / BEST)  # noqa: T201
    return 0


class _Story(LiveStory):
    """A line for each trial, on a terminal also for the one that runs."""

    def __init__(self, space: Space, trials: int, quiet: bool) -> None:
        super().__init__(quiet)
        self._space, self._trials = space, trials

    def opens(self, done: int) -> None:
        if done and not self._quiet:
            say_fact("Resuming", f"{counted(done, 'trial')} finished before")

    def begins(self, job: Trial) -> None:
        self.start(job.settings.get("epochs", 0))

    def ends(self, job: Trial, result: Trial, *, is_best: bool = False) -> None:  # noqa: ARG002
        self.clear()
        if self._quiet:
            return
        told = f"{result.in_words()}{'  best so far' if is_best else ''}"
        if result.has_failed:
            told = f"failed: {result.failure}"
        about = f"{_in_words(self._space, result)}; {result.seconds:.1f} s"
        say_fact(f"Trial {result.number}/{self._trials}", f"{told}  ({about})")


def _in_words(space: Space, trial: Trial) -> str:
    """Return what is special about the settings of a trial."""
    if trial.origin == "defaults":
        return "the defaults"
    whose, told = "", {name: trial.settings[name] for name in space.choices}
    if trial.origin == "authors":
        told = {k: v for k, v in trial.settings.items() if v != space.base.get(k)}
        whose = "its authors' "
    return whose + ", ".join(f"{name} {value}" for name, value in told.items())


def _tell_beginning(graph: Graph, split: Split, space: Space, asked: Options, folder: Path) -> None:
    sizes = split.sizes
    tell_graph(graph)
    say_fact(
        "Split",
        f"{sizes['train']:,} links to learn from, {sizes['val']:,} to choose by, "
        f"{sizes['test']:,} that are not looked at (seed {asked.shares.seed})",
    )
    choices = [f"{name} {', '.join(map(str, own))}" for name, own in space.choices.items()]
    say_fact("Search", f"{asked.method}, {space.size:,} settings: {'; '.join(choices)}")
    say_fact("Folder", str(folder))


def _tell_end(tuned: Tuned, graph: str, asked: Options, file: Path) -> None:
    from cgcl.experiments.search import TABLE
    from cgcl.metrics.table import metric_title

    best, defaults, done = tuned.best, tuned.defaults, len(tuned.trials)
    if tuned.stopped == "time limit":
        say_fact("Stopped", f"by the time limit after {done} of {asked.trials} trials;")
        say_fact("", f"continue with: {command_of('tune', graph, asked)}")
    elif tuned.stopped == "all tried":
        say_fact("Finished", f"all {done} different settings have been tried")
    reached = f"validation {best.in_words('   ')}   at epoch {best.best_epoch}"
    say_fact("Best", f"trial {best.number} of {done}: {reached}")
    say_fact("Settings", _in_words(tuned.space, best))
    before = None if defaults is None else defaults.value(tuned.goal)
    if before is None:
        say_fact("Defaults", "failed")
    elif best is not defaults:
        what = f"validation {metric_title(tuned.goal)} {before:.4f}"
        say_fact("Defaults", f"{what}; the search gains {tuned.value - before:.4f}")
    say_fact("All trials", str(file.with_name(TABLE)))
    words = [*flags_of(asked.reading), *asked.held_out.words()]
    say_fact("Next", shlex.join(["cgcl", "train", graph, *words, "--config", str(file)]))


def _as_json(tuned: Tuned, file: Path) -> str:
    about = {"method": tuned.space.method, "file": str(file), "goal": tuned.goal}
    found = {"best": asdict(tuned.best), "stopped": tuned.stopped}
    trials = [asdict(trial) for trial in tuned.trials]
    return json.dumps({**about, **found, "trials": trials}, indent=2)
