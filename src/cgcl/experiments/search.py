"""The search: trial after trial on the validation links, the best one kept."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import torch

from cgcl.errors import CGCLError, ConfigError, RunFolderError, TrainingError
from cgcl.experiments.log import ResultFolder, damaged, read_about
from cgcl.experiments.plan import Watcher
from cgcl.experiments.runner import is_out_of_memory, run_in_order
from cgcl.experiments.space import (
    Goal,
    Proposal,
    Space,
    Trial,
    best_of,
    chosen_by,
    propose,
    require_optuna,
    table_of,
)
from cgcl.files import write_atomically
from cgcl.graph import Graph
from cgcl.methods.settings import CGCLSettings
from cgcl.methods.table import DEFAULT_METHOD, method_named
from cgcl.split import Split
from cgcl.train.config import Resources, SplitConfig
from cgcl.train.execution import resolve_device, versions
from cgcl.train.once import Trained, TrainOnce, train_once
from cgcl.train.recipe import Recipe

STUDY = "study.json"
TRIALS = "trials.jsonl"
TABLE = "trials.csv"
BEST = "best.toml"
_FORMAT = 1


def without_test_links(graph: Graph, split: Split) -> tuple[Graph, Split]:
    """Return graph and split as if the test links did not exist.

    What is trained on these cannot look at them, whatever it does.
    """
    links = torch.cat([split.train, split.val], dim=1)
    order = (links[0] * graph.num_nodes + links[1]).argsort()
    none = split.test.new_empty(2, 0)
    return (
        replace(graph, edges=links.index_select(1, order), times=None),
        replace(split, test=none, test_negatives=none),
    )


def _result(trial: Trial, trained: Trained, recipe: Recipe) -> Trial:
    stopped, val = trained.stopped, trained.val
    if stopped is not None and stopped.reason == "loss is not finite":
        return replace(trial, failure=" ".join(stopped.message.split()))
    if val is None:
        return replace(trial, failure="Nothing was measured on the validation links.")
    if "node_mrr" not in val and getattr(recipe.settings, "choose_by", "") == "node_mrr":
        return replace(trial, failure="Node MRR takes too long to measure on this graph.")
    found = replace(trial, best_epoch=trained.best_epoch, node_mrr=val.get("node_mrr"))
    return replace(found, auc=float(val["auc"]), ap=float(val["ap"]))


_FLAGS = frozenset(field.name for field in fields(CGCLSettings))
"""The settings that are options of `cgcl train`; any other is given by name, below `set`."""


def best_file(
    method: str, settings: Mapping[str, Any], shares: Mapping[str, Any], comments: Sequence[str]
) -> bytes:
    """Return the content of a settings file.

    Args:
        method: The method's name.
        settings: Its settings.
        shares: What else `cgcl train` is to be told, such as `seed`.
        comments: Lines to put on top.

    Example:
        >>> print(best_file("vgae", {"lr": 0.01, "latent": 16}, {"seed": 0}, ["Chosen."]).decode())
        # Chosen.
        [train]
        method = "vgae"
        seed = 0
        lr = 0.01
        <BLANKLINE>
        [train.set]
        latent = 16
        <BLANKLINE>
    """
    flags = {name: value for name, value in settings.items() if name in _FLAGS}
    others = {name: value for name, value in settings.items() if name not in _FLAGS}
    lines = [f"# {_printable(comment)}" for comment in comments]
    lines += ["[train]", *_assignments({"method": method, **shares, **flags})]
    if others:
        lines += ["", "[train.set]", *_assignments(others)]
    return ("\n".join(lines) + "\n").encode()


def _assignments(values: Mapping[str, Any]) -> list[str]:
    return [f"{name} = {_value(value)}" for name, value in values.items()]


def _value(value: bool | int | float | str) -> str:
    """Return a value as TOML writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # TOML escapes as JSON does, and the one control character more that JSON leaves alone.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)


def _printable(text: str) -> str:
    """Return text that stays on its line and that every file can hold."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


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
                "make trials shorter with `epochs`."
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
    search = _Search(
        graph,
        split,
        space,
        seed,
        fixed,
        command,
        goal or space.goal,
        trials,
        resources,
        _Stop(resources.time_limit_s, should_stop),
        watcher or Watcher(),
        train or train_once,
    )
    if folder is None:
        return search.run(None, resources.threads)
    threads: list[int] = []
    with ResultFolder(
        folder,
        TRIALS,
        Trial,
        about=STUDY,
        what="a search",
        check=lambda file: threads.append(_claim(file, search.identity, search.about)),
    ) as study:
        # As many threads as when the search began: their number decides the last bits.
        return search.run(study, resources.threads or threads[0])


def _checked(graph: Graph, split: Split, trials: int, resources: Resources) -> Resources:
    """Refuse what would make every trial fail."""
    if trials < 1:
        raise ConfigError(f"trials is {trials}; it must be at least 1.")
    if split.val.shape[1] == 0:
        raise ConfigError(
            "There are no validation links, and settings are chosen by those alone.\n"
            "Hold out a share of the links for it, such as `val=0.05`."
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
    """What is searched, how, and how it is written down."""

    graph: Graph
    split: Split
    space: Space
    seed: int
    fixed: Mapping[str, Any]
    command: str
    goal: Goal
    asked: int
    """How many trials there are to be."""
    resources: Resources
    stop: _Stop
    watcher: Watcher
    train: TrainOnce

    @property
    def shared(self) -> dict[str, Any]:
        """The seed, and the shares to hold out if they are known."""
        names = asdict(SplitConfig()).keys() - {"seed"}
        shares = {name: value for name, value in self.fixed.items() if name in names}
        return {**shares, "seed": self.seed}

    @property
    def identity(self) -> dict[str, Any]:
        """What decides the trials, by what it is called in messages."""
        space = self.space
        return {
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

    @property
    def about(self) -> dict[str, Any]:
        """What else is good to know."""
        return {
            "command": self.command,
            "threads": self.resources.num_threads,
            "versions": {**versions(), "optuna": version("optuna")},
        }

    def run(self, study: ResultFolder[Trial] | None, threads: int) -> Tuned:
        done = {trial.number: trial for trial in (study.results if study else ())}
        self.watcher.opens(len(done))
        blind = without_test_links(self.graph, self.split)
        resources = replace(self.resources, threads=threads, time_limit="", track_consistency=False)
        stopped: list[StopReason] = []

        def proposals() -> Iterator[list[tuple[int, Proposal]]]:
            """Yield what to try next, one by one: each depends on the results before it."""
            for number in (n for n in range(1, self.asked + 1) if n not in done):
                earlier = [done[n] for n in sorted(done) if n < number]
                proposal = propose(self.space, number, earlier, self.seed, self.goal)
                if proposal is None:
                    stopped.append("all tried")
                    return
                yield [(number, proposal)]

        def work(batch: Sequence[tuple[int, Proposal]]) -> list[Trial] | None:
            ((number, proposal),) = batch
            self.watcher.begins(number, proposal)
            trial = self._try(number, proposal, *blind, resources)
            return None if trial is None else [trial]

        def keep(_: tuple[int, Proposal], trial: Trial) -> None:
            done[trial.number] = trial
            if study is not None:
                study.append(trial)
            self.watcher.finished(trial, best_of(done.values(), self.goal) is trial)
            self._write(study, done)

        if not run_in_order(proposals(), work, keep, self.stop.is_due):
            stopped.append(self.stop.reason or "request")
        self._write(study, done)
        kept = tuple(done[n] for n in sorted(done))
        damaged_lines = study.damaged_lines if study else 0
        return Tuned(self.space, kept, next(iter(stopped), None), damaged_lines, self.goal)

    def _try(
        self, number: int, proposal: Proposal, graph: Graph, split: Split, resources: Resources
    ) -> Trial | None:
        """Return the trial, failed or not; None if it was stopped before its end."""
        start = time.perf_counter()
        empty = Trial(number, proposal.origin, proposal.settings)
        try:
            recipe = Recipe.of(self.space.method, {**proposal.settings, **self.shared})
            trained = self.train(
                graph,
                split,
                recipe,
                resources,
                on_epoch=self.watcher.ran_epoch,
                should_stop=self.stop.is_due,
                measure_test=False,
            )
        except CGCLError as error:
            failure = str(error)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            failure = "There is not enough memory for these settings."
        else:
            if trained.stopped is not None and trained.stopped.reason == "signal":
                return None
            return _result(replace(empty, seconds=time.perf_counter() - start), trained, recipe)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()  # so that the next, smaller trial finds room
        seconds = time.perf_counter() - start
        return replace(empty, seconds=seconds, failure=" ".join(failure.split()))

    def _write(self, study: ResultFolder[Trial] | None, done: Mapping[int, Trial]) -> None:
        """Write the table of all trials, and the best of them."""
        if study is None:
            return
        trials = [done[n] for n in sorted(done)]
        if trials:
            write_atomically(study.path / TABLE, table_of(trials))
        best = best_of(trials, self.goal)
        if best is not None:
            comments = self._comments(trials, best)
            content = best_file(self.space.method, best.settings, self.shared, comments)
            write_atomically(study.path / BEST, content)

    def _comments(self, trials: list[Trial], best: Trial) -> list[str]:
        graph, sizes = self.graph, self.split.sizes
        failed = sum(trial.has_failed for trial in trials)
        return [
            "Settings chosen by cgcl tune. To train with them: cgcl train GRAPH --config THIS_FILE",
            f"Graph: {graph.title}, {graph.num_nodes:,} nodes, {graph.num_edges:,} links, "
            f"fingerprint {graph.fingerprint[:12]}",
            f"Split: {sizes['train']:,} links to learn from, {sizes['val']:,} to choose by, "
            f"{sizes['test']:,} to test on, which were not looked at; seed {self.seed}",
            f"Trials: {len(trials)} of {self.asked}"
            f"{f', of which {failed} failed' if failed else ''}; this is trial {best.number}",
            f"Validation: {best.in_words(', ')} at epoch {best.best_epoch}",
            *([f"Command: {self.command}"] if self.command else []),
        ]


def _claim(file: Path, identity: dict[str, Any], about: dict[str, Any]) -> int:
    """Write down what is searched in a folder; return the threads that the search began with.

    Raises:
        RunFolderError: The folder holds another search.
    """
    # As it comes back from a file: a tuple is a list there.
    identity = json.loads(json.dumps(identity))
    if not file.exists():
        study = {"format": _FORMAT, "identity": identity, "about": about}
        write_atomically(file, json.dumps(study, indent=2).encode() + b"\n")
        return int(about["threads"])
    found = read_about(file, _FORMAT, ("identity", "about"), "searched")
    try:
        threads = int(found["about"]["threads"])
        there = {name: found["identity"][name] for name in identity}
        words = _in_words(there)
        differences = _differences(there, identity)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise damaged(file, "searched") from error
    if differences:
        raise RunFolderError(
            f"{file.parent} holds a search with {' and '.join(differences)}: {words};\n"
            f"you asked for {_in_words(identity)}.\n"
            f"Nothing was changed. Ask for the same again, or choose another `out`."
        )
    return threads


def _differences(there: dict[str, Any], asked: dict[str, Any]) -> list[str]:
    """Name what is not the same."""
    found = [
        f"another {name}" for name in asked if name != "settings" and there[name] != asked[name]
    ]
    if there["method"] == asked["method"] and there["settings"] != asked["settings"]:
        pairs = [(there["settings"][kind], asked["settings"][kind]) for kind in asked["settings"]]
        names = {
            name
            for before, now in pairs
            for name in before.keys() | now.keys()
            if before.get(name) != now.get(name)
        }
        found.append(f"other settings ({', '.join(sorted(names))})")
    return found


def _in_words(identity: dict[str, Any]) -> str:
    graph, split = identity["graph"], identity["split"]
    return (
        f"{identity['method']} on '{graph['title']}' ({graph['fingerprint'][:8]}), "
        f"split {split['fingerprint'][:8]}, seed {identity['seed']}"
    )
