"""Temperature and Platt scaling, fitted by Newton's method."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cgcl.calibrate.curve import Line
from cgcl.calibrate.losses import entropy, unexplained
from cgcl.calibrate.sample import Floats, Sample, log_odds_of

__all__ = ["fit_platt", "fit_temperature"]

_STEPS = 100
_TOLERANCE = 1e-10
# A weak belief that the network's logits are right as they are: slope 1 and offset 0, each give
# or take this much. It decides when there are two links, and is forgotten when there are many.
_SPREAD = np.array([1.0, 2.0])


def fit_temperature(sample: Sample, priors: Sequence[float]) -> Line:
    """Return the best line through the origin, by `unexplained` averaged over base rates.

    Args:
        sample: The pairs to fit on; at least one link and one other.
        priors: The base rates that the probabilities are for.
    """
    return Line(float(_newton(sample, priors, 1)[0]))


def fit_platt(sample: Sample, priors: Sequence[float]) -> Line:
    """Return the best line, by `unexplained` averaged over base rates.

    Args:
        sample: The pairs to fit on; at least one link and one other.
        priors: The base rates that the probabilities are for.
    """
    slope, offset = _newton(sample, priors, 2).tolist()
    # Without a slope the score says nothing, and nothing is what the ratio must say.
    return Line(slope, offset) if slope > 0 else Line(0.0)


def _newton(sample: Sample, priors: Sequence[float], size: int) -> Floats:
    """Minimise a convex function of slope and offset, halving steps that do not help."""
    logits = np.concatenate([sample.links, sample.others])
    columns = np.stack([logits, np.ones_like(logits)])[:size]  # [size, m + k]
    labels = np.repeat([1.0, 0.0], [sample.links.size, sample.others.size])
    shares = np.concatenate(
        [np.full(sample.links.size, 1 / sample.links.size), sample.weights / sample.weights.sum()]
    )
    start, spread = np.array([1.0, 0.0])[:size], _SPREAD[:size]
    point, value = start, _value(start, sample, priors)
    for _ in range(_STEPS):
        slope_of, bend = (point - start) / spread**2, np.diag(spread**-2.0)
        for prior in priors:
            mass = shares * np.where(labels == 1, prior, 1 - prior) / entropy(prior)
            mass *= sample.links.size / len(priors)
            rate = 1 / (1 + np.exp(-np.clip(point @ columns + log_odds_of(prior), -500, 500)))
            slope_of = slope_of + columns @ (mass * (rate - labels))
            bend = bend + (columns * (mass * rate * (1 - rate))) @ columns.T
        step = np.asarray(np.linalg.solve(bend, slope_of), dtype=np.float64)
        # An evaluation looks at every pair, so none is made twice.
        tried = np.inf
        while np.abs(step).max() > _TOLERANCE:
            tried = _value(point - step, sample, priors)
            if tried <= value:
                break
            step = step / 2
        if np.abs(step).max() <= _TOLERANCE:
            break
        point, value = point - step, tried
        if point[0] < 0:
            point[0] = 0.0
            value = _value(point, sample, priors)
    return point


def _value(point: Floats, sample: Sample, priors: Sequence[float]) -> float:
    line = Line(*point.tolist())
    fit = np.mean([unexplained(line, sample, prior) for prior in priors])
    start = np.array([1.0, 0.0])[: point.size]
    belief = (((point - start) / _SPREAD[: point.size]) ** 2).sum() / 2
    return float(sample.links.size * fit + belief)
