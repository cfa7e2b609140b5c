"""What came out of a run, as a line of JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields
from functools import cached_property
from typing import Any

from cgcl.errors import ConfigError
from cgcl.reproduce.job import Job, key_of

__all__ = ["Record"]


@dataclass(frozen=True)
class Record:
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

    def to_line(self) -> bytes:
        """Return it as a line of a file, without what has nothing to say."""
        optional = {
            own.name
            for own in fields(self)
            if own.default is not MISSING or own.default_factory is not MISSING
        }
        said = {
            name: value
            for name, value in asdict(self).items()
            if name not in optional or value not in (None, "", {}, [])
        }
        return json.dumps(said).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Record:
        """Return what `to_line` gave; names that this version does not know are left out.

        Raises:
            ValueError: The line is damaged.
        """
        try:
            values = json.loads(line)
            record = cls(**{f.name: values[f.name] for f in fields(cls) if f.name in values})
            sound = isinstance(record.settings, dict) and isinstance(record.graph, str)
            sound = sound and (bool(record.failure) or _is_result(record.metrics))
            _ = record.key  # a method that this version does not have answers nothing
        except (TypeError, AttributeError, UnicodeDecodeError, ConfigError) as error:
            raise ValueError("not a record") from error
        if not sound:
            raise ValueError("not a record")
        return record


def _is_result(metrics: object) -> bool:
    """Tell whether both metrics are there, as fractions; NaN is none."""
    return isinstance(metrics, dict) and all(
        isinstance(metrics.get(name), float | int) and 0 <= metrics[name] <= 1
        for name in ("auc", "ap")
    )
