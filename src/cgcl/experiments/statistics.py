r"""What chance explains: means with intervals, paired tests, and the price of many tests.

Runs on random splits of one graph are not independent: their training sets overlap, so the
ordinary variance of a mean is too small and the ordinary t-test finds differences where there are
none. Nadeau and Bengio (Inference for the Generalization Error, Machine Learning 52, 2003) put
$\left(\frac1k + \frac{n_2}{n_1}\right) s^2$ in the place of $\frac1k s^2$, for k runs that each
learn from $n_1$ links and test on $n_2$. They derive it for a mean over test examples; for AUC and
the like it is the usual approximation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TypeVar

CONFIDENCE = 0.95
"""The share of such intervals that hold the true value."""
LEVEL = 0.05
"""Below this p a difference is more than chance explains."""
# Differences that agree to this many digits have no spread to measure chance by.
_NO_SPREAD = 1e-12
# Nor have those that differ by less than any that is printed.
_NOTHING = 1e-9

K = TypeVar("K")


@dataclass(frozen=True)
class Spread:
    """The results of some runs."""

    runs: int
    mean: float
    sd: float | None
    """Sample standard deviation; None for a single run."""
    low: float | None
    """Where the interval for the mean begins; None for a single run."""
    high: float | None


@dataclass(frozen=True)
class Difference(Spread):
    """A method's results minus those of another, run by run."""

    t: float | None
    p: float | None
    """Chance of a difference as large if there were none; None if that cannot be said."""
    adjusted_p: float | None = None
    """The same, corrected for the number of comparisons."""
    lost: int = 0
    """In how many runs the method is below the other."""

    def untested(self, fewest: int) -> Difference:
        """Return it without interval and test if it is over fewer runs than are worth one."""
        if self.runs >= fewest:
            return self
        return replace(self, low=None, high=None, t=None, p=None)

    @property
    def sign(self) -> int:
        """1 if it is above zero by more than chance explains, -1 if below, else 0.

        Where all runs differ by the same there is no p, and no chance that could explain it.
        """
        if self.p is None:
            is_told = self.sd is not None and self.sd < _NOTHING < abs(self.mean)
        else:
            is_told = self.adjusted_p is not None and self.adjusted_p < LEVEL
        return (self.mean > 0) - (self.mean < 0) if is_told else 0


def spread_of(values: Sequence[float], overlap: float = 0.0) -> Spread:
    """Return mean, standard deviation and the interval for the mean.

    Args:
        values: One result per run, at least one.
        overlap: Test links per training link where runs are splits of one graph, n2 / n1; 0 for
            runs that are independent.

    Example:
        >>> two = spread_of([1.0, 3.0])
        >>> two.mean, round(two.sd, 4), round(two.high, 2)  # 2 + 12.71 * sqrt(2 / 2)
        (2.0, 1.4142, 14.71)
    """
    count = len(values)
    mean = math.fsum(values) / count
    if count < 2:
        return Spread(count, mean, None, None, None)
    sd = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (count - 1))
    from scipy.special import stdtrit

    half = float(stdtrit(count - 1, (1 + CONFIDENCE) / 2)) * _error_of_mean(sd, count, overlap)
    return Spread(count, mean, sd, mean - half, mean + half)


def paired_difference(
    values: Sequence[float], reference: Sequence[float], overlap: float = 0.0
) -> Difference:
    """Return how a method differs from another over the same runs, with a two-sided t-test.

    With fewer than two runs, or where every run differs by the same, there is no test.

    Args:
        values: The method's results, one per run, at least one.
        reference: Those of the other method in the same runs.
        overlap: As in `spread_of`.

    Example:
        >>> found = paired_difference([3.0, 5.0, 7.0], [2.0, 3.0, 4.0])
        >>> found.mean, round(found.t, 4)  # differences 1, 2, 3: 2 / sqrt(1 / 3)
        (2.0, 3.4641)
    """
    differences = [ours - theirs for ours, theirs in zip(values, reference, strict=True)]
    spread = spread_of(differences, overlap)
    t = p = None
    if spread.sd is not None and spread.sd > _NO_SPREAD:
        t = spread.mean / _error_of_mean(spread.sd, spread.runs, overlap)
        from scipy.special import stdtr

        p = float(2 * stdtr(spread.runs - 1, -abs(t)))
    lost = sum(own < 0 for own in differences)
    return Difference(**asdict(spread), t=t, p=p, lost=lost)


def common_difference(
    values: Mapping[K, float], reference: Mapping[K, float], overlap: float
) -> Difference | None:
    """Return `paired_difference` over the runs that both have; None if there are none.

    Args:
        values: The method's results by run.
        reference: Those of the other method.
        overlap: As in `spread_of`.
    """
    runs = [run for run in values if run in reference]
    if not runs:
        return None
    return paired_difference([values[r] for r in runs], [reference[r] for r in runs], overlap)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values that allow for their number, after Holm's step-down procedure.

    Whoever rejects what is below 0.05 errs at all in at most 5 % of such families of tests.

    Example:
        >>> holm([0.01, 0.04, 0.03])  # 3 * 0.01, 2 * 0.03, and never less than one before
        [0.03, 0.06, 0.06]
    """
    adjusted, floor = [1.0] * len(p_values), 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        floor = max(floor, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = floor
    return adjusted


def corrected(differences: Sequence[Difference]) -> list[Difference]:
    """Return differences with p-values that allow for their number; one without p stays so."""
    tested = [number for number, own in enumerate(differences) if own.p is not None]
    adjusted = dict(zip(tested, holm([differences[n].p or 0.0 for n in tested]), strict=True))
    return [replace(own, adjusted_p=adjusted.get(n)) for n, own in enumerate(differences)]


def _error_of_mean(sd: float, runs: int, overlap: float) -> float:
    return sd * math.sqrt(1 / runs + overlap)
