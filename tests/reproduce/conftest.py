"""What tests of experiments have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cgcl.reproduce.job import Job
from cgcl.reproduce.record import Record


@pytest.fixture
def scored() -> Callable[..., Record]:
    """Make up what came out of a run: AUC and AP in percent."""

    def make(job: Job, percent: float, **changes: Any) -> Record:
        metrics = {"auc": percent / 100, "ap": percent / 100}
        given: dict[str, Any] = {
            "split": f"{job.graph} {job.test} {job.split_seed}",
            "fingerprint": "f",
            "device": "cpu",
            "threads": 1,
            "versions": {},
            "val": metrics,
            "metrics": metrics,
        }
        return Record.of(job, **{**given, **changes})

    return make
