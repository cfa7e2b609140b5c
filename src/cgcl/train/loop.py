"""Epoch after epoch until the end, a limit, a signal or a collapse."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from cgcl.errors import TrainingError
from cgcl.train.trainer import EpochRecord, Trainer

__all__ = ["RESUMABLE", "StopReason", "Stopped", "ended", "train"]


StopReason = Literal["signal", "time limit", "collapse", "loss is not finite", "error"]
RESUMABLE: tuple[StopReason, ...] = ("signal", "time limit", "error")
"""After these a run can go on; after the others its best epoch is the result."""


@dataclass(frozen=True)
class Stopped:
    """Why training ended before its last epoch."""

    reason: StopReason
    epoch: int
    message: str


def train(
    trainer: Trainer,
    *,
    on_epoch: Callable[[EpochRecord], None] = lambda _: None,
    should_stop: Callable[[], bool] = lambda: False,
    time_limit_s: float = math.inf,
) -> Stopped | None:
    """Run the remaining epochs.

    Args:
        trainer: What to train; it also remembers the best epoch.
        on_epoch: Called after every epoch, before anything else is decided.
        should_stop: Asked after every epoch; True ends training as if by a signal.
        time_limit_s: End after the first epoch that passes this many seconds.

    Returns:
        Why training ended early, or None if it ran to its last epoch.

    Raises:
        TrainingError: The loss is not finite before a first evaluation: nothing is worth keeping.
    """
    start = time.monotonic()
    while trainer.epoch < trainer.epochs:
        records = trainer.run_epochs()
        for record in records if trainer.is_finite else records[:-1]:
            on_epoch(record)
        stopped = ended(trainer)
        if stopped is not None:
            return stopped
        if trainer.epoch == trainer.epochs:
            break
        if should_stop():
            return Stopped("signal", trainer.epoch, f"Stopped at epoch {trainer.epoch}.")
        if time.monotonic() - start >= time_limit_s:
            return Stopped(
                "time limit",
                trainer.epoch,
                f"The time limit was reached at epoch {trainer.epoch} of {trainer.epochs}; the "
                f"best epoch so far is kept, and the run can be resumed.",
            )
    return None


def ended(trainer: Trainer) -> Stopped | None:
    """Return why a training cannot go on, if it cannot.

    Raises:
        TrainingError: The loss is not finite before a first evaluation: nothing is worth keeping.
    """
    if not trainer.is_finite:
        return _loss_is_not_finite(trainer)
    return _collapsed(trainer) if trainer.has_collapsed else None


def _loss_is_not_finite(trainer: Trainer) -> Stopped:
    found = f"The loss became NaN or infinite at epoch {trainer.epoch} (lr {trainer.lr})."
    if trainer.best_weights is None:
        raise TrainingError(
            f"{found} No epoch before it was measured, so there is nothing to keep.\n"
            f"Lower `lr`, and look for very large feature values."
        )
    return Stopped(
        "loss is not finite",
        trainer.epoch,
        f"{found} Training was stopped; the best epoch, {trainer.best_epoch}, is kept. "
        f"Lower `lr` to train longer.",
    )


def _collapsed(trainer: Trainer) -> Stopped:
    best = (trainer.best_val or {"auc": math.nan})["auc"]
    return Stopped(
        "collapse",
        trainer.epoch,
        f"The model collapsed: validation AUC fell from {best:.3f} back to chance by epoch "
        f"{trainer.epoch} (lr {trainer.lr}). Training was stopped; the best epoch, "
        f"{trainer.best_epoch}, is kept. Lower `lr` to train longer.",
    )
