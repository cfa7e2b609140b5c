"""A study as data, one TOML file for each table or figure of a paper, and its runs.

A run is a `Job`; what came out of it is a `Record`, whose key is that of the job.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property
from importlib.util import module_from_spec, spec_from_file_location
from itertools import chain, product
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args

from cgcl.errors import ConfigError
from cgcl.experiments import PAPER_SPLIT_SEED
from cgcl.experiments.log import RunLine
from cgcl.methods.settings import TrainedSettings
from cgcl.methods.table import method_named
from cgcl.train.config import RunConfig

Protocol = Literal["paper", "splits"]
"""One split for all runs, as in the paper, or a split for each run."""

# Where more is measured comes first: those runs serve the tables as well.
NAMES = ("grid", "fig4", "claims", "table1", "table2", "fig2", "fig3")
"""The experiments, in the order in which they are best run."""

_PACKAGED = Path(__file__).parent / "paper"
# An installed package brings the folder with it; a checkout has it at its root.
FOLDER = _PACKAGED if _PACKAGED.is_dir() else Path(__file__).parents[3] / "experiments/reproduce"
"""Where the experiments are described, and what draws and judges them."""

_KEYS = {"title", "graphs", "test", "protocols", "runs", "settings", "measures", "grid", "rows"}
_NEEDED = {"title", "graphs", "test", "protocols", "runs", "rows"}
_ROW_KEYS = {
    *("title", "method", "settings", "chosen", "measures", "graphs", "protocols", "grid", "on")
}
_ON_KEYS = {"settings", "chosen", "runs"}


@dataclass(frozen=True)
class Row:
    """A method with settings: a row of a table or a line of a figure."""

    name: str
    title: str
    method: str
    settings: Mapping[str, Any]
    """What differs from the method's defaults or, if there are any, its authors' settings."""
    chosen: tuple[str, ...] = ()
    """Settings that are taken from what was chosen on validation links for the graph."""
    searched: tuple[str, ...] = ()
    """Settings that a grid varies."""
    measures: tuple[str, ...] = ()
    """What is measured besides the test metrics."""
    graphs: tuple[str, ...] | None = None
    """Where it is run; None for every graph of the experiment."""
    protocols: tuple[Protocol, ...] | None = None
    """On which splits; None for every protocol of the experiment."""
    on: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By graph: `settings` and `runs` that differ there, to keep to what is affordable, and what
    is `chosen` there alone."""

    def chosen_on(self, graph: str) -> tuple[str, ...]:
        """Return the settings that are taken from what was chosen for a graph."""
        return (*self.chosen, *self.on.get(graph, {}).get("chosen", ()))


@dataclass(frozen=True)
class Experiment:
    """What is run for a table or a figure."""

    name: str
    title: str
    graphs: tuple[str, ...]
    test: tuple[int, ...]
    """Percent of the links to test on; half as many choose the epoch."""
    protocols: tuple[Protocol, ...]
    runs: int
    rows: tuple[Row, ...]

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods of its rows, each once."""
        return tuple(dict.fromkeys(row.method for row in self.rows))


def read_experiment(name: str, folder: Path = FOLDER) -> Experiment:
    """Return an experiment by name.

    Raises:
        ConfigError: The file says something that is not understood.
    """
    values = read_data(name, folder)
    _require_known(name, values, _KEYS)
    missing = sorted(_NEEDED - values.keys())
    if missing:
        raise ConfigError(f"{name}: {', '.join(missing)} is missing.")
    asked = [own.get("protocols", ()) for own in (values, *values["rows"].values())]
    wrong = [own for own in chain(*asked) if own not in get_args(Protocol)]
    if wrong:
        there = f"There are {', '.join(get_args(Protocol))}."
        raise ConfigError(f"{name}: there is no protocol {', '.join(map(str, wrong))}. {there}")
    rows = [row for key, own in values["rows"].items() for row in _rows(name, key, own, values)]
    graphs, test, protocols = (tuple(values[own]) for own in ("graphs", "test", "protocols"))
    title, runs = values["title"], values["runs"]
    return Experiment(name, title, graphs, test, protocols, runs, tuple(rows))


def _rows(name: str, key: str, row: Mapping[str, Any], values: Mapping[str, Any]) -> list[Row]:
    """Return a row for each combination of its grid's values; one without a grid."""
    _require_known(f"{name}, row {key}", row, _ROW_KEYS)
    grid = row.get("grid", values.get("grid", {}))
    for graph, there in row.get("on", {}).items():
        _require_known(f"{name}, row {key} on {graph}", there, _ON_KEYS)
        twice = sorted(there.get("settings", {}).keys() & grid.keys())
        if twice:
            what = f"{name}, row {key}: {', '.join(twice)} is varied by the grid and set on {graph}"
            raise ConfigError(f"{what}. Leave out one of them.")
    cells = [dict(zip(grid, own, strict=True)) for own in product(*grid.values())]
    return [
        Row(
            name=" ".join([key, *(f"{name}={value}" for name, value in cell.items())]),
            title=row.get("title", key),
            method=row["method"],
            settings={**values.get("settings", {}), **row.get("settings", {}), **cell},
            chosen=tuple(row.get("chosen", ())),
            searched=tuple(cell),
            measures=tuple(sorted({*values.get("measures", ()), *row.get("measures", ())})),
            graphs=tuple(row["graphs"]) if "graphs" in row else None,
            protocols=tuple(row["protocols"]) if "protocols" in row else None,
            on=row.get("on", {}),
        )
        for cell in cells
    ]


def read_data(name: str, folder: Path = FOLDER) -> dict[str, Any]:
    """Return what a file of the experiments says, such as `paper` or `chosen`.

    Raises:
        ConfigError: There is no such file.
    """
    path = folder / f"{name}.toml"
    if not path.is_file():
        known = ", ".join(sorted(found.stem for found in folder.glob("*.toml")))
        raise ConfigError(f"There is no experiment {name}. There are {known}.")
    return tomllib.loads(path.read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Family:
    """Which differences of a table are tested together, as `family.toml` says."""

    metrics: tuple[str, ...]
    fewest_splits: int
    top_of_list: tuple[str, ...]
    """The metrics of another family: of the row that is made for the top of the list."""


@cache
def family() -> Family:
    """Return the family of tests of every table."""
    told = read_data("family")
    return Family(tuple(told["metrics"]), told["fewest_splits"], tuple(told["top_of_list"]))


def graph_titles() -> dict[str, str]:
    """Return the paper's graphs in its order, each with its name for people."""
    told = read_data("paper")["datasets"]
    return {graph: own["title"] for graph, own in told.items() if isinstance(own, dict)}


def _require_known(where: str, values: Mapping[str, Any], known: set[str]) -> None:
    unknown = sorted(values.keys() - known)
    if unknown:
        may = f"It may have {', '.join(sorted(known))}."
        raise ConfigError(f"{where}: {', '.join(unknown)} is not understood. {may}")


def study_pages(folder: Path = FOLDER) -> ModuleType:
    """Return the code that lies beside the descriptions: it judges claims and draws figures.

    It is about one paper, so it is no part of the package, and is loaded by its path.
    """
    name = "cgcl_paper"
    if name not in sys.modules:
        spec = spec_from_file_location(
            name, folder / "__init__.py", submodule_search_locations=[str(folder)]
        )
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


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


class _Run:
    """What a run and its result have in common: they are told from others by the same key."""

    @property
    def asked(self) -> dict[str, Any]:
        """All that decides what comes out, by the names of a record's fields."""
        raise NotImplementedError

    @cached_property
    def key(self) -> str:
        """Equal for a job and the record that answers it."""
        return _key_of(self.asked)

    @cached_property
    def plain_key(self) -> str:
        """The key of the same training with nothing measured: a record answers that, too."""
        return _key_of({**self.asked, "measures": ()})


@dataclass(frozen=True)
class Job(_Run):
    """A training and its test. Equal jobs of different experiments are run once."""

    graph: str
    test: int
    """Percent of the links to test on; half as many choose the epoch."""
    recipe: RunConfig
    """The method, its settings and the seed of its first weights and coins."""
    split_seed: int
    measures: tuple[str, ...] = ()
    """What is measured besides the test metrics."""

    @property
    def asked(self) -> dict[str, Any]:
        """All that decides what comes out, by the names of a record's fields."""
        own, measures = self.recipe, list(self.measures)
        values = (self.graph, self.test, own.name, own.settings.to_json(), self.split_seed)
        return dict(zip(_ASKED, (*values, own.split.seed, measures), strict=True))


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


_ASKED = ("graph", "test", "method", "settings", "split_seed", "seed", "measures")
_WORDS = {"graphs": "dataset", "methods": "method", "test": "ratio", "protocols": "protocol"}


def _key_of(asked: Mapping[str, Any]) -> str:
    """Return what tells one run from another, as 16 hexadecimal digits.

    Settings count where they differ from the defaults, so that a setting which is added to a method
    later, with a default that changes nothing, leaves earlier results findable.
    """
    counted = {**asked, "settings": differing(asked["method"], asked["settings"])}
    parts = json.dumps([counted[name] for name in _ASKED], sort_keys=True)
    return hashlib.sha256(parts.encode()).hexdigest()[:16]


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
    return asdict(RunConfig.of(method, {}).settings)


def jobs_of(
    experiment: Experiment, asked: Selection, chosen: Chosen, *, only_chosen: bool = False
) -> dict[CellId, list[Job]]:
    """Return the runs of an experiment by their place, in its own order.

    Args:
        experiment: What is described.
        asked: Which part of it is wanted; what it does not have, `having` tells.
        chosen: The settings that were chosen.
        only_chosen: Leave out what waits for a choice, instead of refusing.

    Raises:
        ConfigError: It has nothing of what is asked for, or a setting is out of range.
    """
    part = _part(experiment, asked)
    places = _places(experiment, part)
    if not places:
        where = dict.fromkeys(
            place.graph for place in _places(experiment, {**part, "graphs": experiment.graphs})
        )
        what = f"{experiment.name} runs {', '.join(part['methods'])} on {', '.join(where)}"
        raise ConfigError(f"{what}, not on {', '.join(part['graphs'])}.")
    return {
        place: [
            _job(row, place, run, asked.epochs, chosen)
            for run in range(row.on.get(place.graph, {}).get("runs", experiment.runs))
            if asked.runs is None or run < asked.runs
        ]
        for place, row in places.items()
        if not (only_chosen and row.chosen_on(place.graph) and _choice(row, place) not in chosen)
    }


def having(experiments: Sequence[Experiment], asked: Selection) -> list[Experiment]:
    """Return which of several experiments have a part of what is wanted.

    Args:
        experiments: What is to be run.
        asked: What is wanted of all of them together; an experiment need not have all of it.

    Raises:
        ConfigError: No experiment has something that is asked for.
    """
    for name, word in _WORDS.items():
        known = dict.fromkeys(value for one in experiments for value in getattr(one, name))
        unknown = ", ".join(str(own) for own in getattr(asked, name) or () if own not in known)
        if unknown:
            of, has, there = "No experiment", f"has the {word}", "There are"
            if len(experiments) == 1:
                of, has, there = experiments[0].name, f"has no {word}", "It has"
            raise ConfigError(f"{of} {has} {unknown}. {there} {', '.join(map(str, known))}.")
    # Of a single one it is told why there is nothing to run.
    return [own for own in experiments if len(experiments) == 1 or _places(own, _part(own, asked))]


def _part(experiment: Experiment, asked: Selection) -> dict[str, tuple[Any, ...]]:
    """Return what is asked for of what the experiment has, in its order."""
    wanted = {name: getattr(asked, name) or getattr(experiment, name) for name in _WORDS}
    return {
        name: tuple(own for own in getattr(experiment, name) if own in values)
        for name, values in wanted.items()
    }


def _places(experiment: Experiment, part: Mapping[str, Sequence[Any]]) -> dict[CellId, Row]:
    """Return where a part of an experiment has runs, in its order, each with its row."""
    return {
        CellId(row.name, graph, test, protocol): row
        for graph, test, protocol in product(part["graphs"], part["test"], part["protocols"])
        for row in experiment.rows
        if row.method in part["methods"]
        and (row.graphs is None or graph in row.graphs)
        and (row.protocols is None or protocol in row.protocols)
    }


def _choice(row: Row, place: CellId) -> str:
    return choice_name(row.method, place.graph, place.test)


def _job(row: Row, place: CellId, run: int, epochs: int | None, chosen: Chosen) -> Job:
    method, graph, test = method_named(row.method), place.graph, place.test
    is_trained = issubclass(method.settings, TrainedSettings)
    there = row.on.get(graph, {}).get("settings", {})
    values = {**method.authors_settings(graph), **row.settings, **there}
    for name in row.chosen_on(graph):
        try:
            values[name] = chosen[_choice(row, place)][name]
        except KeyError:
            raise ConfigError(
                f"No {name} of {row.method} was chosen for {graph} with {test} % test links yet. "
                f"Run cgcl reproduce grid --methods {row.method} --dataset {graph} --ratio {test} "
                f"and give what it writes as `chosen`."
            ) from None
    if epochs is not None and is_trained:
        values["epochs"] = epochs
    seed = run if is_trained else 0
    values |= {"val": test / 2 / _PERCENT, "test": test / _PERCENT, "seed": seed}
    split_seed = PAPER_SPLIT_SEED if place.protocol == "paper" else run
    return Job(graph, test, RunConfig.of(row.method, values), split_seed, row.measures)


@dataclass(frozen=True, kw_only=True)
class Record(_Run, RunLine):
    """A run that was made: what was asked, what came out, and where."""

    SAID_IF_THERE = frozenset(
        {"measures", "val", "metrics", "measured", "caps", "stopped", "failure"}
    )

    graph: str
    test: int
    """Percent of the links tested on."""
    seed: int
    """Of the first weights and the coins of every epoch."""
    fingerprint: str
    """Of the graph."""
    measures: list[str] = field(default_factory=list)
    metrics: dict[str, float] | None = None
    """On the test links, as fractions; None if the run failed."""
    measured: dict[str, Any] = field(default_factory=dict)
    """What else was asked for, by the name of the measure."""
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
        return cls(**job.asked, caps=job.recipe.settings.caps, **came_out)

    @property
    def asked(self) -> dict[str, Any]:
        """All that decides what comes out, by name."""
        return {name: getattr(self, name) for name in _ASKED}

    def is_sound(self) -> bool:
        """Tell whether a run has a result or a failure.

        Raises:
            ConfigError: A method that this version does not have answers nothing.
        """
        _ = self.key
        reached = [(self.metrics or {}).get(name) for name in ("auc", "ap")]
        # As fractions; NaN is none.
        is_result = all(isinstance(own, float | int) and 0 <= own <= 1 for own in reached)
        return bool(self.failure) or is_result


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
        name = _choice(row, place)
        if searched.setdefault(name, row.searched) != row.searched:
            raise ConfigError(f"{experiment.name} has two grids of {row.method} on {place.graph}.")
        grids.setdefault(name, []).extend(found.get(job.key) for job in jobs)
    chosen: dict[str, dict[str, Any]] = {}
    for name, records in grids.items():
        complete = [record for record in records if record is not None]
        if len(complete) == len(records):
            best = max(complete, key=validation_auc)
            own = {setting: best.settings[setting] for setting in searched[name]}
            chosen[name] = {**own, "val_auc": validation_auc(best), "runs": len(complete)}
    return chosen


def chosen_by_grid(
    found: Mapping[str, Record], epochs: int | None = None
) -> dict[str, dict[str, Any]]:
    """Return what the whole grid chooses, as far as it is complete.

    Args:
        found: What came out, by key.
        epochs: What trainings were cut to, if they were.
    """
    grid = read_experiment("grid")
    return choose(grid, jobs_of(grid, Selection(epochs=epochs), {}), found)


def validation_auc(record: Record) -> float:
    """Return by what a run is chosen."""
    return record.val["auc"] if record.val else 0.0
