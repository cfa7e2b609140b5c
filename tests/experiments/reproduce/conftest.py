"""What tests of experiments have in common."""

from collections.abc import Callable
from typing import Any

import pytest

from cgcl.experiments.study import Experiment, Job, Record, Row, study_pages
from cgcl.train.config import RunConfig

study_pages()  # so that tests can import its modules, as cgcl_paper

CHOSEN = {
    f"{method}-{graph}-{test}": {"hidden": 64, "lr": 0.01, "input_dropout": 0.5}
    for method in ("cgcl", "graphsage", "vgae", "s2gae", "maskgae")
    for graph in ("cora", "citeseer", "pubmed", "photo", "computers")
    for test in (10, 20)
}
"""Made-up choices for all that any experiment chooses."""


def toy(*rows: Row, **changes: Any) -> Experiment:
    """Return a small experiment."""
    given = {"name": "toy", "title": "Toy", "graphs": ("cora", "photo"), "test": (10, 20)}
    given |= {"protocols": ("paper", "splits"), "runs": 3}
    return Experiment(**{**given, "rows": rows or (row("cgcl"), row("vgae")), **changes})


def row(name: str, method: str | None = None, **changes: Any) -> Row:
    return Row(**{"name": name, "title": name, "method": method or name, "settings": {}, **changes})


def job(
    method: str = "cgcl",
    split_seed: int = 0,
    measures: tuple[str, ...] = (),
    *,
    graph: str = "cora",
    test: int = 10,
    **settings: Any,
) -> Job:
    shares = {"val": test / 200, "test": test / 100}
    return Job(graph, test, RunConfig.of(method, {**shares, **settings}), split_seed, measures)


def record_of(job: Job, auc: float = 0.5, ap: float = 0.5, **changes: Any) -> Record:
    """Make up what came out of a run."""
    given = {"split": f"{job.graph} {job.test} {job.split_seed}", "fingerprint": "f"}
    given |= {"device": "cpu", "threads": 1, "versions": {}, "metrics": {"auc": auc, "ap": ap}}
    return Record.of(job, **{**given, **changes})


@pytest.fixture
def scored() -> Callable[..., Record]:
    """Make up what came out of a run: AUC and AP in percent."""

    def make(job: Job, percent: float, **changes: Any) -> Record:
        own = percent / 100
        return record_of(job, own, own, **{"val": {"auc": own, "ap": own}, **changes})

    return make
