"""Ranking metrics against scikit-learn and brute force."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sklearn_metrics
from sklearn.metrics import average_precision_score, roc_auc_score

from cgcl.metrics import (
    Ranked,
    auc,
    average_precision,
    hits_at,
    link_metrics,
    own_ranks,
    precision_recall_curve,
    roc_curve,
)
from cgcl.metrics.ranking import as_scores


def mean_reciprocal_rank(positive, negative) -> float:
    return Ranked(positive, negative).mean_reciprocal_rank()


# Few distinct integers: ties are common, and cubing them is exact in float64.
SIDE = st.lists(st.integers(-6, 6), min_size=1, max_size=30)
METRICS = [
    auc,
    average_precision,
    mean_reciprocal_rank,
    lambda p, n: hits_at(1, p, n),
    lambda p, n: hits_at(2, p, n),
]


# Whole numbers tie within and across the sides, floats of any size hardly ever.
ANY_SIDE = SIDE | st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=30)


@given(ANY_SIDE, ANY_SIDE)
def test_auc_and_average_precision_are_those_of_scikit_learn(positive, negative):
    labels, scores = [1] * len(positive) + [0] * len(negative), positive + negative
    assert auc(positive, negative) == pytest.approx(roc_auc_score(labels, scores), abs=1e-13)
    assert average_precision(positive, negative) == pytest.approx(
        average_precision_score(labels, scores), abs=1e-13
    )


def test_scores_that_differ_in_the_last_bit_are_no_tie():
    above = np.nextafter(0.5, 1)
    assert auc([above], [0.5]) == 1.0
    assert average_precision([0.5], [above]) == 0.5
    assert hits_at(1, [above], [0.5]) == 1.0
    assert mean_reciprocal_rank([0.5], [above]) == 0.5


@given(SIDE, SIDE)
def test_link_metrics_are_the_metrics(positive, negative):
    assert link_metrics(positive, negative) == {
        "auc": auc(positive, negative),
        "ap": average_precision(positive, negative),
        "hits@10": hits_at(10, positive, negative),
        "hits@50": hits_at(50, positive, negative),
        "hits@100": hits_at(100, positive, negative),
        "mrr": mean_reciprocal_rank(positive, negative),
    }


@given(SIDE, SIDE)
def test_reciprocal_rank_averages_the_best_and_the_worst_rank(positive, negative):
    ranks = [
        1 + (sum(n > p for n in negative) + sum(n >= p for n in negative)) / 2 for p in positive
    ]
    assert mean_reciprocal_rank(positive, negative) == pytest.approx(
        sum(1 / rank for rank in ranks) / len(ranks)
    )


def test_whole_numbers_are_counted_as_fractions_too():
    assert as_scores([2, 1], "positive").dtype == np.float64


def test_each_link_is_ranked_among_its_own_negatives_whether_or_not_it_ties():
    ranks = own_ranks([5, 2, 1], [5, 1, 3, 5], np.array([0, 1, 1, 0]))
    assert ranks.tolist() == [2.0, 2.0, 1.0]


@given(st.integers(1, 8), SIDE, SIDE)
def test_hits_count_links_above_the_kth_negative(k, positive, negative):
    hits = [len(negative) < k or p > sorted(negative, reverse=True)[k - 1] for p in positive]
    assert hits_at(k, positive, negative) == pytest.approx(sum(hits) / len(hits))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_tensors_and_arrays_give_the_same_numbers(dtype):
    positive = torch.tensor([[0.5, 1.0], [2.0, 0.25]], dtype=dtype, requires_grad=True)
    negative = torch.tensor([0.0, 1.0, 0.125], dtype=dtype)
    assert link_metrics(positive, negative) == link_metrics(
        np.array([0.5, 1.0, 2.0, 0.25]), [0.0, 1.0, 0.125]
    )


@pytest.mark.parametrize("metric", [*METRICS, link_metrics, roc_curve, precision_recall_curve])
@pytest.mark.parametrize(
    ("positive", "negative", "words"),
    [
        ([1.0], [0.0, float("nan")], "1 of 2 negative scores are NaN or infinite"),
        ([1.0], [0.0, float("inf")], "1 of 2 negative scores are NaN or infinite"),
        (torch.empty(0), [1.0], "There are no positive scores"),
        ([1.0], [], "There are no negative scores"),
    ],
)
def test_sides_that_cannot_be_ranked_are_refused(metric, positive, negative, words):
    with pytest.raises(ValueError, match=words):
        metric(positive, negative)


def test_hits_at_rank_zero_is_refused():
    with pytest.raises(ValueError, match="k must be 1 or more, found 0"):
        hits_at(0, [1.0], [0.0])


@given(SIDE, SIDE)
def test_curves_are_those_of_scikit_learn(positive, negative):
    labels, scores = [1] * len(positive) + [0] * len(negative), positive + negative
    false_rate, true_rate, _ = sklearn_metrics.roc_curve(labels, scores)
    precision, recall, _ = sklearn_metrics.precision_recall_curve(labels, scores)
    found = *roc_curve(positive, negative), *precision_recall_curve(positive, negative)
    expected = false_rate, true_rate, recall[::-1], precision[::-1]
    for one, other in zip(found, expected, strict=True):
        assert one.tolist() == pytest.approx(other.tolist())
