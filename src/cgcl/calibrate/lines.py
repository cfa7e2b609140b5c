"""Temperature and Platt scaling, fitted by Newton's method."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from cgcl.calibrate.curve import Line
from cgcl.calibrate.losses import entropy
from cgcl.calibrate.newton import Place, newton
from cgcl.calibrate.sample import Floats, Sample, log_odds_of, softplus

__all__ = ["fit_platt", "fit_temperature"]

# A weak belief that the network's logits are right as they are: slope 1 and offset 0, each give
# or take this much. It decides when there are two links, and is forgotten when there are many.
# An offset of 8 is nothing unusual: the logits of a softmax over all pairs are those of rare links.
_SPREAD = np.array([1.0, 10.0])


def fit_temperature(sample: Sample, priors: Sequence[float]) -> Line:
    """Return the best line through the origin, by `unexplained` averaged over base rates.

    Args:
        sample: The pairs to fit on; at least one link and one other.
        priors: The base rates that the probabilities are for.
    """
    return Line(float(newton(_Loss(sample, priors, 1)).point[0]))


def fit_platt(sample: Sample, priors: Sequence[float]) -> Line:
    """Return the best line, by `unexplained` averaged over base rates.

    Args:
        sample: The pairs to fit on; at least one link and one other.
        priors: The base rates that the probabilities are for.
    """
    slope, offset = newton(_Loss(sample, priors, 2)).point.tolist()
    # Without a slope the score says nothing, and nothing is what the ratio must say.
    return Line(slope, offset) if slope > 0 else Line(0.0)


class _Loss:
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
        self.lowest = np.array([0.0, -np.inf])[:size]

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
