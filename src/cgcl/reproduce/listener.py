"""Who is told how a reproduction goes. Nothing heavy is imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cgcl.reproduce.job import Job
    from cgcl.reproduce.record import Record

__all__ = ["Listener"]


class Listener:
    """Told how it goes; this one does nothing with it."""

    def run_ends(self, job: Job, record: Record) -> None:
        """A run has a result, or has failed."""

    def should_stop(self) -> bool:
        """Tell whether to end as soon as possible."""
        return False
