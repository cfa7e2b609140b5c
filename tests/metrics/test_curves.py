"""Curves to draw are scikit-learn's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sklearn_metrics

from cgcl.metrics import precision_recall_curve, roc_curve

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
