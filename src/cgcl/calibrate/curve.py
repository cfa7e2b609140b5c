"""Monotone maps from a logit to a log-likelihood ratio."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cgcl.calibrate.sample import Floats

__all__ = ["Curve", "Line", "Steps"]

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
class Steps:
    """Knots joined by straight lines, constant beyond both ends: isotonic regression."""

    logits: tuple[float, ...]
    """Strictly increasing."""
    log_ratios: tuple[float, ...]
    """Never decreasing."""

    def log_ratio(self, logits: Floats) -> Floats:
        """Return the log-likelihood ratio at each logit."""
        x, y = np.asarray(self.logits), np.asarray(self.log_ratios)
        if x.size == 1:
            return np.where(np.isnan(logits), np.nan, y[0])
        inside = np.clip(logits, x[0], x[-1])
        left = np.clip(np.searchsorted(x, inside, side="right") - 1, 0, x.size - 2)
        share = (inside - x[left]) / (x[left + 1] - x[left])
        # Every rounding here keeps the order, and the bound keeps it from one knot to the next.
        return np.minimum(y[left] + share * (y[left + 1] - y[left]), y[left + 1])


Curve = Line | Steps
