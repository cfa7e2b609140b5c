"""Monotone maps from a logit to a log-likelihood ratio, and how far off they may be."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cgcl.calibrate.sample import Floats

__all__ = ["Curve", "Knots", "Line", "Margin"]

# No network's logit comes near; keeps 0 * infinity out of the products below.
_LARGEST_LOGIT = 1e9


@dataclass(frozen=True)
class Line:
    """A straight line: temperature scaling (no offset) and Platt scaling."""

    slope: float
    """At least 0; the temperature is its inverse."""
    offset: float = 0.0

    def log_ratio(self, logits: Floats) -> Floats:
        """Return the log-likelihood ratio at each logit."""
        return self.slope * np.clip(logits, -_LARGEST_LOGIT, _LARGEST_LOGIT) + self.offset


@dataclass(frozen=True)
class Knots:
    """Knots joined by straight lines, which go on beyond both ends."""

    logits: tuple[float, ...]
    """Strictly increasing."""
    log_ratios: tuple[float, ...]
    """Never decreasing."""
    below: float = 0.0
    """The slope below the first knot, at least 0."""
    above: float = 0.0
    """The slope above the last knot. Models of earlier versions, calibrated by isotonic
    regression, are flat beyond both ends, so that their best pairs share one probability."""

    def log_ratio(self, logits: Floats) -> Floats:
        """Return the log-likelihood ratio at each logit."""
        x, y = np.asarray(self.logits), np.asarray(self.log_ratios)
        bounded = np.clip(logits, -_LARGEST_LOGIT, _LARGEST_LOGIT)
        beyond = self.below * np.minimum(bounded - x[0], 0)
        beyond = beyond + self.above * np.maximum(bounded - x[-1], 0)
        if x.size == 1:
            return y[0] + beyond
        inside = np.clip(bounded, x[0], x[-1])
        left = np.clip(np.searchsorted(x, inside, side="right") - 1, 0, x.size - 2)
        share = (inside - x[left]) / (x[left + 1] - x[left])
        # Every rounding here keeps the order, and the bound keeps it from one knot to the next.
        return np.minimum(y[left] + share * (y[left + 1] - y[left]), y[left + 1]) + beyond


Curve = Line | Knots


@dataclass(frozen=True)
class Margin:
    """How far a log-likelihood ratio may be off, either way, at 95 % confidence."""

    logits: tuple[float, ...]
    """Strictly increasing."""
    widths: tuple[float, ...]
    """At least 0; joined by straight lines, and the same beyond both ends."""

    def at(self, logits: Floats) -> Floats:
        """Return the margin at each logit."""
        return np.interp(logits, self.logits, self.widths)
