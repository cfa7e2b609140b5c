"""What an engine is to the trainer: something that runs epochs."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

Moments = dict[int, dict[str, Tensor]]
"""Adam's memory by the number of the weight: `step`, `exp_avg` and `exp_avg_sq`."""


class Engine(Protocol):
    """Changes a learner's weights, epoch by epoch.

    Every engine computes what the readable mathematics of `cgcl.model` says, on the same random
    views and counter-examples; they differ in speed, and in the last bits.
    """

    name: str
    """What a run folder calls it."""
    epochs_at_once: int
    """How many epochs may be run before anyone asks for their losses."""

    def run(self, first: int, count: int) -> list[list[float]]:
        """Run some epochs and return the losses of the steps of each.

        Args:
            first: The number of the first epoch, 1 for the very first.
            count: How many to run, at most `epochs_at_once`.

        Raises:
            SplitError: There are no counter-examples to draw.
        """
        ...

    def moments(self) -> Moments:
        """Return Adam's memory, to be saved; nothing before the first step."""
        ...

    def restore(self, moments: Moments) -> None:
        """Take over what `moments` gave."""
        ...
