"""What came out of one method on one split, as a line of JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Any

__all__ = ["Result", "key_of"]

_TIME_LIMIT = "time limit"


@dataclass(frozen=True)
class Result:
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

    def to_line(self) -> bytes:
        """Return it as a line of a file."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Result:
        """Return what `to_line` gave; names that this version does not know are left out.

        Raises:
            ValueError: The line is damaged.
        """
        try:
            values = json.loads(line)
            result = cls(**{f.name: values[f.name] for f in fields(cls) if f.name in values})
            # A line from elsewhere may have anything under these names.
            sound = isinstance(result.settings, dict) and isinstance(result.split, str)
            sound = sound and (isinstance(result.test, dict) or isinstance(result.failure, dict))
        except (TypeError, UnicodeDecodeError) as error:
            raise ValueError("not a result") from error
        if not sound:
            raise ValueError("not a result")
        return result


def key_of(method: str, settings: dict[str, Any], split: str, init_seed: int | None) -> str:
    """Return what tells one cell from another."""
    return json.dumps([method, settings, split, init_seed], sort_keys=True)
