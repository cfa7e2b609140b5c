"""A study as data: one TOML file for each table or figure of a paper. Nothing heavy is imported."""

from __future__ import annotations

import itertools
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args

from cgcl.errors import ConfigError

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
_ROW_KEYS = {"title", "method", "settings", "chosen", "measures", "graphs", "grid", "on"}
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
    wrong = [own for own in values["protocols"] if own not in get_args(Protocol)]
    if wrong:
        raise ConfigError(
            f"{name}: there is no protocol {', '.join(map(str, wrong))}. "
            f"There are {', '.join(get_args(Protocol))}."
        )
    shared = values.get("settings", {})
    rows: list[Row] = []
    for key, row in values["rows"].items():
        _require_known(f"{name}, row {key}", row, _ROW_KEYS)
        cells = _cells(row.get("grid", values.get("grid", {})))
        for graph, there in row.get("on", {}).items():
            _require_known(f"{name}, row {key} on {graph}", there, _ON_KEYS)
            twice = sorted(there.get("settings", {}).keys() & cells[0].keys())
            if twice:
                raise ConfigError(
                    f"{name}, row {key}: {', '.join(twice)} is varied by the grid and set on "
                    f"{graph}. Leave out one of them."
                )
        rows += [
            Row(
                name=" ".join([key, *(f"{name}={value}" for name, value in cell.items())]),
                title=row.get("title", key),
                method=row["method"],
                settings={**shared, **row.get("settings", {}), **cell},
                chosen=tuple(row.get("chosen", ())),
                searched=tuple(cell),
                measures=tuple(sorted({*values.get("measures", ()), *row.get("measures", ())})),
                graphs=tuple(row["graphs"]) if "graphs" in row else None,
                on=row.get("on", {}),
            )
            for cell in cells
        ]
    return Experiment(
        name=name,
        title=values["title"],
        graphs=tuple(values["graphs"]),
        test=tuple(values["test"]),
        protocols=tuple(values["protocols"]),
        runs=values["runs"],
        rows=tuple(rows),
    )


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


def _cells(grid: Mapping[str, list[Any]]) -> list[dict[str, Any]]:
    """Return every combination of the grid's values; one empty cell without a grid."""
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def _require_known(where: str, values: Mapping[str, Any], known: set[str]) -> None:
    unknown = sorted(values.keys() - known)
    if unknown:
        raise ConfigError(
            f"{where}: {', '.join(unknown)} is not understood. "
            f"It may have {', '.join(sorted(known))}."
        )


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
