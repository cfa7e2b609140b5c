"""How often and on which splits methods are compared.

Nothing heavy is imported, so that `cgcl compare --help` answers at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from cgcl.errors import ConfigError
from cgcl.settings import Range, Settings

__all__ = ["PAPER_SPLIT_SEED", "Metric", "Plan"]

Metric = Literal[
    "node_mrr",
    "node_hits@10",
    "precision@100",
    "precision@1000",
    "pair_ap",
    "auc",
    "ap",
    "hits@10",
    "hits@50",
    "hits@100",
    "mrr",
]
"""What a comparison can be judged by, as the metrics are called in records."""

PAPER_SPLIT_SEED = 10
"""The seed of the one split under the paper's protocol; its authors' code has the same."""


@dataclass(frozen=True)
class Plan(Settings):
    """How methods are compared."""

    runs: int = 10
    """Number of runs of each method."""
    protocol: Literal["splits", "paper"] = "splits"
    """splits gives every run a split of its own; paper, like the paper, takes one split for all
    runs and changes the first weights only."""
    val: float = 0.05
    """Share of the links to choose the best epoch by; 0 keeps the last epoch."""
    test: float = 0.10
    """Share of the links to test on."""

    RANGES: ClassVar[Mapping[str, Range]] = {
        "runs": Range(low=1, high=10_000),
        "val": Range(low=0, below=1),
        "test": Range(above=0, below=1),
    }

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            ConfigError: A setting is out of range.
        """
        super().__post_init__()
        if self.val + self.test >= 1:
            raise ConfigError(
                f"val {self.val} and test {self.test} leave no links to learn from. "
                f"Together they must stay below 1."
            )

    def split_seed(self, run: int) -> int:
        """Return the seed of the split of a run; runs count from 0."""
        return PAPER_SPLIT_SEED if self.protocol == "paper" else run
