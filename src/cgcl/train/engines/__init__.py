"""Engines: the ways to run an epoch, and which of them a training takes."""

from __future__ import annotations

from importlib.util import find_spec

from cgcl.methods.cgcl import CrossViewLearner
from cgcl.methods.cgcl_rank import RankingLearner
from cgcl.methods.method import Learner, TrainingGraph
from cgcl.methods.settings import CGCLSettings, RankSettings, TrainedSettings
from cgcl.train.config import Resources, RunConfig
from cgcl.train.engines.blocked import BlockedEngine
from cgcl.train.engines.plain import Engine, Moments, PlainEngine

__all__ = ["Engine", "Moments", "PlainEngine", "can_fuse", "engine_for"]


def engine_for(
    learner: Learner, known: TrainingGraph, recipe: RunConfig, resources: Resources
) -> Engine | None:
    """Return what trains a method here; None if there is nothing to train.

    Args:
        learner: The method with its weights.
        known: The links to learn from, on the device to compute on.
        recipe: The method's settings and the seed.
        resources: Says whether it may be the fastest way there is.
    """
    settings, seed = recipe.settings, recipe.split.seed
    if not isinstance(settings, TrainedSettings):
        return None
    is_whole = not getattr(settings, "batch", 0)  # the fast engines take a view at a time
    if isinstance(learner, CrossViewLearner) and isinstance(settings, CGCLSettings) and is_whole:
        if can_fuse(known, settings, resources):
            from cgcl.train.engines.fused import FusedEngine, FusedRuns

            precision = resources.precision
            return FusedEngine(FusedRuns([learner], [known], [settings], [seed], precision))
        if resources.engine == "auto" and known.device.type == "cpu":
            return BlockedEngine(learner, known, settings, seed)
    is_rank = isinstance(learner, RankingLearner) and isinstance(settings, RankSettings)
    if is_rank and resources.precision != "fp32" and _may_fuse(known, resources):
        from cgcl.train.engines.recorded import RankingSteps, RecordedEngine, supports

        if supports(known, settings):
            return RecordedEngine(RankingSteps(learner, known, settings, seed))
    return PlainEngine(learner, known, settings, seed)


def can_fuse(known: TrainingGraph, settings: CGCLSettings, resources: Resources) -> bool:
    """Whether CGCL can be trained by fused kernels: on a GPU, with Triton, bits free to differ."""
    if settings.batch or not _may_fuse(known, resources):
        return False
    from cgcl.train.engines.fused import supports

    return supports(known, settings)


def _may_fuse(known: TrainingGraph, resources: Resources) -> bool:
    """Whether there are a GPU and Triton, and bits are free to differ."""
    if resources.engine == "plain" or resources.deterministic or known.device.type != "cuda":
        return False
    return find_spec("triton") is not None
