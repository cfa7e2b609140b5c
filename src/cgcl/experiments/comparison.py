"""Every method in every run, one after the other; what is finished is not done again."""

from __future__ import annotations

import json
import math
import re
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from functools import lru_cache, partial
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

import torch
from torch import Tensor

from cgcl.errors import ConfigError
from cgcl.experiments import Listener, Plan
from cgcl.experiments.log import Owner, ResultFolder, RunLine, pending
from cgcl.experiments.search import BEST
from cgcl.graph import Graph
from cgcl.memory import is_out_of_memory
from cgcl.methods.settings import TrainedSettings
from cgcl.methods.table import METHODS, method_named
from cgcl.metrics import auc, link_metrics
from cgcl.split import Split, random_split
from cgcl.stored import fits
from cgcl.train.config import Resources, RunConfig
from cgcl.train.execution import computing_with, machine, resolve_device, versions
from cgcl.train.fit import BatchedTrainer, Fit, Fitted, fit
from cgcl.train.top_of_list import ranking_metrics

PLAN = "plan.json"
RESULTS = "runs.jsonl"
_LONGEST_REASON = 1000


@dataclass(frozen=True)
class TunedSettings:
    """What a search chose for a method."""

    values: Mapping[str, Any]
    trials: int | None = None
    """How many settings were tried; None if the file does not say."""


def read_tuned(folder: Path, graph: str) -> dict[str, TunedSettings]:
    """Return the settings by method that searches left in a folder.

    The files are `*.toml` in the folder itself, and what `cgcl tune` wrote about this graph below
    it, `tune-GRAPH-METHOD/best.toml`. A file names its method below `[train]`; the method's
    settings stand beside it or below `[train.set]`. What is no setting of the method, such as the
    shares to hold out, is left to the comparison.

    Args:
        folder: The folder with the files, or with the folders of searches.
        graph: The title of the graph.

    Raises:
        ConfigError: There is no such folder or no file in it, a file cannot be read or names no
            method, or two name the same.
    """
    if not folder.is_dir():
        remedy = "Give one with what cgcl tune wrote to `tuned`."
        raise ConfigError(f"There is no folder {folder}. {remedy}")
    start, end = f"tune-{graph}-", f"/{BEST}"
    below = [path for path in folder.glob(f"*{end}") if path.parent.name.startswith(start)]
    found: dict[str, TunedSettings] = {}
    whose: dict[str, Path] = {}
    for path in sorted([*folder.glob("*.toml"), *below]):
        name, settings = _read(path)
        if name in found:
            both = f"{path} and {whose[name]} both hold settings for {name}"
            raise ConfigError(f"{both}. Keep one of them.")
        found[name], whose[name] = settings, path
    if not found:
        raise ConfigError(
            f"{folder} holds no settings for '{graph}': neither TOML files nor folders "
            f"{start}METHOD with a {BEST}.\nMake them with cgcl tune, or name another `tuned`."
        )
    return found


def _read(path: Path) -> tuple[str, TunedSettings]:
    try:
        text = path.read_text(encoding="utf-8")
        content = tomllib.loads(text)
    except ValueError as error:  # also what is not UTF-8
        raise ConfigError(f"The settings file {path} is not valid TOML: {error}.") from error
    except OSError as error:
        raise ConfigError(f"Cannot read the settings file {path}: {error.strerror}.") from error
    table = content.get("train")
    name = table.get("method") if isinstance(table, dict) else None
    if not isinstance(table, dict) or not isinstance(name, str):
        needed = "A file for `tuned` has a table [train] with method"
        raise ConfigError(
            f'{path} names no method. {needed} = "vgae" or another one, as cgcl tune writes it.'
        )
    own = {field.name for field in fields(method_named(name).settings)}
    beside = {key: value for key, value in table.items() if key in own}
    below = table.get("set", {})
    if not isinstance(below, dict):
        raise ConfigError(f"{path} has 'set' as a value; it must be a table [train.set].")
    # The number of trials is no setting, so the search leaves it in a comment.
    trials = re.search(r"^# Trials: (\d+)", text, re.MULTILINE)
    return name, TunedSettings({**beside, **below}, int(trials[1]) if trials else None)


@dataclass(frozen=True)
class MethodSpec:
    """A method with its settings: a row of the table."""

    recipe: RunConfig
    source: str
    """Where the settings come from, in a word or two; empty for a method without any."""
    is_tuned: bool = False

    @property
    def name(self) -> str:
        """The method's name in the table of methods."""
        return self.recipe.name

    @property
    def title(self) -> str:
        """What people call it; two rows of one method have two titles."""
        return self.recipe.method.title + (" tuned" if self.is_tuned else "")

    @property
    def settings(self) -> dict[str, Any]:
        """Every setting by name."""
        return self.recipe.settings.to_json()


def names_of(text: str | None) -> list[str]:
    """Return the methods of a list with commas, each once; all of them for None.

    Raises:
        ConfigError: There is no such method.

    Example:
        >>> names_of("cgcl, adamic-adar,cgcl")
        ['cgcl', 'adamic-adar']
    """
    if text is None:
        return list(METHODS)
    names = [name for part in text.split(",") if (name := part.strip())]
    if not names:
        raise ConfigError(f"methods is {text!r}; give names with commas, such as cgcl,vgae,mlp.")
    for name in names:
        method_named(name)
    return list(dict.fromkeys(names))


def resolve_methods(
    graph: Graph,
    names: Sequence[str],
    plan: Plan,
    *,
    settings: Literal["authors", "default"] = "authors",
    tuned: Mapping[str, TunedSettings] | None = None,
    epochs: int | None = None,
) -> tuple[list[MethodSpec], list[str]]:
    """Return who takes part, and a sentence about each method that cannot.

    Args:
        graph: What they are compared on.
        names: The methods.
        plan: The shares to hold out.
        settings: Which settings each method gets: those of its authors for the graph, or those for
            any graph.
        tuned: Further settings by method; each makes a row more.
        epochs: Train so long, whatever the settings say.

    Raises:
        ConfigError: A setting is unknown or out of range, or nobody is left.
    """
    specs: list[MethodSpec] = []
    notes: list[str] = []
    for name in names:
        method = method_named(name)
        if graph.sides is not None and not method.works_across_sides:
            why = "it says nothing about two nodes on different sides of a bipartite graph."
            notes.append(f"{method.title} is left out: {why}")
            continue
        authors = method.authors_settings(graph.title) if settings == "authors" else {}
        rows: list[tuple[str, Mapping[str, Any]]] = [("authors" if authors else "default", authors)]
        if tuned is not None and name in tuned:
            trials = tuned[name].trials
            told = "tuned" if trials is None else f"tuned, {trials:,} trials"
            rows.append((told, tuned[name].values))
        for number, (source, values) in enumerate(rows):
            own, words = {**values, "val": plan.val, "test": plan.test}, source
            if epochs is not None and issubclass(method.settings, TrainedSettings):
                own["epochs"], words = epochs, f"{source}, epochs {epochs:,}"
            recipe = RunConfig.for_graph(name, own, graph)
            specs.append(MethodSpec(recipe, words if fields(recipe.settings) else "", number == 1))
    if not specs:
        raise ConfigError("No method is left to compare. " + " ".join(notes))
    return specs, notes


@dataclass(frozen=True, order=True)
class Stratum:
    """Pairs whose end with fewer training links has at least `low` of them and at most `high`."""

    low: int
    high: int | None
    """None for no limit."""

    @property
    def words(self) -> str:
        """The degrees in words.

        Example:
            >>> [Stratum(*ends).words for ends in ((0, 0), (1, 2), (3, 5), (6, None))]
            ['0', '1 or 2', '3 to 5', '6 or more']
        """
        if self.high is None:
            return f"{self.low:,} or more"
        if self.high <= self.low:
            return f"{self.low:,}"
        return f"{self.low:,} {'or' if self.high == self.low + 1 else 'to'} {self.high:,}"

    def holds(self, degrees: Tensor) -> Tensor:
        """Tell which degrees are inside, bool [p]."""
        return (degrees >= self.low) & (degrees <= (math.inf if self.high is None else self.high))


def strata_of(split: Split) -> tuple[Stratum, ...]:
    """Return groups of pairs, each with about a third of the test links.

    Degrees are whole numbers: where many links share one, there are fewer groups.
    """
    degrees = _smaller_degree(split.train, split.test, split.num_nodes).sort().values
    count = degrees.numel()
    thirds = {int(degrees[max(count * part // 3 - 1, 0)]) for part in (1, 2)} if count else ()
    # A bound at the largest degree would leave nothing above it.
    bounds = sorted(bound for bound in thirds if bound < int(degrees[-1]))
    return tuple(map(Stratum, [0, *(bound + 1 for bound in bounds)], [*bounds, None]))


def by_degree(
    strata: Sequence[Stratum], split: Split, positive: Tensor, negative: Tensor
) -> list[dict[str, Any]]:
    """Return counts and AUC of each part; no AUC where links or unlinked pairs are missing.

    Args:
        strata: The parts.
        split: What was learned from and tested on.
        positive: Scores of the test links, [p].
        negative: Scores of the unlinked test pairs, [q].
    """
    of_links = _smaller_degree(split.train, split.test, split.num_nodes)
    of_others = _smaller_degree(split.train, split.test_negatives, split.num_nodes)
    found: list[dict[str, Any]] = []
    for part in strata:
        links, others = positive[part.holds(of_links)], negative[part.holds(of_others)]
        counts = {"links": links.numel(), "others": others.numel()}
        own = auc(links, others) if all(counts.values()) else None
        found.append({**asdict(part), **counts, "auc": own})
    return found


def _smaller_degree(train: Tensor, pairs: Tensor, num_nodes: int) -> Tensor:
    """Return the training degree of each pair's end that has fewer links, int64 [p]."""
    degree = torch.bincount(train.flatten(), minlength=num_nodes)
    return degree[pairs].amin(dim=0)


@dataclass(frozen=True, kw_only=True)
class Result(RunLine):
    """One cell: a method with its settings, a split, first weights, and what it reached."""

    init_seed: int | None
    """Seed of the first weights; None for a method that has none."""
    ended: str
    """When it ended, UTC."""
    time_limit: str = ""
    test: dict[str, float] | None = None
    """Metrics as fractions; None if it failed."""
    test_sampled: dict[str, Any] | None = None
    """Where metrics come from some of the test links: how many, and the standard errors."""
    by_degree: list[dict[str, Any]] | None = None
    """AUC by the smaller training degree of a pair's ends."""
    train_seconds: float = 0.0
    """Time to prepare, to train and to choose the epoch."""
    test_seconds: float = 0.0
    """Time to score the test pairs."""
    stopped: dict[str, Any] | None = None
    """Why training ended before its last epoch: reason, epoch, message."""
    failure: dict[str, str] | None = None
    """Why there is no result: the error's class and its text."""

    @property
    def key(self) -> str:
        """Equal for results that answer the same question."""
        return _key(self.method, self.settings, self.split, self.init_seed)

    @property
    def seconds(self) -> float:
        """Time for all of it."""
        return self.train_seconds + self.test_seconds

    def is_final(self, time_limit: str) -> bool:
        """Tell whether there is nothing to do again.

        A failure is tried again, and so is a training that another time limit cut short.

        Args:
            time_limit: The limit that would hold now.
        """
        was_cut = self.stopped is not None and self.stopped.get("reason") == "time limit"
        return self.failure is None and not (was_cut and self.time_limit != time_limit)

    def is_sound(self) -> bool:
        """Tell whether there is a result or a failure of settings on a split."""
        strata = all(fits(own, _STRATUM, exactly=False) for own in self.by_degree or ())
        return strata and (self.test is not None or self.failure is not None)


_STRATUM = {"low": int, "high": (int, None), "links": int, "others": int, "auc": (float, None)}


def _key(method: str, settings: Mapping[str, Any], split: str, init_seed: int | None) -> str:
    """Return what tells one cell from another."""
    return json.dumps([method, settings, split, init_seed], sort_keys=True)


@dataclass(frozen=True)
class Cell:
    """A method in one run: what has to be measured."""

    run: int
    """The number of the run, from 0."""
    spec: MethodSpec
    split_seed: int
    split: str
    """The split's fingerprint."""
    init_seed: int | None
    """Seed of the first weights; None if there are none."""

    @property
    def recipe(self) -> RunConfig:
        """The method, its settings and the seed of its first weights."""
        recipe = self.spec.recipe
        return replace(recipe, split=replace(recipe.split, seed=self.init_seed or 0))

    @property
    def key(self) -> str:
        """Equal to that of the result that answers it."""
        return _key(self.spec.name, self.spec.settings, self.split, self.init_seed)


def _tested(trained: Fitted, split: Split, strata: Sequence[Stratum]) -> dict[str, Any]:
    """Return what there is to say about a trained method, test included."""
    begun = time.perf_counter()
    scorer = trained.scorer(split.train)
    positive, negative = scorer.logits(split.test), scorer.logits(split.test_negatives)
    seconds = time.perf_counter() - begun
    top = ranking_metrics(scorer, split)
    return {
        "val": trained.val,
        "test": top.metrics | link_metrics(positive, negative),
        "test_sampled": top.sampling,
        "by_degree": by_degree(strata, split, positive, negative),
        "epochs": len(trained.history),
        "best_epoch": trained.best_epoch,
        "train_seconds": trained.seconds,
        "test_seconds": seconds,
        "parameters": trained.parameters,
        "stopped": None if trained.stopped is None else asdict(trained.stopped),
    }


class Comparison:
    """Methods, the splits they are compared on, and the folder that keeps what was found."""

    def __init__(
        self, graph: Graph, specs: Sequence[MethodSpec], plan: Plan, path: Path, command: str = ""
    ) -> None:
        """Prepare to compare, with the results that the folder already holds.

        Args:
            graph: What is learned from.
            specs: The methods.
            plan: How often, and on which splits.
            path: The folder to keep results in; created if it is not there.
            command: What repeats the comparison, for those who find the folder.

        Raises:
            SplitError: The graph has too few links for these shares.
            RunFolderError: The folder belongs to another comparison or is in use.
            ResourceError: The folder cannot be written.
        """
        self.graph, self.plan, self.specs = graph, plan, tuple(specs)
        seeds = [plan.split_seed(run) for run in range(plan.runs)]
        first = self.split_of(seeds[0])
        self.sizes, self.strata = first.sizes, strata_of(first)
        """Links in each part of a split, equal for all splits; groups of its test pairs."""
        prints = {seed: self.split_of(seed).fingerprint for seed in dict.fromkeys(seeds)}
        # No training takes the least time, subgraphs the most.
        cheap = sorted(
            specs, key=lambda own: (own.recipe.epochs > 0, own.recipe.settings.caps != "")
        )
        self.cells = [
            Cell(run, spec, seed, prints[seed], run if spec.recipe.epochs else None)
            for run, seed in enumerate(seeds)
            for spec in cheap
        ]
        """In the order of work: run by run, within a run the cheap methods first."""
        identity = {
            "graph": {"title": graph.title, "fingerprint": graph.fingerprint},
            **{name: getattr(plan, name) for name in ("protocol", "val", "test")},
        }
        about = {
            "links": self.sizes,
            "runs": plan.runs,
            "methods": [spec.title for spec in specs],
            "degrees": [part.words for part in self.strata],
            "command": command,
        }
        owner = Owner(PLAN, "a comparison", identity, about)
        self.folder = ResultFolder(path, RESULTS, Result, owner)

    def split_of(self, seed: int) -> Split:
        """Return the split of a seed."""
        return random_split(self.graph, self.plan.val, self.plan.test, seed)

    def left(self, resources: Resources) -> list[Cell]:
        """Return the cells without a final result, in the order of work.

        Cells that are answered by the same result, such as those of a formula on one split, are
        listed once.
        """
        limit = resources.time_limit
        done = {result.key for result in self.folder.results if result.is_final(limit)}
        return pending(self.cells, done)

    def run(
        self,
        resources: Resources,
        listener: Listener | None = None,
        should_stop: Callable[[], bool] = lambda: False,
        train: Fit = fit,
    ) -> bool:
        """Measure what is left; tell whether it came to the end.

        A method that fails is written down as failed and stops nothing.

        Args:
            resources: Where and how long to compute.
            listener: Told how it goes.
            should_stop: Asked after every epoch; True ends it there.
            train: What trains one method.

        Raises:
            ResourceError: The folder cannot be written, or there is no such device.
        """
        told = listener or Listener()
        # What metrics import on first use would else count as the first method's time.
        link_metrics([1.0], [0.0])
        left = self.left(resources)
        last = {cell.run: cell for cell in left}
        seeds = {cell.recipe: cell.split_seed for cell in left if cell.init_seed is not None}
        wanted = sorted(seeds, key=lambda recipe: recipe.name)

        split_of = lru_cache(1)(self.split_of)
        # Runs of one method are trained together where that is possible.
        ahead = BatchedTrainer(wanted, lambda recipe: split_of(seeds[recipe]), train)
        how = {"on_epoch": told.epoch_ends, "should_stop": should_stop, "measure_test": False}
        for cell in left:
            if should_stop():
                return False
            split = split_of(cell.split_seed)
            told.begins(cell)
            result = self._measure(cell, split, resources, partial(ahead, **how))
            if result is None:
                return False
            self.folder.append(result)
            told.ends(cell, result)
            if cell is last[cell.run]:
                told.run_ends(cell.run)
        return True

    def _measure(self, cell: Cell, split: Split, resources: Resources, train: Fit) -> Result | None:
        """Train and test one method; None if it was stopped on the way.

        Whatever goes wrong inside becomes a result that says so. That there is no such device
        concerns every method, and is raised.
        """
        device = resolve_device(resources)
        found: dict[str, Any]
        try:
            trained = train(self.graph, split, cell.recipe, resources)
            if trained.stopped is not None and trained.stopped.reason == "signal":
                return None
            with computing_with(resources):
                found = _tested(trained, split, self.strata)
        # Another method must not pay for what goes wrong in this one, whatever it is.
        except Exception as error:
            reason = str(error)[:_LONGEST_REASON] or "The error says nothing more."
            # Running out of memory has many names.
            kind = "out of memory" if is_out_of_memory(error) else type(error).__name__
            found = {"failure": {"error": kind, "reason": reason}}
            torch.cuda.empty_cache()
        return Result(
            method=cell.spec.name,
            settings=cell.spec.settings,
            split_seed=cell.split_seed,
            split=cell.split,
            init_seed=cell.init_seed,
            caps=cell.spec.recipe.settings.caps,
            time_limit=resources.time_limit,
            versions=versions(cell.spec.recipe.name),
            ended=datetime.now(UTC).isoformat(timespec="seconds"),
            **machine(resources, device),
            **found,
        )

    def found(self) -> dict[str, Result]:
        """Return the last result of each cell by its key; a failure only if there is no other."""
        wanted = {cell.key for cell in self.cells}
        found: dict[str, Result] = {}
        for result in self.folder.results:
            if result.key in wanted and (result.failure is None or result.key not in found):
                found[result.key] = result
        return found

    def seconds_for(self, cells: Sequence[Cell]) -> float:
        """Return about how long cells will take, by what their methods took so far."""
        times: dict[MethodSpec, list[float]] = {spec: [] for spec in self.specs}
        found = self.found()
        for cell in self.cells:
            if cell.key in found and found[cell.key].failure is None:
                times[cell.spec].append(found[cell.key].seconds)
        return sum(fmean(times[cell.spec] or [0.0]) for cell in cells)

    @property
    def others(self) -> list[str]:
        """Methods with results in the folder that nobody asked for this time."""
        asked = {spec.name for spec in self.specs}
        return sorted({result.method for result in self.folder.results} - asked)
