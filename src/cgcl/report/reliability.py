"""Predicted against observed: the numbers behind the reliability diagram."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from cgcl.metrics.calibration import ReliabilityBin

__all__ = ["Reliability", "reliability"]


@dataclass(frozen=True)
class Reliability:
    """How predicted probabilities compare with what was observed.

    Attributes:
        bins: By rising probability, with equally many pairs.
        error: The expected calibration error: |predicted - observed|, weighted by count.
        error_by_chance: About what a perfect model would show on as many pairs.
        links: Probabilities of the links.
        others: Probabilities of the unlinked pairs.
    """

    bins: Sequence[ReliabilityBin]
    error: float
    error_by_chance: float
    links: npt.NDArray[np.float64]
    others: npt.NDArray[np.float64]


def reliability(links: npt.ArrayLike | None, others: npt.ArrayLike | None) -> Reliability | None:
    """Compare probabilities with outcomes in ten bins of equally many pairs.

    Args:
        links: Probabilities of pairs that are links.
        others: Probabilities of pairs that are not.

    Returns:
        None where there is nothing to compare.
    """
    from cgcl.metrics.calibration import expected_calibration_error, reliability_curve

    if links is None or others is None:
        return None
    positive = np.asarray(links, dtype=np.float64).ravel()
    negative = np.asarray(others, dtype=np.float64).ravel()
    predicted = np.concatenate([positive, negative])
    if not predicted.size:
        return None
    is_link = np.repeat([1.0, 0.0], [positive.size, negative.size])
    bins = reliability_curve(predicted, is_link)
    # E|observed - p| = sqrt(2 p (1 - p) / (pi n)) in a large bin of n pairs.
    chance = sum(
        math.sqrt(max(0.0, 2 * part.count * part.predicted * (1 - part.predicted)) / math.pi)
        for part in bins
    )
    error = expected_calibration_error(predicted, is_link)
    return Reliability(bins, error, chance / predicted.size, positive, negative)
