"""Who is told how a comparison goes. Nothing heavy is imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cgcl.compare.cell import Cell
    from cgcl.compare.result import Result
    from cgcl.train.trainer import EpochRecord

__all__ = ["Listener"]


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
