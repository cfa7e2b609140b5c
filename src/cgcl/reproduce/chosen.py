"""Settings are chosen on validation links: the best of a method's grid on a graph."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cgcl.errors import ConfigError
from cgcl.reproduce.described import Experiment
from cgcl.reproduce.job import Job, Place, choice_name
from cgcl.reproduce.record import Record

__all__ = ["choose", "chosen_toml"]


def choose(
    experiment: Experiment, places: Mapping[Place, Sequence[Job]], found: Mapping[str, Record]
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
