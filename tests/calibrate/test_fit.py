from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.isotonic import isotonic_regression

from cgcl.calibrate import METHODS, Line, Sample, Steps, fit_calibration, lines
from cgcl.calibrate.isotonic import MAX_KNOTS, fit_isotonic
from cgcl.calibrate.lines import fit_platt, fit_temperature
from cgcl.calibrate.losses import entropy, log_loss_at, unexplained
from cgcl.calibrate.sample import softplus


def sample(links: list[float], others: list[float], weights: list[float] | None = None) -> Sample:
    weight = np.ones(len(others)) if weights is None else np.array(weights, dtype=float)
    return Sample(np.array(links, dtype=float), np.array(others, dtype=float), weight)


def gaussians(seed: int, num_links: int, num_others: int, scale: float = 1.0) -> Sample:
    """Links around +1, others around -1, both of width 1: the true ratio is 2 s / scale."""
    random = np.random.default_rng(seed)
    return Sample(
        scale * random.normal(1, 1, num_links),
        scale * random.normal(-1, 1, num_others),
        np.ones(num_others),
    )


def test_isotonic_ratios_by_hand() -> None:
    # Half a link joins the lowest logit, half another pair the highest. Pools, low to high:
    # {-2, -1}: 0.5 links, 2 others; {0, 1}: 1 link, 1 other; {2}: 1 link, 0.5 others.
    found = fit_isotonic(sample([0, 2], [-2, -1, 1]))
    mass = [(0.5, 2.0), (1.0, 1.0), (1.0, 0.5)]
    expected = [math.log(link / 2.5) - math.log(other / 3.5) for link, other in mass]
    assert found.log_ratios == pytest.approx(expected)
    assert found.logits == pytest.approx((-1.5, 1.0, 2.0))


def test_a_small_rise_is_a_rise() -> None:
    # Half a link joins logit 0, half another pair joins logit 1.
    found = fit_isotonic(sample([0, 1, 1], [0] * 4 + [1] * 4))
    low, high = math.log(1.5 / 3.5 / (4 / 8.5)), math.log(2 / 3.5 / (4.5 / 8.5))
    assert found.logits == (0.0, 1.0)
    assert found.log_ratios == pytest.approx((low, high))


def test_pairs_of_the_same_score_share_a_ratio() -> None:
    found = fit_isotonic(sample([1, 1], [1, 1, 1]))
    assert found == Steps((1.0,), (0.0,))


def test_weights_count_as_so_many_pairs() -> None:
    weighted = fit_isotonic(sample([0, 2], [-2, -1, 1], [1, 3, 1]))
    repeated = fit_isotonic(sample([0, 2], [-2, -1, -1, -1, 1]))
    assert weighted.logits == pytest.approx(repeated.logits)
    assert weighted.log_ratios == pytest.approx(repeated.log_ratios)


@given(st.floats(0.01, 100))
def test_isotonic_ratios_do_not_depend_on_the_scale_of_the_weights(factor: float) -> None:
    plain = gaussians(0, 30, 60)
    scaled = fit_isotonic(Sample(plain.links, plain.others, factor * plain.weights))
    assert scaled.log_ratios == pytest.approx(fit_isotonic(plain).log_ratios)


@given(
    st.lists(st.integers(-6, 6), min_size=1, max_size=40),
    st.lists(st.tuples(st.integers(-6, 6), st.integers(1, 4)), min_size=1, max_size=60),
)
def test_pools_are_those_of_isotonic_regression(
    links: list[int], others: list[tuple[int, int]]
) -> None:
    data = sample(list(links), [at for at, _ in others], [weight for _, weight in others])
    found = fit_isotonic(data)
    # Half a pair of the other kind joins both ends, as the curve has it.
    ends = min(data.links.min(), data.others.min()), max(data.links.max(), data.others.max())
    highest = data.weights[data.others.argmax()]
    link_mass, other_mass = dict.fromkeys([*links, *data.others.tolist()], 0.0), {}
    other_mass |= link_mass
    for at, mass in [*((link, 1.0) for link in links), (ends[0], 0.5)]:
        link_mass[at] += mass / (len(links) + 0.5)
    total = data.weights.sum() + 0.5 * highest
    for at, mass in [*others, (ends[1], 0.5 * highest)]:
        other_mass[at] += mass / total
    values = sorted(link_mass)
    y = np.array([link_mass[at] for at in values])
    weight = y + np.array([other_mass[at] for at in values])
    level = isotonic_regression(y / weight, sample_weight=weight)
    # Each value's level is that of the knot of its pool: l / (1 - l) is the ratio.
    expected = np.log(level) - np.log1p(-level)
    distinct = [expected[0]]
    for ratio in expected[1:]:
        if ratio > distinct[-1] + 1e-9:
            distinct.append(ratio)
    assert sorted({round(ratio, 9) for ratio in found.log_ratios}) == pytest.approx(
        distinct, abs=1e-8
    )


def test_an_isotonic_curve_stays_small() -> None:
    # Ever denser links give a pool to nearly every one of them.
    links = np.arange(1.0, 1001.0)
    others = np.repeat(links - 0.5, 1001 - np.arange(1, 1001))
    found = fit_isotonic(Sample(links, others, np.ones(others.size)))
    assert 100 < len(found.logits) <= MAX_KNOTS
    assert np.all(np.diff(found.logits) > 0)
    assert np.all(np.diff(found.log_ratios) >= 0)


@pytest.mark.parametrize("scale", [0.5, 1.0, 4.0])
def test_every_method_finds_the_ratio_of_two_gaussians(scale: float) -> None:
    data = gaussians(1, 4000, 8000, scale)
    at = scale * np.array([-1.0, 0.0, 1.0])
    for fit in METHODS.values():
        assert fit(data, (0.5, 0.1)).log_ratio(at) == pytest.approx([-2, 0, 2], abs=0.3)


def test_platt_finds_an_offset_that_temperature_cannot() -> None:
    data = gaussians(2, 4000, 8000)
    moved = Sample(data.links + 3, data.others + 3, data.weights)
    line = fit_platt(moved, (0.5,))
    assert line.slope == pytest.approx(2, abs=0.15)
    assert line.offset == pytest.approx(-6, abs=0.4)
    assert fit_temperature(moved, (0.5,)).offset == 0


def test_newtons_point_is_the_lowest_around() -> None:
    data = gaussians(3, 200, 400)
    priors = (0.5, 0.01)

    def value(line: Line) -> float:
        belief = (line.slope - 1) ** 2 / 2 + line.offset**2 / 8
        fit = np.mean([unexplained(line, data, prior) for prior in priors])
        return float(200 * fit + belief)

    best = fit_platt(data, priors)
    for slope, offset in ((1e-3, 0), (-1e-3, 0), (0, 1e-3), (0, -1e-3)):
        assert value(Line(best.slope + slope, best.offset + offset)) > value(best)


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("prior", [0.5, 0.001])
def test_newton_goes_by_the_slope_and_the_bend_of_what_is_unexplained(
    size: int, prior: float
) -> None:
    random = np.random.default_rng(8)
    plain = gaussians(8, 30, 90)
    data = Sample(plain.links, plain.others, random.uniform(0.1, 50, 90))
    loss = lines._Loss(data, (0.5, prior), size)

    def value(point: np.ndarray) -> float:
        line = Line(*point.tolist())
        fit = (unexplained(line, data, 0.5) + unexplained(line, data, prior)) / 2
        return 30 * fit + (line.slope - 1) ** 2 / 2 + line.offset**2 / 8

    point = np.array([1.7, -0.4])[:size]
    here = loss.at(point)
    assert here.value == pytest.approx(value(point))
    for axis, step in enumerate(1e-5 * np.eye(size)):
        rise = (value(point + step) - value(point - step)) / 2e-5
        turn = (loss.at(point + step).slope - loss.at(point - step).slope) / 2e-5
        assert here.slope[axis] == pytest.approx(rise, rel=1e-6)
        assert here.bend[axis] == pytest.approx(turn, rel=1e-6)


def test_newton_is_not_kept_busy_by_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Near the end a step changes the sum by less than its own rounding; it is taken as it is."""
    looked: list[np.ndarray] = []
    at = lines._Loss.at

    def spy(self: lines._Loss, point: np.ndarray) -> lines._Place:
        looked.append(point)
        return at(self, point)

    monkeypatch.setattr(lines._Loss, "at", spy)
    for seed in range(8):
        plain = gaussians(seed, 300, 20_000, scale=0.05)
        weights = np.random.default_rng(seed).choice([1.0, 35.0], 20_000)
        data = Sample(plain.links + 0.1, plain.others + 0.1, weights)
        for size, fit in ((1, fit_temperature), (2, fit_platt)):
            looked.clear()
            line = fit(data, (0.5, 0.0002))
            assert len(looked) <= 6
            point = np.array([line.slope, line.offset][:size])
            end = at(lines._Loss(data, (0.5, 0.0002), size), point)
            assert np.linalg.solve(end.bend, end.slope) == pytest.approx(0, abs=1e-9)


def test_softplus_is_exact_at_every_size() -> None:
    values = np.concatenate([[-1e300, -800.0, 800.0, 1e300], np.linspace(-60, 60, 5001)])
    expected = np.logaddexp(0.0, values)
    assert softplus(torch.tensor(values)).numpy() == pytest.approx(expected, rel=1e-15, abs=0)


def test_scores_that_are_upside_down_say_nothing() -> None:
    data = gaussians(4, 500, 500)
    inverted = Sample(data.others, data.links, data.weights)
    assert fit_platt(inverted, (0.5,)) == Line(0.0)
    assert fit_temperature(inverted, (0.5,)) == Line(0.0)
    found = fit_calibration(inverted, 0.01, 0)
    assert found.probability([-5.0, 5.0]) == pytest.approx([0.01, 0.01], rel=0.5)
    few = fit_calibration(Sample(inverted.links[:10], inverted.others, data.weights), 0.01, 0)
    assert any("do not mean likelier" in note for note in few.notes)


def test_losses_by_hand() -> None:
    data = sample([1.0], [0.0, 2.0], [3.0, 1.0])
    loss = log_loss_at(Line(1.0), data, 0.5)
    alarms = (3 * math.log(2) + math.log(1 + math.exp(2))) / 4
    assert loss == pytest.approx(0.5 * math.log(1 + math.exp(-1)) + 0.5 * alarms)
    assert entropy(0.5) == pytest.approx(math.log(2))
    # A ratio of one at every score is what the base rate alone says.
    assert unexplained(Line(0.0), data, 0.01) == pytest.approx(1)


def test_the_best_method_on_held_out_folds_is_kept() -> None:
    # A line is the truth here, and beats steps; steps are the truth there, and beat a line.
    lines = fit_calibration(gaussians(5, 60, 4000), 0.01, 0)
    assert lines.method in ("platt", "temperature")
    random = np.random.default_rng(5)
    # Links only above 0, spread evenly; a tail of others goes as far.
    stepped = Sample(
        random.uniform(0, 20, 400),
        np.concatenate([random.normal(-5, 1, 20_000), random.uniform(0, 20, 400)]),
        np.ones(20_400),
    )
    steps = fit_calibration(stepped, 0.01, 0)
    assert steps.method == "isotonic"
    assert set(steps.losses) == set(METHODS)
    for found in (lines, steps):
        kept = found.losses[found.method]["unexplained"]
        assert kept == min(loss["unexplained"] for loss in found.losses.values())
        assert not found.notes


def test_recorded_losses_are_those_of_pairs_that_were_not_fitted() -> None:
    data = gaussians(6, 40, 200)
    found = fit_calibration(data, 0.1, 0)
    seen = log_loss_at(fit_isotonic(data), data, 0.5)
    assert found.losses["isotonic"]["even_odds"] > seen
    shares = found.losses["platt"]
    mean = (shares["even_odds"] / entropy(0.5) + shares["base_rate"] / entropy(0.1)) / 2
    assert shares["unexplained"] == pytest.approx(mean)


def test_the_same_seed_gives_the_same_calibration() -> None:
    data = gaussians(7, 50, 500)
    assert fit_calibration(data, 0.01, 3) == fit_calibration(data, 0.01, 3)
    assert fit_calibration(data, 0.01, 3).losses != fit_calibration(data, 0.01, 4).losses


@pytest.mark.parametrize("num_links", [1, 2, 5])
def test_a_handful_of_links_still_gives_something_sane_and_says_so(num_links: int) -> None:
    for seed in range(5):
        data = gaussians(seed, num_links, 1000)
        found = fit_calibration(data, 0.001, seed)
        assert found.method in ("temperature", "platt")
        assert isinstance(found.curve, Line)
        assert 0 < found.curve.slope < 5
        assert abs(found.curve.offset) < 10
        assert f"Only {num_links} validation link" in found.notes[0]
        assert 0 < found.probability([0.0])[0] < 0.1


def test_links_far_above_all_others_give_no_infinite_ratio() -> None:
    data = sample([10.0 + i for i in range(30)], [-10.0 - i for i in range(50)])
    for fit in METHODS.values():
        ratios = fit(data, (0.5, 0.01)).log_ratio(np.array([-100.0, 0.0, 100.0]))
        assert np.isfinite(ratios).all()
        assert ratios[0] < 0 < ratios[2]


def test_counts_say_what_the_fit_rests_on() -> None:
    found = fit_calibration(sample([1, 2], [0, 0.5], [10, 90]), 0.01, 0)
    assert found.counts == {"links": 2, "non_links": 2, "unknown_pairs": 102}
    assert found.prior == 0.01


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.floats(-20, 20, width=32), min_size=1, max_size=40),
    st.lists(st.floats(-20, 20, width=32), min_size=1, max_size=40),
)
def test_every_fit_is_finite_and_never_falls(links: list[float], others: list[float]) -> None:
    data = sample(links, others)
    logits = np.linspace(-25, 25, 101)
    for fit in METHODS.values():
        ratios = fit(data, (0.5, 0.01)).log_ratio(logits)
        assert np.isfinite(ratios).all()
        assert (np.diff(ratios) >= 0).all()
    probability = fit_calibration(data, 0.01, 0).probability(logits)
    assert ((probability > 0) & (probability <= 1)).all()
