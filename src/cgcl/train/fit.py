"""One way to fit: from a graph and its split to a method that has learned, alone or with others.

`fit` is what `cgcl train`, `LinkPredictor.fit`, comparisons and searches call; `fit_many` is its
plural, which trains runs side by side on one GPU. Both prepare, stop and conclude alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import torch
from torch import Tensor, nn

from cgcl.errors import CGCLError
from cgcl.graph import Graph
from cgcl.graph.features import Structure, features_of, placed, prepare
from cgcl.memory import is_out_of_memory
from cgcl.methods.cgcl import CrossViewLearner
from cgcl.methods.method import Learner, PairScorer, TrainingGraph
from cgcl.methods.settings import CGCLSettings, RankSettings
from cgcl.metrics.calibration import Calibration
from cgcl.split import Split
from cgcl.train.calibrating import calibrate
from cgcl.train.config import Resources, RunConfig
from cgcl.train.engines import can_fuse
from cgcl.train.execution import computing_with, resolve_device
from cgcl.train.ranks import from_first, joined, present_ranks
from cgcl.train.top_of_list import Progress, silent
from cgcl.train.trainer import EpochRecord, Stopped, Trainer, ValidationScores, train

if TYPE_CHECKING:
    from cgcl.train.engines.fused import FusedRuns

# What runs that are trained together may differ in; everything else decides a shape or a branch.
_FREE = {"lr": 0.01, "weight_decay": 0.0}
# Their trainers keep the books; the epochs are run for all of them at once.
_BOOKS_ONLY = Resources(engine="plain")
_MOST_TOGETHER = 10
_TOGETHER_ON = "cuda"


@dataclass(frozen=True, eq=False)
class Fitted:
    """Everything that one training learned."""

    graph: Graph
    """The graph with features fit for training."""
    split: Split
    learner: Learner
    """The method with the weights of its best epoch."""
    recipe: RunConfig
    calibration: Calibration | None
    history: list[dict[str, Any]]
    best_epoch: int
    val: dict[str, float] | None
    """Validation AUC and AP at the best epoch, as fractions, or None."""
    test: dict[str, float] | None
    """Metrics on the test links as fractions; None if there are none or they were not measured."""
    test_sampled: dict[str, Any] | None = None
    """Where metrics come from some of the test links: how many, and the standard errors."""
    stopped: Stopped | None = None
    seconds: float = 0.0
    """Time to prepare, to train and to test."""
    notes: tuple[str, ...] = ()
    """What is not known of it for sure since it was read from disk, a sentence each."""

    @property
    def parameters(self) -> int:
        """Number of trained weights."""
        return sum(weight.numel() for weight in self.learner.parameters())

    def scorer(self, links: Tensor) -> PairScorer:
        """Return what scores pairs by these links, dropout off."""
        return self.learner.scorer(known_of(self.graph, links, self.learner))


Fit: TypeAlias = Callable[..., Fitted]
"""Trains one method, as `fit` does."""


def fit(
    graph: Graph,
    split: Split,
    recipe: RunConfig,
    resources: Resources,
    *,
    on_start: Callable[[Trainer], None] = lambda _: None,
    on_epoch: Callable[[EpochRecord], None] = lambda _: None,
    on_stop: Callable[[Trainer], None] = lambda _: None,
    on_trained: Callable[[Fitted], None] = lambda _: None,
    should_stop: Callable[[], bool] = lambda: False,
    progress: Progress = silent,
    is_prepared: bool = False,
    measure_test: bool = True,
    top_of_list: bool = True,
    calibrated: bool = False,
) -> Fitted:
    """Train a method on the training links of a split, keep its best epoch and test that.

    A training that `should_stop` has ended is neither tested nor calibrated.

    Args:
        graph: The graph; without features, some are made from the training links if needed.
        split: The links to learn from, to choose the epoch by and to test on.
        recipe: The method and its settings; its shares play no part.
        resources: Where and how long to compute.
        on_start: Told before the first epoch; it may restore the state of a run.
        on_epoch: Told about every epoch.
        on_stop: Told when there are no more epochs.
        on_trained: Told what was learned, before it is tested and calibrated.
        should_stop: Asked after every epoch; True ends training there.
        progress: Told how far testing and calibrating are.
        is_prepared: Whether the graph has the features to train on, see `prepared`.
        measure_test: Whether to look at the test links at all.
        top_of_list: Whether to measure where they stand among all nodes and pairs, too.
        calibrated: Whether scores are to become probabilities.

    Raises:
        SplitError: The split belongs to another graph, or there are no counter-examples.
        TrainingError: Training gave no finite scores.
    """
    device, start = resolve_device(resources), time.perf_counter()
    with computing_with(resources), joined(device, recipe):
        graph = graph if is_prepared else prepared(graph, split, recipe)
        trainer = Trainer(_features(graph, recipe), split, recipe, device, resources)
        on_start(trainer)
        _catch_up(trainer)
        limit = resources.time_limit_s
        train(trainer, on_epoch=on_epoch, should_stop=should_stop, time_limit_s=limit)
        on_stop(trainer)
        is_first = present_ranks().rank == 0  # the others have nothing to tell
        how = {"measure_test": measure_test and is_first, "top_of_list": top_of_list}
        how |= {"calibrated": calibrated and is_first}
        fitted = _conclude(graph, trainer, on_trained=on_trained, progress=progress, **how)
    return replace(fitted, seconds=time.perf_counter() - start)


def _catch_up(trainer: Trainer) -> None:
    """Let every rank go on from where the first one does."""
    if present_ranks().count < 2:
        return
    tensors, numbers = from_first(trainer.state)
    if numbers["epoch"]:
        trainer.restore(tensors, numbers)


def prepared(graph: Graph, split: Split, recipe: RunConfig) -> Graph:
    """Return the graph with the features that a method is trained on, if it needs any.

    Raises:
        SplitError: The split belongs to another graph.
    """
    split.require_parts_of(graph)
    return prepare(graph, split.train) if recipe.method.needs_features else graph


def fit_many(
    graph: Graph,
    splits: Sequence[Split],
    recipes: Sequence[RunConfig],
    resources: Resources,
    *,
    should_stop: Callable[[], bool] = lambda: False,
    measure_test: bool = True,
    top_of_list: bool = True,
) -> list[Fitted]:
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
    how = {"measure_test": measure_test, "top_of_list": top_of_list}
    runs = list(zip(splits, recipes, strict=True))
    if not fit_together(splits, recipes, resources):
        return [fit(graph, *run, resources, should_stop=should_stop, **how) for run in runs]
    device, start = resolve_device(resources), time.perf_counter()
    is_batched = isinstance(recipes[0].settings, CGCLSettings)
    engine = _BOOKS_ONLY if is_batched else resources
    shared: dict[int, Tensor] = {}  # features that several have lie on the device once
    trainers: list[Trainer] = []
    with computing_with(resources):
        graphs = [prepared(graph, *run) for run in runs]
        for own, run in zip(graphs, runs, strict=True):
            x = _features(own, run[1])
            if isinstance(x, Tensor):
                x = shared.setdefault(id(x), placed(x, device))
            trainers.append(Trainer(x, *run, device, engine))
        if is_batched:
            _train_batched(trainers, resources.precision, should_stop)
        else:
            _train_in_turns(trainers, should_stop)
        results = [_conclude(*own, **how) for own in zip(graphs, trainers, strict=True)]
    seconds = (time.perf_counter() - start) / len(results)
    return [replace(fitted, seconds=seconds) for fitted in results]


def _features(graph: Graph, recipe: RunConfig) -> Tensor | Structure | None:
    return features_of(graph) if recipe.method.needs_features else None


def fit_together(
    splits: Sequence[Split], recipes: Sequence[RunConfig], resources: Resources
) -> bool:
    """Whether runs pay together on a GPU: all of CGCL-rank, or of CGCL and of the same shapes."""
    settings = [recipe.settings for recipe in recipes]
    if len(recipes) < 2 or resources.time_limit or resources.track_consistency:
        return False
    device = resolve_device(resources)
    if all(isinstance(own, RankSettings) for own in settings):
        may = resources.engine != "plain" and resources.precision != "fp32"
        return may and not resources.deterministic and device.type == _TOGETHER_ON
    alike = {replace(own, **_FREE) for own in settings if isinstance(own, CGCLSettings)}
    is_other = any(not isinstance(own, CGCLSettings) for own in settings)
    sizes = {(split.num_nodes, *split.sizes.values()) for split in splits}
    if is_other or len(alike) > 1 or len(sizes) > 1:
        return False
    (shape,) = alike
    known = (TrainingGraph(s.num_nodes, s.train.to(device), None, s.sides) for s in splits)
    return all(can_fuse(own, shape, resources) for own in known)


def _conclude(
    graph: Graph,
    trainer: Trainer,
    *,
    measure_test: bool,
    top_of_list: bool,
    calibrated: bool = False,
    on_trained: Callable[[Fitted], None] = lambda _: None,
    progress: Progress = silent,
) -> Fitted:
    """Go back to the best epoch, test and calibrate it; only the first if nobody waits.

    Raises:
        TrainingError: No epoch gave finite scores.
    """
    trainer.engine = None  # its memory is others' to use
    if not trainer.was_asked_to_stop:
        trainer.keep_best()
    elif trainer.best_weights is not None:
        trainer.learner.load_state_dict(trainer.best_weights)
    fitted = Fitted(
        graph=graph,
        split=trainer.split,
        learner=trainer.learner,
        recipe=trainer.recipe,
        calibration=None,
        history=trainer.history,
        best_epoch=trainer.best_epoch,
        val=trainer.best_val,
        test=None,
        stopped=trainer.stopped,
    )
    if trainer.was_asked_to_stop:
        return fitted
    on_trained(fitted)
    test, calibration = None, None
    if measure_test:
        test = trainer.measure(top_of_list=top_of_list, progress=progress)
    if calibrated:
        seed, scorer = trainer.recipe.split.seed, trainer.tested
        calibration = calibrate(
            fitted.scorer, trainer.split, seed=seed, scorer=scorer, progress=progress
        )
    return replace(fitted, test=test, test_sampled=trainer.sampled, calibration=calibration)


def _train_batched(
    trainers: Sequence[Trainer], precision: str, should_stop: Callable[[], bool]
) -> None:
    """Train all to the end, their epochs run by one engine."""
    from cgcl.train.engines.fused import EPOCHS_AT_ONCE, FusedRuns

    runs = FusedRuns(
        [cast("CrossViewLearner", own.learner) for own in trainers],
        [own.known for own in trainers],
        [cast("CGCLSettings", own.recipe.settings) for own in trainers],
        [own.recipe.split.seed for own in trainers],
        precision,
    )
    # Validation links and counter-examples of every run, [runs, 2, p].
    each = [torch.cat([own.split.val, own.split.val_negatives], dim=1) for own in trainers]
    pairs = torch.stack(each).to(trainers[0].known.device)
    epoch, to_look = 0, trainers[0].epochs_to_look
    while any(own.is_going for own in trainers):
        count = min(to_look, EPOCHS_AT_ONCE)
        losses = runs.advance(epoch + 1, count)  # [count, runs, turns]
        epoch, to_look = epoch + count, to_look - count
        seen = _look(runs, pairs) if to_look == 0 else [None] * len(trainers)
        for index, own in enumerate(trainers):
            if own.is_going:
                own.settle(own.record_epochs(losses[:, index].tolist(), seen[index]), should_stop)
                to_look = to_look or own.epochs_to_look


def _look(runs: FusedRuns, pairs: Tensor) -> list[ValidationScores | None]:
    """Score the validation links of all runs, the first half of the pairs."""
    logits = runs.logits(pairs)
    finite = torch.isfinite(logits).all(dim=1)
    finite &= torch.isfinite(runs.weights.values).all(dim=1)
    finite &= torch.isfinite(runs.encoder.z).flatten(1).all(dim=1)
    both = logits.cpu().chunk(2, dim=1)
    return [ValidationScores(*own) for own in zip(*both, finite.tolist(), strict=True)]


def _train_in_turns(trainers: Sequence[Trainer], should_stop: Callable[[], bool]) -> None:
    """Train all to the end; while one is looked at, the epochs of the others are on their way."""
    going = list(trainers)
    try:
        for own in trainers:
            own.start()
        while going:
            for own in list(going):
                own.settle(own.run_epochs(), should_stop)
                if own.is_going:
                    own.start()
                else:
                    own.engine = None  # its memory is others' to use
                    going.remove(own)
    finally:
        # Whatever went wrong in one: nobody may be at work in memory that is given back.
        for own in going:
            own.wait()


class BatchedTrainer:
    """Trains like `fit`, but at the first of several runs that fit together all of them.

    A comparison asks for its runs one by one; this is how it gets those of CGCL at once.
    """

    def __init__(
        self, wanted: Sequence[RunConfig], split_of: Callable[[RunConfig], Split], train: Fit
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
        self._ready: dict[RunConfig, Fitted] = {}

    def __call__(
        self,
        graph: Graph,
        split: Split,
        recipe: RunConfig,
        resources: Resources,
        **told: Any,  # noqa: ANN401, what `fit` can be told
    ) -> Fitted:
        """Return what came out of a run, which may have been trained before."""
        how = {name: told[name] for name in ("should_stop", "measure_test") if name in told}
        if recipe in self._wanted and resolve_device(resources).type == _TOGETHER_ON:
            others = [own for own in self._wanted if own.name == recipe.name and own != recipe]
            group = [recipe, *others[: _MOST_TOGETHER - 1]]
            splits = [self._split_of(own) for own in group]
            self._wanted = [own for own in self._wanted if own not in group]
            if fit_together(splits, group, resources):
                try:
                    found = fit_many(graph, splits, group, resources, **how)
                    self._ready |= dict(zip(group, found, strict=True))
                except Exception as error:
                    # One of them failed: each is trained alone, the others are not its victims.
                    if not (isinstance(error, CGCLError) or is_out_of_memory(error)):
                        raise
        if recipe in self._ready:
            return self._ready.pop(recipe)
        return self._train(graph, split, recipe, resources, **told)


def known_of(graph: Graph, links: Tensor, learner: nn.Module) -> TrainingGraph:
    """Return what a trained method may look at, where its weights are."""
    weight = next(learner.parameters(), None)
    device = links.device if weight is None else weight.device
    x = graph.x if graph.structure is None else graph.structure
    return TrainingGraph.on(device, graph.num_nodes, links, x, graph.sides)
