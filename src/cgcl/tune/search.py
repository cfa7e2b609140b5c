"""The search: trial after trial on the validation links, the best one kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, Protocol

from cgcl.errors import ConfigError, TrainingError
from cgcl.files import write_atomically
from cgcl.graph import Graph
from cgcl.methods.table import DEFAULT_METHOD, method_named
from cgcl.split import Split
from cgcl.train.config import Resources, SplitConfig
from cgcl.train.execution import resolve_device, versions
from cgcl.train.once import TrainOnce, train_once
from cgcl.train.trainer import EpochRecord
from cgcl.tune.attempt import Attempts, without_test_links
from cgcl.tune.best_file import best_file
from cgcl.tune.propose import propose, require_optuna
from cgcl.tune.space import Space, chosen_by
from cgcl.tune.study_folder import BEST, TABLE, StudyFolder
from cgcl.tune.trial import Goal, Proposal, Trial, best_of, table_of

__all__ = ["StopReason", "Tuned", "Watcher", "tune"]

StopReason = Literal["time limit", "request", "all tried"]
"""Why a search ended before its last trial."""


@dataclass(frozen=True)
class Tuned:
    """What a search found."""

    space: Space
    """What was searched."""
    trials: tuple[Trial, ...]
    """Every trial that was finished, failed ones included, in the order of their numbers."""
    stopped: StopReason | None = None
    """Why there are fewer trials than were asked for; None if there are not."""
    damaged_lines: int = 0
    """How many trials of an earlier part of the search could not be read, and were run again."""
    goal: Goal = "auc"
    """What the best trial has most of."""

    @property
    def best(self) -> Trial:
        """The best trial by the goal, ties by AUC or AP, then the earlier one.

        Raises:
            TrainingError: No trial gave a result.
        """
        best = best_of(self.trials, self.goal)
        if best is None and self.trials:
            raise TrainingError(
                f"All {len(self.trials)} trials failed. The first one: {self.trials[0].failure}"
            )
        if best is None:
            raise TrainingError(
                "The search was stopped before a first trial was finished. Give it more time, or "
                "make trials shorter with --epochs."
            )
        return best

    @property
    def settings(self) -> dict[str, Any]:
        """Every setting of the best trial."""
        return self.best.settings

    @property
    def value(self) -> float:
        """What the best trial reached on the validation links, by the goal."""
        return self.best.rank(self.goal)[0]

    @property
    def defaults(self) -> Trial | None:
        """The trial of the default settings, if it is finished."""
        return next((trial for trial in self.trials if trial.origin == "defaults"), None)


class Watcher(Protocol):
    """Who is told how a search goes."""

    def opens(self, done: int) -> None:
        """Hear that the search begins, and how many trials are known from before."""

    def begins(self, number: int, proposal: Proposal) -> None:
        """Hear that a trial begins."""

    def ran_epoch(self, record: EpochRecord) -> None:
        """Hear that an epoch of the trial has ended."""

    def finished(self, trial: Trial, is_best: bool) -> None:
        """Hear that a trial has ended, and whether it is the best so far."""


class _Nobody:
    """Is told nothing."""

    def opens(self, done: int) -> None:
        pass

    def begins(self, number: int, proposal: Proposal) -> None:
        pass

    def ran_epoch(self, record: EpochRecord) -> None:
        pass

    def finished(self, trial: Trial, is_best: bool) -> None:
        pass


def tune(
    graph: Graph,
    split: Split,
    method: str = DEFAULT_METHOD,
    trials: int = 20,
    seed: int = 0,
    resources: Resources | None = None,
    *,
    folder: Path | None = None,
    fixed: Mapping[str, Any] | None = None,
    goal: Goal | None = None,
    command: str = "",
    watcher: Watcher | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    train: TrainOnce | None = None,
) -> Tuned:
    """Search for the settings of a method that do best on the validation links of one split.

    The first trial has the method's defaults, the second its authors' settings for this graph if
    those differ; Optuna's TPE chooses the others. Every trial has settings of its own, and each
    counts, failed ones too. The test links are not even handed to what is trained.

    Args:
        graph: The graph.
        split: The links to learn from and to choose by; those to test on stay unseen.
        method: The method's name.
        trials: How many different settings to try in all, those of earlier calls included.
        seed: Decides the weights of every trial and what the search tries.
        resources: Where to compute; its time limit is that of the whole search.
        folder: Where to keep the trials, to go on with if they are there; None keeps nothing.
        fixed: Settings that are the same in all trials; also `val` and `test`, which are only
            written down for `cgcl train`.
        goal: What the best trial has most of; with node_mrr the epoch of every trial is chosen by
            it, too. By default what the method's epoch is chosen by.
        command: The command that repeats the search, to be written down.
        watcher: Who is told about every trial.
        should_stop: Asked after every epoch; True ends the search there.
        train: What trains one trial; `train_once` by default.

    Raises:
        ConfigError: There is no such method or setting, there is nothing to tune, or there are no
            validation links to tune on.
        RunFolderError: The folder belongs to another search, or is in use.
        ResourceError: Optuna or the device is missing, or the disk is full.
        SplitError: The split belongs to another graph.
    """
    fixed = {**(fixed or {}), **chosen_by(goal, method)}
    space = Space.of(method, graph.title, fixed, method_named(method).settings_for(graph, {}))
    resources = _checked(graph, split, trials, resources or Resources())
    search = _Search(graph, split, space, seed, fixed, command, goal or space.goal)
    stop = _Stop(resources.time_limit_s, should_stop)
    watcher, train = watcher or _Nobody(), train or train_once
    if folder is None:
        return search.run(trials, resources, stop, None, watcher, train)
    with search.open(folder, resources) as study:
        return search.run(trials, resources, stop, study, watcher, train)


def _checked(graph: Graph, split: Split, trials: int, resources: Resources) -> Resources:
    """Refuse what would make every trial fail."""
    if trials < 1:
        raise ConfigError(f"trials is {trials}; it must be at least 1.")
    if split.val.shape[1] == 0:
        raise ConfigError(
            "There are no validation links, and settings are chosen by those alone.\n"
            "Hold out a share of the links for it, such as --val 0.05."
        )
    split.require_parts_of(graph)
    require_optuna()
    resolve_device(resources)
    return resources


class _Stop:
    """Whether it is time to stop, and why."""

    def __init__(self, time_limit_s: float, should_stop: Callable[[], bool]) -> None:
        self._end = time.monotonic() + time_limit_s
        self._should_stop = should_stop

    @property
    def reason(self) -> StopReason | None:
        if self._should_stop():
            return "request"
        return "time limit" if time.monotonic() >= self._end else None

    def is_due(self) -> bool:
        return self.reason is not None


@dataclass(frozen=True, eq=False)
class _Search:
    """What is searched, and how it is written down."""

    graph: Graph
    split: Split
    space: Space
    seed: int
    fixed: Mapping[str, Any]
    command: str
    goal: Goal

    @property
    def shares(self) -> dict[str, Any]:
        """The shares to hold out, if they are known."""
        names = asdict(SplitConfig()).keys() - {"seed"}
        return {name: value for name, value in self.fixed.items() if name in names}

    def open(self, folder: Path, resources: Resources) -> StudyFolder:
        space = self.space
        identity = {
            "method": space.method,
            "graph": {"title": self.graph.title, "fingerprint": self.graph.fingerprint},
            "split": {"fingerprint": self.split.fingerprint, **self.split.sizes},
            "seed": self.seed,
            "settings": {
                "searched": dict(space.choices),
                "defaults": dict(space.base),
                "authors": dict(space.authors),
            },
        }
        about = {
            "command": self.command,
            "threads": resources.num_threads,
            "versions": {**versions(), "optuna": version("optuna")},
        }
        return StudyFolder(folder, identity, about)

    def run(
        self,
        trials: int,
        resources: Resources,
        stop: _Stop,
        study: StudyFolder | None,
        watcher: Watcher,
        train: TrainOnce,
    ) -> Tuned:
        done: dict[int, Trial] = dict(study.trials) if study else {}
        watcher.opens(len(done))
        attempts = self._attempts(resources, stop, study, watcher, train)
        stopped: StopReason | None = None
        for number in (n for n in range(1, trials + 1) if n not in done):
            earlier = [done[n] for n in sorted(done) if n < number]
            proposal = propose(self.space, number, earlier, self.seed, self.goal)
            stopped = stop.reason if proposal else "all tried"
            if stopped or proposal is None:
                break
            watcher.begins(number, proposal)
            trial = attempts.run(number, proposal)
            if trial is None:
                stopped = stop.reason or "request"
                break
            done[number] = trial
            if study is not None:
                study.append(trial)
            watcher.finished(trial, best_of(done.values(), self.goal) is trial)
            self._write(study, done, trials)
        self._write(study, done, trials)
        kept = tuple(done[n] for n in sorted(done))
        damaged = study.damaged_lines if study else 0
        return Tuned(self.space, kept, stopped, damaged, self.goal)

    def _attempts(
        self,
        resources: Resources,
        stop: _Stop,
        study: StudyFolder | None,
        watcher: Watcher,
        train: TrainOnce,
    ) -> Attempts:
        if study is not None and not resources.threads:
            # As many threads as when the search began: their number decides the last bits.
            resources = replace(resources, threads=study.threads)
        return Attempts(
            *without_test_links(self.graph, self.split),
            method=self.space.method,
            shared={**self.shares, "seed": self.seed},
            resources=replace(resources, time_limit="", track_consistency=False),
            train=train,
            on_epoch=watcher.ran_epoch,
            should_stop=stop.is_due,
        )

    def _write(self, study: StudyFolder | None, done: Mapping[int, Trial], asked: int) -> None:
        """Write the table of all trials, and the best of them."""
        if study is None:
            return
        trials = [done[n] for n in sorted(done)]
        if trials:
            write_atomically(study.path / TABLE, table_of(trials))
        best = best_of(trials, self.goal)
        if best is not None:
            shares = {**self.shares, "seed": self.seed}
            comments = self._comments(trials, best, asked)
            content = best_file(self.space.method, best.settings, shares, comments)
            write_atomically(study.path / BEST, content)

    def _comments(self, trials: list[Trial], best: Trial, asked: int) -> list[str]:
        graph, sizes = self.graph, self.split.sizes
        failed = sum(trial.has_failed for trial in trials)
        return [
            "Settings chosen by cgcl tune. To train with them: cgcl train GRAPH --config THIS_FILE",
            f"Graph: {graph.title}, {graph.num_nodes:,} nodes, {graph.num_edges:,} links, "
            f"fingerprint {graph.fingerprint[:12]}",
            f"Split: {sizes['train']:,} links to learn from, {sizes['val']:,} to choose by, "
            f"{sizes['test']:,} to test on, which were not looked at; seed {self.seed}",
            f"Trials: {len(trials)} of {asked}"
            f"{f', of which {failed} failed' if failed else ''}; this is trial {best.number}",
            f"Validation: {best.in_words(', ')} at epoch {best.best_epoch}",
            *([f"Command: {self.command}"] if self.command else []),
        ]
