"""One run of an experiment, and what tells it from others."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property
from typing import Any

from cgcl.compare.plan import PAPER_SPLIT_SEED
from cgcl.errors import ConfigError
from cgcl.methods.method import EVERY_GRAPH
from cgcl.methods.settings import TrainedSettings
from cgcl.methods.table import method_named
from cgcl.reproduce.described import Experiment, Protocol, Row
from cgcl.train.recipe import Recipe

__all__ = [
    "Asked",
    "Chosen",
    "Job",
    "Place",
    "choice_name",
    "differing",
    "jobs_of",
    "key_of",
    "parts_of",
]

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
class Place:
    """Where a run belongs in an experiment."""

    row: str
    graph: str
    test: int
    protocol: Protocol


@dataclass(frozen=True)
class Asked:
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
    experiment: Experiment, asked: Asked, chosen: Chosen, *, only_chosen: bool = False
) -> dict[Place, list[Job]]:
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
        Place(row.name, graph, test, protocol): [
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


def parts_of(experiments: Sequence[Experiment], asked: Asked) -> dict[str, Asked]:
    """Return which part of each of several experiments is wanted; one without any is left out.

    Args:
        experiments: What is to be run.
        asked: What is wanted of all of them together; an experiment need not have all of it.

    Raises:
        ConfigError: No experiment has something that is asked for.
    """
    parts: dict[str, Asked] = {}
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


def _asked_values(asked: Asked) -> dict[str, tuple[Any, ...]]:
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


def _runs(row: Row, graph: str, experiment: Experiment, asked: Asked) -> int:
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
                f"and give what it writes as --chosen."
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
