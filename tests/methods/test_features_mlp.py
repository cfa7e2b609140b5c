from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch.nn import functional

from cgcl.errors import ConfigError, FeatureError, ModelFileError, TrainingError
from cgcl.graph import Graph
from cgcl.methods import METHODS, FeaturesMLP, Known, method_named, train_features_mlp
from cgcl.methods import features_mlp as module
from cgcl.metrics import auc
from cgcl.split import random_split

Build = Callable[[int], Graph]


@pytest.fixture(autouse=True)
def one_thread():
    """Keep small computations from waiting for each other's threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


WEIGHTS = {
    "weight": torch.tensor([[1.0, 2.0], [0.0, -1.0]]),
    "bias": torch.tensor([0.0, 1.0]),
    "decode.layer_1.weight": torch.tensor([[1.0, -1.0]]),
    "decode.layer_1.bias": torch.tensor([0.5]),
    "decode.layer_2.weight": torch.tensor([[2.0]]),
    "decode.layer_2.bias": torch.tensor([-1.0]),
}


def settings(**changed):
    return {"hidden": 32, "epochs": 60, "evaluate_every": 5} | changed


def test_a_score_is_as_by_hand() -> None:
    """z = ELU(x W + b), then W_2 ReLU(W_1 (z_u * z_v) + b_1) + b_2."""
    x = torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 3.0]])
    # z_0 = (1, 3), z_1 = (1, 2), z_2 = (0, exp(-2) - 1)
    scorer = FeaturesMLP(x, WEIGHTS)
    pairs = torch.tensor([[0, 0, 1], [1, 2, 2]])
    down = 1 - torch.tensor(-2.0).exp().item()
    # 1 - 6 + 0.5 < 0; 0 + 3 down + 0.5; 0 + 2 down + 0.5
    expected = [-1.0, 2 * (3 * down + 0.5) - 1, 2 * (2 * down + 0.5) - 1]
    assert scorer.logits(pairs).tolist() == pytest.approx(expected)
    assert torch.equal(scorer.logits(pairs.flip(0)), scorer.logits(pairs))
    assert FeaturesMLP(x.to_sparse_coo().coalesce(), WEIGHTS).logits(pairs).tolist() == (
        pytest.approx(expected)
    )
    assert scorer.num_nodes == 3
    assert scorer.factors() is None
    assert scorer.cost_per_pair == 2 * 2 * 1 + 20 * 2


def test_it_learns_from_features_and_chooses_its_epoch_by_validation(sbm: Build) -> None:
    graph = sbm(0)
    split = random_split(graph)
    assert graph.x is not None
    scorer = FeaturesMLP(graph.x, train_features_mlp(graph.x, split, **settings()))
    assert auc(scorer.logits(split.test), scorer.logits(split.test_negatives)) > 0.8


def test_the_best_epoch_is_kept_not_the_last(sbm: Build, monkeypatch) -> None:
    graph = sbm(0)
    split = random_split(graph)
    given = iter([0.5, 0.9, 0.7])
    monkeypatch.setattr(module, "_validation_auc", lambda *_: next(given))
    best = train_features_mlp(graph.x, split, **settings(epochs=15))
    monkeypatch.setattr(module, "_validation_auc", lambda *_: None)
    last = train_features_mlp(graph.x, split, **settings(epochs=10))
    assert all(torch.equal(best[name], last[name]) for name in best)


def test_the_same_seed_gives_the_same_bits_and_another_seed_others(sbm: Build) -> None:
    graph = sbm(0)
    split = random_split(graph)
    state = torch.get_rng_state()
    first, again, other = (
        train_features_mlp(graph.x, split, **settings(seed=seed, epochs=10)) for seed in (1, 1, 2)
    )
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["weight"], other["weight"])
    assert torch.equal(state, torch.get_rng_state())


def test_sparse_features_give_what_dense_ones_give(sbm: Build) -> None:
    graph = sbm(0)
    split = random_split(graph)
    x = functional.one_hot(torch.arange(120) % 7).float()
    quiet = settings(input_dropout=0.0, epochs=10)
    dense = train_features_mlp(x, split, **quiet)
    sparse = train_features_mlp(x.to_sparse_coo().coalesce(), split, **quiet)
    torch.testing.assert_close(dense, sparse)


def test_without_validation_links_the_last_epoch_is_kept(sbm: Build) -> None:
    graph = sbm(0)
    split = random_split(graph, val=0.0)
    short, long = (train_features_mlp(graph.x, split, **settings(epochs=e)) for e in (5, 10))
    assert not torch.equal(short["weight"], long["weight"])


def test_links_play_no_part_in_a_score(sbm: Build) -> None:
    graph = sbm(0)
    method = METHODS["features-mlp"]
    learned = {
        "weight": torch.rand(4, 8),
        "bias": torch.rand(8),
        "decode.layer_1.weight": torch.rand(4, 8),
        "decode.layer_1.bias": torch.rand(4),
        "decode.layer_2.weight": torch.rand(1, 4),
        "decode.layer_2.bias": torch.rand(1),
    }
    pairs = torch.tensor([[0, 1], [5, 9]])
    one, other = (
        method.scorer(Known(120, links, graph.x), learned).logits(pairs)
        for links in (graph.edges, graph.edges[:, :3])
    )
    assert torch.equal(one, other)


def test_small_blocks_change_nothing(sbm: Build, monkeypatch) -> None:
    x = torch.rand(40, 2, generator=torch.Generator().manual_seed(0))
    scorer = FeaturesMLP(x, WEIGHTS)
    pairs = torch.combinations(torch.arange(40)).T
    whole = scorer.logits(pairs)
    monkeypatch.setattr(module, "_BLOCK_PAIRS", 7)
    torch.testing.assert_close(scorer.logits(pairs), whole)
    assert scorer.logits(pairs[:, :0]).shape == (0,)


def test_weights_of_another_network_are_refused() -> None:
    x = torch.rand(3, 2)
    for wrong in ({}, WEIGHTS | {"bias": torch.ones(3)}, WEIGHTS | {"more": torch.ones(1)}):
        with pytest.raises(ModelFileError, match="do not fit"):
            FeaturesMLP(x, wrong)


def test_scores_that_are_not_finite_end_the_training(sbm: Build) -> None:
    graph = sbm(0)
    split = random_split(graph)
    x = graph.x.clone()
    x[3, 1] = torch.nan
    with pytest.raises(TrainingError, match=r"not finite at epoch 5 \(lr 0\.01\)"):
        train_features_mlp(x, split, **settings())


def test_an_unknown_method_is_refused_with_the_list() -> None:
    with pytest.raises(ConfigError, match="'katz'; it must be one of common-neighbours, adamic"):
        method_named("katz")


def test_the_features_only_network_asks_for_features(sbm: Build) -> None:
    graph = sbm(0)
    bare = Known(graph.num_nodes, graph.edges, None)
    method = method_named("features-mlp")
    with pytest.raises(FeatureError, match="needs features"):
        method.learn(bare, random_split(replace(graph, x=None)), {})
    with pytest.raises(FeatureError, match="needs features"):
        method.scorer(bare, WEIGHTS)
