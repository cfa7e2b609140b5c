from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cgcl.errors import ConfigError, ModelFileError
from cgcl.metrics.calibration import (
    Calibration,
    Knots,
    Line,
    Margin,
    Sample,
    expected_calibration_error,
    log_loss,
    log_odds_of,
    reliability_curve,
    softplus,
    wilson_interval,
)
from cgcl.metrics.calibrators import fit_calibration

COUNTS = {"links": 2, "non_links": 3, "unknown_pairs": 100}
LOGITS = st.floats(-50, 50)
PRIORS = st.floats(1e-9, 1 - 1e-9)
SLOPES = st.floats(0, 5)
WIDTHS = st.floats(0.05, 2)


def calibration(curve: Line | Knots, prior: float = 0.5) -> Calibration:
    return Calibration(method_of(curve), curve, prior, {}, COUNTS)


def method_of(curve: Line | Knots) -> str:
    return "platt" if isinstance(curve, Line) else "bent"


@st.composite
def curves(draw: st.DrawFn) -> Line | Knots:
    if draw(st.booleans()):
        return Line(draw(st.floats(0, 5)), draw(LOGITS))
    logits = sorted(draw(st.lists(LOGITS, min_size=1, max_size=8, unique=True)))
    size = len(logits)
    ratios = sorted(draw(st.lists(LOGITS, min_size=size, max_size=size)))
    return Knots(tuple(logits), tuple(ratios), *draw(st.tuples(SLOPES, SLOPES)))


@st.composite
def rising(draw: st.DrawFn) -> Line | Knots:
    """A curve as they are fitted: every piece rises."""
    steps = draw(st.lists(st.tuples(WIDTHS, WIDTHS), max_size=8))
    slopes = draw(st.tuples(WIDTHS, WIDTHS))
    if not steps:
        return Line(slopes[0], draw(LOGITS))
    logits = np.cumsum([draw(st.floats(-5, 5)), *(step for step, _ in steps)])
    ratios = np.cumsum([draw(st.floats(-5, 5)), *(step * slope for step, slope in steps)])
    return Knots(tuple(logits.tolist()), tuple(ratios.tolist()), *slopes)


def test_probability_by_hand() -> None:
    # g(2) = 0.5 * 2 + 1 = 2; at base rate 1/5 the log odds are 2 - log 4.
    found = calibration(Line(0.5, 1.0), prior=0.2)
    assert found.probability([2.0])[0] == pytest.approx(1 / (1 + 4 * math.exp(-2)))
    assert found.probability([2.0], prior=0.5)[0] == pytest.approx(1 / (1 + math.exp(-2)))
    of_tensor = calibration(Line(1.0)).probability(torch.zeros(2, 3))
    assert of_tensor.dtype == np.float64
    assert of_tensor.tolist() == [[0.5] * 3] * 2


@pytest.mark.parametrize(
    ("knots", "logits", "log_ratios"),
    [
        (Knots((1.0,), (2.0,)), [-5.0, 5.0], [2, 2]),
        (Knots((0.0, 2.0), (-1.0, 1.0), 2.0, 0.5), [-3.0, 0.0, 1.0, 2.0, 6.0], [-7, -1, 0, 1, 3]),
        (Knots((1.0,), (2.0,), 1.0, 0.1), [-1.0, 1.0, 11.0], [0, 2, 3]),
    ],
)
def test_knots_are_joined_by_lines_and_go_on_with_their_slopes_beyond(
    knots: Knots, logits: list[float], log_ratios: list[float]
) -> None:
    assert knots.log_ratio(np.array(logits)).tolist() == pytest.approx(log_ratios)
    assert np.isfinite(knots.log_ratio(np.array([-math.inf, math.inf]))).all()


@given(rising(), st.floats(1e-6, 0.5), st.lists(st.integers(-8000, 8000), min_size=2, unique=True))
def test_where_scores_differ_probabilities_differ(
    curve: Line | Knots, prior: float, thousandths: list[int]
) -> None:
    logits = np.sort(np.array(thousandths) / 1000)
    found = calibration(curve, prior)
    assert (np.diff(curve.log_ratio(logits)) > 0).all()
    probability = found.probability(logits)
    # Within 10^-9 of certainty, the numbers between 0 and 1 are too few.
    apart = probability[probability < 1 - 1e-9]
    assert (np.diff(apart) > 0).all()
    assert (probability <= 1).all()


def test_the_softplus_is_exact_to_the_last_bit() -> None:
    assert softplus(torch.tensor(25.0, dtype=torch.float64)).item() == 25 + math.exp(-25)
    assert softplus(torch.tensor(1000.0, dtype=torch.float64)).item() == 1000


def test_log_odds_are_infinite_for_what_is_certain() -> None:
    assert (log_odds_of(0), log_odds_of(1)) == (-math.inf, math.inf)
    assert log_odds_of(0.8) == pytest.approx(math.log(4))


def test_an_interval_by_hand() -> None:
    # At 1 the margin is halfway between 1 and 3; log odds 2 - 2 and 2 + 2.
    found = replace(calibration(Line(2.0)), margin=Margin((0.0, 2.0), (1.0, 3.0)))
    low, high = found.interval([1.0, 9.0], prior=0.5)
    assert (low[0], high[0]) == pytest.approx((0.5, 1 / (1 + math.exp(-4))))
    # Beyond the ends it stays as wide as it was.
    assert (low[1], high[1]) == pytest.approx((1 / (1 + math.exp(-15)), 1 / (1 + math.exp(-21))))
    assert found.interval(torch.zeros(2, 3)).shape == (2, 2, 3)
    assert calibration(Line(2.0)).interval([1.0]) is None


def test_calibrations_of_earlier_versions_answer_as_they_did() -> None:
    """Isotonic regression, constant beyond both ends, and no margin."""
    stored = {
        "method": "isotonic",
        "curve": {"logits": [0.0, 2.0, 3.0], "log_ratios": [-1.0, 1.0, 5.0]},
        "prior": 0.5,
        "losses": {},
        "counts": COUNTS,
        "shift": None,
        "notes": [],
    }
    found = Calibration.from_json(stored)
    ratios = found.curve.log_ratio(np.array([-9.0, 0.5, 2.5, 9.0]))
    assert ratios.tolist() == pytest.approx([-1, -0.5, 3, 5])
    assert found.interval([0.0]) is None
    assert Calibration.from_json(found.to_json()) == found


@given(curves(), PRIORS, st.lists(LOGITS, min_size=2, max_size=20))
def test_probability_never_falls_as_the_logit_rises(
    curve: Line | Knots, prior: float, logits: list[float]
) -> None:
    found = calibration(curve).probability(sorted(logits), prior)
    assert (found > 0).all()
    assert (found <= 1).all()
    # numpy's exp may err in the last place.
    assert (np.diff(found) >= -1e-15).all()
    assert (np.diff(curve.log_ratio(np.sort(logits))) >= 0).all()


@settings(deadline=None)
@given(curves(), PRIORS, st.floats(0, 1))
def test_the_logit_for_a_probability_is_the_smallest_that_reaches_it(
    curve: Line | Knots, prior: float, probability: float
) -> None:
    own, given = calibration(curve, prior), calibration(curve)
    logit = own.logit_for(probability)
    assert given.logit_for(probability, prior) == logit
    if logit == math.inf:
        assert own.probability([1e9])[0] < probability
        return
    assert own.probability([max(logit, -1e9)])[0] >= probability
    if logit > -math.inf:
        assert own.probability([math.nextafter(logit, -math.inf)])[0] < probability


def test_certainty_and_what_every_logit_reaches_have_a_logit_too() -> None:
    certain = calibration(Line(1.0)).logit_for(1.0)
    assert calibration(Line(1.0)).probability([certain])[0] == 1
    assert 30 < certain < 40
    says_nothing = calibration(Line(0.0))
    assert says_nothing.logit_for(0.5) == -math.inf
    assert says_nothing.logit_for(0.51) == math.inf


@pytest.mark.parametrize("prior", [0, 1, -0.1, 1.5, math.nan, math.inf, True])
def test_a_base_rate_outside_its_range_is_refused(prior: float) -> None:
    found = calibration(Line(1.0))
    for ask in (
        lambda: found.probability([0.0], prior),
        lambda: found.logit_for(0.5, prior),
        lambda: fit_calibration(Sample(np.ones(2), np.zeros(2), np.ones(2)), prior, 0),
    ):
        with pytest.raises(ConfigError, match="base rate"):
            ask()


@pytest.mark.parametrize("probability", [-0.1, 1.1, math.nan])
def test_a_probability_to_reach_outside_its_range_is_refused(probability: float) -> None:
    with pytest.raises(ConfigError, match="between 0 and 1"):
        calibration(Line(1.0)).logit_for(probability)


SHIFT = {
    "expected": 5.5,
    "observed": 5,
    "ratio": 1.1,
    "top": {"pairs": 1000, "expected": 0.5, "observed": 0, "ratio": None},
    "warning": None,
}


@settings(max_examples=30)
@given(
    curves(),
    PRIORS,
    st.sampled_from([None, SHIFT]),
    st.sampled_from([None, Margin((0.0, 1.5), (0.5, 2.0))]),
)
def test_a_calibration_survives_json(
    curve: Line | Knots, prior: float, shift: dict[str, Any] | None, margin: Margin | None
) -> None:
    method = method_of(curve)
    found = Calibration(method, curve, prior, {method: LOST}, COUNTS, shift, ("A note.",), margin)
    text = json.dumps(found.to_json(), allow_nan=False)
    assert Calibration.from_json(json.loads(text)) == found


LOST = {"even_odds": 0.2, "base_rate": 0.001, "unexplained": 0.5}
STEPS = Calibration(
    "isotonic", Knots((0.0, 1.0), (-1.0, 2.0)), 0.01, {"platt": LOST}, COUNTS, SHIFT
).to_json()
BENT = Calibration(
    "bent", Knots((0.0,), (1.0,), 0.5, 0.5), 0.01, {}, COUNTS, margin=Margin((0.0,), (1.0,))
).to_json()
LINE = Calibration("platt", Line(1.0, 2.0), 0.01, {}, COUNTS).to_json()
NUMBERS = [math.nan, math.inf, "1", None, True, [], 10**400]
MAY_BE_ANYTHING_LIKE_IT = ("losses", "notes", "ratio", "warning")


def spoiled(found: Any, name: str = "") -> Iterator[Any]:
    """Yield what is like a stored calibration, but for one thing somewhere in it."""
    if isinstance(found, dict):
        yield {**found, "more": 1}
        for key, value in found.items():
            if key != "margin":  # earlier versions knew of none
                yield {other: own for other, own in found.items() if other != key}
            if key not in MAY_BE_ANYTHING_LIKE_IT and value is not None:
                yield from ({**found, key: wrong} for wrong in spoiled(value, key))
    elif isinstance(found, list):
        yield from ([], [*found, found[-1]], {"0": 1.0})
        yield from ([value, *found[1:]] for value in NUMBERS)
    else:
        yield from NUMBERS[: -1 if name in COUNTS else None]  # a count may be large
        if name in ("prior", "slope", "below", "above", *COUNTS):
            yield -0.1


def points(count: int) -> dict[str, list[float]]:
    numbers = [float(number) for number in range(count)]
    return {"logits": numbers, "log_ratios": numbers}


@pytest.mark.parametrize(
    "found",
    [
        *(None, [], "isotonic", {}, {1: 2}),
        *(wrong for stored in (STEPS, BENT, LINE) for wrong in spoiled(stored)),
        {**STEPS, "method": "platt"},
        {**LINE, "method": "isotonic"},
        {**STEPS, "curve": BENT["curve"]},
        {**BENT, "curve": STEPS["curve"]},
        *({**STEPS, "prior": value} for value in (0, 1, 2.0)),
        {**STEPS, "curve": {"logits": [0.0, 1.0], "log_ratios": [1.0, 0.0]}},
        {**STEPS, "curve": {"logits": [1.0, 0.0], "log_ratios": [0.0, 1.0]}},
        {**STEPS, "curve": {"logits": [1.0, 1.0], "log_ratios": [0.0, 1.0]}},
        {**STEPS, "curve": {"logits": [], "log_ratios": []}},
        {**STEPS, "curve": points(10_001)},
        {**BENT, "margin": {"logits": [0.0], "widths": [-0.1]}},
        {**BENT, "margin": {"logits": [0.0, 1.0], "widths": [-0.1, 0.1]}},
        {**BENT, "counts": {**COUNTS, "links": -1}},
        *({**STEPS, "losses": of} for of in (None, {"a": 1.0}, {"a": {"b": math.nan}})),
        *({**STEPS, "notes": of} for of in ("a note", [1])),
        *({**STEPS, "shift": {**SHIFT, **of}} for of in ({"ratio": "1"}, {"warning": 3})),
    ],
)
def test_nonsense_is_no_calibration(found: Any) -> None:
    with pytest.raises(ModelFileError, match="calibration is damaged"):
        Calibration.from_json(found)


@pytest.mark.parametrize(
    "found",
    [
        STEPS,
        BENT,
        LINE,
        {**LINE, "method": "temperature"},
        {**STEPS, "curve": points(10_000)},
        {**BENT, "margin": {"logits": [0.0], "widths": [0.0]}},
        {**LINE, "counts": dict.fromkeys(COUNTS, 0)},
    ],
)
def test_what_is_rare_but_sound_is_a_calibration(found: Any) -> None:
    assert Calibration.from_json(found).to_json()["counts"] == found["counts"]


LABELS = st.lists(st.tuples(st.floats(0, 1), st.sampled_from([0, 1])), min_size=1, max_size=60)


def test_bins_hold_equal_numbers_of_pairs_and_count_by_their_size() -> None:
    # Three pairs in two bins: (0.1, 0.4) and (0.7); the first counts twice as much.
    found = reliability_curve([0.7, 0.4, 0.1], [0, 1, 0], bins=2)
    assert [bin_.count for bin_ in found] == [2, 1]
    assert [bin_.predicted for bin_ in found] == pytest.approx([0.25, 0.7])
    assert [bin_.observed for bin_ in found] == [0.5, 0.0]
    error = expected_calibration_error([0.7, 0.4, 0.1], [0, 1, 0], bins=2)
    assert error == pytest.approx((2 * 0.25 + 0.7) / 3)


def test_there_are_ten_bins_unless_told() -> None:
    probabilities, labels = np.linspace(0, 1, 30), [0, 1, 0] * 10
    assert len(reliability_curve(probabilities, labels)) == 10
    error = expected_calibration_error(probabilities, labels)
    assert error == expected_calibration_error(probabilities, labels, 10)


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
        ([0.5, 1.5], [1, 1], "0, 1"),
        ([0.5, -0.1], [1, 1], "0, 1"),
        ([0.5], [2], "Labels"),
        ([0.5, 0.5], [1, 2], "Labels"),
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
