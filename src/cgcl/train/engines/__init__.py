"""Engines: the ways to run an epoch, and which of them a training takes."""

from __future__ import annotations

from cgcl.methods.method import Known, Learner
from cgcl.methods.settings import TrainedSettings
from cgcl.train.engines.engine import Engine, Moments
from cgcl.train.engines.plain import PlainEngine
from cgcl.train.recipe import Recipe

__all__ = ["Engine", "Moments", "PlainEngine", "engine_for"]


def engine_for(learner: Learner, known: Known, recipe: Recipe) -> Engine | None:
    """Return what trains a method here; None if there is nothing to train.

    Args:
        learner: The method with its weights.
        known: The links to learn from, on the device to compute on.
        recipe: The method's settings and the seed.
    """
    settings = recipe.settings
    if not isinstance(settings, TrainedSettings):
        return None
    return PlainEngine(learner, known, settings, recipe.split.seed)
