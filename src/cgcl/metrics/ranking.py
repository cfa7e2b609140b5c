"""How well scores tell links (positive) from unlinked pairs (negative).

AUC and AP are scikit-learn's. Hits@k and MRR follow the Open Graph Benchmark: every positive is
ranked against the same negatives, never against other positives. All results are fractions.
"""

from __future__ import annotations

import numpy as np

from cgcl.metrics.scores import Scores, as_scores, labelled

__all__ = ["auc", "average_precision", "hits_at", "link_metrics", "mean_reciprocal_rank"]


def auc(positive: Scores, negative: Scores) -> float:
    """Return the area under the ROC curve.

    This is the chance that a random positive scores above a random negative; a tie counts half.

    Example:
        >>> auc([3, 1], [2, 0])  # 3 wins of 4 comparisons
        0.75
    """
    from sklearn.metrics import roc_auc_score

    labels, scores = labelled(positive, negative)
    return float(roc_auc_score(labels, scores))


def average_precision(positive: Scores, negative: Scores) -> float:
    r"""Return the average precision, $\sum_n (R_n - R_{n-1}) P_n$ over descending thresholds.

    Example:
        >>> round(average_precision([3, 1], [2, 0]), 4)  # 1/2 * 1/1 + 1/2 * 2/3
        0.8333
    """
    from sklearn.metrics import average_precision_score

    labels, scores = labelled(positive, negative)
    return float(average_precision_score(labels, scores))


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
    links, others = as_scores(positive, "positive"), as_scores(negative, "negative")
    if others.size < k:
        return 1.0
    threshold = np.partition(others, others.size - k)[others.size - k]
    return float(np.mean(links > threshold))


def mean_reciprocal_rank(positive: Scores, negative: Scores) -> float:
    """Return the mean of 1/rank, each positive ranked against all negatives.

    A positive that ties with negatives gets the mean of its best and its worst possible rank.

    Example:
        >>> mean_reciprocal_rank([5, 2], [4, 2])  # ranks 1 and (2 + 3) / 2
        0.7
    """
    links, others = as_scores(positive, "positive"), np.sort(as_scores(negative, "negative"))
    above = others.size - np.searchsorted(others, links, side="right")
    not_below = others.size - np.searchsorted(others, links, side="left")
    rank = 1.0 + (above + not_below) / 2.0
    return float(np.mean(1.0 / rank))


def link_metrics(positive: Scores, negative: Scores) -> dict[str, float]:
    """Return every metric that a run records, as fractions.

    Args:
        positive: Scores of links.
        negative: Scores of unlinked pairs.

    Returns:
        The keys "auc", "ap", "hits@10", "hits@50", "hits@100" and "mrr", in this order.
    """
    links, others = as_scores(positive, "positive"), as_scores(negative, "negative")
    return {
        "auc": auc(links, others),
        "ap": average_precision(links, others),
        "hits@10": hits_at(10, links, others),
        "hits@50": hits_at(50, links, others),
        "hits@100": hits_at(100, links, others),
        "mrr": mean_reciprocal_rank(links, others),
    }
