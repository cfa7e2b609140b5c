"""Every method in every run, one after the other; what is finished is not done again."""

from __future__ import annotations

import json
import re
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from cgcl.errors import ConfigError, RunFolderError
from cgcl.experiments.log import Line, ResultFolder, damaged, read_about
from cgcl.experiments.plan import Listener, Plan
from cgcl.experiments.runner import is_out_of_memory, pending, run_in_order
from cgcl.experiments.search import BEST
from cgcl.files import write_atomically
from cgcl.graph import Graph
from cgcl.methods.method import EVERY_GRAPH, Method
from cgcl.methods.settings import TrainedSettings
from cgcl.methods.table import METHODS, method_named
from cgcl.metrics import auc, link_metrics
from cgcl.split import Split, random_split
from cgcl.train.config import Resources
from cgcl.train.execution import computing_with, machine, resolve_device, versions
from cgcl.train.once import Trained, TrainOnce, train_once
from cgcl.train.recipe import Recipe
from cgcl.train.together import Ahead
from cgcl.train.top_of_list import ranking_metrics

PLAN = "plan.json"
RESULTS = "runs.jsonl"
_FORMAT = 1


@dataclass(frozen=True)
class TunedSettings:
    """What a search chose for a method."""

    values: Mapping[str, Any]
    trials: int | None = None
    """How many settings were tried; None if the file does not say."""

    @property
    def words(self) -> str:
        """Where the settings come from.

        Example:
            >>> TunedSettings({}, 20).words, TunedSettings({}).words
            ('tuned, 20 trials', 'tuned')
        """
        return "tuned" if self.trials is None else f"tuned, {self.trials:,} trials"


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
        raise ConfigError(
            f"There is no folder {folder}. Give one with what cgcl tune wrote to --tuned."
        )
    start, end = f"tune-{graph}-", f"/{BEST}"
    below = [path for path in folder.glob(f"*{end}") if path.parent.name.startswith(start)]
    found: dict[str, TunedSettings] = {}
    whose: dict[str, Path] = {}
    for path in sorted([*folder.glob("*.toml"), *below]):
        name, settings = _read(path)
        if name in found:
            raise ConfigError(
                f"{path} and {whose[name]} both hold settings for {name}. Keep one of them."
            )
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
        raise ConfigError(
            f"{path} names no method. A file for `tuned` has a table [train] with "
            f'method = "vgae" or another one, as cgcl tune writes it.'
        )
    own = {field.name for field in fields(method_named(name).settings)}
    beside = {key: value for key, value in table.items() if key in own}
    below = table.get("set", {})
    if not isinstance(below, dict):
        raise ConfigError(f"{path} has 'set' as a value; it must be a table [train.set].")
    # The number of trials is no setting, so the search leaves it in a comment.
    trials = re.search(r"^# Trials: (\d+)", text, re.MULTILINE)
    return name, TunedSettings({**beside, **below}, int(trials[1]) if trials else None)


SettingsChoice = Literal["authors", "default"]
"""Which settings methods get: those of their authors for the graph, or those for any graph."""


@dataclass(frozen=True)
class MethodSpec:
    """A method with its settings: a row of the table."""

    recipe: Recipe
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

    @property
    def is_trained(self) -> bool:
        """Whether there is anything to train, and hence anything that its first weights decide."""
        return self.recipe.epochs > 0

    @property
    def cost_rank(self) -> tuple[bool, bool]:
        """Smaller for methods that take less time: no training first, subgraph methods last."""
        return self.is_trained, bool(self.recipe.settings.caps)

    def with_seed(self, seed: int) -> Recipe:
        """Return the recipe of one run."""
        return replace(self.recipe, split=replace(self.recipe.split, seed=seed))


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
    settings: SettingsChoice = "authors",
    tuned: Mapping[str, TunedSettings] | None = None,
    epochs: int | None = None,
) -> tuple[list[MethodSpec], list[str]]:
    """Return who takes part, and a sentence about each method that cannot.

    Args:
        graph: What they are compared on.
        names: The methods.
        plan: The shares to hold out.
        settings: Which settings each method gets.
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
            notes.append(
                f"{method.title} is left out: it says nothing about two nodes on different sides "
                f"of a bipartite graph."
            )
            continue
        values, source = _chosen(method, graph.title, settings)
        rows = [(values, source, False)]
        if tuned is not None and name in tuned:
            rows.append((dict(tuned[name].values), tuned[name].words, True))
        for row, row_source, is_tuned in rows:
            words = row_source
            if epochs is not None and issubclass(method.settings, TrainedSettings):
                row["epochs"], words = epochs, f"{row_source}, epochs {epochs:,}"
            recipe = Recipe.for_graph(name, {**row, "val": plan.val, "test": plan.test}, graph)
            specs.append(MethodSpec(recipe, words if fields(recipe.settings) else "", is_tuned))
    if not specs:
        raise ConfigError("No method is left to compare. " + " ".join(notes))
    return specs, notes


def _chosen(method: Method, graph: str, settings: SettingsChoice) -> tuple[dict[str, Any], str]:
    """Return where the settings differ from the defaults, and what they are called."""
    if settings == "authors" and {graph, EVERY_GRAPH} & method.authors.keys():
        return method.authors_settings(graph), "authors"
    return {}, "default"


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


@dataclass(frozen=True)
class Strata:
    """Three groups of pairs, by the smaller training degree of a pair's ends."""

    parts: tuple[Stratum, ...]

    @classmethod
    def of(cls, split: Split) -> Strata:
        """Return bounds that put about a third of the test links into each part.

        Degrees are whole numbers: where many links share one, there are fewer parts.
        """
        degrees = _smaller_degree(split.train, split.test, split.num_nodes).sort().values
        count = degrees.numel()
        thirds = {int(degrees[max(count * part // 3 - 1, 0)]) for part in (1, 2)} if count else ()
        # A bound at the largest degree would leave nothing above it.
        bounds = sorted(bound for bound in thirds if bound < int(degrees[-1]))
        lows = [0, *(bound + 1 for bound in bounds)]
        return cls(tuple(map(Stratum, lows, [*bounds, None])))

    def measure(self, split: Split, positive: Tensor, negative: Tensor) -> list[dict[str, Any]]:
        """Return counts and AUC of each part; no AUC where links or unlinked pairs are missing.

        Args:
            split: What was learned from and tested on.
            positive: Scores of the test links, [p].
            negative: Scores of the unlinked test pairs, [q].
        """
        of_links = _smaller_degree(split.train, split.test, split.num_nodes)
        of_others = _smaller_degree(split.train, split.test_negatives, split.num_nodes)
        found = []
        for part in self.parts:
            links, others = positive[_within(of_links, part)], negative[_within(of_others, part)]
            has_both = links.numel() > 0 and others.numel() > 0
            found.append(
                {
                    "low": part.low,
                    "high": part.high,
                    "links": links.numel(),
                    "others": others.numel(),
                    "auc": auc(links, others) if has_both else None,
                }
            )
        return found


def _smaller_degree(train: Tensor, pairs: Tensor, num_nodes: int) -> Tensor:
    """Return the training degree of each pair's end that has fewer links, int64 [p]."""
    degree = torch.bincount(train.flatten(), minlength=num_nodes)
    return degree[pairs].amin(dim=0)


def _within(degrees: Tensor, part: Stratum) -> Tensor:
    inside = degrees >= part.low
    return inside if part.high is None else inside & (degrees <= part.high)


_TIME_LIMIT = "time limit"


@dataclass(frozen=True)
class Result(Line):
    """One cell: a method with its settings, a split, first weights, and what it reached."""

    method: str
    settings: dict[str, Any]
    split_seed: int
    split: str
    """The split's fingerprint."""
    init_seed: int | None
    """Seed of the first weights; None for a method that has none."""
    device: str
    threads: int
    versions: dict[str, str]
    ended: str
    """When it ended, UTC."""
    time_limit: str = ""
    caps: str = ""
    """What the method leaves out to stay affordable."""
    val: dict[str, float] | None = None
    test: dict[str, float] | None = None
    """Metrics as fractions; None if it failed."""
    test_sampled: dict[str, Any] | None = None
    """Where metrics come from some of the test links: how many, and the standard errors."""
    by_degree: list[dict[str, Any]] | None = None
    """AUC by the smaller training degree of a pair's ends."""
    epochs: int = 0
    best_epoch: int = 0
    train_seconds: float = 0.0
    """Time to prepare, to train and to choose the epoch."""
    test_seconds: float = 0.0
    """Time to score the test pairs."""
    parameters: int = 0
    stopped: dict[str, Any] | None = None
    """Why training ended before its last epoch: reason, epoch, message."""
    failure: dict[str, str] | None = None
    """Why there is no result: the error's class and its text."""

    @property
    def key(self) -> str:
        """Equal for results that answer the same question."""
        return key_of(self.method, self.settings, self.split, self.init_seed)

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
        was_cut = self.stopped is not None and self.stopped.get("reason") == _TIME_LIMIT
        return self.failure is None and not (was_cut and self.time_limit != time_limit)

    def is_sound(self) -> bool:
        """Tell whether there is a result or a failure of settings on a split."""
        is_asked = isinstance(self.settings, dict) and isinstance(self.split, str)
        return is_asked and (isinstance(self.test, dict) or isinstance(self.failure, dict))


def key_of(method: str, settings: dict[str, Any], split: str, init_seed: int | None) -> str:
    """Return what tells one cell from another."""
    return json.dumps([method, settings, split, init_seed], sort_keys=True)


_LONGEST_REASON = 1000


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
    def key(self) -> str:
        """Equal to that of the result that answers it."""
        return key_of(self.spec.name, self.spec.settings, self.split, self.init_seed)


def measure(
    cell: Cell,
    graph: Graph,
    split: Split,
    strata: Strata,
    resources: Resources,
    listener: Listener,
    train: TrainOnce,
) -> Result | None:
    """Train and test one method; None if it was stopped on the way.

    Whatever goes wrong inside becomes a result that says so.

    Args:
        cell: The method and the run.
        graph: What is learned from.
        split: The split of the run.
        strata: How pairs are divided by degree.
        resources: Where and how long to compute.
        listener: Told about every epoch.
        train: What trains.

    Raises:
        ResourceError: There is no such device, which concerns every method.
    """
    device = resolve_device(resources)
    common: dict[str, Any] = {
        "method": cell.spec.name,
        "settings": cell.spec.settings,
        "split_seed": cell.split_seed,
        "split": cell.split,
        "init_seed": cell.init_seed,
        "caps": cell.spec.recipe.settings.caps,
        "time_limit": resources.time_limit,
        "versions": versions(),
        **machine(resources, device),
    }
    try:
        trained = train(
            graph,
            split,
            cell.spec.with_seed(cell.init_seed or 0),
            resources,
            on_epoch=lambda record: listener.epoch_ends(cell, record),
            should_stop=listener.should_stop,
            measure_test=False,
        )
        if trained.stopped is not None and trained.stopped.reason == "signal":
            return None
        with computing_with(resources):
            return Result(**common, **_tested(trained, split, strata), ended=_now())
    # Another method must not pay for what goes wrong in this one, whatever it is.
    except Exception as error:
        reason = str(error)[:_LONGEST_REASON] or "The error says nothing more."
        failure = {"error": _kind(error), "reason": reason}
    if device.type == "cuda":
        torch.cuda.empty_cache()
    return Result(**common, failure=failure, ended=_now())


def _tested(trained: Trained, split: Split, strata: Strata) -> dict[str, Any]:
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
        "by_degree": strata.measure(split, positive, negative),
        "epochs": len(trained.history),
        "best_epoch": trained.best_epoch,
        "train_seconds": trained.seconds,
        "test_seconds": seconds,
        "parameters": trained.parameters,
        "stopped": None if trained.stopped is None else asdict(trained.stopped),
    }


def _kind(error: Exception) -> str:
    """Return what kind of error it is; running out of memory has many names."""
    return "out of memory" if is_out_of_memory(error) else type(error).__name__


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True, eq=False)
class Comparison:
    """Methods, the splits they are compared on, and the folder that keeps what was found."""

    graph: Graph
    plan: Plan
    specs: tuple[MethodSpec, ...]
    cells: tuple[Cell, ...]
    """In the order of work: run by run, within a run the cheap methods first."""
    sizes: dict[str, int]
    """Links in each part of a split; equal for all splits."""
    strata: Strata
    folder: ResultFolder[Result]

    @classmethod
    def open(
        cls,
        graph: Graph,
        specs: Sequence[MethodSpec],
        plan: Plan,
        path: Path,
        command: str = "",
    ) -> Comparison:
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
        first = random_split(graph, plan.val, plan.test, plan.split_seed(0))
        seeds = dict.fromkeys(map(plan.split_seed, range(plan.runs)))
        prints = {seed: _split(graph, plan, seed).fingerprint for seed in seeds}
        ordered = sorted(specs, key=lambda spec: spec.cost_rank)
        cells = tuple(
            Cell(
                run,
                spec,
                plan.split_seed(run),
                prints[plan.split_seed(run)],
                run if spec.is_trained else None,
            )
            for run in range(plan.runs)
            for spec in ordered
        )
        strata = Strata.of(first)
        identity = {
            "graph": {"title": graph.title, "fingerprint": graph.fingerprint},
            "protocol": plan.protocol,
            "val": plan.val,
            "test": plan.test,
        }
        about: dict[str, Any] = {
            "links": first.sizes,
            "runs": plan.runs,
            "methods": [spec.title for spec in specs],
            "degrees": [part.words for part in strata.parts],
            "command": command,
        }
        folder = ResultFolder(
            path,
            RESULTS,
            Result,
            about=PLAN,
            what="a comparison",
            check=lambda file: _claim(file, identity, about),
        )
        return cls(graph, plan, tuple(specs), cells, first.sizes, strata, folder)

    def left(self, resources: Resources) -> list[Cell]:
        """Return the cells without a final result, in the order of work.

        Cells that are answered by the same result, such as those of a formula on one split, are
        listed once.
        """
        done = {
            result.key for result in self.folder.results if result.is_final(resources.time_limit)
        }
        return pending(self.cells, done)

    def run(
        self,
        resources: Resources,
        listener: Listener | None = None,
        train: TrainOnce = train_once,
    ) -> bool:
        """Measure what is left; tell whether it came to the end.

        A method that fails is written down as failed and stops nothing.

        Args:
            resources: Where and how long to compute.
            listener: Told how it goes; may ask to stop.
            train: What trains one method.

        Raises:
            ResourceError: The folder cannot be written, or there is no such device.
        """
        listener = listener or Listener()
        # What metrics import on first use would else count as the first method's time.
        link_metrics([1.0], [0.0])
        left = self.left(resources)
        train = self._ahead(left, train)
        last = {cell.run: cell for cell in left}
        drawn: dict[int, Split] = {}

        def work(batch: Sequence[Cell]) -> list[Result] | None:
            (cell,) = batch
            if cell.split_seed not in drawn:
                drawn.clear()
                drawn[cell.split_seed] = _split(self.graph, self.plan, cell.split_seed)
            split = drawn[cell.split_seed]
            listener.cell_begins(cell)
            result = measure(cell, self.graph, split, self.strata, resources, listener, train)
            return None if result is None else [result]

        def keep(cell: Cell, result: Result) -> None:
            self.folder.append(result)
            listener.cell_ends(cell, result)
            if cell is last[cell.run]:
                listener.run_ends(cell.run)

        return run_in_order(([cell] for cell in left), work, keep, listener.should_stop)

    def _ahead(self, left: Sequence[Cell], train: TrainOnce) -> TrainOnce:
        """Return what trains runs of one method together where that is possible."""
        seeds = {
            cell.spec.with_seed(cell.init_seed): cell.split_seed
            for cell in left
            if cell.init_seed is not None
        }

        def split_of(recipe: Recipe) -> Split:
            return _split(self.graph, self.plan, seeds[recipe])

        ordered = sorted(seeds, key=lambda recipe: recipe.name)
        return Ahead(ordered, split_of, train)

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
        times: dict[MethodSpec, list[float]] = {}
        found = self.found()
        for cell in self.cells:
            result = found.get(cell.key)
            if result is not None and result.failure is None:
                times.setdefault(cell.spec, []).append(result.seconds)
        mean = {spec: sum(seconds) / len(seconds) for spec, seconds in times.items()}
        return sum(mean.get(cell.spec, 0.0) for cell in cells)

    @property
    def others(self) -> list[str]:
        """Methods with results in the folder that nobody asked for this time."""
        asked = {spec.name for spec in self.specs}
        return sorted({result.method for result in self.folder.results} - asked)


def _split(graph: Graph, plan: Plan, seed: int) -> Split:
    return random_split(graph, plan.val, plan.test, seed)


def _claim(file: Path, identity: dict[str, Any], about: dict[str, Any]) -> None:
    """Write down what is compared in a folder; refuse one that holds something else.

    Raises:
        RunFolderError: It does.
    """
    if file.exists():
        _require_same(file, identity)
    text = json.dumps({"format": _FORMAT, **identity, **about}, indent=2) + "\n"
    write_atomically(file, text.encode())


def _require_same(file: Path, identity: dict[str, Any]) -> None:
    there, graph, path = (
        read_about(file, _FORMAT, identity, "compared"),
        identity["graph"],
        file.parent,
    )
    try:
        title, fingerprint = there["graph"]["title"], there["graph"]["fingerprint"]
    except (KeyError, TypeError) as error:
        raise damaged(file, "compared") from error
    if fingerprint != graph["fingerprint"]:
        raise RunFolderError(
            f"{path} holds a comparison on another graph, '{title}' "
            f"({str(fingerprint)[:12]}); this is '{graph['title']}' "
            f"({graph['fingerprint'][:12]}).\nChoose another `out`."
        )
    for key in identity:
        if key != "graph" and there[key] != identity[key]:
            raise RunFolderError(
                f"{path} holds a comparison with {key} {there[key]}; you asked for {key} "
                f"{identity[key]}.\nAsk for the same, or choose another `out`."
            )
