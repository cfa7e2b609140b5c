"""Many runs at once: seeds, splits or learning rates, side by side on one GPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import torch

from cgcl.graph import Graph
from cgcl.graph.feature_matrix import placed
from cgcl.graph.prepare import features_of, prepare
from cgcl.methods.cgcl import CrossViewLearner
from cgcl.methods.cgcl_settings import CGCLSettings
from cgcl.split import Split
from cgcl.train.config import Resources
from cgcl.train.engines import can_fuse
from cgcl.train.execution import computing_with, resolve_device
from cgcl.train.loop import Stopped, ended
from cgcl.train.once import Trained, train_once
from cgcl.train.recipe import Recipe
from cgcl.train.trainer import Seen, Trainer

if TYPE_CHECKING:
    from cgcl.train.engines.fused import FusedRuns

__all__ = ["fit_together", "train_together"]

# What runs that are trained together may differ in; everything else decides a shape or a branch.
_FREE = {"lr": 0.01, "weight_decay": 0.0}


def train_together(
    graph: Graph,
    splits: Sequence[Split],
    recipes: Sequence[Recipe],
    resources: Resources,
    *,
    on_done: Callable[[int, Trained], None] = lambda _index, _trained: None,
) -> list[Trained]:
    """Train several recipes, each on its own split; each result is that of its lone run.

    On a GPU, runs of CGCL that differ only in seed, split, learning rate and penalty become one
    batched problem. Everything else is trained one after the other.

    Args:
        graph: The graph; without features, some are made from the training links of each split.
        splits: The split of each run.
        recipes: The recipe of each run.
        resources: Where to compute. A time limit holds for each run that is trained alone.
        on_done: Told about each run when it is done.

    Raises:
        SplitError: A split belongs to another graph, or there are no counter-examples.
        TrainingError: Training gave no finite scores.
        ResourceError: The device does not exist.
    """
    if fit_together(splits, recipes):
        together = _side_by_side(graph, splits, recipes, resources)
        if together is not None:
            for index, trained in enumerate(together):
                on_done(index, trained)
            return together
    results: list[Trained] = []
    for split, recipe in zip(splits, recipes, strict=True):
        results.append(train_once(graph, split, recipe, resources))
        on_done(len(results) - 1, results[-1])
    return results


def fit_together(splits: Sequence[Split], recipes: Sequence[Recipe]) -> bool:
    """Whether runs have the same shapes: all of CGCL, with equally many links, alike but for lr."""
    settings = [recipe.settings for recipe in recipes]
    if len(recipes) < 2 or not all(isinstance(own, CGCLSettings) for own in settings):
        return False
    alike = {replace(cast("CGCLSettings", own), **_FREE) for own in settings}
    sizes = {(split.num_nodes, *split.sizes.values()) for split in splits}
    return len(alike) == 1 and len(sizes) == 1


def _side_by_side(
    graph: Graph, splits: Sequence[Split], recipes: Sequence[Recipe], resources: Resources
) -> list[Trained] | None:
    """Train on a GPU what fits together; None if this is no such place."""
    device = resolve_device(resources)
    start = time.perf_counter()
    with computing_with(resources):
        for split in splits:
            split.require_parts_of(graph)
        graphs = [prepare(graph, split.train) for split in splits]
        own_features = any(own.x is not graph.x for own in graphs)
        shared = None if own_features else placed(features_of(graph), device)
        trainers = [
            Trainer(
                placed(features_of(own), device) if shared is None else shared,
                split,
                recipe,
                device,
                resources=replace(resources, engine="plain"),
            )
            for own, split, recipe in zip(graphs, splits, recipes, strict=True)
        ]
        settings = cast("CGCLSettings", recipes[0].settings)
        if not all(can_fuse(trainer.known, settings, resources) for trainer in trainers):
            return None
        batch = _Batch(trainers, splits, recipes, resources.precision)
        stopped, histories = batch.run()
        results: list[Trained] = []
        for index, trainer in enumerate(trainers):
            trainer.keep_best()
            results.append(
                Trained(
                    graph=graphs[index],
                    learner=trainer.learner,
                    history=histories[index],
                    best_epoch=trainer.best_epoch,
                    val=trainer.best_val,
                    test=trainer.measure(),
                    stopped=stopped[index],
                    seconds=(time.perf_counter() - start) / len(trainers),
                    parameters=sum(weight.numel() for weight in trainer.learner.parameters()),
                )
            )
    return results


class _Batch:
    """Trainers whose epochs are run by one engine."""

    def __init__(
        self,
        trainers: Sequence[Trainer],
        splits: Sequence[Split],
        recipes: Sequence[Recipe],
        precision: str,
    ) -> None:
        from cgcl.train.engines.fused import FusedRuns

        self._trainers = trainers
        self._runs: FusedRuns = FusedRuns(
            [cast("CrossViewLearner", trainer.learner) for trainer in trainers],
            [trainer.known for trainer in trainers],
            [cast("CGCLSettings", recipe.settings) for recipe in recipes],
            [recipe.split.seed for recipe in recipes],
            precision,
        )
        device = trainers[0].known.device
        # Links and counter-examples of every run, [runs, 2, p].
        self._links = torch.stack([split.val for split in splits]).to(device)
        self._others = torch.stack([split.val_negatives for split in splits]).to(device)

    def run(self) -> tuple[list[Stopped | None], list[list[dict[str, Any]]]]:
        """Train all to the end; return why each ended early, if it did, and its history."""
        from cgcl.train.engines.fused_decoder import EPOCHS_AT_ONCE

        trainers = self._trainers
        stopped: list[Stopped | None] = [None] * len(trainers)
        histories: list[list[dict[str, Any]]] = [[] for _ in trainers]
        epoch, epochs = 0, trainers[0].epochs
        to_look = trainers[0].epochs_to_look
        while epoch < epochs and not all(stopped):
            count = min(to_look, EPOCHS_AT_ONCE)
            losses = self._runs.advance(epoch + 1, count)  # [count, runs, turns]
            epoch, to_look = epoch + count, to_look - count
            seen = self._look() if to_look == 0 else [None] * len(trainers)
            for index, trainer in enumerate(trainers):
                if stopped[index] is None:
                    records = trainer.take(losses[:, index].tolist(), seen[index])
                    good = records if trainer.is_finite else records[:-1]
                    histories[index] += [record.to_json() for record in good]
                    stopped[index] = ended(trainer)
                    to_look = to_look or trainer.epochs_to_look
        return stopped, histories

    def _look(self) -> list[Seen | None]:
        """Score the validation links of all runs."""
        runs = self._runs
        logits = runs.logits(torch.cat([self._links, self._others], dim=2))
        finite = torch.isfinite(logits).all(dim=1)
        finite &= torch.isfinite(runs.weights.values).all(dim=1)
        finite &= torch.isfinite(runs.encoder.z).flatten(1).all(dim=1)
        both, count = logits.cpu(), self._links.shape[2]
        return [
            Seen(own[:count], own[count:], is_finite)
            for own, is_finite in zip(both, finite.tolist(), strict=True)
        ]
