"""What every method can be told. Nothing heavy is imported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Literal

from cgcl.settings import Range, Settings

__all__ = ["MethodSettings", "TrainedSettings"]

# What settings that were added later used to be, before anyone could choose.
_CAME_LATER = {"choose_by": "auc"}
_NEVER = object()


@dataclass(frozen=True)
class MethodSettings(Settings):
    """The settings of a method that has nothing to train."""

    @property
    def caps(self) -> str:
        """What the method leaves out to stay affordable, for tables; empty for nothing."""
        return ""

    def to_json(self) -> dict[str, Any]:
        """Return every setting by name, but for what came later and is as it was before.

        So runs from before are recognised as the same runs.
        """
        values, defaults = asdict(self), {own.name: own.default for own in fields(self)}
        return {
            name: value
            for name, value in values.items()
            if not _CAME_LATER.get(name, _NEVER) == value == defaults[name]
        }


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
    choose_by: Literal["auc", "node_mrr", "hits@100"] = "auc"
    """By what the best epoch is chosen on the validation links: auc; node_mrr, where a link's other
    end stands among all nodes; hits@100, the links above the 100th unlinked pair, equal ones by
    auc. Where node_mrr takes too long for a look, or there are no 100 pairs, auc all the same."""

    RANGES: ClassVar[Mapping[str, Range]] = {
        "lr": Range(above=0, high=10),
        "epochs": Range(low=1, high=10_000_000),
        "weight_decay": Range(low=0, high=10),
        "evaluate_every": Range(low=1, high=10_000_000),
        "clip": Range(low=0, high=1e9),
    }
