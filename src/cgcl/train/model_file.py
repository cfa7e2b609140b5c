"""`model.safetensors`: the weights and the settings that give them their shape."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from cgcl.calibrate import Calibration
from cgcl.errors import ConfigError, ModelFileError
from cgcl.graph import Graph
from cgcl.model import CGCL
from cgcl.split import Split
from cgcl.tensors import read_tensors, write_tensors
from cgcl.train.config import ModelConfig
from cgcl.train.trainer import build_model

__all__ = ["MODEL", "count_weights", "describe_model", "read_model", "write_model"]

MODEL = "model.safetensors"
_KIND = "cgcl model 1"


def describe_model(
    graph: Graph,
    split: Split,
    settings: dict[str, Any],
    best_epoch: int,
    val: dict[str, float] | None,
    test: dict[str, float] | None,
    calibration: Calibration | None = None,
) -> dict[str, Any]:
    """Return what travels with the weights: where they come from and what they are worth."""
    return {
        "graph": graph.fingerprint,
        "split": split.fingerprint,
        "settings": settings,
        "best_epoch": best_epoch,
        "val": val,
        "test": test,
        "calibration": None if calibration is None else calibration.to_json(),
    }


def write_model(path: Path, model: CGCL, config: ModelConfig, about: dict[str, Any]) -> None:
    """Write a model that `read_model` gives back unchanged.

    Args:
        path: The file to write.
        model: The network.
        config: The settings it was built with.
        about: Anything JSON can hold that should travel with it.

    Raises:
        ResourceError: The disk is full or the folder cannot be written.
    """
    description = {
        "model": asdict(config),
        "in_channels": model.encode.weight.shape[0],
        "about": about,
    }
    write_tensors(path, _KIND, model.state_dict(), description)


def read_model(path: Path) -> tuple[CGCL, ModelConfig, dict[str, Any]]:
    """Return the network, its settings and what was stored with it.

    Raises:
        ModelFileError: The file is missing, damaged, foreign, or does not fit its settings.
    """
    tensors, description = read_tensors(path, _KIND)
    try:
        config = ModelConfig(**description["model"])
        in_channels, about = int(description["in_channels"]), description["about"]
    except (KeyError, TypeError, ValueError, ConfigError) as error:
        raise ModelFileError(f"{path} does not say how its model is built ({error}).") from error
    expected = {name: value.shape for name, value in _shapes(in_channels, config).items()}
    for name in sorted(expected.keys() | tensors.keys()):
        found = tuple(tensors[name].shape) if name in tensors else "missing"
        wanted = tuple(expected[name]) if name in expected else "nothing of that name"
        if found != wanted:
            raise ModelFileError(f"{path}: tensor {name} is {found}, expected {wanted}.")
        if not torch.isfinite(tensors[name]).all():
            raise ModelFileError(f"{path}: tensor {name} holds NaN or infinite values.")
    model = build_model(in_channels, config, seed=0)
    model.load_state_dict(tensors)
    return model, config, about


def count_weights(in_channels: int, config: ModelConfig) -> int:
    """Return the number of weights of a network without building it."""
    return sum(weight.numel() for weight in _shapes(in_channels, config).values())


def _shapes(in_channels: int, config: ModelConfig) -> dict[str, torch.Tensor]:
    """Return the tensors of a network with shapes but without memory."""
    with torch.device("meta"):
        return CGCL(in_channels, config.hidden, product=config.product).state_dict()
