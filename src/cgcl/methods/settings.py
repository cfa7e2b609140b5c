"""What every method can be told. Nothing heavy is imported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from cgcl.settings import Range, Settings

__all__ = ["MethodSettings", "TrainedSettings"]


@dataclass(frozen=True)
class MethodSettings(Settings):
    """The settings of a method that has nothing to train."""

    @property
    def caps(self) -> str:
        """What the method leaves out to stay affordable, for tables; empty for nothing."""
        return ""


@dataclass(frozen=True)
class TrainedSettings(MethodSettings):
    """The settings of a method that is trained."""

    lr: float = 0.01
    """Learning rate of Adam."""
    epochs: int = 200
    """Number of epochs."""
    weight_decay: float = 0.0
    """Strength of the L2 penalty on the weights."""
    evaluate_every: int = 10
    """Epochs between two measurements on the validation links."""
    clip: float = 0.0
    """Longest gradient that a step may follow; longer ones are shortened. 0 for no limit."""

    RANGES: ClassVar[Mapping[str, Range]] = {
        "lr": Range(above=0, high=10),
        "epochs": Range(low=1, high=10_000_000),
        "weight_decay": Range(low=0, high=10),
        "evaluate_every": Range(low=1, high=10_000_000),
        "clip": Range(low=0, high=1e9),
    }
