"""The calibration of one model: from its logits to probabilities, at any base rate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from cgcl.calibrate.curve import Curve, Line, Margin
from cgcl.calibrate.sample import Floats, check_prior, log_odds_of, probability_of
from cgcl.errors import ConfigError

__all__ = ["Calibration", "Logits"]

Logits = npt.NDArray[Any] | Tensor | list[float]


@dataclass(frozen=True)
class Calibration:
    r"""A monotone map $g$ from a logit to $\log p(s \mid link) - \log p(s \mid no\ link)$.

    The probability at a base rate $\pi$ is $\sigma(g(s) + \mathrm{logit}(\pi))$, so that the base
    rate can be changed afterwards.
    """

    method: str
    """`temperature`, `platt` or `bent`; `isotonic` in models of earlier versions."""
    curve: Curve
    prior: float
    """The base rate unless another is given: the share of links among unknown pairs."""
    losses: dict[str, dict[str, float]]
    """Of each method on held-out folds: log-loss at even odds and at the base rate, and the
    share of uncertainty they leave on average; empty if there were too few links."""
    counts: dict[str, int]
    """Links, sampled non-links, and the unknown pairs that both stand for."""
    shift: dict[str, Any] | None = None
    """How the probabilities fare when more links are encoded than in training, if checked."""
    notes: tuple[str, ...] = ()
    margin: Margin | None = None
    """How far the map may be off; None in models of earlier versions."""

    def log_odds(self, logits: Logits, prior: float | None = None) -> Floats:
        """Return the log odds of a link at each logit.

        Args:
            logits: The network's logits, in any shape.
            prior: The base rate; the calibration's own if None.

        Raises:
            ConfigError: `prior` is not strictly between 0 and 1.
        """
        return self._log_ratios(logits) + log_odds_of(self._prior(prior))

    def probability(self, logits: Logits, prior: float | None = None) -> Floats:
        """Return the probability of a link at each logit; it never falls as the logit rises.

        Args:
            logits: The network's logits, in any shape.
            prior: The base rate; the calibration's own if None.

        Raises:
            ConfigError: `prior` is not strictly between 0 and 1.
        """
        return probability_of(self._log_ratios(logits), self._prior(prior))

    def interval(self, logits: Logits, prior: float | None = None) -> Floats | None:
        """Return the 95 % interval of the probability at each logit, [2, ...]; None without margin.

        It says how far the probability would vary with other validation links. That the base rate
        may be wrong is not in it.

        Args:
            logits: The network's logits, in any shape.
            prior: The base rate; the calibration's own if None.

        Raises:
            ConfigError: `prior` is not strictly between 0 and 1.
        """
        if self.margin is None:
            return None
        values, ratios = _as_array(logits), self._log_ratios(logits)
        width = self.margin.at(values)
        return probability_of(np.stack([ratios - width, ratios + width]), self._prior(prior))

    def logit_for(self, probability: float, prior: float | None = None) -> float:
        """Return the smallest logit whose probability is at least this, infinity if none is.

        Raises:
            ConfigError: `probability` is not between 0 and 1, or `prior` not strictly so.
        """
        if not 0 <= probability <= 1:
            raise ConfigError(f"The probability is {probability}; it must be between 0 and 1.")
        high = 1.0
        while high < 1e9 and self._at(high, prior) < probability:
            high *= 2
        if self._at(high, prior) < probability:
            return math.inf
        low = -1.0
        while low > -1e9 and self._at(low, prior) >= probability:
            low *= 2
        if self._at(low, prior) >= probability:
            return -math.inf
        # Halve until the two are neighbours: low is never enough, high always is.
        while low < (middle := (low + high) / 2) < high:
            low, high = (low, middle) if self._at(middle, prior) >= probability else (middle, high)
        return high

    def to_json(self) -> dict[str, Any]:
        """Return all of it as JSON can hold it."""
        if isinstance(self.curve, Line):
            curve: dict[str, Any] = {"slope": self.curve.slope, "offset": self.curve.offset}
        else:
            curve = {
                "logits": list(self.curve.logits),
                "log_ratios": list(self.curve.log_ratios),
            }
            if self.method != "isotonic":
                curve |= {"below": self.curve.below, "above": self.curve.above}
        margin = self.margin and {
            "logits": list(self.margin.logits),
            "widths": list(self.margin.widths),
        }
        return {
            "method": self.method,
            "curve": curve,
            "prior": self.prior,
            "losses": self.losses,
            "counts": self.counts,
            "shift": self.shift,
            "notes": list(self.notes),
            "margin": margin,
        }

    @classmethod
    def from_json(cls, found: Any) -> Calibration:  # noqa: ANN401
        """Return the calibration that `to_json` described.

        Raises:
            ModelFileError: Something is missing, of the wrong kind, or out of range.
        """
        from cgcl.calibrate.stored import read_calibration

        return read_calibration(found)

    def _prior(self, prior: float | None) -> float:
        return self.prior if prior is None else check_prior(prior)

    def _log_ratios(self, logits: Logits) -> Floats:
        return self.curve.log_ratio(_as_array(logits))

    def _at(self, logit: float, prior: float | None) -> float:
        return float(self.probability(np.array([logit]), prior)[0])


def _as_array(logits: Logits) -> Floats:
    values = logits.detach().cpu().numpy() if isinstance(logits, Tensor) else logits
    return np.asarray(values, dtype=np.float64)
