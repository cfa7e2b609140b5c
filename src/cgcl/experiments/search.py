"""The search for settings: trial after trial on the validation links, the best one kept."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import torch

from cgcl.errors import CGCLError, ConfigError, ResourceError, TrainingError
from cgcl.experiments import Listener
from cgcl.experiments.log import Line, Owner, ResultFolder
from cgcl.experiments.tables import csv_text, toml_text
from cgcl.files import write_atomically
from cgcl.graph import Graph
from cgcl.memory import is_out_of_memory
from cgcl.methods.settings import CGCLSettings, TrainedSettings
from cgcl.methods.table import DEFAULT_METHOD, method_named
from cgcl.metrics.table import METRICS
from cgcl.seeds import stream
from cgcl.split import Split
from cgcl.train.config import Resources, RunConfig
from cgcl.train.execution import resolve_device, versions
from cgcl.train.fit import Fit, Fitted, fit

if TYPE_CHECKING:
    import optuna

STUDY = "study.json"
TRIALS = "trials.jsonl"
TABLE = "trials.csv"
BEST = "best.toml"
Origin = Literal["defaults", "authors", "search"]
"""Where the settings of a trial come from."""
Goal = Literal["auc", "ap", "node_mrr"]
"""What the best trial has most of, on the validation links."""
StopReason = Literal["time limit", "request", "all tried"]
"""Why a search ended before its last trial."""


@dataclass(frozen=True)
class Trial(Line):
    """Settings to try, and what came of it."""

    NEEDED = frozenset({"auc", "ap", "best_epoch", "seconds", "failure"})
    SAID_IF_THERE = frozenset({"node_mrr"})

    number: int
    """1 for the first."""
    origin: Origin
    settings: dict[str, Any]
    """Every setting of the method."""
    auc: float | None = None
    """Validation AUC at the best epoch; None if the trial failed or is still to be run."""
    ap: float | None = None
    """Validation AP at the same epoch."""
    best_epoch: int | None = None
    seconds: float = 0.0
    """Time that it took."""
    failure: str = ""
    """Why the trial failed; empty if it did not."""
    node_mrr: float | None = None
    """Validation node MRR at the same epoch, if that was chosen by it."""

    @property
    def has_failed(self) -> bool:
        """Whether there is no result."""
        return self.auc is None or self.ap is None

    def value(self, goal: Goal) -> float | None:
        """Return what it reached; None if it failed."""
        return {"auc": self.auc, "ap": self.ap, "node_mrr": self.node_mrr}[goal]

    def in_words(self, between: str = "  ") -> str:
        """Return what it reached, for people."""
        goals: tuple[Goal, ...] = ("node_mrr", "auc", "ap")
        found = {METRICS[goal].title: self.value(goal) for goal in goals}
        return between.join(f"{k} {value:.4f}" for k, value in found.items() if value is not None)

    def rank(self, goal: Goal) -> tuple[float, float, int]:
        """Return what is greater for the better trial: the goal, then AUC or AP, then the first."""
        value, other = self.value(goal), self.ap if goal == "auc" else self.auc
        if value is None or other is None:
            return (-1.0, -1.0, -self.number)
        return (value, other, -self.number)

    def is_sound(self) -> bool:
        """Tell whether a trial of settings has a result, or none."""
        return self.origin in get_args(Origin) and (self.auc is None) == (self.ap is None)


def best_of(trials: Iterable[Trial], goal: Goal = "auc") -> Trial | None:
    """Return the best trial, ties by AUC or AP, then by who came first."""
    return max((t for t in trials if not t.has_failed), key=lambda t: t.rank(goal), default=None)


def table_of(trials: Sequence[Trial]) -> bytes:
    """Return the trials as CSV, a row each, a column for each setting."""
    settings = list(dict.fromkeys(name for trial in trials for name in trial.settings))
    measured = ["auc", "ap", "best_epoch"]
    if any(trial.node_mrr is not None for trial in trials):
        measured.insert(0, "node_mrr")
    rows: list[list[Any]] = []
    for one in trials:
        found = [getattr(one, name) for name in ("number", "origin", *measured)]
        own = [one.settings.get(name) for name in settings]
        rows.append([*found, f"{one.seconds:.2f}", *own, one.failure])
    head = ["trial", "origin", *measured, "seconds", *settings, "failure"]
    return csv_text(head, rows).encode()


@dataclass(frozen=True)
class Space:
    """The settings of a method: which are searched, and what the others are."""

    method: str
    """The method's name in the table of methods."""
    base: Mapping[str, Any]
    """Every setting as by default, or as fixed for all trials."""
    authors: Mapping[str, Any]
    """Every setting as its authors have it on this graph, or as fixed for all trials."""
    choices: Mapping[str, tuple[Any, ...]]
    """What to try for each setting that is searched."""

    @classmethod
    def of(
        cls,
        method: str,
        graph_title: str,
        fixed: Mapping[str, Any],
        chosen: Mapping[str, Any] | None = None,
    ) -> Space:
        """Return the space of a method.

        Args:
            method: The method's name.
            graph_title: Its authors may have settings of their own for this graph.
            fixed: Settings that are the same in all trials, whatever the method would search.
            chosen: What the method's own rule chooses for the graph: its defaults there.

        Raises:
            ConfigError: There is no such method or setting, one is out of range, or there is
                nothing to search.
        """
        known = method_named(method)
        choices = {name: values for name, values in known.search.items() if name not in fixed}
        chosen = chosen or {}
        base = RunConfig.of(method, {**chosen, **fixed}).settings.to_json()
        if not choices:
            why = (
                f"of {method}'s settings {', '.join(known.search)} are searched, and all are "
                f"fixed. Leave one of them open."
                if known.search
                else f"{method} has no settings that are worth a search.\n"
                f"Use it as it is: cgcl train GRAPH --method {method}"
            )
            raise ConfigError(f"There is nothing to tune: {why}")
        authors = RunConfig.of(method, {**chosen, **known.authors_settings(graph_title), **fixed})
        return cls(method, base, authors.settings.to_json(), choices)

    @property
    def goal(self) -> Goal:
        """By what the best trial is chosen, unless told otherwise: as its epoch, if it can be."""
        return "node_mrr" if self.base.get("choose_by") == "node_mrr" else "auc"

    @property
    def starts(self) -> list[Trial]:
        """The first trials: the defaults, and what the authors use if that is something else."""
        first = [Trial(1, "defaults", dict(self.base))]
        if self.authors != self.base:
            first.append(Trial(2, "authors", dict(self.authors)))
        return first

    @property
    def size(self) -> int:
        """How many different settings can be chosen."""
        return math.prod(len(values) for values in self.choices.values())

    def contains(self, settings: Mapping[str, Any]) -> bool:
        """Say whether settings can be chosen: the authors may use some that cannot."""
        return all(
            value in self.choices.get(name, (self.base.get(name),))
            for name, value in settings.items()
        )

    def at(self, place: int) -> dict[str, Any]:
        """Return every setting at one of the `size` places of the space."""
        chosen = dict(self.base)
        for name, values in self.choices.items():
            place, digit = divmod(place, len(values))
            chosen[name] = values[digit]
        return chosen


def chosen_by(goal: Goal | None, method: str) -> dict[str, str]:
    """Return the setting that a goal asks for: by what the epoch of every trial is chosen.

    Raises:
        ConfigError: There is no such method, or nothing in it that is trained for node MRR.
    """
    is_trained = issubclass(method_named(method).settings, TrainedSettings)
    if goal == "node_mrr" and not is_trained:
        raise ConfigError(f"{method} is not trained, so its goal can be auc or ap.")
    if goal is None or not is_trained:
        return {}
    return {"choose_by": "node_mrr" if goal == "node_mrr" else "auc"}


# So many trials are drawn at random before the results guide the search. Few, because a search
# has some twenty trials and the first ones are good settings already.
_RANDOM_TRIALS = 5
# How often to ask again if an answer has been tried already.
_QUESTIONS = 20
# Below every result: settings that fail are to be kept away from.
_WORST = 0.0


def require_optuna() -> None:
    """Refuse to begin without Optuna.

    Raises:
        ResourceError: It is not installed.
    """
    if find_spec("optuna") is None:
        raise ResourceError("Tuning needs optuna: pip install 'cgcl[tune]'")


def propose(
    space: Space, number: int, earlier: Sequence[Trial], seed: int, goal: Goal = "auc"
) -> Trial | None:
    """Return what to try next, or None if everything has been tried.

    The answer follows from the arguments alone, so a search that was interrupted goes on as if
    it had not been. Settings that were tried before are never proposed again.

    Args:
        space: What to choose from.
        number: The number of the trial, 1 for the first.
        earlier: The trials with smaller numbers.
        seed: The seed of the search.
        goal: What is searched for.

    Raises:
        ResourceError: Optuna is not installed.
    """
    starts = space.starts
    if number <= len(starts):
        return starts[number - 1]
    tried = [trial.settings for trial in earlier]
    if sum(space.contains(settings) for settings in tried) >= space.size:
        return None
    require_optuna()
    # NumPy takes seeds of 32 bits.
    streams = (stream(seed, f"tune {number}", n) for n in range(_QUESTIONS + 1))
    seeds = (own.initial_seed() % 2**32 for own in streams)
    study = _study_of(space, earlier, goal)
    for _, own in zip(range(_QUESTIONS), seeds, strict=False):
        settings = _ask(study, space, own)
        if settings not in tried:
            return Trial(number, "search", settings)
    # The first settings from a random place on that have not been tried.
    generator = torch.Generator().manual_seed(next(seeds))
    start = int(torch.randint(space.size, (1,), generator=generator))
    places = (space.at((start + step) % space.size) for step in range(space.size))
    return next((Trial(number, "search", own) for own in places if own not in tried), None)


def _study_of(space: Space, earlier: Sequence[Trial], goal: Goal) -> optuna.Study:
    """Return an Optuna study that knows the results so far."""
    from optuna import create_study, logging
    from optuna.trial import create_trial

    told = logging.get_verbosity()
    logging.set_verbosity(logging.WARNING)  # a study that only lives for a moment is no news
    study = create_study(direction="maximize")
    logging.set_verbosity(told)
    for trial in earlier:
        if space.contains(trial.settings):
            value = trial.value(goal)
            params = {name: trial.settings[name] for name in space.choices}
            own = {"params": params, "distributions": _distributions(space)}
            study.add_trial(create_trial(value=_WORST if value is None else value, **own))
    return study


def _ask(study: optuna.Study, space: Space, seed: int) -> dict[str, Any]:
    """Ask Optuna once.

    A sampler's generator is part of no storage. A new one with a seed of its own for each
    question makes the answer the same in every process. An answer that is not taken stays
    pending in the study, and TPE keeps away from what is pending.
    """
    from optuna.samplers import TPESampler

    study.sampler = TPESampler(seed=seed, n_startup_trials=_RANDOM_TRIALS, multivariate=True)
    return {**space.base, **study.ask(_distributions(space)).params}


def _distributions(space: Space) -> dict[str, optuna.distributions.BaseDistribution]:
    from optuna.distributions import CategoricalDistribution

    return {name: CategoricalDistribution(values) for name, values in space.choices.items()}


def without_test_links(graph: Graph, split: Split) -> tuple[Graph, Split]:
    """Return graph and split as if the test links did not exist.

    What is trained on these cannot look at them, whatever it does.
    """
    links = torch.cat([split.train, split.val], dim=1)
    edges = links.index_select(1, (links[0] * graph.num_nodes + links[1]).argsort())
    none = split.test.new_empty(2, 0)
    without = replace(split, test=none, test_negatives=none)
    return replace(graph, edges=edges, times=None), without


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
        <BLANKLINE>
        [train]
        method = "vgae"
        seed = 0
        lr = 0.01
        <BLANKLINE>
        [train.set]
        latent = 16
        <BLANKLINE>
    """
    tables: dict[str, dict[str, Any]] = {"train": {"method": method, **shares}}
    for name, value in settings.items():
        tables.setdefault("train" if name in _FLAGS else "train.set", {})[name] = value
    return toml_text(tables, comments).encode()


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
        if best is not None:
            return best
        raise TrainingError(
            f"All {len(self.trials)} trials failed. The first one: {self.trials[0].failure}"
            if self.trials
            else "The search was stopped before a first trial was finished. Give it more time, or "
            "make trials shorter with `epochs`."
        )

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
    listener: Listener | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    train: Fit | None = None,
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
        fixed: Settings that are the same in all trials; `val` and `test` are only written down.
        goal: What the best trial has most of; by default what the method's epoch is chosen by.
        command: The command that repeats the search, to be written down.
        listener: Told about every trial.
        should_stop: Asked after every epoch; True ends the search there.
        train: What trains one trial; `fit` by default.

    Raises:
        ConfigError: There is no such method or setting, or nothing to tune, or nothing to tune on.
        RunFolderError: The folder belongs to another search, or is in use.
        ResourceError: Optuna or the device is missing, or the disk is full.
        SplitError: The split belongs to another graph.
    """
    fixed, here = {**(fixed or {}), **chosen_by(goal, method)}, resources or Resources()
    space = Space.of(method, graph.title, fixed, method_named(method).settings_for(graph, {}))
    _refuse_at_once(graph, split, trials, here)
    shares = {name: value for name, value in fixed.items() if name in ("val", "test")}
    shares, goal = {**shares, "seed": seed}, goal or space.goal
    search = _Search(graph, split, space, shares, command, goal, trials)
    how = (train or fit, listener or Listener(), should_stop)
    if folder is None:
        return search.run(here, *how)
    with ResultFolder(folder, TRIALS, Trial, search.owner(here.num_threads)) as search.study:
        # As many threads as when the search began: their number decides the last bits.
        threads = here.threads or search.study.about["threads"]
        return search.run(replace(here, threads=threads), *how)


def _refuse_at_once(graph: Graph, split: Split, trials: int, resources: Resources) -> None:
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


@dataclass(eq=False)
class _Search:
    """What is searched, how, and how it is written down."""

    graph: Graph
    split: Split
    space: Space
    shares: Mapping[str, Any]
    """The seed, and the shares to hold out if they are known."""
    command: str
    goal: Goal
    asked: int
    """How many trials there are to be."""
    study: ResultFolder[Trial] | None = None
    """Where they are kept, if they are."""

    def owner(self, threads: int) -> Owner:
        """What decides the trials, and what else is good to know."""
        graph, split, space = self.graph, self.split, self.space
        identity = {
            "method": space.method,
            "graph": {"title": graph.title, "fingerprint": graph.fingerprint},
            "split": {"fingerprint": split.fingerprint, **split.sizes},
            "seed": self.shares["seed"],
            "settings": {
                "searched": space.choices,
                "defaults": space.base,
                "authors": space.authors,
            },
        }
        told = {**versions(space.method), "optuna": version("optuna")}
        about = {"command": self.command, "threads": threads, "versions": told}
        return Owner(STUDY, "a search", identity, about, kept=about)

    def run(
        self, here: Resources, train: Fit, listener: Listener, should_stop: Callable[[], bool]
    ) -> Tuned:
        """Try what is not tried yet, keeping what is found in the folder if there is one."""
        end = time.monotonic() + here.time_limit_s

        def why_stop() -> StopReason | None:
            if should_stop():
                return "request"
            return "time limit" if time.monotonic() >= end else None

        blind = partial(
            train,
            *without_test_links(self.graph, self.split),
            resources=replace(here, time_limit="", track_consistency=False),
            on_epoch=listener.epoch_ends,
            should_stop=lambda: why_stop() is not None,
            measure_test=False,
        )
        searched = self.space.choices.keys()  # of which a trial says each, or is made again
        results = self.study.results if self.study else ()
        done = {own.number: own for own in results if searched <= own.settings.keys()}
        listener.opens(len(done))
        stopped: StopReason | None = None
        for number in (n for n in range(1, self.asked + 1) if n not in done):
            # Each depends on the results before it.
            earlier = [done[n] for n in sorted(done) if n < number]
            proposed = propose(self.space, number, earlier, self.shares["seed"], self.goal)
            stopped = "all tried" if proposed is None else why_stop()
            if proposed is None or stopped is not None:
                break
            listener.begins(proposed)
            trial = self._try(proposed, blind)
            if trial is None:
                stopped = why_stop() or "request"
                break
            done[number] = trial
            if self.study is not None:
                self.study.append(trial)
            is_best = best_of(done.values(), self.goal) is trial
            listener.ends(proposed, trial, is_best=is_best)
            self._write(done)
        self._write(done)
        kept = tuple(done[n] for n in sorted(done))
        damaged_lines = self.study.damaged_lines if self.study else 0
        return Tuned(self.space, kept, stopped, damaged_lines, self.goal)

    def _try(self, trial: Trial, train: Fit) -> Trial | None:
        """Return the trial with its result, failed or not; None if it was stopped on the way."""
        start = time.perf_counter()
        try:
            recipe = RunConfig.of(self.space.method, {**trial.settings, **self.shares})
            trained = train(recipe)
            if trained.stopped is not None and trained.stopped.reason == "signal":
                return None
            found: dict[str, Any] = _found(trained, recipe)
        except (CGCLError, MemoryError, RuntimeError) as error:
            is_ours = isinstance(error, CGCLError)
            if not is_ours and not is_out_of_memory(error):
                raise
            failure = str(error) if is_ours else "There is not enough memory for these settings."
            found = {"failure": " ".join(failure.split())}
            torch.cuda.empty_cache()  # so that the next, smaller trial finds room
        return replace(trial, seconds=time.perf_counter() - start, **found)

    def _write(self, done: Mapping[int, Trial]) -> None:
        """Write the table of all trials, and the best of them."""
        if self.study is None or not done:
            return
        trials, path = [done[n] for n in sorted(done)], self.study.path
        write_atomically(path / TABLE, table_of(trials))
        best = best_of(trials, self.goal)
        if best is not None:
            comments = self._comments(trials, best)
            text = best_file(self.space.method, best.settings, self.shares, comments)
            write_atomically(path / BEST, text)

    def _comments(self, trials: list[Trial], best: Trial) -> list[str]:
        graph, sizes = self.graph, self.split.sizes
        failed = sum(trial.has_failed for trial in trials)
        some = f", of which {failed} failed" if failed else ""
        return [
            "Settings chosen by cgcl tune. To train with them: cgcl train GRAPH --config THIS_FILE",
            f"Graph: {graph.title}, {graph.num_nodes:,} nodes, {graph.num_edges:,} links, "
            f"fingerprint {graph.fingerprint[:12]}",
            f"Split: {sizes['train']:,} links to learn from, {sizes['val']:,} to choose by, "
            f"{sizes['test']:,} to test on, which were not looked at; seed {self.shares['seed']}",
            f"Trials: {len(trials)} of {self.asked}{some}; this is trial {best.number}",
            f"Validation: {best.in_words(', ')} at epoch {best.best_epoch}",
            *([f"Command: {self.command}"] if self.command else []),
        ]


def _found(trained: Fitted, recipe: RunConfig) -> dict[str, Any]:
    """Return what a trial reached on the validation links, or why it failed."""
    stopped, val = trained.stopped, trained.val
    if stopped is not None and stopped.reason == "loss is not finite":
        return {"failure": " ".join(stopped.message.split())}
    if val is None:
        return {"failure": "Nothing was measured on the validation links."}
    if "node_mrr" not in val and getattr(recipe.settings, "choose_by", "") == "node_mrr":
        return {"failure": "Node MRR takes too long to measure on this graph."}
    found = {name: float(val[name]) for name in get_args(Goal) if name in val}
    return {**found, "best_epoch": trained.best_epoch}
