"""Many runs at once: seeds, splits or learning rates, side by side on one GPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from cgcl.graph import Graph
from cgcl.graph.features import features_of, placed, prepare
from cgcl.methods.cgcl import CrossViewLearner
from cgcl.methods.method import Known
from cgcl.methods.settings import CGCLSettings, RankSettings
from cgcl.split import Split
from cgcl.train.config import Resources
from cgcl.train.engines import can_fuse
from cgcl.train.execution import computing_with, resolve_device
from cgcl.train.loop import Stopped, ended
from cgcl.train.once import Trained, TrainOnce, conclude, train_once
from cgcl.train.recipe import Recipe
from cgcl.train.trainer import EpochRecord, Seen, Trainer

if TYPE_CHECKING:
    from cgcl.train.engines.fused import FusedRuns

__all__ = ["Ahead", "fit_together", "train_together"]

# What runs that are trained together may differ in; everything else decides a shape or a branch.
_FREE = {"lr": 0.01, "weight_decay": 0.0}
# Their trainers keep the books; the epochs are run for all of them at once.
_BOOKS_ONLY = Resources(engine="plain")
_MOST_TOGETHER = 10
_TOGETHER_ON = "cuda"


def train_together(
    graph: Graph,
    splits: Sequence[Split],
    recipes: Sequence[Recipe],
    resources: Resources,
    *,
    should_stop: Callable[[], bool] = lambda: False,
    measure_test: bool = True,
    top_of_list: bool = True,
) -> list[Trained]:
    """Train several recipes, each on its own split; each result is that of its lone run.

    On a GPU, runs of CGCL that differ only in seed, split, learning rate and penalty become one
    batched problem, and runs of CGCL-rank compute side by side: while one is looked at, or is too
    small to fill the card, the others go on. Everything else is trained one after the other.

    Args:
        graph: The graph; without features, some are made from the training links of each split.
        splits: The split of each run.
        recipes: The recipe of each run.
        resources: Where to compute; with a time limit, every run is trained alone.
        should_stop: Asked now and then; True ends every training there.
        measure_test: Whether to look at the test links at all.
        top_of_list: Whether to measure where they stand among all nodes and pairs, too.

    Raises:
        SplitError: A split belongs to another graph, or there are no counter-examples.
        TrainingError: Training gave no finite scores.
        ResourceError: The device does not exist.
    """
    if fit_together(splits, recipes, resources):
        return _side_by_side(
            graph, splits, recipes, resources, should_stop, measure_test, top_of_list
        )
    return [
        train_once(
            graph,
            split,
            recipe,
            resources,
            should_stop=should_stop,
            measure_test=measure_test,
            top_of_list=top_of_list,
        )
        for split, recipe in zip(splits, recipes, strict=True)
    ]


def fit_together(splits: Sequence[Split], recipes: Sequence[Recipe], resources: Resources) -> bool:
    """Whether runs pay together on a GPU: all of CGCL-rank, or of CGCL and of the same shapes."""
    settings = [recipe.settings for recipe in recipes]
    if len(recipes) > 1 and all(isinstance(own, RankSettings) for own in settings):
        is_watched = resources.time_limit or resources.track_consistency
        may = resources.engine != "plain" and not resources.deterministic and not is_watched
        may &= resources.precision != "fp32"
        return may and resolve_device(resources).type == _TOGETHER_ON
    if len(recipes) < 2 or not all(isinstance(own, CGCLSettings) for own in settings):
        return False
    alike = {replace(cast("CGCLSettings", own), **_FREE) for own in settings}
    sizes = {(split.num_nodes, *split.sizes.values()) for split in splits}
    if len(alike) > 1 or len(sizes) > 1 or resources.time_limit or resources.track_consistency:
        return False
    device = resolve_device(resources)
    return all(
        can_fuse(
            Known(split.num_nodes, split.train.to(device), None, split.sides),
            cast("CGCLSettings", settings[0]),
            resources,
        )
        for split in splits
    )


def _side_by_side(
    graph: Graph,
    splits: Sequence[Split],
    recipes: Sequence[Recipe],
    resources: Resources,
    should_stop: Callable[[], bool],
    measure_test: bool,
    top_of_list: bool,
) -> list[Trained]:
    """Train on a GPU what fits together."""
    device = resolve_device(resources)
    start = time.perf_counter()
    with computing_with(resources):
        for split in splits:
            split.require_parts_of(graph)
        graphs = [prepare(graph, split.train) for split in splits]
        features = [features_of(own) for own in graphs]
        # Features that no split has changed lie on the device once.
        shared = {id(x): placed(x, device) for x in features if isinstance(x, Tensor)}
        is_batched = isinstance(recipes[0].settings, CGCLSettings)
        own = _BOOKS_ONLY if is_batched else resources
        trainers = [
            Trainer(shared.get(id(x), x), split, recipe, device, resources=own)
            for x, split, recipe in zip(features, splits, recipes, strict=True)
        ]
        if is_batched:
            batch = _Batch(trainers, splits, recipes, resources.precision)
            stopped, histories = batch.run(should_stop)
        else:
            stopped, histories = _in_turns(trainers, should_stop)
        results = [
            conclude(*own, measure_test=measure_test, top_of_list=top_of_list)
            for own in zip(trainers, graphs, histories, stopped, strict=True)
        ]
    seconds = (time.perf_counter() - start) / len(results)
    return [replace(trained, seconds=seconds) for trained in results]


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

    def run(
        self, should_stop: Callable[[], bool]
    ) -> tuple[list[Stopped | None], list[list[dict[str, Any]]]]:
        """Train all to the end; return why each ended early, if it did, and its history."""
        from cgcl.train.engines.fused import EPOCHS_AT_ONCE

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
            if epoch < epochs and should_stop():
                asked = Stopped("signal", epoch, f"Stopped at epoch {epoch}.")
                stopped = [own or asked for own in stopped]
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


def _in_turns(
    trainers: Sequence[Trainer], should_stop: Callable[[], bool]
) -> tuple[list[Stopped | None], list[list[dict[str, Any]]]]:
    """Train all to the end; return why each ended early, if it did, and its history.

    While one is looked at, the epochs of the others are on their way.
    """
    stopped: list[Stopped | None] = [None] * len(trainers)
    histories: list[list[dict[str, Any]]] = [[] for _ in trainers]
    going = dict(enumerate(trainers))
    try:
        for trainer in trainers:
            _start(trainer)
        _take_turns(going, stopped, histories, should_stop)
    finally:
        # Whatever went wrong in one: nobody may be at work in memory that is given back.
        for trainer in going.values():
            _finish(trainer, look=False)
    return stopped, histories


def _take_turns(
    going: dict[int, Trainer],
    stopped: list[Stopped | None],
    histories: list[list[dict[str, Any]]],
    should_stop: Callable[[], bool],
) -> None:
    while going:
        for index, trainer in list(going.items()):
            records = _finish(trainer)
            good = records if trainer.is_finite else records[:-1]
            histories[index] += [record.to_json() for record in good]
            stopped[index] = ended(trainer)
            is_last = trainer.epoch == trainer.epochs
            if stopped[index] is None and not is_last and should_stop():
                told = f"Stopped at epoch {trainer.epoch}."
                stopped[index] = Stopped("signal", trainer.epoch, told)
            if is_last or stopped[index] is not None:
                trainer.engine = None  # its memory is others' to use
                del going[index]
            else:
                _start(trainer)


def _start(trainer: Trainer) -> None:
    engine: Any = trainer.engine
    if hasattr(engine, "start"):  # others compute when they are asked for the result
        engine.start(trainer.epoch + 1, min(trainer.epochs_to_look, engine.epochs_at_once))


def _finish(trainer: Trainer, *, look: bool = True) -> list[EpochRecord]:
    engine: Any = trainer.engine
    if hasattr(engine, "finish"):
        losses = engine.finish()
        return trainer.take(losses) if look else []
    return trainer.run_epochs() if look else []


class Ahead:
    """Trains like `train_once`, but at the first of several runs that fit together all of them.

    A comparison asks for its runs one by one; this is how it gets those of CGCL at once.
    """

    def __init__(
        self, wanted: Sequence[Recipe], split_of: Callable[[Recipe], Split], train: TrainOnce
    ) -> None:
        """Remember what will be asked for.

        Args:
            wanted: Recipes of runs that may be asked for, each once.
            split_of: Returns the split of a run.
            train: What trains everything else.
        """
        self._wanted = list(wanted)
        self._split_of = split_of
        self._train = train
        self._ready: dict[Recipe, Trained] = {}

    def __call__(
        self,
        graph: Graph,
        split: Split,
        recipe: Recipe,
        resources: Resources,
        *,
        on_epoch: Callable[[EpochRecord], None] = lambda _: None,
        should_stop: Callable[[], bool] = lambda: False,
        measure_test: bool = True,
    ) -> Trained:
        """Return what came out of a run, which may have been trained before."""
        if recipe in self._wanted and resolve_device(resources).type == _TOGETHER_ON:
            others = [own for own in self._wanted if own.name == recipe.name and own != recipe]
            group = [recipe, *others[: _MOST_TOGETHER - 1]]
            splits = [self._split_of(own) for own in group]
            if fit_together(splits, group, resources):
                found = train_together(
                    graph,
                    splits,
                    group,
                    resources,
                    should_stop=should_stop,
                    measure_test=measure_test,
                )
                self._ready |= dict(zip(group, found, strict=True))
            self._wanted = [own for own in self._wanted if own not in group]
        if recipe in self._ready:
            return self._ready.pop(recipe)
        return self._train(
            graph,
            split,
            recipe,
            resources,
            on_epoch=on_epoch,
            should_stop=should_stop,
            measure_test=measure_test,
        )
