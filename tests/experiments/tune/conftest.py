"""A search that takes no time: what would be trained is a formula of its settings."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from cgcl.errors import TrainingError
from cgcl.graph import Graph
from cgcl.split import Split, random_split
from cgcl.train.config import Resources, RunConfig
from cgcl.train.trainer import EpochRecord, Stopped


class FakeTrain:
    """Stands in for `fit`: better with more width and less dropout, never twice."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self.resources: list[Resources] = []
        self.seen: list[tuple[Graph, Split]] = []
        self.epochs = 3
        self.before: Callable[[dict[str, Any]], None] = lambda _: None
        self.measures_top = True

    def __call__(
        self, graph, split, recipe: RunConfig, resources, *, on_epoch, should_stop, measure_test
    ) -> SimpleNamespace:
        assert measure_test is False
        settings = recipe.to_json()
        self.before(settings)
        assert settings not in self.calls, "tried twice"
        self.calls.append(settings)
        self.resources.append(resources)
        self.seen.append((graph, split))
        stopped = None
        for epoch in range(1, self.epochs + 1):
            on_epoch(EpochRecord(epoch, [1.0]))
            if epoch < self.epochs and should_stop():
                stopped = Stopped("signal", epoch, f"Stopped at epoch {epoch}.")
                break
        auc = quality(settings)
        val = {"auc": auc, "ap": auc - 0.01}
        if settings.get("choose_by") == "node_mrr" and self.measures_top:
            val["node_mrr"] = 1 - auc  # best where AUC is worst
        return SimpleNamespace(val=val, best_epoch=self.epochs, stopped=stopped)


def quality(settings: dict[str, Any]) -> float:
    return (
        0.7
        + 0.1 * settings.get("hidden", 0) / 512
        + 0.05 * (1 - settings.get("input_dropout", 0))
        - 2 * abs(settings.get("lr", 0) - 0.005)
        + 100 * settings.get("weight_decay", 0)
    )


def diverge(settings: dict[str, Any]) -> None:
    """Fail at the largest learning rate."""
    if settings["lr"] == 0.01:
        raise TrainingError("The loss became NaN.\nLower `lr`.")


@pytest.fixture
def fake() -> FakeTrain:
    return FakeTrain()


@pytest.fixture
def split(two_cliques: Graph) -> Split:
    return random_split(two_cliques, 0.1, 0.2, 0)
