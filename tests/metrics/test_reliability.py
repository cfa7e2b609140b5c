from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgcl.metrics.calibration import (
    expected_calibration_error,
    log_loss,
    reliability_curve,
    wilson_interval,
)

LABELS = st.lists(st.tuples(st.floats(0, 1), st.sampled_from([0, 1])), min_size=1, max_size=60)


def test_the_calibration_error_of_four_pairs_by_hand() -> None:
    # Bins (0.1, 0.2) with no link and (0.6, 0.9) with one: |0.15 - 0| / 2 + |0.75 - 0.5| / 2.
    error = expected_calibration_error([0.9, 0.1, 0.6, 0.2], [1, 0, 0, 0], bins=2)
    assert error == pytest.approx(0.075 + 0.125)


def test_bins_hold_equal_numbers_of_pairs_and_count_by_their_size() -> None:
    # Three pairs in two bins: (0.1, 0.4) and (0.7); the first counts twice as much.
    found = reliability_curve([0.7, 0.4, 0.1], [0, 1, 0], bins=2)
    assert [bin_.count for bin_ in found] == [2, 1]
    assert [bin_.predicted for bin_ in found] == pytest.approx([0.25, 0.7])
    assert [bin_.observed for bin_ in found] == [0.5, 0.0]
    error = expected_calibration_error([0.7, 0.4, 0.1], [0, 1, 0], bins=2)
    assert error == pytest.approx((2 * 0.25 + 0.7) / 3)


def test_wilson_interval_of_one_in_ten_by_hand_and_of_all_or_none() -> None:
    # scale 1.38416, middle (0.1 + 0.19208) / scale, half 1.96 sqrt(0.009 + 0.009604) / scale
    assert wilson_interval(1, 10) == pytest.approx((0.017875, 0.404151), abs=1e-5)
    for count in range(1, 60):
        assert wilson_interval(0, count)[0] == 0
        assert wilson_interval(count, count)[1] == 1


@given(LABELS, st.integers(1, 12))
def test_every_bin_holds_its_share_within_its_interval(
    pairs: list[tuple[float, int]], bins: int
) -> None:
    found = reliability_curve([p for p, _ in pairs], [label for _, label in pairs], bins)
    assert sum(bin_.count for bin_ in found) == len(pairs)
    if len({p for p, _ in pairs}) == len(pairs):  # equal ones are never parted
        assert len(found) == min(bins, len(pairs))
        assert max(bin_.count for bin_ in found) - min(bin_.count for bin_ in found) <= 1
    for bin_ in found:
        assert 0 <= bin_.low <= bin_.observed <= bin_.high <= 1
    predicted = [bin_.predicted for bin_ in found]
    assert all(a <= b + 1e-12 for a, b in pairwise(predicted))


def test_log_loss_by_hand_and_of_a_certain_mistake_which_is_large_but_finite() -> None:
    # -log 0.8 for the link, -log 0.5 for the other.
    assert log_loss([0.8, 0.5], [1, 0]) == pytest.approx((-math.log(0.8) - math.log(0.5)) / 2)
    assert 600 < log_loss([1.0], [0]) < math.inf


@pytest.mark.parametrize(
    ("probabilities", "labels", "words"),
    [
        ([0.5], [0, 1], "1 and 2"),
        ([1.5], [1], "0, 1"),
        ([-0.1], [1], "0, 1"),
        ([0.5], [2], "Labels"),
        ([], [], "no probability"),
        ([math.nan], [1], "NaN"),
    ],
)
def test_what_is_no_probability_or_label_is_refused(
    probabilities: list[float], labels: list[int], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        expected_calibration_error(probabilities, labels)


def test_a_curve_without_bins_and_a_share_of_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="bin"):
        reliability_curve(np.array([0.5]), [1], bins=0)
    for successes, count in ((0, 0), (3, 2)):
        with pytest.raises(ValueError, match="share"):
            wilson_interval(successes, count)


def test_equal_probabilities_share_a_bin_whatever_their_order() -> None:
    labels = [1] * 50 + [0] * 50
    assert expected_calibration_error([0.5] * 100, labels) == 0
    assert [found.count for found in reliability_curve([0.5] * 100, labels)] == [100]
    mixed = reliability_curve([0.1, 0.2, 0.2, 0.2, 0.9, 0.9], [0, 1, 0, 0, 1, 1], bins=3)
    assert [(found.count, found.observed) for found in mixed] == [(4, 0.25), (2, 1.0)]
