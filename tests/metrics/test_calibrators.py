from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cgcl.metrics.calibration import Knots, Line, Sample, log_odds_of, probability_of, softplus
from cgcl.metrics.calibrators import (
    METHODS,
    BentLine,
    Place,
    _BentLoss,
    _best,
    _grouped,
    _knots,
    _LineLoss,
    entropy,
    fit_calibration,
    fit_platt,
    fit_temperature,
    log_loss_at,
    newton,
    unexplained,
)


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


def bent(data: Sample, prior: float = 0.01) -> Knots:
    return BentLine(data, prior).curve()


def test_a_bent_line_promises_as_many_links_as_there_are() -> None:
    """Where the offset fits best, the probabilities of all pairs sum to the number of links."""
    data = gaussians(1, 80, 4000)
    prior = 80.5 / 4081  # half a link joins the lowest logit, half another pair the highest
    logits = np.concatenate([data.links, data.others])
    odd = np.array([min(data.others), max(data.links)])
    said = [probability_of(bent(data, prior).log_ratio(at), prior) for at in (logits, odd)]
    assert said[0].sum() + said[1].sum() / 2 == pytest.approx(80.5, abs=0.1)


def bending(seed: int) -> tuple[Sample, float, float]:
    """A sample whose log ratio rises by 2 up to a logit of 1 and by 0.3 above, with an offset.

    Returns the sample, the base rate and the offset.
    """
    random = np.random.default_rng(seed)
    logits = random.normal(-1, 1, 50_000)
    chance = probability_of(truth(logits), 0.01)
    is_link = random.random(logits.size) < chance
    data = Sample(logits[is_link], logits[~is_link], np.ones((~is_link).sum()))
    prior = float(chance.mean())
    return data, prior, log_odds_of(0.01) - log_odds_of(prior)


def truth(logits: np.ndarray) -> np.ndarray:
    return 2 * np.minimum(logits, 1) + 0.3 * np.maximum(logits - 1, 0)


def test_a_bend_is_found_where_links_show_it() -> None:
    data, prior, offset = bending(0)
    at = np.array([-1.0, 0.0, 1.0, 1.5, 2.0])
    found = bent(data, prior).log_ratio(at)
    assert found == pytest.approx(truth(at) + offset, abs=0.4)
    assert (np.diff(found) > 0).all()


def test_knots_lie_where_links_do_and_leave_four_beyond() -> None:
    # 100 links: from the middle, log(25) = 3.2 in three steps to either side.
    data = sample(list(range(100)), [-1.0, 5.0])
    ranks = [1 / (1 + math.exp(-math.log(25) * step / 3)) for step in range(-3, 4)]
    assert bent(data).logits == pytest.approx([99 * rank for rank in ranks])
    assert bent(sample([3, 3, 4], [1, 2])).logits == (3.5,)


def test_other_pairs_in_groups_are_as_many_and_as_high_as_before() -> None:
    plain = gaussians(3, 30, 50_000)
    weights = np.random.default_rng(0).uniform(0.5, 40, 50_000)
    logits, grouped = _grouped(Sample(plain.links, plain.others, weights))
    assert logits.size < 1000
    assert (np.diff(logits) < 0).all()
    assert logits[:100].tolist() == pytest.approx(np.sort(plain.others)[::-1][:100].tolist())
    assert grouped.sum() == pytest.approx(weights.sum())
    assert logits @ grouped == pytest.approx(plain.others @ weights)


def test_weights_count_as_so_many_pairs() -> None:
    weighted = bent(sample([0, 2], [-2, -1, 1], [1, 3, 1]))
    repeated = bent(sample([0, 2], [-2, -1, -1, -1, 1]))
    assert weighted.log_ratios == pytest.approx(repeated.log_ratios)
    assert weighted.above == pytest.approx(repeated.above)


@settings(max_examples=20, deadline=None)
@given(st.floats(0.01, 100))
def test_a_bent_line_does_not_depend_on_the_scale_of_the_weights(factor: float) -> None:
    plain = gaussians(0, 30, 60)
    scaled = bent(Sample(plain.links, plain.others, factor * plain.weights))
    assert scaled.log_ratios == pytest.approx(bent(plain).log_ratios, abs=1e-6)


def test_a_bent_line_goes_by_the_slope_of_its_loss() -> None:
    data = gaussians(8, 30, 90)
    loss = _BentLoss(_knots(data.links), data, 0.02)
    point = np.random.default_rng(0).normal(0, 0.5, loss.start.size)
    here = loss.at(point)
    for axis, step in enumerate(1e-6 * np.eye(point.size)):
        rise = (loss.at(point + step).value - loss.at(point - step).value) / 2e-6
        assert here.slope[axis] == pytest.approx(rise, rel=1e-5, abs=1e-5)
    best = newton(loss)
    assert best.slope == pytest.approx(0, abs=1e-5)
    assert (np.linalg.eigvalsh(best.bend) > 0).all()


@pytest.mark.parametrize("is_straight", [True, False])
def test_the_margin_covers_the_truth_about_as_often_as_it_says(is_straight: bool) -> None:
    """95 times of 100, and a little less often at a sharp bend, which is rounded off."""
    at = np.array([-2.0, -1.0, 0.0, 1.0, 2.0, 3.0])
    held: list[np.ndarray] = []
    for seed in range(60):
        if is_straight:
            data, prior, true = gaussians(seed, 200, 20_000), 0.01, 2 * at
        else:
            data, prior, offset = bending(seed)
            true = truth(at) + offset
        fit = BentLine(data, prior)
        held.append(np.abs(fit.curve().log_ratio(at) - true) <= fit.margin().at(at))
    assert np.mean(held) >= 0.93
    assert (np.mean(held, axis=0) >= 0.75).all()


def test_the_margin_is_wide_where_links_are_few() -> None:
    def width(links: int, at: float) -> float:
        return float(BentLine(gaussians(2, links, 20_000), 0.01).margin().at(np.array([at]))[0])

    assert width(400, 1.0) < width(400, 3.5)
    # Four times the links halve it.
    assert width(1600, 1.0) == pytest.approx(width(400, 1.0) / 2, rel=0.25)


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
        belief = (line.slope - 1) ** 2 / 2 + line.offset**2 / 200
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
    loss = _LineLoss(data, (0.5, prior), size)

    def value(point: np.ndarray) -> float:
        line = Line(*point.tolist())
        fit = (unexplained(line, data, 0.5) + unexplained(line, data, prior)) / 2
        return 30 * fit + (line.slope - 1) ** 2 / 2 + line.offset**2 / 200

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
    at = _LineLoss.at

    def spy(self: _LineLoss, point: np.ndarray) -> Place:
        looked.append(point)
        return at(self, point)

    monkeypatch.setattr(_LineLoss, "at", spy)
    for seed in range(8):
        plain = gaussians(seed, 300, 20_000, scale=0.05)
        weights = np.random.default_rng(seed).choice([1.0, 35.0], 20_000)
        data = Sample(plain.links + 0.1, plain.others + 0.1, weights)
        for size, fit in ((1, fit_temperature), (2, fit_platt)):
            looked.clear()
            line = fit(data, (0.5, 0.0002))
            assert len(looked) <= 6
            point = np.array([line.slope, line.offset][:size])
            end = at(_LineLoss(data, (0.5, 0.0002), size), point)
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
    # Ten links are too few for bends: of the straight lines the better one is kept.
    lines = fit_calibration(gaussians(5, 10, 4000, scale=2.0), 0.01, 0)
    assert set(lines.losses) == {"temperature", "platt"}
    random = np.random.default_rng(5)
    # Links only above 0, spread evenly; a tail of others goes as far.
    stepped = Sample(
        random.uniform(0, 20, 400),
        np.concatenate([random.normal(-5, 1, 20_000), random.uniform(0, 20, 400)]),
        np.ones(20_400),
    )
    steps = fit_calibration(stepped, 0.01, 0)
    assert steps.method == "bent"
    assert set(steps.losses) == set(METHODS)
    for found in (lines, steps):
        kept = found.losses[found.method]["unexplained"]
        assert kept == min(loss["unexplained"] for loss in found.losses.values())
    assert not steps.notes


def test_a_bent_line_is_kept_unless_another_is_ahead_by_more_than_chance() -> None:
    shares = {"platt": np.array([0.50, 0.52, 0.48]), "bent": np.array([0.51, 0.51, 0.49])}
    # Behind by 0.01, -0.01 and 0.01: 0.0033 on the mean, with a standard error of 0.0067.
    assert _best(shares, "temperature") == "bent"
    # Behind by 0.01 on each fold: no chance in that.
    assert _best({**shares, "bent": shares["platt"] + 0.01}, "temperature") == "platt"
    assert _best({"platt": shares["platt"], "temperature": shares["bent"]}, "platt") == "platt"
    assert _best({}, "temperature") == "temperature"


def test_recorded_losses_are_those_of_pairs_that_were_not_fitted() -> None:
    data = gaussians(6, 40, 200)
    found = fit_calibration(data, 0.1, 0)
    seen = log_loss_at(bent(data, 0.1), data, 0.5)
    assert found.losses["bent"]["even_odds"] > seen
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
        interval = found.interval([0.0])
        assert interval is not None
        assert interval[1] > 2 * interval[0]


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
def test_every_fit_is_finite_and_rises_everywhere_or_nowhere(
    links: list[float], others: list[float]
) -> None:
    data = sample(links, others)
    logits = np.linspace(-25, 25, 101)
    for fit in METHODS.values():
        curve = fit(data, (0.5, 0.01))
        rises = np.diff(curve.log_ratio(logits))
        assert np.isfinite(rises).all()
        assert (rises > 0).all() or (curve == Line(0.0) and (rises == 0).all())
    found = fit_calibration(data, 0.01, 0)
    probability, interval = found.probability(logits), found.interval(logits)
    assert interval is not None
    assert ((probability > 0) & (probability <= 1)).all()
    assert ((interval[0] <= probability) & (probability <= interval[1])).all()
    assert ((interval >= 0) & (interval <= 1)).all()
