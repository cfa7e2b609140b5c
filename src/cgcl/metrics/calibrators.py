"""Calibrators, fitted to hidden links and other pairs; who explains unseen pairs best is kept."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from cgcl.metrics.calibration import (
    Calibration,
    Curve,
    Floats,
    Knots,
    Line,
    Margin,
    Sample,
    check_prior,
    log_odds_of,
    probability_of,
    softplus,
)
from cgcl.wording import counted


@dataclass(frozen=True, eq=False)
class Kept:
    """Pairs, their logits, and how many pairs each of them stands for."""

    pairs: Tensor
    """int64 [2, k]."""
    logits: Tensor
    """float32 [k]."""
    weights: Tensor
    """float64 [k]."""


class Reservoir:
    """Keeps the best pairs that are offered, and about as many random ones of the others.

    The highest scores decide how probable a suggestion is, and are too rare for a uniform sample.
    Memory is bounded by what is kept, whatever is offered.
    """

    def __init__(self, size: int, expected: int, generator: torch.Generator) -> None:
        """Remember how much to keep.

        Args:
            size: Twice as many pairs are kept, half of them for their scores.
            expected: How many pairs will be offered; if no more than are kept, all stay.
            generator: Source of the coins, on the CPU.
        """
        self._size = expected if expected <= 2 * size else size
        self._chance = size / max(expected, 1)
        self._generator = generator
        self._offered = 0
        self._edge = -torch.inf
        # Rows: place in the stream, first node, second node.
        self._best = torch.empty(3, 0, dtype=torch.int64), torch.empty(0)
        self._random = [self._best]

    def offer(self, pairs: Tensor, logits: Tensor) -> None:
        """Look at some pairs, int64 [2, p], and their logits, [p]."""
        count = logits.numel()
        places = torch.arange(self._offered, self._offered + count)
        self._offered += count
        rows = torch.cat([places[None], pairs])
        lucky = torch.rand(count, generator=self._generator) < self._chance
        self._random.append((rows[:, lucky], logits[lucky]))
        # Equals of the last that is kept need not replace it.
        better = logits > self._edge
        self._best = _joined([self._best, (rows[:, better], logits[better])])
        if self._best[1].numel() > 2 * self._size:
            self._drop()

    def kept(self, total: float) -> Kept:
        """Return what was kept, with weights that add up to `total`."""
        self._drop()
        rows, logits = _joined(self._random)
        outside = ~torch.isin(rows[0], self._best[0][0])
        rows, logits = _joined([self._best, (rows[:, outside], logits[outside])])
        best = self._best[1].numel()
        weights = torch.ones(logits.numel(), dtype=torch.float64)
        weights[best:] = (self._offered - best) / max(logits.numel() - best, 1)
        return Kept(rows[1:], logits, weights * (total / max(self._offered, 1)))

    def _drop(self) -> None:
        """Let go of all but the best."""
        rows, logits = self._best
        if logits.numel() > self._size:
            values, order = logits.topk(self._size)
            self._best = rows.index_select(1, order), values
            self._edge = float(values[-1])


def _joined(parts: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Return parts of a stream as one: rows, [3, any], and logits."""
    rows, logits = zip(*parts, strict=True)
    return torch.cat(rows, dim=1), torch.cat(logits)


def entropy(prior: float) -> float:
    """Return the log-loss of whoever knows the base rate and nothing else, in nats."""
    return -prior * math.log(prior) - (1 - prior) * math.log1p(-prior)


def log_loss_at(curve: Curve, sample: Sample, prior: float) -> float:
    r"""Return the log-loss per pair of a population with base rate $\pi$, in nats.

    $\pi\,\mathbb{E}_{link}\log(1 + e^{-o}) + (1 - \pi)\,\mathbb{E}_{other}\log(1 + e^{o})$ with
    $o = g(s) + \mathrm{logit}(\pi)$; the second mean is weighted, so that a sample that holds
    more of the high scores than the graph does still estimates the graph's.
    """
    shift = log_odds_of(prior)
    missed = softplus(torch.tensor(-curve.log_ratio(sample.links) - shift)).mean()
    alarms = softplus(torch.tensor(curve.log_ratio(sample.others) + shift)).numpy()
    return float(prior * missed + (1 - prior) * np.average(alarms, weights=sample.weights))


def unexplained(curve: Curve, sample: Sample, prior: float) -> float:
    """Return the log-loss over that of knowing the base rate alone.

    0 is certainty, 1 is no use, above 1 is worse than saying the base rate every time. Losses
    at different base rates can be compared and averaged in this unit.
    """
    return log_loss_at(curve, sample, prior) / entropy(prior)


_STEPS = 100
_TOLERANCE = 1e-10
# Near the end a step gains less than the sum over all pairs is exact to.
_ROUNDING = 1e-13


@dataclass(frozen=True, eq=False)
class Place:
    """A function at one point."""

    point: Floats
    """[size]."""
    value: float
    slope: Floats
    """The first derivatives, [size]."""
    bend: Floats
    """The second derivatives, or what is near them and positive definite, [size, size]."""


def newton(loss: _LineLoss | _BentLoss) -> Place:
    """Return the lowest place, halving steps that do not help."""
    here = loss.at(loss.start)
    for _ in range(_STEPS):
        step = np.asarray(np.linalg.solve(here.bend, here.slope), dtype=np.float64)
        # An evaluation looks at every pair, so none is made twice.
        tried = here
        while np.abs(step).max() > _TOLERANCE:
            tried = loss.at(here.point - step)
            if tried.value <= here.value * (1 + _ROUNDING):
                break
            step = step / 2
        if np.abs(step).max() <= _TOLERANCE:
            break
        here = tried
    return here


# A weak belief that the network's logits are right as they are: slope 1 and offset 0, each give
# or take this much. It decides when there are two links, and is forgotten when there are many.
# An offset of 8 is nothing unusual: the logits of a softmax over all pairs are those of rare links.
_SPREAD = np.array([1.0, 10.0])


def fit_line(sample: Sample, priors: Sequence[float], size: int) -> Line:
    """Return the best line, by `unexplained` averaged over base rates.

    Args:
        sample: The pairs to fit on; at least one link and one other.
        priors: The base rates that the probabilities are for.
        size: 1 for a line through the origin, 2 for one with an offset.
    """
    slope, offset, *_ = *newton(_LineLoss(sample, priors, size)).point.tolist(), 0.0
    # Without a slope the score says nothing, and nothing is what the ratio must say.
    return Line(slope, offset) if slope > 0 else Line(0.0)


class _LineLoss:
    """What a line leaves `unexplained`, times the links, and how far it is from the belief.

    Computed by torch alone: numpy's threads would wait for work on the same cores and slow it down.
    """

    def __init__(self, sample: Sample, priors: Sequence[float], size: int) -> None:
        links, others = sample.links, sample.others
        logits = torch.tensor(Line(1.0).log_ratio(np.concatenate([links, others])))
        self._columns = torch.stack([logits, torch.ones_like(logits)][:size])  # [size, m + k]
        # A link costs softplus(-o) and another pair softplus(o) at log odds o.
        self._sign = torch.ones_like(logits)
        self._sign[: links.size] = -1
        self._terms: list[tuple[float, torch.Tensor]] = []  # log odds and mass by base rate
        for prior in priors:
            weight = links.size / len(priors) / entropy(prior)
            alarms = sample.weights * (weight * (1 - prior) / sample.weights.sum())
            mass = np.concatenate([np.full(links.size, weight * prior / links.size), alarms])
            self._terms.append((log_odds_of(prior), torch.tensor(mass)))
        self.start, self._spread = np.array([1.0, 0.0])[:size], _SPREAD[:size]

    def at(self, point: Floats) -> Place:
        """Return the value and its derivatives."""
        away = (point - self.start) / self._spread
        value, slope = float(away @ away) / 2, away / self._spread
        bend = np.diag(self._spread**-2.0)
        line = torch.tensor(point) @ self._columns
        for log_odds, mass in self._terms:
            cost = (line + log_odds) * self._sign
            rate = torch.sigmoid(cost)
            push = mass * rate
            value += float(mass @ softplus(cost))
            slope = slope + (self._columns @ (push * self._sign)).numpy()
            push *= 1 - rate
            bend = bend + np.stack([(self._columns @ (push * c)).numpy() for c in self._columns])
        return Place(point, value, slope, bend)


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


def fit_bent(sample: Sample, prior: float) -> tuple[Knots, Margin]:
    r"""Return the log-likelihood ratio as straight pieces with positive slopes, and its margin.

    The slopes' logarithms are a random walk, held back by a belief that neighbours are alike: where
    links are few, the line goes on as it did. Fitted is the likelihood of all pairs at the base
    rate, one factor for each pair, so that the second derivatives at the best place say how far
    off it may be (Laplace's approximation), from the lowest score to the highest.

    Args:
        sample: The pairs to fit on; at least one link and one other.
        prior: The base rate that the probabilities are for.
    """
    knots, logits = _knots(sample.links), np.concatenate([sample.links, sample.others])
    best = newton(_BentLoss(knots, sample, prior))
    *levels, offset = best.point.tolist()
    slopes = np.exp(levels)
    ratios = np.maximum.accumulate(_lengths(knots, knots) @ slopes + offset)
    ends = float(slopes[0]), float(slopes[-1])
    curve = Knots(tuple(knots.tolist()), tuple(ratios.tolist()), *ends)
    places = np.unique([logits.min(), logits.max(), *knots])
    rows = _derivatives(_lengths(knots, places), best.point)
    variance = (rows * np.linalg.solve(best.bend, rows.T).T).sum(axis=1)
    widths = tuple((_NORMAL_95 * np.sqrt(variance)).tolist())
    return curve, Margin(tuple(places.tolist()), widths)


class _BentLoss:
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
        self.start = np.zeros(size + 1)

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


_FOLDS = 5
# Below this many links a bend rests on one or two of them.
_BENT_LINKS = 20
_EVEN = 0.5
_LOSSES = ("even_odds", "base_rate", "unexplained")

METHODS: dict[str, Callable[[Sample, Sequence[float]], Curve]] = {
    "temperature": partial(fit_line, size=1),
    "platt": partial(fit_line, size=2),
    "bent": lambda sample, priors: fit_bent(sample, priors[-1])[0],
}
"""The calibrators by name, the plainest first: each fits a curve for some base rates, of which
the graph's own is the last. A curve rises everywhere, or nowhere if scores say nothing."""


def fit_calibration(sample: Sample, prior: float, seed: int) -> Calibration:
    """Return the calibration that explains held-out pairs best.

    Probabilities serve two uses: pairs that somebody picked, where links and other pairs are
    about as many, and all unknown pairs, where only the highest scores matter. So a method is
    judged by its mean `unexplained` share at even odds and at the base rate, over five folds.

    Whichever is kept, the margin is that of a bent line: one that supposes a straight line would
    promise more than the links near a score can show.

    Args:
        sample: Pairs that the network has not learned from; at least one link and one other.
        prior: The share of links among unknown pairs.
        seed: The folds follow from it.

    Raises:
        ConfigError: `prior` is not strictly between 0 and 1.
    """
    priors = (_EVEN, check_prior(prior))
    num_links = sample.links.size
    names, notes = list(METHODS), list[str]()
    if num_links < _BENT_LINKS:
        names.remove("bent")
        notes.append(
            f"Only {counted(num_links, 'validation link')}: the probabilities "
            f"are rough. {_BENT_LINKS} or more allow a finer calibration."
        )
    folds = _folds(sample, seed)
    by_fold = {name: _held_out(METHODS[name], folds, priors) for name in names if folds}
    losses = {
        name: dict(zip(_LOSSES, of.mean(axis=0).tolist(), strict=True))
        for name, of in by_fold.items()
    }
    method = _best({name: of[:, -1] for name, of in by_fold.items()}, names[0])
    bent, margin = fit_bent(sample, priors[-1])
    curve = bent if method == "bent" else METHODS[method](sample, priors)
    low, high = curve.log_ratio(np.array([sample.others.min(), sample.links.max()])).tolist()
    if low >= high:
        notes.append("Higher scores do not mean likelier links here; no score says much.")
    counts = {
        "links": num_links,
        "non_links": sample.others.size,
        "unknown_pairs": num_links + round(float(sample.weights.sum())),
    }
    return Calibration(method, curve, priors[-1], losses, counts, None, tuple(notes), margin)


def _folds(sample: Sample, seed: int) -> list[tuple[Sample, Sample]]:
    """Return what to fit on and what to judge by, several times; every pair is judged by once.

    Of a single link or other pair nothing can be held out.
    """
    count = min(_FOLDS, sample.links.size, sample.others.size)
    random = np.random.default_rng(seed)
    link_fold = random.permutation(sample.links.size) % count
    other_fold = random.permutation(sample.others.size) % count
    return [
        (
            sample.part(link_fold != fold, other_fold != fold),
            sample.part(link_fold == fold, other_fold == fold),
        )
        for fold in range(count)
        if count > 1
    ]


def _held_out(
    fit: Callable[[Sample, Sequence[float]], Curve],
    folds: Sequence[tuple[Sample, Sample]],
    priors: tuple[float, float],
) -> Floats:
    """Return the losses on each fold, which the calibrator was not fitted on, [folds, 3]."""
    found: list[list[float]] = []
    for seen, unseen in folds:
        curve = fit(seen, priors)
        shares = [unexplained(curve, unseen, prior) for prior in priors]
        lost = [share * entropy(prior) for share, prior in zip(shares, priors, strict=True)]
        found.append([*lost, sum(shares) / 2])
    return np.array(found)


def _best(shares: dict[str, Floats], plainest: str) -> str:
    """Return the method that leaves the least unexplained; the plainest if nothing was held out.

    A bent line can be straight. If a straight one is ahead of it by no more than chance, one
    standard error over the folds, the bent one is kept: few held-out links are at the tip, and
    where the tip is not like the bulk, a straight line promises several times too much there.
    """
    best = min(shares, key=lambda name: float(shares[name].mean()), default=plainest)
    if "bent" in shares:
        behind = shares["bent"] - shares[best]
        if behind.mean() <= behind.std(ddof=1) / np.sqrt(behind.size):
            return "bent"
    return best
