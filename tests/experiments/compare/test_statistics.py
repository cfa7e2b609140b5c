"""Means, intervals, tests: against numbers worked out by hand."""

import math

import pytest

from cgcl.experiments.statistics import Difference, paired_difference


def test_the_corrected_test_by_hand():
    """Differences 1, 2, 3; k = 3, n2/n1 = 1/5.

    s^2 = 1, so the variance of the mean is (1/3 + 1/5) * 1 = 8/15 and t^2 = 4 / (8/15) = 7.5.
    With two degrees of freedom P(|T| > t) = 1 - t / sqrt(2 + t^2) = 1 - sqrt(7.5 / 9.5).
    The quantile at 97.5 % is 4.302653, so the interval is 2 +- 4.302653 * sqrt(8/15).
    """
    found = paired_difference([0.4, 0.6, 0.8], [-0.6, -1.4, -2.2], overlap=0.2)
    assert found.mean == pytest.approx(2)
    assert found.sd == pytest.approx(1)
    assert found.t == pytest.approx(math.sqrt(7.5))
    assert found.p == pytest.approx(1 - math.sqrt(7.5 / 9.5))
    assert found.low == pytest.approx(2 - 4.302653 * math.sqrt(8 / 15))
    assert found.high == pytest.approx(2 + 4.302653 * math.sqrt(8 / 15))


@pytest.mark.parametrize("values", [[0.9], [0.5] * 4, [0.75] * 4])
def test_without_spread_there_is_no_test(values):
    """A single run; or two formulas on one split, where nothing is random."""
    found = paired_difference(values, [0.5] * len(values))
    assert found.mean == pytest.approx(values[0] - 0.5)
    assert found.sd == (None if len(values) == 1 else 0)
    assert (found.t, found.p) == (None, None)


def test_too_few_runs_are_told_without_a_test_and_runs_that_are_lost_are_counted():
    found = paired_difference([1.0, 2.0, 3.0], [2.0, 2.0, 1.0])
    assert (found.lost, found.runs) == (1, 3)
    assert found.untested(3) is found
    few = found.untested(4)
    assert (few.mean, few.lost, few.p, few.low, few.sign) == (found.mean, 1, None, None, 0)


@pytest.mark.parametrize(
    ("mean", "p", "adjusted", "sign"),
    [(1.0, 0.01, 0.04, 1), (-1.0, 0.01, 0.04, -1), (-1.0, 0.01, 0.05, 0), (1.0, None, None, 0)],
)
def test_a_difference_has_a_sign_where_chance_does_not_explain_it(mean, p, adjusted, sign):
    assert Difference(9, mean, 0.1, None, None, None, p, adjusted).sign == sign
    if p is None:  # every run differs by the same
        assert Difference(9, mean, 0.0, None, None, None, p, adjusted).sign == 1
