"""One training without a run folder: for the predictor, for comparisons, for searches."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from torch import Tensor, nn

from cgcl.graph import Graph
from cgcl.graph.features import features_of, prepare
from cgcl.methods.method import Known, Learner, PairScorer
from cgcl.split import Split
from cgcl.train.config import Resources
from cgcl.train.execution import computing_with, resolve_device
from cgcl.train.loop import Stopped, train
from cgcl.train.recipe import Recipe
from cgcl.train.trainer import EpochRecord, Trainer

__all__ = ["TrainOnce", "Trained", "conclude", "known_of", "train_once"]


@dataclass(frozen=True, eq=False)
class Trained:
    """What came out of one training."""

    graph: Graph
    """The graph with features fit for training."""
    learner: Learner
    """The method with the weights of its best epoch."""
    history: list[dict[str, Any]]
    best_epoch: int
    val: dict[str, float] | None
    """Validation AUC and AP at the best epoch, as fractions, or None."""
    test: dict[str, float] | None
    """Metrics on the test links as fractions; None if there are none or they were not measured."""
    stopped: Stopped | None
    seconds: float
    """Time to prepare, to train and to test."""
    parameters: int
    """Number of trained weights."""
    test_sampled: dict[str, Any] | None = None
    """Where metrics come from some of the test links: how many, and the standard errors."""

    def scorer(self, links: Tensor) -> PairScorer:
        """Return what scores pairs by these links, dropout off."""
        return self.learner.scorer(known_of(self.graph, links, self.learner))


class TrainOnce(Protocol):
    """Trains one method, as `train_once` does."""

    def __call__(
        self,
        graph: Graph,
        split: Split,
        recipe: Recipe,
        resources: Resources,
        *,
        on_epoch: Callable[[EpochRecord], None],
        should_stop: Callable[[], bool],
        measure_test: bool,
    ) -> Trained:
        """Return what came out of it."""
        ...


def train_once(
    graph: Graph,
    split: Split,
    recipe: Recipe,
    resources: Resources,
    *,
    on_epoch: Callable[[EpochRecord], None] = lambda _: None,
    should_stop: Callable[[], bool] = lambda: False,
    measure_test: bool = True,
    top_of_list: bool = True,
) -> Trained:
    """Train a method on the training links of a split and keep its best epoch.

    Args:
        graph: The graph; without features, some are made from the training links if needed.
        split: The links to learn from, to choose the epoch by and to test on.
        recipe: The method and its settings; its shares play no part.
        resources: Where and how long to compute.
        on_epoch: Told about every epoch.
        should_stop: Asked after every epoch; True ends training there.
        measure_test: Whether to look at the test links at all.
        top_of_list: Whether to measure where they stand among all nodes and pairs, too.

    Raises:
        SplitError: The split belongs to another graph, or there are no counter-examples.
        TrainingError: Training gave no finite scores.
        ResourceError: The device does not exist.
    """
    split.require_parts_of(graph)
    device = resolve_device(resources)
    history: list[dict[str, Any]] = []

    def note(record: EpochRecord) -> None:
        history.append(record.to_json())
        on_epoch(record)

    start = time.perf_counter()
    with computing_with(resources):
        needs = recipe.method.needs_features
        graph = prepare(graph, split.train) if needs else graph
        x = features_of(graph) if needs else None
        trainer = Trainer(
            x, split, recipe, device, track=resources.track_consistency, resources=resources
        )
        stopped = train(
            trainer, on_epoch=note, should_stop=should_stop, time_limit_s=resources.time_limit_s
        )
        trained = conclude(
            trainer,
            graph,
            history,
            stopped,
            measure_test=measure_test,
            top_of_list=top_of_list,
        )
    return replace(trained, seconds=time.perf_counter() - start)


def conclude(
    trainer: Trainer,
    graph: Graph,
    history: list[dict[str, Any]],
    stopped: Stopped | None,
    *,
    measure_test: bool,
    top_of_list: bool = True,
) -> Trained:
    """Go back to the best epoch and return what came out; its time is still to be said.

    Args:
        trainer: What was trained.
        graph: The graph with features fit for training.
        history: What was written down about each epoch.
        stopped: Why it ended early, if it did.
        measure_test: Whether to look at the test links at all.
        top_of_list: Whether to measure where they stand among all nodes and pairs, too.

    Raises:
        TrainingError: No epoch gave finite scores.
    """
    trainer.keep_best()
    test = trainer.measure(top_of_list=top_of_list) if measure_test else None
    return Trained(
        graph=graph,
        learner=trainer.learner,
        history=history,
        best_epoch=trainer.best_epoch,
        val=trainer.best_val,
        test=test,
        stopped=stopped,
        seconds=0.0,
        parameters=sum(weight.numel() for weight in trainer.learner.parameters()),
        test_sampled=trainer.sampled,
    )


def known_of(graph: Graph, links: Tensor, learner: nn.Module) -> Known:
    """Return what a trained method may look at, where its weights are."""
    weight = next(learner.parameters(), None)
    device = links.device if weight is None else weight.device
    x = graph.x if graph.structure is None else graph.structure
    return Known.on(device, graph.num_nodes, links, x, graph.sides)
