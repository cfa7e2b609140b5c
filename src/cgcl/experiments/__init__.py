"""Experiments: methods compared, settings searched, a paper reproduced.

Results are lines of one append-only log each (`log`), made by one runner beside it. What stands
here imports nothing heavy, so that `cgcl compare --help` answers at once; the modules do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from cgcl.settings import Range, Settings
from cgcl.train.config import SplitConfig

if TYPE_CHECKING:
    from cgcl.train.trainer import EpochRecord

__all__ = ["PAPER_SPLIT_SEED", "Listener", "Plan"]

PAPER_SPLIT_SEED = 10
"""The seed of the one split under the paper's protocol; its authors' code has the same."""


@dataclass(frozen=True)
class Plan(Settings):
    """How methods are compared: how often, and on which splits."""

    runs: int = 10
    """Number of runs of each method."""
    protocol: Literal["splits", "paper"] = "splits"
    """splits gives every run a split of its own; paper, like the paper, takes one split for all
    runs and changes the first weights only."""
    val: float = SplitConfig.val
    """Share of the links to choose the best epoch by; 0 keeps the last epoch."""
    test: float = SplitConfig.test
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
        SplitConfig(self.val, self.test)

    def split_seed(self, run: int) -> int:
        """Return the seed of the split of a run; runs count from 0."""
        return PAPER_SPLIT_SEED if self.protocol == "paper" else run


class Listener:
    """Told how a comparison or a search goes; this one does nothing with it."""

    def opens(self, done: int) -> None:
        """It begins, and so many results are known from before."""

    def begins(self, job: Any) -> None:  # noqa: ANN401
        """A cell of a comparison or a trial of a search begins."""

    def epoch_ends(self, record: EpochRecord) -> None:
        """It has been trained for another epoch."""

    def ends(self, job: Any, result: Any, *, is_best: bool = False) -> None:  # noqa: ANN401
        """It has a result, or has failed; `is_best` of all trials so far."""

    def run_ends(self, run: int) -> None:
        """Every method has had its turn in a run of a comparison."""
