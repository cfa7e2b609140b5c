"""One run of a study: what tells it from others, what came out, and what is chosen by it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache, cached_property
from typing import Any

from cgcl.errors import ConfigError
from cgcl.experiments.log import Line, has_default
from cgcl.experiments.plan import PAPER_SPLIT_SEED
from cgcl.experiments.study import Experiment, Protocol, Row
from cgcl.methods.method import EVERY_GRAPH
from cgcl.methods.settings import TrainedSettings
from cgcl.methods.table import method_named
from cgcl.train.recipe import Recipe

_PERCENT = 100
Chosen = Mapping[str, Mapping[str, Any]]
"""The settings that were chosen on validation links, by `choice_name`."""


def choice_name(method: str, graph: str, test: int) -> str:
    """Return what a choice of settings is filed under.

    Example:
        >>> choice_name("cgcl", "cora", 10)
        'cgcl-cora-10'
    """
    return f"{method}-{graph}-{test}"


@dataclass(frozen=True)
class Job:
    """A training and its test. Equal jobs of different experiments are run once."""

    graph: str
    test: int
    """Percent of the links to test on; half as many choose the epoch."""
    recipe: Recipe
    """The method, its settings and the seed of its first weights and coins."""
    split_seed: int
    measures: tuple[str, ...] = ()
    """What is measured besides the test metrics."""

    @cached_property
    def key(self) -> str:
        """Equal to that of the record that answers it."""
        return self._key(self.measures)

    @cached_property
    def plain_key(self) -> str:
        """The key of the same training with nothing measured besides."""
        return self._key(())

    def _key(self, measures: Sequence[str]) -> str:
        return key_of(
            self.graph,
            self.test,
            self.recipe.name,
            self.recipe.settings.to_json(),
            self.split_seed,
            self.recipe.split.seed,
            measures,
        )


@dataclass(frozen=True)
class CellId:
    """Where a run belongs in an experiment."""

    row: str
    graph: str
    test: int
    protocol: Protocol


@dataclass(frozen=True)
class Selection:
    """Which part of an experiment is wanted; None for all of it."""

    graphs: tuple[str, ...] | None = None
    methods: tuple[str, ...] | None = None
    test: tuple[int, ...] | None = None
    protocols: tuple[Protocol, ...] | None = None
    runs: int | None = None
    epochs: int | None = None


def key_of(
    graph: str,
    test: int,
    method: str,
    settings: Mapping[str, Any],
    split_seed: int,
    seed: int,
    measures: Sequence[str],
) -> str:
    """Return what tells one run from another, as 16 hexadecimal digits.

    Settings count where they differ from the defaults, so that a setting which is added to a method
    later, with a default that changes nothing, leaves earlier results findable.
    """
    named = differing(method, settings)
    parts = [graph, test, method, named, split_seed, seed, list(measures)]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def differing(method: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that differ from a method's defaults.

    Raises:
        ConfigError: There is no such method.
    """
    defaults = _defaults(method)
    return {
        name: float(value) if isinstance(defaults.get(name), float) else value
        for name, value in settings.items()
        if name not in defaults or value != defaults[name]
    }


@cache
def _defaults(method: str) -> dict[str, Any]:
    return asdict(Recipe.of(method, {}).settings)


def jobs_of(
    experiment: Experiment, asked: Selection, chosen: Chosen, *, only_chosen: bool = False
) -> dict[CellId, list[Job]]:
    """Return the runs of an experiment by their place, in its own order.

    Args:
        experiment: What is described.
        asked: Which part of it is wanted.
        chosen: The settings that were chosen.
        only_chosen: Leave out what waits for a choice, instead of refusing.

    Raises:
        ConfigError: What is asked for is not in the experiment, or a setting is out of range.
    """
    graphs = _selected("dataset", asked.graphs, experiment.graphs, experiment)
    shares = _selected("ratio", asked.test, experiment.test, experiment)
    protocols = _selected("protocol", asked.protocols, experiment.protocols, experiment)
    methods = tuple(dict.fromkeys(row.method for row in experiment.rows))
    wanted = _selected("methods", asked.methods, methods, experiment)
    where = [
        graph
        for graph in experiment.graphs
        if any(_is_run(row, graph, wanted) for row in experiment.rows)
    ]
    if not {*where} & {*graphs}:
        raise ConfigError(
            f"{experiment.name} runs {', '.join(wanted)} on {', '.join(where)}, not on "
            f"{', '.join(graphs)}."
        )
    return {
        CellId(row.name, graph, test, protocol): [
            _job(row, graph, test, protocol, run, asked.epochs, chosen)
            for run in range(_runs(row, graph, experiment, asked))
        ]
        for graph in graphs
        for test in shares
        for protocol in protocols
        for row in experiment.rows
        if _is_run(row, graph, wanted)
        and not (
            only_chosen
            and row.chosen_on(graph)
            and choice_name(row.method, graph, test) not in chosen
        )
    }


def _is_run(row: Row, graph: str, methods: Sequence[str]) -> bool:
    return row.method in methods and (row.graphs is None or graph in row.graphs)


def parts_of(experiments: Sequence[Experiment], asked: Selection) -> dict[str, Selection]:
    """Return which part of each of several experiments is wanted; one without any is left out.

    Args:
        experiments: What is to be run.
        asked: What is wanted of all of them together; an experiment need not have all of it.

    Raises:
        ConfigError: No experiment has something that is asked for.
    """
    parts: dict[str, Selection] = {}
    for experiment in experiments:
        there = _dimensions(experiment)
        part: dict[str, Any] = {
            name: tuple(value for value in values if value in there[name])
            for name, values in _asked_values(asked).items()
        }
        wanted = {**there, **part}
        if all(part.values()) and any(
            _is_run(row, graph, wanted["methods"])
            for row in experiment.rows
            for graph in wanted["graphs"]
        ):
            parts[experiment.name] = replace(asked, **part)
    for name, values in _asked_values(asked).items():
        known = dict.fromkeys(value for one in experiments for value in _dimensions(one)[name])
        unknown = [str(value) for value in values if value not in known]
        if unknown:
            raise ConfigError(
                f"No experiment has the {_WORDS[name]} {', '.join(unknown)}. "
                f"There are {', '.join(map(str, known))}."
            )
    return parts


_WORDS = {"graphs": "dataset", "methods": "method", "test": "ratio", "protocols": "protocol"}


def _dimensions(experiment: Experiment) -> dict[str, tuple[Any, ...]]:
    return {
        "graphs": experiment.graphs,
        "methods": tuple(dict.fromkeys(row.method for row in experiment.rows)),
        "test": experiment.test,
        "protocols": experiment.protocols,
    }


def _asked_values(asked: Selection) -> dict[str, tuple[Any, ...]]:
    values = {name: getattr(asked, name) for name in _WORDS}
    return {name: own for name, own in values.items() if own is not None}


def _selected(
    what: str, asked: tuple[Any, ...] | None, there: tuple[Any, ...], experiment: Experiment
) -> tuple[Any, ...]:
    if asked is None:
        return there
    unknown = [value for value in asked if value not in there]
    if unknown:
        kind = what if len(unknown) > 1 else what.removesuffix("s")
        raise ConfigError(
            f"{experiment.name} has no {kind} {', '.join(map(str, unknown))}. "
            f"It has {', '.join(map(str, there))}."
        )
    return tuple(value for value in there if value in asked)


def _runs(row: Row, graph: str, experiment: Experiment, asked: Selection) -> int:
    most = row.on.get(graph, {}).get("runs", experiment.runs)
    return most if asked.runs is None else min(most, asked.runs)


def _job(
    row: Row,
    graph: str,
    test: int,
    protocol: Protocol,
    run: int,
    epochs: int | None,
    chosen: Chosen,
) -> Job:
    method = method_named(row.method)
    has_authors = {graph, EVERY_GRAPH} & method.authors.keys()
    values = dict(method.authors_settings(graph)) if has_authors else {}
    values |= {**row.settings, **row.on.get(graph, {}).get("settings", {})}
    for name in row.chosen_on(graph):
        try:
            values[name] = chosen[choice_name(row.method, graph, test)][name]
        except KeyError:
            raise ConfigError(
                f"No {name} of {row.method} was chosen for {graph} with {test} % test links yet. "
                f"Run cgcl reproduce grid --methods {row.method} --dataset {graph} --ratio {test} "
                f"and give what it writes as `chosen`."
            ) from None
    if epochs is not None and issubclass(method.settings, TrainedSettings):
        values["epochs"] = epochs
    recipe = Recipe.of(
        row.method, {**values, "val": test / 2 / _PERCENT, "test": test / _PERCENT, "seed": run}
    )
    split_seed = PAPER_SPLIT_SEED if protocol == "paper" else run
    if not issubclass(method.settings, TrainedSettings):
        recipe = replace(recipe, split=replace(recipe.split, seed=0))
    return Job(graph, test, recipe, split_seed, row.measures)


@dataclass(frozen=True)
class Record(Line):
    """A run that was made: what was asked, what came out, and where."""

    graph: str
    test: int
    """Percent of the links tested on."""
    method: str
    settings: dict[str, Any]
    """Every setting of the method."""
    split_seed: int
    split: str
    """The split's fingerprint."""
    seed: int
    """Of the first weights and the coins of every epoch."""
    fingerprint: str
    """Of the graph."""
    device: str
    threads: int
    versions: dict[str, str]
    measures: list[str] = field(default_factory=list)
    val: dict[str, float] | None = None
    """AUC and AP on the validation links at the best epoch, as fractions."""
    metrics: dict[str, float] | None = None
    """On the test links, as fractions; None if the run failed."""
    measured: dict[str, Any] = field(default_factory=dict)
    """What else was asked for, by the name of the measure."""
    epochs: int = 0
    best_epoch: int = 0
    parameters: int = 0
    caps: str = ""
    """What the method leaves out to stay affordable."""
    stopped: str | None = None
    """Why it ended before its last epoch, in a word."""
    seconds: float = 0.0
    """To prepare and train; for runs that were trained together, each one's share."""
    failure: str = ""
    """Why there is no result."""

    @classmethod
    def of(cls, job: Job, **came_out: Any) -> Record:  # noqa: ANN401
        """Return the record of a job.

        Args:
            job: What was asked.
            came_out: The other fields by name.
        """
        return cls(
            graph=job.graph,
            test=job.test,
            method=job.recipe.name,
            settings=job.recipe.settings.to_json(),
            split_seed=job.split_seed,
            seed=job.recipe.split.seed,
            measures=list(job.measures),
            caps=job.recipe.settings.caps,
            **came_out,
        )

    @cached_property
    def key(self) -> str:
        """Equal to that of the job it answers."""
        return self._key(self.measures)

    @cached_property
    def plain_key(self) -> str:
        """The key of the same training with nothing measured besides: it answers that, too."""
        return self._key(())

    def _key(self, measures: Sequence[str]) -> str:
        return key_of(
            self.graph,
            self.test,
            self.method,
            self.settings,
            self.split_seed,
            self.seed,
            measures,
        )

    def said(self) -> dict[str, Any]:
        """Return what the line says, without what has nothing to say."""
        optional = {own.name for own in fields(self) if has_default(own)}
        return {
            name: value
            for name, value in asdict(self).items()
            if name not in optional or value not in (None, "", {}, [])
        }

    def is_sound(self) -> bool:
        """Tell whether a run has a result or a failure.

        Raises:
            ConfigError: A method that this version does not have answers nothing.
        """
        _ = self.key
        is_asked = isinstance(self.settings, dict) and isinstance(self.graph, str)
        return is_asked and (bool(self.failure) or _is_result(self.metrics))


def _is_result(metrics: object) -> bool:
    """Tell whether both metrics are there, as fractions; NaN is none."""
    return isinstance(metrics, dict) and all(
        isinstance(metrics.get(name), float | int) and 0 <= metrics[name] <= 1
        for name in ("auc", "ap")
    )


def choose(
    experiment: Experiment, places: Mapping[CellId, Sequence[Job]], found: Mapping[str, Record]
) -> dict[str, dict[str, Any]]:
    """Return the settings with the best validation AUC, by `choice_name`, where a grid is complete.

    The links that choose are validation links of the split that is tested on: another split's may
    be test links here. Of equal ones the first in the order of the grid counts. No test metric is
    looked at.

    Args:
        experiment: The grid.
        places: Its runs by their place.
        found: What came out, by key.

    Raises:
        ConfigError: A method has two grids that vary different settings.
    """
    rows = {row.name: row for row in experiment.rows}
    grids: dict[str, list[Record | None]] = {}
    searched: dict[str, tuple[str, ...]] = {}
    for place, jobs in places.items():
        row = rows[place.row]
        name = choice_name(row.method, place.graph, place.test)
        if searched.setdefault(name, row.searched) != row.searched:
            raise ConfigError(f"{experiment.name} has two grids of {row.method} on {place.graph}.")
        grids.setdefault(name, []).extend(found.get(job.key) for job in jobs)
    chosen: dict[str, dict[str, Any]] = {}
    for name, records in grids.items():
        complete = [record for record in records if record is not None]
        if len(complete) == len(records):
            best = max(complete, key=_validation_auc)
            chosen[name] = {own: best.settings[own] for own in searched[name]}
            chosen[name] |= {"val_auc": _validation_auc(best), "runs": len(complete)}
    return chosen


def _validation_auc(record: Record) -> float:
    return record.val["auc"] if record.val else 0.0


def chosen_toml(chosen: Mapping[str, Mapping[str, Any]], head: Iterable[str]) -> str:
    """Return the choices as TOML.

    Args:
        chosen: What `choose` returned.
        head: Lines of comment for its beginning.
    """
    lines = [f"# {line}" for line in head]
    for where, values in chosen.items():
        # A number, a truth value or a plain word is written the same in JSON and TOML.
        own = [f"{name} = {json.dumps(value)}" for name, value in values.items()]
        lines += ["", f"[{where}]", *own]
    return "\n".join(lines) + "\n"
