"""How well scores tell links (positive) from unlinked pairs (negative).

AUC and AP are what scikit-learn computes. Hits@k and MRR follow the Open Graph Benchmark: every
positive is ranked against the same negatives, never against other positives; `own_ranks` is for
positives that have negatives of their own. All results are fractions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cgcl.metrics.scores import Scores, as_scores

__all__ = [
    "auc",
    "average_precision",
    "hits_at",
    "link_metrics",
    "mean_reciprocal_rank",
    "own_ranks",
]


@dataclass(frozen=True, eq=False)
class _Ranked:
    """Both sides in ascending order, and where each positive stands among the negatives."""

    links: npt.NDArray[np.float64]
    others: npt.NDArray[np.float64]
    below: npt.NDArray[np.int64]
    """How many negatives each positive beats."""
    not_above: npt.NDArray[np.int64]
    """How many negatives each positive beats or ties with."""


def _ranked(positive: Scores, negative: Scores) -> _Ranked:
    # Two sorts of plain numbers: far cheaper than one that has to carry labels along.
    links = np.sort(as_scores(positive, "positive"))
    others = np.sort(as_scores(negative, "negative"))
    return _Ranked(
        links,
        others,
        np.searchsorted(others, links, side="left"),
        np.searchsorted(others, links, side="right"),
    )


def auc(positive: Scores, negative: Scores) -> float:
    """Return the area under the ROC curve.

    This is the chance that a random positive scores above a random negative; a tie counts half.

    Example:
        >>> auc([3, 1], [2, 0])  # 3 wins of 4 comparisons
        0.75
    """
    return _auc(_ranked(positive, negative))


def _auc(ranked: _Ranked) -> float:
    # In Python's integers: two for each win, one for each tie.
    points = int(ranked.below.sum()) + int(ranked.not_above.sum())
    return points / (2 * ranked.links.size * ranked.others.size)


def average_precision(positive: Scores, negative: Scores) -> float:
    r"""Return the average precision, $\sum_n (R_n - R_{n-1}) P_n$ over descending thresholds.

    Example:
        >>> round(average_precision([3, 1], [2, 0]), 4)  # 1/2 * 1/1 + 1/2 * 2/3
        0.8333
    """
    return _average_precision(_ranked(positive, negative))


def _average_precision(ranked: _Ranked) -> float:
    # Each positive is one step of recall, taken at the precision of its own score.
    links, others = ranked.links, ranked.others
    true = links.size - np.searchsorted(links, links, side="left")
    false = others.size - ranked.below
    return float(np.mean(true / (true + false)))


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
    return _hits_at(k, _ranked(positive, negative))


def _hits_at(k: int, ranked: _Ranked) -> float:
    # Above the k-th highest means that fewer than k are not below.
    return float(np.mean(ranked.others.size - ranked.below < k))


def mean_reciprocal_rank(positive: Scores, negative: Scores) -> float:
    """Return the mean of 1/rank, each positive ranked against all negatives.

    A positive that ties with negatives gets the mean of its best and its worst possible rank.

    Example:
        >>> mean_reciprocal_rank([5, 2], [4, 2])  # ranks 1 and (2 + 3) / 2
        0.7
    """
    return _mean_reciprocal_rank(_ranked(positive, negative))


def _mean_reciprocal_rank(ranked: _Ranked) -> float:
    rank = 1.0 + ranked.others.size - (ranked.below + ranked.not_above) / 2.0
    return float(np.mean(1.0 / rank))


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
    """Return every metric that a run records, as fractions.

    Args:
        positive: Scores of links.
        negative: Scores of unlinked pairs.

    Returns:
        The keys "auc", "ap", "hits@10", "hits@50", "hits@100" and "mrr", in this order.
    """
    ranked = _ranked(positive, negative)
    return {
        "auc": _auc(ranked),
        "ap": _average_precision(ranked),
        "hits@10": _hits_at(10, ranked),
        "hits@50": _hits_at(50, ranked),
        "hits@100": _hits_at(100, ranked),
        "mrr": _mean_reciprocal_rank(ranked),
    }
