"""How often and on which splits methods are compared, and who is told how it goes.

Nothing heavy is imported, so that `cgcl compare --help` answers at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from cgcl.errors import ConfigError
from cgcl.settings import Range, Settings

if TYPE_CHECKING:
    from cgcl.experiments.comparison import Cell, Result
    from cgcl.experiments.space import Proposal, Trial
    from cgcl.train.trainer import EpochRecord


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


class Listener:
    """Told how a comparison goes; this one does nothing with it."""

    def cell_begins(self, cell: Cell) -> None:
        """A method begins."""

    def epoch_ends(self, cell: Cell, record: EpochRecord) -> None:
        """It has been trained for another epoch."""

    def cell_ends(self, cell: Cell, result: Result) -> None:
        """It has a result, or has failed."""

    def run_ends(self, run: int) -> None:
        """Every method has had its turn in a run."""

    def should_stop(self) -> bool:
        """Tell whether to end as soon as possible."""
        return False


class Watcher:
    """Who is told how a search goes; this one does nothing with it."""

    def opens(self, done: int) -> None:
        """Hear that the search begins, and how many trials are known from before."""

    def begins(self, number: int, proposal: Proposal) -> None:
        """Hear that a trial begins."""

    def ran_epoch(self, record: EpochRecord) -> None:
        """Hear that an epoch of the trial has ended."""

    def finished(self, trial: Trial, is_best: bool) -> None:
        """Hear that a trial has ended, and whether it is the best so far."""
