"""Newton's method for a handful of numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from cgcl.calibrate.sample import Floats

__all__ = ["Loss", "Place", "newton"]

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


class Loss(Protocol):
    """A function to minimise."""

    start: Floats
    """Where to begin, [size]."""
    lowest: Floats
    """No coordinate goes below this, [size]."""

    def at(self, point: Floats) -> Place:
        """Return the value and its derivatives."""
        ...


def newton(loss: Loss) -> Place:
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
        if (here.point < loss.lowest).any():
            here = loss.at(np.maximum(here.point, loss.lowest))
    return here
