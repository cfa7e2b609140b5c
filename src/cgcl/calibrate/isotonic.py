"""Isotonic regression of the log-likelihood ratio."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cgcl.calibrate.curve import Steps
from cgcl.calibrate.sample import Floats, Sample

__all__ = ["MAX_KNOTS", "fit_isotonic"]

Places = npt.NDArray[np.int64]

MAX_KNOTS = 200
# Half a pair of the other kind at each end: no finite sample shows that links never lie low, or
# that other pairs never lie high.
_PSEUDO_PAIRS = 0.5


def fit_isotonic(sample: Sample) -> Steps:
    """Return the log-likelihood ratio that fits best among all non-decreasing ones.

    Adjacent violators are pooled. Scaling all links, or all others, by a factor changes none of
    the pools, so the fit holds at every base rate. Each pool gives one knot.

    Args:
        sample: The pairs to fit on; at least one link and one other.
    """
    ends = np.concatenate([sample.links, sample.others])
    highest = sample.others.argmax()
    logits = np.concatenate([ends, [ends.min(), ends.max()]])
    links = np.zeros(logits.size)
    links[: sample.links.size] = 1
    links[-2] = _PSEUDO_PAIRS
    others = np.zeros(logits.size)
    others[sample.links.size : -2] = sample.weights
    others[-1] = _PSEUDO_PAIRS * sample.weights[highest]

    values, place = np.unique(logits, return_inverse=True)  # ties share one ratio
    link_mass, other_mass = _sums(place, links / links.sum()), _sums(place, others / others.sum())
    pool = _at_most(MAX_KNOTS, _pools(link_mass, other_mass), link_mass)
    ratios = np.log(_sums(pool, link_mass)) - np.log(_sums(pool, other_mass))
    return Steps(
        tuple(_centres(values, pool, other_mass).tolist()),
        # Pools are in order already; rounding may say otherwise in the last place.
        tuple(np.maximum.accumulate(ratios).tolist()),
    )


def _pools(links: Floats, others: Floats) -> Places:
    """Return the pool of each value: within one, the share of links is the same by the best fit.

    Neighbours whose share does not rise belong to one pool, and so on with the pools.

    Args:
        links: The mass of links at each value, ascending values.
        others: The mass of other pairs; no value is without any mass.
    """
    rises = np.diff(links / (links + others)) > 0
    # Most values hold others only: after this there are hardly more pools than twice the links.
    pool = np.concatenate([[0], np.cumsum(rises)])
    held: list[tuple[float, float, int]] = []  # links, others, how many of the pools above
    for link, other in zip(_sums(pool, links).tolist(), _sums(pool, others).tolist(), strict=True):
        count = 1
        while held and held[-1][0] * other >= link * held[-1][1]:
            more_links, more_others, more = held.pop()
            link, other, count = link + more_links, other + more_others, count + more
        held.append((link, other, count))
    return np.repeat(np.arange(len(held)), [count for *_, count in held])[pool]


def _at_most(count: int, pool: Places, links: Floats) -> Places:
    """Join neighbouring pools, about equally many links in each, until there are few enough."""
    if pool[-1] < count:
        return pool
    before = np.cumsum(_sums(pool, links))  # up to 1
    joined = np.minimum((before * count).astype(np.int64), count - 1)
    return np.unique(joined, return_inverse=True)[1][pool]


def _centres(values: Floats, pool: Places, others: Floats) -> Floats:
    """Return the mean logit of the unlinked pairs of each pool.

    Nearly all pairs are unlinked, so this is where the pool lies, and straight lines between
    these points keep the number of links that the pools promise.
    """
    mean = _sums(pool, others * values) / _sums(pool, others)
    first = np.concatenate([[0], np.flatnonzero(np.diff(pool)) + 1])
    last = np.concatenate([first[1:] - 1, [pool.size - 1]])
    return np.clip(mean, values[first], values[last])


def _sums(place: Places, values: Floats) -> Floats:
    return np.asarray(np.bincount(place, values), dtype=np.float64)
