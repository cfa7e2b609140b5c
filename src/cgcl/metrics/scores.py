"""What counts as scores: anything one-dimensional and finite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from torch import Tensor

__all__ = ["Scores", "as_scores"]

Scores: TypeAlias = npt.NDArray[Any] | Tensor | Sequence[float]
"""Scores of node pairs, higher for a likelier link: an array, a tensor on any device, a list."""


def as_scores(scores: Scores, side: str) -> npt.NDArray[np.float64]:
    """Return scores as a float64 array of one dimension.

    No scores at all, NaN and infinity are a ValueError: nothing can be ranked.

    Args:
        scores: Probabilities or logits of node pairs; only their order matters to a ranking.
        side: What the pairs are, "positive" or "negative", for the error text.

    Example:
        >>> as_scores([1, 0.5], "positive")
        array([1. , 0.5])
    """
    # .double() first: numpy knows no bfloat16.
    values = scores.detach().double().cpu().numpy() if isinstance(scores, Tensor) else scores
    array = np.asarray(values, dtype=np.float64).ravel()
    if array.size == 0:
        raise ValueError(f"There are no {side} scores; a ranking needs at least one on each side.")
    broken = array.size - int(np.isfinite(array).sum())
    if broken:
        raise ValueError(
            f"{broken:,} of {array.size:,} {side} scores are NaN or infinite and cannot be ranked."
        )
    return array
