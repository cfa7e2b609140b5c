"""One trial of a search: which settings, and what came of them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

__all__ = ["Origin", "Proposal", "Trial", "best_of", "table_of"]

Origin = Literal["defaults", "authors", "search"]
"""Where the settings of a trial come from."""


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

    @property
    def has_failed(self) -> bool:
        """Whether there is no result."""
        return self.auc is None or self.ap is None

    @property
    def rank(self) -> tuple[float, float, int]:
        """Greater for the better trial: by AUC, then AP, then who came first."""
        if self.auc is None or self.ap is None:
            return (-1.0, -1.0, -self.number)
        return (self.auc, self.ap, -self.number)

    def to_line(self) -> bytes:
        """Return the trial as a line of JSON."""
        return json.dumps(asdict(self)).encode() + b"\n"

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
                found.keys() == {field.name for field in fields(cls)}
                and type(found["number"]) is int
                and found["origin"] in get_args(Origin)
                and isinstance(found["settings"], dict)
                and (all(type(n) is float for n in numbers) or all(n is None for n in numbers))
            )
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError("not a trial") from error
        if not is_sound:
            raise ValueError("not a trial")
        return cls(**found)


def best_of(trials: Iterable[Trial]) -> Trial | None:
    """Return the best trial by validation AUC, ties by AP, then by who came first."""
    return max((t for t in trials if not t.has_failed), key=lambda t: t.rank, default=None)


def table_of(trials: Sequence[Trial]) -> bytes:
    """Return the trials as CSV, a row each, a column for each setting."""
    settings = list(trials[0].settings) if trials else []
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["trial", "origin", "auc", "ap", "best_epoch", "seconds", *settings, "failure"])
    for trial in trials:
        figures = (trial.auc, trial.ap, trial.best_epoch, f"{trial.seconds:.2f}")
        values = [trial.settings[name] for name in settings]
        writer.writerow([trial.number, trial.origin, *figures, *values, trial.failure])
    return text.getvalue().encode()
