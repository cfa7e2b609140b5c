from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from cgcl.metrics import calibrators
from cgcl.metrics.calibration import Knots, Line, Sample, log_odds_of, probability_of
from cgcl.metrics.calibrators import (
    METHODS,
    Kept,
    Place,
    Reservoir,
    _BentLoss,
    _best,
    _folds,
    _grouped,
    _LineLoss,
    entropy,
    fit_bent,
    fit_calibration,
    fit_line,
    log_loss_at,
    newton,
    unexplained,
)
from cgcl.seeds import stream


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
    return fit_bent(data, prior)[0]


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
        curve, margin = fit_bent(data, prior)
        held.append(np.abs(curve.log_ratio(at) - true) <= margin.at(at))
    assert 0.93 <= np.mean(held) <= 0.99
    assert (np.mean(held, axis=0) >= 0.75).all()


def test_the_margin_is_wide_where_links_are_few() -> None:
    def width(links: int, at: float) -> float:
        return float(fit_bent(gaussians(2, links, 20_000), 0.01)[1].at(np.array([at]))[0])

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
    line = fit_line(moved, (0.5,), 2)
    assert line.slope == pytest.approx(2, abs=0.15)
    assert line.offset == pytest.approx(-6, abs=0.4)
    assert fit_line(moved, (0.5,), 1).offset == METHODS["temperature"](moved, (0.5,)).offset == 0
    # Bends are for the graph's own base rate, the last one.
    assert METHODS["bent"](data, (0.5, 0.01)) == bent(data, 0.01)


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
        for size in (1, 2):
            looked.clear()
            line = fit_line(data, (0.5, 0.0002), size)
            assert len(looked) <= 6
            point = np.array([line.slope, line.offset][:size])
            end = at(_LineLoss(data, (0.5, 0.0002), size), point)
            assert np.linalg.solve(end.bend, end.slope) == pytest.approx(0, abs=1e-9)


class Bowl:
    """1 + |p - lowest|^2 in two directions, which is taken for much flatter than it is."""

    start = np.array([0.0, 2.0])

    def __init__(self, lowest: tuple[float, float]) -> None:
        self.lowest = np.array(lowest)

    def at(self, point: np.ndarray) -> Place:
        away = point - self.lowest
        return Place(point, float(1 + away @ away), 2.2 * away, np.eye(2))


@pytest.mark.parametrize("lowest", [(3.0, 5.0), (3.0, 2.0)])
def test_newton_halves_steps_that_make_it_worse_and_finds_the_lowest_place(
    lowest: tuple[float, float],
) -> None:
    # A whole step goes 1.2 times as far beyond, and so would the next.
    assert newton(Bowl(lowest)).point == pytest.approx(np.array(lowest), abs=1e-6)


def check_derivatives(loss: _LineLoss | _BentLoss, point: np.ndarray) -> Place:
    """Compare both derivatives with differences; return the place."""
    place, small = loss.at(point), 1e-5 * np.eye(point.size)
    ahead, behind = [[loss.at(point + sign * d) for d in small] for sign in (1, -1)]
    slope = [(a.value - b.value) / 2e-5 for a, b in zip(ahead, behind, strict=True)]
    bend = [(a.slope - b.slope) / 2e-5 for a, b in zip(ahead, behind, strict=True)]
    assert place.slope == pytest.approx(np.array(slope), rel=1e-6, abs=1e-6)
    if isinstance(loss, _BentLoss):
        # What is negative in them, a push towards steeper pieces, is left out.
        push = place.slope - loss._belief @ point
        bend += np.diag([*np.maximum(-push[:-1], 0), 0])
    assert place.bend == pytest.approx(np.array(bend), rel=1e-6, abs=1e-6)
    return place


def test_what_a_line_leaves_unexplained_and_the_belief_by_hand() -> None:
    data, priors = sample([1.0, 3.0, 0.5], [0.0, 2.0], [3.0, 1.0]), (0.5, 0.01, 0.2)
    place = check_derivatives(_LineLoss(data, priors, 2), np.array([1.5, 4.0]))
    shares = [unexplained(Line(1.5, 4.0), data, prior) for prior in priors]
    # Three links; slope 1 give or take 1, offset 0 give or take 10.
    assert place.value == pytest.approx(3 * np.mean(shares) + (0.5**2 + 0.4**2) / 2)


@pytest.mark.parametrize(
    ("links", "others", "low", "high"),
    [([0.0, 2.0], [-1.0, 1.0], -1.0, 2.0), ([-3.0, 5.0], [4.0, 9.0], -3.0, 9.0)],
)
def test_what_a_bent_line_leaves_unexplained_and_the_belief_by_hand(
    links: list[float], others: list[float], low: float, high: float
) -> None:
    # Two links: one knot, at 1. Half a link at the lowest logit, half another pair at the highest.
    data, (left, right, offset), prior = sample(links, others), (0.3, -0.5, 0.7), 0.1
    place = check_derivatives(
        _BentLoss(np.array([1.0]), data, prior), np.array([left, right, offset])
    )
    assert fit_bent(data, prior)[0].logits == (1.0,)

    def cost(logit: float, sign: int) -> float:
        slope = math.exp(left if logit < 1 else right)
        return math.log1p(math.exp(-sign * (slope * (logit - 1) + offset - math.log(9))))

    found = sum(cost(logit, 1) for logit in links) + cost(low, 1) / 2
    # 2.5 links are a tenth of all pairs, so that 2.5 others stand for 22.5.
    found += 9 * (sum(cost(logit, -1) for logit in others) + cost(high, -1) / 2)
    belief = ((left - right) / 0.7) ** 2 + ((left + right) / 2 / 2.0) ** 2
    assert place.value == pytest.approx(found + belief / 2)


def test_scores_that_are_upside_down_say_nothing() -> None:
    data = gaussians(4, 500, 500)
    inverted = Sample(data.others, data.links, data.weights)
    assert fit_line(inverted, (0.5,), 1) == fit_line(inverted, (0.5,), 2) == Line(0.0)
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


def test_what_is_kept_is_the_calibrator_on_all_pairs_with_its_losses_and_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[dict[str, np.ndarray]] = []

    def best(shares: dict[str, np.ndarray], plainest: str) -> str:
        told.append(shares)
        return _best(shares, plainest)

    monkeypatch.setattr(calibrators, "_best", best)
    plain = gaussians(3, 20, 400)
    data = Sample(plain.links, plain.others, np.full(400, 2.5))
    found = fit_calibration(data, 0.01, 0)
    assert found.counts == {"links": 20, "non_links": 400, "unknown_pairs": 1020}
    assert set(found.losses) == set(METHODS)  # twenty links are enough for bends
    assert found.margin == fit_bent(data, 0.01)[1]
    for name, lost in found.losses.items():
        assert told[0][name].mean() == pytest.approx(lost["unexplained"])
        shares = lost["even_odds"] / entropy(0.5), lost["base_rate"] / entropy(0.01)
        assert sum(shares) / 2 == pytest.approx(lost["unexplained"])
    alone = fit_calibration(sample([1.0], [0.0, 2.0]), 0.01, 0)
    assert (alone.method, alone.losses) == ("temperature", {})


def test_every_pair_is_judged_by_once_and_then_not_fitted_on() -> None:
    data = sample(list(range(11)), list(range(20, 43)))
    folds = _folds(data, 0)
    assert len(folds) == 5
    assert len(_folds(sample([0, 1], [2, 3, 4]), 0)) == 2
    assert _folds(sample([0], [2, 3, 4]), 0) == []
    for side in ("links", "others"):
        judged = np.concatenate([getattr(unseen, side) for _, unseen in folds])
        assert sorted(judged) == sorted(getattr(data, side))
        for parts in folds:
            both = np.concatenate([getattr(part, side) for part in parts])
            assert sorted(both) == sorted(getattr(data, side))


def test_one_link_below_all_other_pairs_does_not_turn_the_scores_round() -> None:
    plain = gaussians(3, 300, 400)
    data = Sample(np.append(plain.links, -9.0), plain.others, plain.weights)
    assert not fit_calibration(data, 0.01, 0).notes


def test_the_best_hundred_count_each_for_itself_and_the_rest_in_groups_of_one_percent() -> None:
    random = np.random.default_rng(0)
    data = Sample(np.ones(1), random.permutation(1000) * 1.0, np.ones(1000))
    logits, weights = _grouped(data)
    groups = [math.floor(100 * math.log(rank / 100)) for rank in range(100, 1000)]
    assert weights.tolist() == [1] * 100 + np.unique(groups, return_counts=True)[1].tolist()
    assert logits[:100] == pytest.approx([999 - rank for rank in range(100)])
    assert (np.diff(logits) < 0).all()
    data = Sample(data.links, data.others, random.uniform(1, 2, 1000))
    logits, weights = _grouped(data)
    assert weights.sum() == pytest.approx(data.weights.sum())
    assert weights @ logits == pytest.approx(data.weights @ data.others)


def test_a_bent_line_is_kept_unless_another_is_ahead_by_more_than_chance() -> None:
    shares = {"platt": np.array([0.50, 0.52, 0.48]), "bent": np.array([0.51, 0.51, 0.49])}
    # Behind by 0.01, -0.01 and 0.01: 0.0033 on the mean, with a standard error of 0.0067.
    assert _best(shares, "temperature") == "bent"
    # Behind by 0.01 on each fold: no chance in that.
    assert _best({**shares, "bent": shares["platt"] + 0.01}, "temperature") == "platt"
    assert _best({**shares, "bent": shares["platt"]}, "temperature") == "bent"
    # Behind by 0.0167 on the mean, with a standard error of 0.0088; by 0.0052 and by 0.0065, with
    # one of 0.0058.
    for behind, kept in (
        ([0.03, 0.0, 0.02], "platt"),
        ([-0.0048, 0.0052, 0.0152], "bent"),
        ([-0.0035, 0.0065, 0.0165], "platt"),
    ):
        assert _best({**shares, "bent": shares["platt"] + behind}, "temperature") == kept
    assert _best({"platt": shares["platt"], "temperature": shares["bent"]}, "platt") == "platt"
    assert _best({}, "temperature") == "temperature"


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


SIDE = st.lists(st.floats(-20, 20, width=32), min_size=1, max_size=40)


@settings(max_examples=20, deadline=None)
@given(SIDE, SIDE)
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


def fill(logits: Tensor, size: int, block: int, total: float) -> tuple[Kept, Reservoir]:
    count = logits.numel()
    reservoir = Reservoir(size, count, stream(0, "test"))
    pairs = torch.stack([count - torch.arange(count), torch.arange(count)])
    for chosen in torch.arange(count).split(block):
        reservoir.offer(pairs[:, chosen], logits[chosen])
    return reservoir.kept(total), reservoir


@given(st.integers(1, 300), st.integers(1, 40), st.integers(1, 100), st.integers(0, 5))
def test_the_best_stay_and_weights_add_up(count: int, size: int, block: int, levels: int) -> None:
    logits = torch.randn(count, generator=stream(count, "logits"))
    if levels:  # ties
        logits = (logits * levels).round()
    kept, _ = fill(logits, size, block, total=7.0 * count)
    places = kept.pairs[1]
    assert places.unique().numel() == places.numel()
    assert torch.equal(kept.pairs[0], count - places)
    assert torch.equal(kept.logits, logits[places])
    best = min(count, size)
    assert torch.equal(
        kept.logits.sort(descending=True).values[:best], logits.sort(descending=True).values[:best]
    )
    if count <= 2 * size:
        assert places.numel() == count
    # With a few coins it may happen that none of the rest is kept.
    if places.numel() > size or count <= size:
        assert float(kept.weights.sum()) == pytest.approx(7.0 * count)


def test_the_rest_is_sampled_fairly() -> None:
    logits = torch.arange(20_000).float()
    kept, _ = fill(logits, 1000, 512, total=20_000)
    rest = kept.logits[kept.weights > 1]
    assert 850 < rest.numel() < 1050
    assert kept.weights.max() == pytest.approx(19_000 / rest.numel())
    assert float(rest.mean()) == pytest.approx(9500, rel=0.05)
    # What is known of all pairs can be told from those that were kept.
    assert float(kept.weights @ (kept.logits > 15_000).double()) == pytest.approx(5000, rel=0.1)


def test_up_to_twice_the_size_all_stay_and_beyond_it_not() -> None:
    logits = torch.randn(21, generator=stream(0, "logits"))
    assert fill(logits[:20], 10, 7, total=20)[0].logits.numel() == 20
    assert fill(logits, 10, 7, total=21)[0].logits.numel() < 21
    nothing, _ = fill(logits[:0], 10, 7, total=0)
    assert nothing.logits.numel() == nothing.weights.numel() == 0


def test_the_same_seed_keeps_the_same_pairs() -> None:
    logits = torch.randn(500, generator=stream(0, "logits"))
    one, other = (fill(logits, 20, 100, total=500)[0] for _ in range(2))
    assert torch.equal(one.pairs, other.pairs)


def test_memory_does_not_grow_with_better_scores() -> None:
    reservoir = Reservoir(10, 5000, stream(0, "test"))
    for start in range(0, 5000, 7):
        nodes = torch.arange(start, start + 7)
        reservoir.offer(nodes.expand(2, -1), nodes.float())
        assert reservoir._best[1].numel() <= 20


def test_memory_does_not_grow_with_equal_scores() -> None:
    _, reservoir = fill(torch.zeros(5000), 10, 50, total=5000)
    assert reservoir._best[1].numel() == 10
    assert sum(logits.numel() for _, logits in reservoir._random) < 50
