"""How well scores tell links (positive) from unlinked pairs (negative).

AUC and AP are what scikit-learn computes. Hits@k and MRR follow the Open Graph Benchmark: every
positive is ranked against the same negatives, never against other positives; `own_ranks` is for
positives that have negatives of their own. All results are fractions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from torch import Tensor

from cgcl.metrics.table import METRICS

Curve = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]

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


class Ranked:
    """Both sides in ascending order, and where each positive stands among the negatives."""

    def __init__(self, positive: Scores, negative: Scores) -> None:
        """Sort both: two sorts of plain numbers are far cheaper than one that carries labels."""
        self._links = np.sort(as_scores(positive, "positive"))
        self._others = np.sort(as_scores(negative, "negative"))
        self._below = np.searchsorted(self._others, self._links, side="left")
        self._not_above = np.searchsorted(self._others, self._links, side="right")

    def auc(self) -> float:
        """Return the area under the ROC curve."""
        # In Python's integers: two for each win, one for each tie.
        points = int(self._below.sum()) + int(self._not_above.sum())
        return points / (2 * self._links.size * self._others.size)

    def average_precision(self) -> float:
        """Return the average precision."""
        # Each positive is one step of recall, taken at the precision of its own score.
        true = self._links.size - np.searchsorted(self._links, self._links, side="left")
        false = self._others.size - self._below
        return float(np.mean(true / (true + false)))

    def hits_at(self, k: int) -> float:
        """Return the share of positives strictly above the k-th highest negative."""
        # Above the k-th highest means that fewer than k are not below.
        return float(np.mean(self._others.size - self._below < k))

    def mean_reciprocal_rank(self) -> float:
        """Return the mean of 1/rank, each positive ranked against all negatives.

        A positive that ties with negatives gets the mean of its best and its worst possible rank.

        Example:
            >>> Ranked([5, 2], [4, 2]).mean_reciprocal_rank()  # ranks 1 and (2 + 3) / 2
            0.7
        """
        rank = 1.0 + self._others.size - (self._below + self._not_above) / 2.0
        return float(np.mean(1.0 / rank))


def auc(positive: Scores, negative: Scores) -> float:
    """Return the area under the ROC curve.

    This is the chance that a random positive scores above a random negative; a tie counts half.

    Example:
        >>> auc([3, 1], [2, 0])  # 3 wins of 4 comparisons
        0.75
    """
    return Ranked(positive, negative).auc()


def average_precision(positive: Scores, negative: Scores) -> float:
    r"""Return the average precision, $\sum_n (R_n - R_{n-1}) P_n$ over descending thresholds.

    Example:
        >>> round(average_precision([3, 1], [2, 0]), 4)  # 1/2 * 1/1 + 1/2 * 2/3
        0.8333
    """
    return Ranked(positive, negative).average_precision()


def hits_at(k: int, positive: Scores, negative: Scores) -> float:
    """Return the share of positives strictly above the k-th highest negative.

    With fewer than `k` negatives every positive is a hit, as in the Open Graph Benchmark.

    Args:
        k: The rank of the negative to beat, 1 or more.
        positive: Scores of links.
        negative: Scores of unlinked pairs, shared by all links.

    Example:
        >>> hits_at(2, [5, 3, 1], [4, 2, 0])  # 5 and 3 are above 2
        0.6666666666666666
    """
    if k < 1:
        raise ValueError(f"k must be 1 or more, found {k}.")
    return Ranked(positive, negative).hits_at(k)


def own_ranks(
    positive: Scores, negative: Scores, owner: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """Return the rank of each positive among its own negatives, float64 [p].

    A positive that ties with negatives gets the mean of its best and its worst possible rank.

    Args:
        positive: Scores of links.
        negative: Scores of unlinked pairs.
        owner: To which positive each of these belongs, its place, int64 [as many].

    Example:
        >>> own_ranks([5, 2], [4, 6, 2, 1], np.array([0, 0, 1, 1])).tolist()
        [2.0, 1.5]
    """
    links, others = as_scores(positive, "positive"), as_scores(negative, "negative")
    own = links[owner]
    above = np.bincount(owner[others > own], minlength=links.size)
    ties = np.bincount(owner[others == own], minlength=links.size)
    return 1.0 + above + ties / 2.0


def link_metrics(positive: Scores, negative: Scores) -> dict[str, float]:
    """Return every metric of `METRICS` that sets links against unlinked pairs, as fractions.

    Args:
        positive: Scores of links.
        negative: Scores of unlinked pairs.
    """
    ranked = Ranked(positive, negative)
    return {name: one.function(ranked) for name, one in METRICS.items() if not one.is_at_top}


def roc_curve(positive: Scores, negative: Scores) -> Curve:
    """Return the false and the true positive rate, from (0, 0) to (1, 1).

    Args:
        positive: Scores of links.
        negative: Scores of unlinked pairs.

    Example:
        >>> false_rate, true_rate = roc_curve([3, 1], [2, 0])
        >>> false_rate.tolist(), true_rate.tolist()
        ([0.0, 0.0, 0.5, 0.5, 1.0], [0.0, 0.5, 0.5, 1.0, 1.0])
    """
    true, false = _counts(positive, negative)
    # A point on the straight line between its neighbours changes nothing.
    bends = (np.diff(true, 2) != 0) | (np.diff(false, 2) != 0)
    kept = np.concatenate([[True], bends, [True]])[-true.size :]
    true, false = np.append(0, true[kept]), np.append(0, false[kept])
    return false / false[-1], true / true[-1]


def precision_recall_curve(positive: Scores, negative: Scores) -> Curve:
    """Return recall, ascending from 0, and the precision at that recall.

    Args:
        positive: Scores of links.
        negative: Scores of unlinked pairs.

    Example:
        >>> recall, precision = precision_recall_curve([3, 2], [1, 0])
        >>> recall.tolist(), precision.tolist()
        ([0.0, 0.5, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 0.6666666666666666, 0.5])
    """
    true, false = _counts(positive, negative)
    recall, precision = true / true[-1], true / (true + false)
    return np.append(0.0, recall), np.append(1.0, precision)


def _counts(
    positive: Scores, negative: Scores
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return how many of each side are at or above each different score, highest score first."""
    links, others = as_scores(positive, "positive"), as_scores(negative, "negative")
    thresholds = np.unique(np.concatenate([links, others]))[::-1]
    true, false = (
        side.size - np.searchsorted(np.sort(side), thresholds, side="left")
        for side in (links, others)
    )
    return true, false
