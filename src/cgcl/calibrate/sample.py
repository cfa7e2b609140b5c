"""What a calibration is fitted on: logits of hidden links and of pairs that are no link."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real

import numpy as np
import numpy.typing as npt
from torch import Tensor
from torch.nn import functional

from cgcl.errors import ConfigError

__all__ = ["Floats", "Sample", "check_prior", "log_odds_of", "probability_of", "softplus"]

Floats = npt.NDArray[np.float64]

# From here on log(1 + e^v) is v, to the last bit of a float64.
_LINEAR = 40.0


@dataclass(frozen=True, eq=False)
class Sample:
    """Logits of hidden links, and of unlinked pairs that stand for all the others."""

    links: Floats
    """Logits of links that the network did not see, [m]."""
    others: Floats
    """Logits of sampled pairs that are no known link, [k]."""
    weights: Floats
    """How many pairs of the graph each of `others` stands for, positive, [k]."""

    def part(self, links: npt.NDArray[np.bool_], others: npt.NDArray[np.bool_]) -> Sample:
        """Return the marked links and unlinked pairs alone."""
        return Sample(self.links[links], self.others[others], self.weights[others])


def softplus(value: Tensor) -> Tensor:
    r"""Return $\log(1 + e^v)$ without overflow."""
    return functional.softplus(value, threshold=_LINEAR)


def log_odds_of(probability: float) -> float:
    """Return log(p / (1 - p)), infinite at 0 and 1."""
    if probability in (0, 1):
        return math.copysign(math.inf, probability - 0.5)
    return math.log(probability) - math.log1p(-probability)


def probability_of(log_ratios: Floats, prior: float) -> Floats:
    r"""Return $\sigma(g + \mathrm{logit}(\pi))$, the probability that a ratio means at a base rate.

    Args:
        log_ratios: Log-likelihood ratios $g$, link over no link.
        prior: The base rate $\pi$, strictly between 0 and 1.
    """
    # exp overflows beyond 709; 1 / (1 + e^700) is 1e-304, small enough.
    return 1 / (1 + np.exp(-np.clip(log_ratios + log_odds_of(prior), -700, 700)))


def check_prior(prior: float) -> float:
    """Return a base rate as it is.

    Raises:
        ConfigError: It is not strictly between 0 and 1.
    """
    # Written so that NaN fails as well; a bool is an int to Python, but no base rate.
    if isinstance(prior, bool) or not isinstance(prior, Real) or not 0 < prior < 1:
        raise ConfigError(
            f"The base rate (--prior) is {prior}; it must be above 0 and below 1.\n"
            f"It is the share of true links that you expect among all unknown pairs, such as 0.001."
        )
    return float(prior)
