"""How far probabilities are from what happens."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cgcl.metrics.ranking import Scores, as_scores

__all__ = [
    "ReliabilityBin",
    "brier_score",
    "expected_calibration_error",
    "log_loss",
    "reliability_curve",
    "wilson_interval",
]

_Floats = npt.NDArray[np.float64]
# A probability of 0 or 1 that turns out wrong would make every log-loss infinite.
_SMALLEST = 1e-300


@dataclass(frozen=True)
class ReliabilityBin:
    """Pairs of similar probability: what was said, and what happened."""

    predicted: float
    """Mean probability."""
    observed: float
    """Share of links."""
    count: int
    low: float
    """Lower end of the 95 % interval of the share (Wilson)."""
    high: float
    """Upper end."""


def expected_calibration_error(probabilities: Scores, labels: Scores, bins: int = 10) -> float:
    """Return the mean gap between probability and share of links, over equal-mass bins.

    Even perfect probabilities have a gap above 0 on a finite number of pairs.

    Args:
        probabilities: Probabilities of a link, in [0, 1].
        labels: As many labels, 1 for a link and 0 for none.
        bins: How many bins of about equal mass; equal probabilities share one.

    Example:
        >>> round(expected_calibration_error([0.1, 0.3, 0.6, 0.8], [0, 0, 0, 1], bins=2), 4)
        0.2
    """
    found = reliability_curve(probabilities, labels, bins)
    gaps = [bin_.count * abs(bin_.predicted - bin_.observed) for bin_ in found]
    return sum(gaps) / sum(bin_.count for bin_ in found)


def reliability_curve(
    probabilities: Scores, labels: Scores, bins: int = 10
) -> list[ReliabilityBin]:
    """Return the bins of a reliability diagram, lowest probabilities first.

    Args:
        probabilities: Probabilities of a link, in [0, 1].
        labels: As many labels, 1 for a link and 0 for none.
        bins: How many bins of about equal mass; equal probabilities share one, so there may be
            fewer.

    Example:
        >>> [(b.predicted, b.observed) for b in reliability_curve([0.25, 0.75], [0, 1], bins=2)]
        [(0.25, 0.0), (0.75, 1.0)]
    """
    if bins < 1:
        raise ValueError(f"A curve needs 1 bin or more, found {bins}.")
    probability, label = _checked(probabilities, labels)
    return [
        ReliabilityBin(
            float(probability[chosen].mean()),
            float(label[chosen].mean()),
            chosen.size,
            *wilson_interval(int(label[chosen].sum()), chosen.size),
        )
        for chosen in _equal_mass(probability, bins)
    ]


def _equal_mass(probability: _Floats, bins: int) -> list[npt.NDArray[np.int64]]:
    """Return the places of each bin, lowest probabilities first; equal ones are never parted."""
    order = np.argsort(probability, kind="stable")
    ordered = probability[order]
    cuts = np.linspace(0, order.size, min(bins, order.size) + 1)[1:].round().astype(np.int64)
    # A cut among equal probabilities would leave it to their order which bin they fall into.
    ends = np.unique(np.searchsorted(ordered, ordered[cuts - 1], side="right"))
    return np.split(order, ends[:-1])


def wilson_interval(successes: int, count: int, z: float = 1.96) -> tuple[float, float]:
    """Return Wilson's interval for a share, 95 % unless `z` says otherwise.

    Args:
        successes: How many of `count`.
        count: 1 or more.
        z: Half-width in standard errors.

    Example:
        >>> low, high = wilson_interval(0, 10)
        >>> low, round(high, 4)
        (0.0, 0.2775)
    """
    if not 0 <= successes <= count or count < 1:
        raise ValueError(f"A share needs 0 to {count} of {count}, found {successes}.")
    share = successes / count
    scale = 1 + z * z / count
    middle = (share + z * z / (2 * count)) / scale
    half = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count)) / scale
    # The two ends that are exact in theory are exact here, too.
    low = 0.0 if successes == 0 else middle - half
    high = 1.0 if successes == count else middle + half
    return low, high


def log_loss(probabilities: Scores, labels: Scores, weights: Scores | None = None) -> float:
    r"""Return $-\sum w\,(y \log p + (1 - y) \log(1 - p)) / \sum w$, in nats.

    Args:
        probabilities: Probabilities of a link, in [0, 1].
        labels: As many labels, 1 for a link and 0 for none.
        weights: How much each pair counts; alike if None.

    Example:
        >>> round(log_loss([0.5, 0.5], [0, 1]), 4)
        0.6931
    """
    probability, label = _checked(probabilities, labels)
    said = np.where(label == 1, probability, 1 - probability)
    return _mean(-np.log(np.maximum(said, _SMALLEST)), weights)


def brier_score(probabilities: Scores, labels: Scores, weights: Scores | None = None) -> float:
    """Return the mean squared distance between probability and label.

    Args:
        probabilities: Probabilities of a link, in [0, 1].
        labels: As many labels, 1 for a link and 0 for none.
        weights: How much each pair counts; alike if None.

    Example:
        >>> brier_score([0.5, 1.0], [0, 1])
        0.125
    """
    probability, label = _checked(probabilities, labels)
    return _mean((probability - label) ** 2, weights)


def _mean(values: _Floats, weights: Scores | None) -> float:
    if weights is None:
        return float(values.mean())
    weight = as_scores(weights, "weights")
    if weight.size != values.size or weight.min() < 0 or weight.sum() == 0:
        raise ValueError(
            f"Weights must be as many as the pairs ({values.size:,}), not negative, and not all "
            f"zero."
        )
    return float(np.average(values, weights=weight))


def _checked(probabilities: Scores, labels: Scores) -> tuple[_Floats, _Floats]:
    """Return both as arrays, or refuse them."""
    probability, label = as_scores(probabilities, "probability"), as_scores(labels, "label")
    if probability.size != label.size:
        raise ValueError(
            f"Every pair needs a probability and a label, found {probability.size:,} and "
            f"{label.size:,}."
        )
    if probability.min() < 0 or probability.max() > 1:
        raise ValueError(
            f"Probabilities must be in [0, 1], found {probability.min():g} to "
            f"{probability.max():g}."
        )
    if not np.isin(label, (0, 1)).all():
        raise ValueError("Labels must be 1 for a link and 0 for none.")
    return probability, label
