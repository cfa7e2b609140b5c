"""How much a curve's log-likelihood ratios leave unexplained, at a base rate."""

from __future__ import annotations

import math

import numpy as np
import torch

from cgcl.calibrate.curve import Curve
from cgcl.calibrate.sample import Sample, log_odds_of, softplus

__all__ = ["entropy", "log_loss_at", "unexplained"]


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
