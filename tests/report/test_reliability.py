"""The numbers of the reliability diagram, by hand and by simulation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgcl.report.reliability import reliability

SHARES = st.lists(st.floats(0, 1), min_size=1, max_size=60)


def test_two_bins_by_hand():
    """Two pairs are two bins: off by 0.25 and by 0.5."""
    result = reliability([0.75], [0.5])
    assert [(part.predicted, part.observed) for part in result.bins] == [(0.5, 0.0), (0.75, 1.0)]
    assert result.error == pytest.approx((0.25 + 0.5) / 2)
    # (sqrt(0.5 / pi) + sqrt(0.375 / pi)) / 2 = (0.398942 + 0.345494) / 2
    assert result.error_by_chance == pytest.approx(0.372218, abs=1e-6)


def test_bins_hold_equally_many_pairs():
    result = reliability(np.linspace(0.5, 1, 500), np.linspace(0, 0.49, 500))
    assert [part.count for part in result.bins] == [100] * 10


@given(SHARES, SHARES)
def test_bins_cover_every_pair_once_and_in_order(links, others):
    result = reliability(links, others)
    assert 1 <= len(result.bins) <= 10
    assert sum(part.count for part in result.bins) == len(links) + len(others)
    hits = sum(part.count * part.observed for part in result.bins)
    assert hits == pytest.approx(len(links))
    predicted = [part.predicted for part in result.bins]
    assert predicted == sorted(predicted)
    assert all(0 <= part.low <= part.observed + 1e-12 for part in result.bins)
    assert all(part.observed - 1e-12 <= part.high <= 1 for part in result.bins)
    assert 0 <= result.error <= 1


def test_a_perfect_model_shows_about_the_error_by_chance():
    generator = np.random.default_rng(0)
    errors, foretold = [], []
    for _ in range(50):
        predicted = generator.uniform(0, 1, 1000)
        is_link = generator.uniform(0, 1, 1000) < predicted
        result = reliability(predicted[is_link], predicted[~is_link])
        errors.append(result.error)
        foretold.append(result.error_by_chance)
    assert np.mean(errors) == pytest.approx(np.mean(foretold), rel=0.1)


def test_without_pairs_there_is_nothing_to_compare():
    assert reliability(None, [0.5]) is None
    assert reliability([0.5], None) is None
    assert reliability([], []) is None
    assert reliability([0.5], []).bins[0].observed == 1
