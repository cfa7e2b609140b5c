"""From a logit to a probability: monotone maps, at any base rate, and how they are stored."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor
from torch.nn import functional

from cgcl.errors import ConfigError, ModelFileError
from cgcl.graph.wording import shown

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
            f"The base rate (`prior`) is {prior}; it must be above 0 and below 1.\n"
            f"It is the share of true links that you expect among all unknown pairs, such as 0.001."
        )
    return float(prior)


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


_LINES = ("temperature", "platt")
_METHODS = (*_LINES, "isotonic", "bent")
_KEYS = ("method", "curve", "prior", "losses", "counts", "shift", "notes", "margin")
_COUNTS = ("links", "non_links", "unknown_pairs")
_MAX_KNOTS = 10_000


def read_calibration(found: Any) -> Calibration:  # noqa: ANN401
    """Return the calibration that `Calibration.to_json` described.

    Raises:
        ModelFileError: Something is missing, of the wrong kind, or out of range.
    """
    if isinstance(found, dict):
        found = {"margin": None, **found}  # earlier versions knew of none
    parts = _mapping(found, "it", _KEYS)
    method = parts["method"]
    if not isinstance(method, str) or method not in _METHODS:
        raise _damaged(f"its method is not one of {', '.join(_METHODS)}")
    prior = _number(parts["prior"], "its base rate")
    if not 0 < prior < 1:
        raise _damaged(f"its base rate is {prior}, not between 0 and 1")
    counts = _mapping(parts["counts"], "its counts", _COUNTS)
    if any(type(count) is not int or count < 0 for count in counts.values()):
        raise _damaged("its counts are not whole numbers")
    notes = parts["notes"]
    if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
        raise _damaged("its notes are not a list of sentences")
    return Calibration(
        method,
        _line(parts["curve"]) if method in _LINES else _knots(parts["curve"], method),
        prior,
        _losses(parts["losses"]),
        counts,
        _shift(parts["shift"]),
        tuple(notes),
        _margin(parts["margin"]),
    )


def _line(found: Any) -> Curve:  # noqa: ANN401
    parts = _mapping(found, "its curve", ("slope", "offset"))
    slope, offset = (_number(parts[name], f"its {name}") for name in ("slope", "offset"))
    if slope < 0:
        raise _damaged(f"its slope is {slope}, so that better scores would mean fewer links")
    return Line(slope, offset)


def _knots(found: Any, method: str) -> Curve:  # noqa: ANN401
    ends = () if method == "isotonic" else ("below", "above")
    parts = _mapping(found, "its curve", ("logits", "log_ratios", *ends))
    logits, ratios = _points(parts, "log_ratios")
    if any(after < before for before, after in pairwise(ratios)):
        raise _damaged("its log ratios decrease")
    slopes = [_number(parts[name], f"its slope {name}") for name in ends]
    if any(slope < 0 for slope in slopes):
        raise _damaged("better scores would mean fewer links beyond an end of its curve")
    return Knots(logits, ratios, *slopes)


def _margin(found: Any) -> Margin | None:  # noqa: ANN401
    if found is None:
        return None
    logits, widths = _points(_mapping(found, "its margin", ("logits", "widths")), "widths")
    if any(width < 0 for width in widths):
        raise _damaged("a width of its margin is below 0")
    return Margin(logits, widths)


def _points(parts: dict[str, Any], name: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return logits and as many numbers by some name."""
    logits, values = _numbers(parts["logits"], "logits"), _numbers(parts[name], name)
    if len(logits) != len(values):
        raise _damaged(f"it has {len(logits)} logits and {len(values)} {name}")
    if any(after <= before for before, after in pairwise(logits)):
        raise _damaged("its logits do not increase")
    return logits, values


def _losses(found: Any) -> dict[str, dict[str, float]]:  # noqa: ANN401
    losses = _mapping(found, "its losses")
    return {
        name: {kind: _number(loss, "a loss") for kind, loss in _mapping(of, "a loss").items()}
        for name, of in losses.items()
    }


def _shift(found: Any) -> dict[str, Any] | None:  # noqa: ANN401
    if found is None:
        return None
    shift = _mapping(found, "its shift", ("expected", "observed", "ratio", "top", "warning"))
    top = _mapping(shift["top"], "its shift", ("pairs", "expected", "observed", "ratio"))
    _number(top["pairs"], "its number of best pairs")
    for region in (shift, top):
        _number(region["expected"], "an expected number of links")
        _number(region["observed"], "an observed number of links")
        if region["ratio"] is not None:
            _number(region["ratio"], "the ratio of its shift")
    if not isinstance(shift["warning"], str | None):
        raise _damaged("its warning is no sentence")
    return shift


def _mapping(found: Any, what: str, keys: tuple[str, ...] = ()) -> dict[str, Any]:  # noqa: ANN401
    """Return a mapping with exactly these keys, or with any text keys if none are given."""
    if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
        raise _damaged(f"{what} is no mapping")
    if keys and set(found) != set(keys):
        wrong = sorted(set(found) ^ set(keys))
        raise _damaged(f"{what} should have {', '.join(keys)}; wrong: {shown(', '.join(wrong))}")
    return found


def _numbers(found: Any, name: str) -> tuple[float, ...]:  # noqa: ANN401
    if not isinstance(found, list) or not 1 <= len(found) <= _MAX_KNOTS:
        raise _damaged(f"its {name} are not a list of 1 to {_MAX_KNOTS:,} numbers")
    return tuple(_number(value, f"one of its {name}") for value in found)


def _number(found: Any, what: str) -> float:  # noqa: ANN401
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise _damaged(f"{what} is not a number")
    try:
        value = float(found)
    except OverflowError:  # a whole number of hundreds of digits
        value = math.inf
    if not math.isfinite(value):
        raise _damaged(f"{what} is {value}, not a finite number")
    return value


def _damaged(why: str) -> ModelFileError:
    return ModelFileError(
        f"The model's calibration is damaged: {why}.\nTrain again with cgcl train."
    )
