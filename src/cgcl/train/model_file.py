"""`model.safetensors`: a method's weights and the recipe that gives them their shape."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from cgcl.errors import ConfigError, ModelFileError
from cgcl.graph import Graph
from cgcl.methods.method import Learner
from cgcl.metrics.calibration import Calibration
from cgcl.split import Split
from cgcl.tensors import read_tensors, write_tensors
from cgcl.train.recipe import Recipe
from cgcl.train.trainer import build_learner

__all__ = ["MODEL", "count_weights", "describe_model", "read_model", "write_model"]

MODEL = "model.safetensors"
_KIND = "cgcl model 2"


def describe_model(
    graph: Graph,
    split: Split,
    best_epoch: int,
    val: dict[str, float] | None,
    test: dict[str, float] | None,
    calibration: Calibration | None = None,
    test_sampled: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return what travels with the weights: where they come from and what they are worth."""
    return {
        "graph": graph.fingerprint,
        "split": split.fingerprint,
        "best_epoch": best_epoch,
        "val": val,
        "test": test,
        "test_sampled": test_sampled,
        "calibration": None if calibration is None else calibration.to_json(),
    }


def write_model(
    path: Path, learner: Learner, num_features: int, recipe: Recipe, about: dict[str, Any]
) -> None:
    """Write a trained method to one file.

    Args:
        path: The file.
        learner: The method with its weights.
        num_features: Number of features per node that it was built for; 0 if it needs none.
        recipe: What it was built by.
        about: What else to keep, see `describe_model`.

    Raises:
        ResourceError: The disk is full.
    """
    description = {"recipe": recipe.to_json(), "num_features": num_features, "about": about}
    write_tensors(path, _KIND, learner.state_dict(), description)


def read_model(path: Path) -> tuple[Learner, Recipe, dict[str, Any]]:
    """Return the method with its weights, its recipe and what was stored with it.

    Raises:
        ModelFileError: The file is missing, damaged, foreign, or does not fit its recipe.
    """
    tensors, description = read_tensors(path, _KIND)
    try:
        recipe = Recipe.from_json(description["recipe"])
        num_features, about = int(description["num_features"]), description["about"]
    except (KeyError, TypeError, ValueError, ConfigError) as error:
        raise ModelFileError(f"{path} does not say how its model is built ({error}).") from error
    empty = _without_memory(num_features, recipe)
    expected = {name: value.shape for name, value in empty.state_dict().items()}
    for name in sorted((expected.keys() - empty.added) | tensors.keys()):
        found = tuple(tensors[name].shape) if name in tensors else "missing"
        wanted = tuple(expected[name]) if name in expected else "nothing of that name"
        if found != wanted:
            raise ModelFileError(f"{path}: tensor {name} is {found}, expected {wanted}.")
        if not torch.isfinite(tensors[name]).all():
            raise ModelFileError(f"{path}: tensor {name} holds NaN or infinite values.")
    learner = build_learner(num_features, recipe)
    learner.load_state_dict(tensors)
    return learner, recipe, about


def count_weights(num_features: int, recipe: Recipe) -> int:
    """Return the number of weights of a method without building it."""
    return sum(weight.numel() for weight in _without_memory(num_features, recipe).parameters())


def _without_memory(num_features: int, recipe: Recipe) -> Learner:
    """Return a method whose tensors have shapes and nothing else."""
    with torch.device("meta"):
        return build_learner(num_features, recipe)
