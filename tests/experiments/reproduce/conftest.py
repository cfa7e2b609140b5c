"""What tests of experiments have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cgcl.experiments.study import Job, Record, study_pages

study_pages()  # so that tests can import its modules, as cgcl_paper

CHOSEN = {
    f"{method}-{graph}-{test}": {"hidden": 64, "lr": 0.01, "input_dropout": 0.5}
    for method in ("cgcl", "graphsage", "vgae", "s2gae", "maskgae")
    for graph in ("cora", "citeseer", "pubmed", "photo", "computers")
    for test in (10, 20)
}
"""Made-up choices for all that any experiment chooses."""


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
