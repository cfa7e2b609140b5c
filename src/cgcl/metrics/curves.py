"""Curves to draw: as scikit-learn's, thinned to as many points as an eye can use."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cgcl.metrics.scores import Scores, as_scores

__all__ = ["precision_recall_curve", "roc_curve", "thin_curve"]

Curve = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]


def roc_curve(positive: Scores, negative: Scores, limit: int = 400) -> Curve:
    """Return the false and the true positive rate, from (0, 0) to (1, 1).

    Args:
        positive: Scores of links.
        negative: Scores of unlinked pairs.
        limit: The most points to return.

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
    return thin_curve(false / false[-1], true / true[-1], limit)


def precision_recall_curve(positive: Scores, negative: Scores, limit: int = 400) -> Curve:
    """Return recall, ascending from 0, and the precision at that recall.

    Args:
        positive: Scores of links.
        negative: Scores of unlinked pairs.
        limit: The most points to return.

    Example:
        >>> recall, precision = precision_recall_curve([3, 2], [1, 0])
        >>> recall.tolist(), precision.tolist()
        ([0.0, 0.5, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 0.6666666666666666, 0.5])
    """
    true, false = _counts(positive, negative)
    recall, precision = true / true[-1], true / (true + false)
    return thin_curve(np.append(0.0, recall), np.append(1.0, precision), limit)


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


def thin_curve(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64], limit: int = 400) -> Curve:
    """Return at most `limit` of the points, with both ends and the corners among them.

    Largest triangle three buckets (Steinarsson 2013): the points between the ends fall into
    equal buckets, and each bucket keeps the point that spans the largest triangle with the point
    kept before it and the mean of the next bucket.

    Args:
        x: Horizontal positions, ascending.
        y: As many vertical positions.
        limit: The most points to return, 3 or more.

    Example:
        >>> x = np.arange(100.0)
        >>> thinned, heights = thin_curve(x, np.where(x == 42, 1.0, 0.0), limit=5)
        >>> thinned.size, 42.0 in thinned
        (5, True)
    """
    if limit < 3:
        raise ValueError(f"A curve needs room for 3 points or more, found a limit of {limit}.")
    if x.size <= limit:
        return x, y
    # The last bucket holds only the last point, so that it can serve as "the next bucket".
    starts = np.append(np.linspace(1, x.size - 1, limit - 1).astype(np.int64), x.size)
    kept = [0]
    for low, high, after in zip(starts[:-2], starts[1:-1], starts[2:], strict=True):
        ahead_x, ahead_y = x[high:after].mean(), y[high:after].mean()
        last_x, last_y = x[kept[-1]], y[kept[-1]]
        doubled_area = np.abs(
            (last_x - ahead_x) * (y[low:high] - last_y)
            - (last_x - x[low:high]) * (ahead_y - last_y)
        )
        kept.append(int(low) + int(doubled_area.argmax()))
    kept.append(x.size - 1)
    return x[kept], y[kept]
