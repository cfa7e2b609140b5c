import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from cgcl.errors import TrainingError
from cgcl.graph import Graph
from cgcl.methods.method import Learner, PairScorer, TrainingGraph
from cgcl.methods.scoring import decode_pairs, embed
from cgcl.metrics.calibration import Calibration, Line, Sample
from cgcl.metrics.calibrators import Kept
from cgcl.model import symmetric
from cgcl.seeds import stream
from cgcl.split import Split, random_split
from cgcl.train import calibrating
from cgcl.train.calibrating import _measure_shift, calibrate, pairs_to_score, validation_sample
from cgcl.train.config import RunConfig
from cgcl.train.trainer import build_learner

NODES = 40


@pytest.fixture
def x() -> torch.Tensor:
    return torch.randn(NODES, 5, generator=stream(0, "features"))


@pytest.fixture
def model() -> Learner:
    return build_learner(5, RunConfig.of("cgcl", {"hidden": 8}))


def scoring(model: Learner, x: torch.Tensor) -> Callable[[torch.Tensor], PairScorer]:
    return lambda links: model.scorer(TrainingGraph(len(x), links, x))


def sample_of(model: Learner, x: torch.Tensor, split: Split) -> tuple[Sample, Kept] | None:
    return validation_sample(scoring(model, x)(split.train), split, seed=0)


def make_split(*, sides: bool = False, seed: int = 0) -> Split:
    random = stream(seed, "links")
    pairs = torch.combinations(torch.arange(NODES), 2)
    if sides:
        pairs = pairs[(pairs[:, 0] < 15) & (pairs[:, 1] >= 15)]
    chosen = pairs[torch.randperm(len(pairs), generator=random)[:200]]
    graph = Graph.from_pairs(
        "test",
        [f"n{i:02}" for i in range(NODES)],
        chosen.T.contiguous(),
        sides=torch.arange(NODES) >= 15 if sides else None,
    )
    return random_split(graph, 0.2, 0.1, seed)


def codes(pairs: torch.Tensor) -> set[int]:
    return set((pairs[0] * NODES + pairs[1]).tolist())


def known(split: Split) -> set[int]:
    return codes(torch.cat([split.train, split.val, split.test], dim=1))


@pytest.mark.parametrize("sides", [False, True])
def test_a_small_graph_gives_every_unlinked_pair_once(
    model: Learner, x: torch.Tensor, sides: bool
) -> None:
    split = make_split(sides=sides)
    sample, others = sample_of(model, x, split)
    possible = 15 * 25 if sides else NODES * (NODES - 1) // 2
    # Every unlinked pair but the 20 that the probabilities will be tested on.
    assert others.pairs.shape[1] == len(codes(others.pairs)) == possible - 220
    assert not codes(others.pairs) & known(split)
    assert not codes(others.pairs) & codes(split.test_negatives)
    assert (others.pairs[0] < others.pairs[1]).all()
    if sides:
        assert ((others.pairs[0] < 15) & (others.pairs[1] >= 15)).all()
    assert len(set(sample.weights.tolist())) == 1
    assert sample.weights.sum() == pytest.approx(possible - 200)


@pytest.mark.parametrize("sides", [False, True])
def test_a_large_graph_is_sampled_and_the_sample_stands_for_all(
    model: Learner, x: torch.Tensor, sides: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("_MIN_SCORED", 50), ("_MAX_SCORED", 100), ("_KEPT", 10)):
        monkeypatch.setattr(calibrating, name, value)
    split = make_split(sides=sides)
    _, others = sample_of(model, x, split)
    assert 10 < others.pairs.shape[1] < 40
    assert not codes(others.pairs) & known(split)
    if sides:
        assert ((others.pairs[0] < 15) & (others.pairs[1] >= 15)).all()
    possible = 15 * 25 if sides else NODES * (NODES - 1) // 2
    assert float(others.weights.sum()) == pytest.approx(possible - 200)


def test_only_training_links_are_encoded(model: Learner, x: torch.Tensor) -> None:
    split = make_split()
    sample, others = sample_of(model, x, split)
    z = embed(model, x, symmetric(split.train))
    assert sample.links.tolist() == decode_pairs(model, z, split.val).double().tolist()
    assert others.logits.tolist() == decode_pairs(model, z, others.pairs).tolist()


def test_the_curve_is_fitted_by_training_links_and_its_shift_measured_with_test_links(
    model: Learner, x: torch.Tensor
) -> None:
    split, encoded = make_split(), []

    def scorer_for(links: torch.Tensor):
        encoded.append(links.tolist())
        return scoring(model, x)(links)

    calibrate(scorer_for, split, seed=0)
    assert encoded == [split.train.tolist(), torch.cat([split.train, split.test], 1).tolist()]


def test_how_many_pairs_are_scored_follows_from_what_one_costs() -> None:
    assert pairs_to_score(0.0) == pairs_to_score(1000.0) == 2**24
    assert pairs_to_score(2.0**16) == 2**22
    assert pairs_to_score(2.0**18) == 2**17  # its surroundings are cut out
    assert pairs_to_score(1e12) == 10_000
    # 2^13 nodes in blocks of 2^16 pairs: every eighth pair has a first end of its own.
    assert pairs_to_score(0.0, 2.0**21, 2**13) == 2**20
    assert pairs_to_score(0.0, 2.0**18, 2**20) == 2**20


@pytest.mark.parametrize("sides", [False, True])
def test_the_base_rate_is_hidden_links_over_unknown_pairs(
    model: Learner, x: torch.Tensor, sides: bool
) -> None:
    found = calibrate(scoring(model, x), make_split(sides=sides), seed=0)
    # 200 links: 20 to test, 40 to choose by, 140 to learn from.
    possible = 15 * 25 if sides else NODES * (NODES - 1) // 2
    assert found.prior == pytest.approx(60 / (possible - 140))
    assert found.counts["links"] == 40
    assert found.counts["unknown_pairs"] == possible - 160


def test_the_shift_is_measured_with_the_test_links_encoded_too(
    model: Learner, x: torch.Tensor
) -> None:
    split = make_split()
    found = calibrate(scoring(model, x), split, seed=0)
    assert found == calibrate(scoring(model, x), split, seed=0)
    assert Calibration.from_json(found.to_json()) == found
    z = embed(model, x, symmetric(torch.cat([split.train, split.test], dim=1)))
    sample, others = sample_of(model, x, split)
    logits = decode_pairs(model, z, torch.cat([split.val, others.pairs], dim=1))
    weights = np.concatenate([np.ones(40), sample.weights])
    expected = found.probability(logits, 40 / (40 + 580)) @ weights
    assert found.shift["expected"] == pytest.approx(expected)
    assert found.shift["observed"] == 40
    assert found.shift["ratio"] == pytest.approx(expected / 40)


def test_what_is_not_there_is_not_calibrated_on(model: Learner, x: torch.Tensor) -> None:
    """Without validation or unlinked pairs nothing; without test links the shift is not checked."""
    split = make_split()
    assert calibrate(scoring(model, x), replace(split, val=split.val[:, :0]), seed=0) is None
    pairs = torch.combinations(torch.arange(5), 2).T.contiguous()
    full = Split(5, pairs[:, :6], pairs[:, 6:8], pairs[:, 8:], pairs[:, :0], pairs[:, :0])
    assert calibrate(scoring(model, torch.ones(5, 5)), full, seed=0) is None
    found = calibrate(scoring(model, x), replace(split, test=split.test[:, :0]), seed=0)
    assert found.shift is None
    assert found.prior == pytest.approx(40 / (NODES * (NODES - 1) / 2 - 140))


def test_scores_that_are_not_finite_are_not_calibrated(model: Learner, x: torch.Tensor) -> None:
    with torch.no_grad():
        model.decode.layer_2.bias.fill_(math.nan)
    with pytest.raises(TrainingError, match="not finite"):
        calibrate(scoring(model, x), make_split(), seed=0)


def test_a_shift_is_reported_in_words_only_when_chance_does_not_explain_it() -> None:
    # 100 links and 900 other pairs, all with the same score: 100 links are expected of 1,000.
    calibration = Calibration("temperature", Line(1.0), 0.1, {}, {})
    even = Sample(np.zeros(100), np.zeros(900), np.ones(900))
    fine = _measure_shift(calibration, even)
    assert fine["expected"] == pytest.approx(100)
    assert fine["warning"] is None
    # A higher score for all of them promises more: odds of 1/9 become e^2/9.
    raised = Sample(even.links + 2, even.others + 2, even.weights)
    found = _measure_shift(calibration, raised)
    assert found["expected"] == pytest.approx(1000 * math.exp(2) / (9 + math.exp(2)))
    assert "promise 450.9" in found["warning"]
    # Two promised and one found is no news.
    few = Sample(raised.links[:1], raised.others[:20], raised.weights[:20])
    assert _measure_shift(calibration, few)["warning"] is None


def test_the_top_of_the_list_is_counted_by_weight() -> None:
    calibration = Calibration("temperature", Line(1.0), 0.1, {}, {})
    # Best first: 3 links, then pairs that stand for 400 each; two of those fit into 1,000.
    links, others = np.array([9.0, 9.0, 9.0, -9.0]), np.array([5.0, 4.0, 3.0, 2.0])
    found = _measure_shift(calibration, Sample(links, others, np.full(4, 400.0)))
    prior = 4 / 1604
    expected = 3 * calibration.probability([9.0], prior)[0]
    expected += 400 * calibration.probability([5.0, 4.0], prior).sum()
    assert found["top"]["observed"] == 3
    assert found["top"]["expected"] == pytest.approx(expected)
