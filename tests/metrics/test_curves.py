"""Curves keep their ends, their corners and their area."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sklearn_metrics

from cgcl.metrics import auc, average_precision, precision_recall_curve, roc_curve, thin_curve


@pytest.fixture(scope="module")
def scores():
    generator = np.random.default_rng(1)
    return generator.normal(1.5, 1, 20_000), generator.normal(0, 1, 20_000)


def test_small_curves_are_untouched():
    """Descending order is P N P N: right, up, right, up in hand-drawn steps of 1/2."""
    false_rate, true_rate = roc_curve([4, 2], [3, 1])
    assert false_rate.tolist() == [0, 0, 0.5, 0.5, 1]
    assert true_rate.tolist() == [0, 0.5, 0.5, 1, 1]
    recall, precision = precision_recall_curve([4, 2], [3, 1])
    assert recall.tolist() == [0, 0.5, 0.5, 1, 1]
    assert precision.tolist() == pytest.approx([1, 1, 1 / 2, 2 / 3, 1 / 2])


SIDE = st.lists(st.integers(-6, 6), min_size=1, max_size=30)


@given(SIDE, SIDE)
def test_curves_are_those_of_scikit_learn(positive, negative):
    labels, scores = [1] * len(positive) + [0] * len(negative), positive + negative
    false_rate, true_rate, _ = sklearn_metrics.roc_curve(labels, scores)
    found = roc_curve(positive, negative)
    assert found[0].tolist() == pytest.approx(false_rate.tolist())
    assert found[1].tolist() == pytest.approx(true_rate.tolist())
    precision, recall, _ = sklearn_metrics.precision_recall_curve(labels, scores)
    found = precision_recall_curve(positive, negative)
    assert found[0].tolist() == pytest.approx(recall[::-1].tolist())
    assert found[1].tolist() == pytest.approx(precision[::-1].tolist())


def test_a_long_roc_curve_keeps_its_ends_and_its_area(scores):
    false_rate, true_rate = roc_curve(*scores)
    assert false_rate.size == true_rate.size == 400
    assert (false_rate[0], true_rate[0], false_rate[-1], true_rate[-1]) == (0, 0, 1, 1)
    assert (np.diff(false_rate) >= 0).all()
    assert (np.diff(true_rate) >= 0).all()
    assert np.trapezoid(true_rate, false_rate) == pytest.approx(auc(*scores), abs=1e-3)


def test_a_long_precision_recall_curve_keeps_its_ends_and_its_area(scores):
    recall, precision = precision_recall_curve(*scores)
    assert recall.size <= 400
    assert (recall[0], precision[0], recall[-1], precision[-1]) == (0, 1, 1, 0.5)
    assert (np.diff(recall) >= 0).all()
    assert np.trapezoid(precision, recall) == pytest.approx(average_precision(*scores), abs=1e-3)


def test_thinning_keeps_the_corner_of_a_perfect_curve():
    x = np.concatenate([np.zeros(1000), np.linspace(0, 1, 1000)])
    y = np.concatenate([np.linspace(0, 1, 1000), np.ones(1000)])
    thinned = set(zip(*(values.tolist() for values in thin_curve(x, y, 9)), strict=True))
    assert len(thinned) == 9
    assert {(0.0, 0.0), (0.0, 1.0), (1.0, 1.0)} <= thinned


@pytest.mark.parametrize("size", [1, 3, 4, 5, 7, 100])
def test_thinning_returns_points_of_the_curve_in_order(size):
    x = np.arange(float(size))
    thinned, heights = thin_curve(x, x**2, limit=4)
    assert thinned.size == min(size, 4)
    assert (np.diff(thinned) > 0).all()
    assert (heights == thinned**2).all()
    assert (thinned[0], thinned[-1]) == (0, size - 1)


def test_thinning_to_less_than_a_corner_is_refused():
    with pytest.raises(ValueError, match="3 points or more, found a limit of 2"):
        thin_curve(np.arange(9.0), np.arange(9.0), limit=2)
