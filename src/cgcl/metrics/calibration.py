"""From a logit to a probability: monotone maps at any base rate, stored and judged."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from itertools import pairwise
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor
from torch.nn import functional

from cgcl.errors import ConfigError, ModelFileError
from cgcl.metrics.ranking import Scores, as_scores
from cgcl.stored import fits, misfits

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

    def probability(self, logits: Logits, prior: float | None = None) -> Floats:
        """Return the probability of a link at each logit; it never falls as the logit rises.

        Args:
            logits: The network's logits, in any shape.
            prior: The base rate; the calibration's own if None.

        Raises:
            ConfigError: `prior` is not strictly between 0 and 1.
        """
        return probability_of(self.curve.log_ratio(_as_array(logits)), self._prior(prior))

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
        values = _as_array(logits)
        ratios, width = self.curve.log_ratio(values), self.margin.at(values)
        return probability_of(np.stack([ratios - width, ratios + width]), self._prior(prior))

    def logit_for(self, probability: float, prior: float | None = None) -> float:
        """Return the smallest logit whose probability is at least this, infinity if none is.

        Raises:
            ConfigError: `probability` is not between 0 and 1, or `prior` not strictly so.
        """
        if not 0 <= probability <= 1:
            raise ConfigError(f"The probability is {probability}; it must be between 0 and 1.")
        low, high = -_LARGEST_LOGIT, _LARGEST_LOGIT
        if self._at(high, prior) < probability:
            return math.inf
        if self._at(low, prior) >= probability:
            return -math.inf
        # Halve until the two are neighbours: low is never enough, high always is.
        while low < (middle := (low + high) / 2) < high:
            low, high = (low, middle) if self._at(middle, prior) >= probability else (middle, high)
        return high

    def to_json(self) -> dict[str, Any]:
        """Return all of it as JSON can hold it."""
        found = json.loads(json.dumps(asdict(self)))  # tuples become lists
        if self.method == "isotonic":
            del found["curve"]["below"], found["curve"]["above"]
        return found

    @classmethod
    def from_json(cls, found: Any) -> Calibration:  # noqa: ANN401
        """Return the calibration that `to_json` described.

        Raises:
            ModelFileError: Something is missing, of the wrong kind, or out of range.
        """
        # Earlier versions knew of no margin.
        parts: dict[str, Any] = {"margin": None, **found} if isinstance(found, dict) else {}
        _require(parts.keys() == _SHAPES.keys(), f"it should have {', '.join(_SHAPES)}")
        wrong = misfits(parts, _SHAPES, exactly=True)
        _require(not wrong, f"no calibration has such a {' and '.join(wrong)}")
        method, prior, margin = parts["method"], float(parts["prior"]), parts["margin"]
        _require(method in _CURVES, f"its method is not one of {', '.join(_CURVES)}")
        _require(0 < prior < 1, f"its base rate is {prior}, not between 0 and 1")
        _require(min(parts["counts"].values()) >= 0, "a count of it is below 0")
        if margin is not None:
            margin = Margin(*_points(margin, "widths"))
            _require(min(margin.widths) >= 0, "a width of its margin is below 0")
        curve, notes = _read_curve(parts["curve"], method), tuple(parts["notes"])
        parts |= {"curve": curve, "prior": prior, "notes": notes, "margin": margin}
        return cls(**parts)

    def _prior(self, prior: float | None) -> float:
        return self.prior if prior is None else check_prior(prior)

    def _at(self, logit: float, prior: float | None) -> float:
        return float(self.probability(np.array([logit]), prior)[0])


def _as_array(logits: Logits) -> Floats:
    values = logits.detach().cpu().numpy() if isinstance(logits, Tensor) else logits
    return np.asarray(values, dtype=np.float64)


_MAX_KNOTS = 10_000
# What is stored, as `cgcl.stored.fits` takes it.
_LINE = {"slope": float, "offset": float}
_STEPS = {"logits": [float], "log_ratios": [float]}
_CURVES = {
    "temperature": _LINE,
    "platt": _LINE,
    "isotonic": _STEPS,
    "bent": {**_STEPS, "below": float, "above": float},
}
_LINKS = {"expected": float, "observed": float, "ratio": (float, None)}
_SHAPES: dict[str, Any] = {
    "method": str,
    "curve": tuple(_CURVES.values()),
    "prior": float,
    "losses": {str: {"even_odds": float, "base_rate": float, "unexplained": float}},
    "counts": {"links": int, "non_links": int, "unknown_pairs": int},
    "shift": (None, {**_LINKS, "top": {"pairs": float, **_LINKS}, "warning": (str, None)}),
    "notes": [str],
    "margin": (None, {"logits": [float], "widths": [float]}),
}


def _read_curve(found: dict[str, Any], method: str) -> Curve:
    _require(fits(found, _CURVES[method]), f"its curve is none of {method}")
    slopes = [float(found.get(name, 0)) for name in ("slope", "below", "above")]
    _require(min(slopes) >= 0, "its curve falls, so that better scores would mean fewer links")
    if "slope" in found:
        return Line(slopes[0], float(found["offset"]))
    logits, ratios = _points(found, "log_ratios")
    _require(all(a <= b for a, b in pairwise(ratios)), "its log ratios decrease")
    return Knots(logits, ratios, *slopes[1:])


def _points(found: dict[str, Any], name: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return logits and as many numbers by some name."""
    logits, values = tuple(map(float, found["logits"])), tuple(map(float, found[name]))
    _require(1 <= len(logits) <= _MAX_KNOTS, f"it has {len(logits):,} logits")
    _require(len(logits) == len(values), f"it has {len(logits)} logits and {len(values)} {name}")
    _require(all(a < b for a, b in pairwise(logits)), "its logits do not increase")
    return logits, values


def _require(kept: bool, why: str) -> None:
    if not kept:
        raise ModelFileError(
            f"The model's calibration is damaged: {why}.\nTrain again with cgcl train."
        )


# A probability of 0 or 1 that turns out wrong would make every log-loss infinite.
_SMALLEST = 1e-300


@dataclass(frozen=True)
class ReliabilityBin:
    """Pairs of similar probability: what was said, and what happened."""

    predicted: float
    """Mean probability."""
    observed: float
    """Share of links."""
    count: int
    low: float
    """Lower end of the 95 % interval of the share (Wilson)."""
    high: float
    """Upper end."""


def expected_calibration_error(probabilities: Scores, labels: Scores, bins: int = 10) -> float:
    """Return the mean gap between probability and share of links, over equal-mass bins.

    Even perfect probabilities have a gap above 0 on a finite number of pairs.

    Args:
        probabilities: Probabilities of a link, in [0, 1].
        labels: As many labels, 1 for a link and 0 for none.
        bins: How many bins of about equal mass; equal probabilities share one.

    Example:
        >>> round(expected_calibration_error([0.1, 0.3, 0.6, 0.8], [0, 0, 0, 1], bins=2), 4)
        0.2
    """
    found = reliability_curve(probabilities, labels, bins)
    gaps = [bin_.count * abs(bin_.predicted - bin_.observed) for bin_ in found]
    return sum(gaps) / sum(bin_.count for bin_ in found)


def reliability_curve(
    probabilities: Scores, labels: Scores, bins: int = 10
) -> list[ReliabilityBin]:
    """Return the bins of a reliability diagram, lowest probabilities first.

    Args:
        probabilities: Probabilities of a link, in [0, 1].
        labels: As many labels, 1 for a link and 0 for none.
        bins: How many bins of about equal mass; equal probabilities share one, so there may be
            fewer.

    Example:
        >>> [(b.predicted, b.observed) for b in reliability_curve([0.25, 0.75], [0, 1], bins=2)]
        [(0.25, 0.0), (0.75, 1.0)]
    """
    if bins < 1:
        raise ValueError(f"A curve needs 1 bin or more, found {bins}.")
    probability, label = _checked(probabilities, labels)
    return [
        ReliabilityBin(
            float(probability[chosen].mean()),
            float(label[chosen].mean()),
            chosen.size,
            *wilson_interval(int(label[chosen].sum()), chosen.size),
        )
        for chosen in _equal_mass(probability, bins)
    ]


def _equal_mass(probability: Floats, bins: int) -> list[npt.NDArray[np.int64]]:
    """Return the places of each bin, lowest probabilities first; equal ones are never parted."""
    order = np.argsort(probability, kind="stable")
    ordered = probability[order]
    cuts = np.linspace(0, order.size, min(bins, order.size) + 1)[1:].round().astype(np.int64)
    # A cut among equal probabilities would leave it to their order which bin they fall into.
    ends = np.unique(np.searchsorted(ordered, ordered[cuts - 1], side="right"))
    return np.split(order, ends[:-1])


def wilson_interval(successes: int, count: int, z: float = 1.96) -> tuple[float, float]:
    """Return Wilson's interval for a share, 95 % unless `z` says otherwise.

    Args:
        successes: How many of `count`.
        count: 1 or more.
        z: Half-width in standard errors.

    Example:
        >>> low, high = wilson_interval(0, 10)
        >>> low, round(high, 4)
        (0.0, 0.2775)
    """
    if not 0 <= successes <= count or count < 1:
        raise ValueError(f"A share needs 0 to {count} of {count}, found {successes}.")
    share = successes / count
    scale = 1 + z * z / count
    middle = (share + z * z / (2 * count)) / scale
    half = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count)) / scale
    # The two ends that are exact in theory are exact here, too.
    low = 0.0 if successes == 0 else middle - half
    high = 1.0 if successes == count else middle + half
    return low, high


def log_loss(probabilities: Scores, labels: Scores) -> float:
    r"""Return the mean of $-(y \log p + (1 - y) \log(1 - p))$, in nats.

    Args:
        probabilities: Probabilities of a link, in [0, 1].
        labels: As many labels, 1 for a link and 0 for none.

    Example:
        >>> round(log_loss([0.5, 0.5], [0, 1]), 4)
        0.6931
    """
    probability, label = _checked(probabilities, labels)
    said = np.where(label == 1, probability, 1 - probability)
    return float(-np.log(np.maximum(said, _SMALLEST)).mean())


def _checked(probabilities: Scores, labels: Scores) -> tuple[Floats, Floats]:
    """Return both as arrays, or refuse them."""
    probability, label = as_scores(probabilities, "probability"), as_scores(labels, "label")
    if probability.size != label.size:
        raise ValueError(
            f"Every pair needs a probability and a label, found {probability.size:,} and "
            f"{label.size:,}."
        )
    if probability.min() < 0 or probability.max() > 1:
        raise ValueError(
            f"Probabilities must be in [0, 1], found {probability.min():g} to "
            f"{probability.max():g}."
        )
    if not np.isin(label, (0, 1)).all():
        raise ValueError("Labels must be 1 for a link and 0 for none.")
    return probability, label
