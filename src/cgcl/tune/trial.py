"""One trial of a search: which settings, and what came of them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from cgcl.metrics.table import in_order, metric_title

__all__ = ["Goal", "Origin", "Proposal", "Trial", "best_of", "table_of"]

Origin = Literal["defaults", "authors", "search"]
"""Where the settings of a trial come from."""
Goal = Literal["auc", "ap", "node_mrr"]
"""What the best trial has most of, on the validation links."""
# What a trial says only where it was measured, so that earlier searches can be gone on with.
_OPTIONAL = {"node_mrr"}


@dataclass(frozen=True)
class Proposal:
    """Settings to try."""

    origin: Origin
    settings: dict[str, Any]
    """Every setting of the method."""


@dataclass(frozen=True)
class Trial:
    """Settings that were tried."""

    number: int
    """1 for the first."""
    origin: Origin
    settings: dict[str, Any]
    """Every setting of the method."""
    auc: float | None = None
    """Validation AUC at the best epoch; None if the trial failed."""
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
        found = in_order({k: v for k in get_args(Goal) if (v := self.value(k)) is not None})
        return between.join(f"{metric_title(name)} {value:.4f}" for name, value in found.items())

    def rank(self, goal: Goal) -> tuple[float, float, int]:
        """Return what is greater for the better trial: the goal, then AUC or AP, then the first."""
        value, other = self.value(goal), self.ap if goal == "auc" else self.auc
        if value is None or other is None:
            return (-1.0, -1.0, -self.number)
        return (value, other, -self.number)

    def to_line(self) -> bytes:
        """Return the trial as a line of JSON."""
        said = {k: v for k, v in asdict(self).items() if k not in _OPTIONAL or v is not None}
        return json.dumps(said).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Trial:
        """Return what `to_line` wrote.

        Raises:
            ValueError: The line is damaged.
        """
        try:
            found = json.loads(line)
            numbers = (found["auc"], found["ap"])
            is_sound = (
                found.keys() | _OPTIONAL == {field.name for field in fields(cls)}
                and type(found["number"]) is int
                and found["origin"] in get_args(Origin)
                and isinstance(found["settings"], dict)
                and (all(type(n) is float for n in numbers) or all(n is None for n in numbers))
                and type(found.get("node_mrr", 0.0)) is float
            )
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError("not a trial") from error
        if not is_sound:
            raise ValueError("not a trial")
        return cls(**found)


def best_of(trials: Iterable[Trial], goal: Goal = "auc") -> Trial | None:
    """Return the best trial, ties by AUC or AP, then by who came first."""
    return max((t for t in trials if not t.has_failed), key=lambda t: t.rank(goal), default=None)


def table_of(trials: Sequence[Trial]) -> bytes:
    """Return the trials as CSV, a row each, a column for each setting."""
    settings = list(trials[0].settings) if trials else []
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    measured = ["auc", "ap"]
    if any(trial.node_mrr is not None for trial in trials):
        measured.insert(0, "node_mrr")
    writer.writerow(["trial", "origin", *measured, "best_epoch", "seconds", *settings, "failure"])
    for trial in trials:
        figures = [getattr(trial, name) for name in measured]
        figures += [trial.best_epoch, f"{trial.seconds:.2f}"]
        values = [trial.settings[name] for name in settings]
        writer.writerow([trial.number, trial.origin, *figures, *values, trial.failure])
    return text.getvalue().encode()
