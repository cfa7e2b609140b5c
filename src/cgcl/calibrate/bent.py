"""A line with bends: it rises everywhere, and follows the validation links to the tip."""

from __future__ import annotations

import numpy as np
import torch

from cgcl.calibrate.curve import Knots, Margin
from cgcl.calibrate.newton import Place, newton
from cgcl.calibrate.sample import Floats, Sample, log_odds_of, probability_of

__all__ = ["BentLine"]

# So many links, at least, lie beyond the first knot and beyond the last.
_BEYOND = 4
# The slopes of neighbouring pieces are believed to differ by such a factor, e to the power of this.
_TURN = 0.7
# And all of them together from 1 by such a one: the logits are about right as they are.
_LEVEL = 2.0
# Half a pair of the other kind at each end: no finite sample shows that links never lie low, or
# that other pairs never lie high.
_PSEUDO_PAIRS = 0.5
# Of the other pairs, the best hundred count each for itself, the rest in groups of 1 %.
_ALONE = 100
# Slopes beyond e^±50 are no slopes; keeps a step that goes too far finite.
_STEEPEST = 50.0
_NORMAL_95 = 1.96


class BentLine:
    r"""The log-likelihood ratio as straight pieces with positive slopes.

    Their logarithms are a random walk, held back by a belief that neighbours are alike: where
    links are few, the line goes on as it did. Fitted is the likelihood of all pairs at the base
    rate, one factor for each pair, so that the second derivatives at the best place say how far
    off it may be (Laplace's approximation).
    """

    def __init__(self, sample: Sample, prior: float) -> None:
        """Fit.

        Args:
            sample: The pairs to fit on; at least one link and one other.
            prior: The base rate that the probabilities are for.
        """
        self._knots = _knots(sample.links)
        self._ends = [
            kind(np.concatenate([sample.links, sample.others])) for kind in (np.min, np.max)
        ]
        self._best = newton(_Loss(self._knots, sample, prior))

    def curve(self) -> Knots:
        """Return the fitted line."""
        *levels, offset = self._best.point.tolist()
        slopes = np.exp(levels)
        ratios = _lengths(self._knots, self._knots) @ slopes + offset
        return Knots(
            tuple(self._knots.tolist()),
            tuple(np.maximum.accumulate(ratios).tolist()),
            float(slopes[0]),
            float(slopes[-1]),
        )

    def margin(self) -> Margin:
        """Return how far off it may be, from the lowest score to the highest."""
        logits = np.unique([*self._ends, *self._knots])
        rows = _derivatives(_lengths(self._knots, logits), self._best.point)
        variance = (rows * np.linalg.solve(self._best.bend, rows.T).T).sum(axis=1)
        return Margin(tuple(logits.tolist()), tuple((_NORMAL_95 * np.sqrt(variance)).tolist()))


class _Loss:
    """The negative log-likelihood at the base rate, and how far the slopes are from the belief."""

    def __init__(self, knots: Floats, sample: Sample, prior: float) -> None:
        others, weights = _grouped(sample)
        low, high = min(sample.links.min(), others[-1]), max(sample.links.max(), others[0])
        logits = np.concatenate([[low], sample.links, others, [high]])
        links = np.concatenate([[_PSEUDO_PAIRS], np.ones(sample.links.size)])
        weights = np.concatenate([weights, [_PSEUDO_PAIRS * weights[0]]])
        # So many other pairs that the links among them have the base rate.
        weights *= links.sum() * (1 - prior) / prior / weights.sum()
        self._lengths, self._mass = _lengths(knots, logits), np.concatenate([links, weights])
        self._num_links, self._prior = links.size, prior
        size = knots.size + 1
        turns = np.diff(np.eye(size), axis=0) / _TURN
        level = np.full((size, size), (size * _LEVEL) ** -2.0)
        self._belief = np.zeros((size + 1, size + 1))  # the offset is free
        self._belief[:size, :size] = turns.T @ turns + level
        self.start, self.lowest = np.zeros(size + 1), np.full(size + 1, -np.inf)

    def at(self, point: Floats) -> Place:
        """Return the value and its derivatives, the second without what is negative in them."""
        rows = _derivatives(self._lengths, point)
        ratios = rows[:, :-1].sum(axis=1) + point[-1]
        odds = ratios + log_odds_of(self._prior)
        rate = probability_of(ratios, self._prior)
        away = rate.copy()
        away[: self._num_links] -= 1
        cost = np.logaddexp(0, odds)
        cost[: self._num_links] -= odds[: self._num_links]
        pull, push = self._belief @ point, _product(rows.T, self._mass * away)
        bend = _product(rows.T, rows * (self._mass * rate * (1 - rate))[:, None]) + self._belief
        bend += np.diag([*np.maximum(push[:-1], 0), 0.0])
        value = float(_product(self._mass, cost)) + float(point @ pull) / 2
        return Place(point, value, push + pull, bend)


def _knots(links: Floats) -> Floats:
    """Return where the line may bend: at links' scores, more closely towards both ends.

    From one knot to the next, the number of links beyond falls by a factor of about e.
    """
    values = np.unique(links)
    reach = np.log(max(values.size / _BEYOND, 1.0))
    steps = round(reach)
    ranks = np.linspace(-reach, reach, 2 * steps + 1) if steps else np.zeros(1)
    return np.unique(np.quantile(values, 1 / (1 + np.exp(-ranks))))


def _grouped(sample: Sample) -> tuple[Floats, Floats]:
    """Return the other pairs in groups of neighbours, finer towards the top, and their weights."""
    order = np.argsort(-sample.others, kind="stable")
    rank = np.arange(order.size)
    group = np.minimum(rank, _ALONE + _ALONE * np.log(np.maximum(rank / _ALONE, 1)))
    group = np.unique(group.astype(np.int64), return_inverse=True)[1]
    weights = np.asarray(np.bincount(group, sample.weights[order]), dtype=np.float64)
    return np.bincount(group, (sample.weights * sample.others)[order]) / weights, weights


def _lengths(knots: Floats, logits: Floats) -> Floats:
    """Return how far each logit is from the middle knot on each piece, [m, pieces]."""
    left, right = np.array([-np.inf, *knots]), np.array([*knots, np.inf])
    middle = knots[knots.size // 2]
    return np.clip(logits[:, None], left, right) - np.clip(middle, left, right)


def _derivatives(lengths: Floats, point: Floats) -> Floats:
    """Return what each log-likelihood ratio gains by the logarithm of each slope and the offset."""
    slopes = np.exp(np.clip(point[:-1], -_STEEPEST, _STEEPEST))
    return np.column_stack([lengths * slopes, np.ones(len(lengths))])


def _product(one: Floats, other: Floats) -> Floats:
    """Return a product by torch: its threads are those that were asked for, numpy's are not."""
    return np.asarray((torch.from_numpy(one) @ torch.from_numpy(other)).numpy(), dtype=np.float64)
