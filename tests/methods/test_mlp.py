from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional

from cgcl.errors import FeatureError, TrainingError
from cgcl.graph import Graph
from cgcl.methods import scoring
from cgcl.methods.method import Epoch, Known
from cgcl.methods.mlp import METHOD, FeaturesMLP, FeaturesMLPSettings
from cgcl.model import consistency_loss
from cgcl.split import random_split
from cgcl.train.loop import train
from cgcl.train.recipe import Recipe
from cgcl.train.trainer import Trainer, build_learner

Build = Callable[[int], Graph]
CPU = torch.device("cpu")


WEIGHTS = {
    "weight": torch.tensor([[1.0, 2.0], [0.0, -1.0]]),
    "bias": torch.tensor([0.0, 1.0]),
    "decode.layer_1.weight": torch.tensor([[1.0, -1.0]]),
    "decode.layer_1.bias": torch.tensor([0.5]),
    "decode.layer_2.weight": torch.tensor([[2.0]]),
    "decode.layer_2.bias": torch.tensor([-1.0]),
}
LINKS = torch.tensor([[0, 0], [1, 2]])


def by_hand() -> FeaturesMLP:
    learner = FeaturesMLP(2, FeaturesMLPSettings(hidden=2, input_dropout=0.0, decoder_dropout=0.0))
    learner.load_state_dict(WEIGHTS)
    return learner


def trainer_for(x: torch.Tensor, split, **settings) -> Trainer:
    recipe = Recipe.of("mlp", {"hidden": 32, "epochs": 60, "evaluate_every": 5} | settings)
    return Trainer(x, split, recipe, CPU)


def trained(x: torch.Tensor, split, **settings) -> dict[str, torch.Tensor]:
    trainer = trainer_for(x, split, **settings)
    train(trainer)
    trainer.keep_best()
    return trainer.learner.state_dict()


def test_a_score_is_as_by_hand() -> None:
    """z = ELU(x W + b), then W_2 ReLU(W_1 (z_u * z_v) + b_1) + b_2."""
    x = torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 3.0]])
    # z_0 = (1, 3), z_1 = (1, 2), z_2 = (0, exp(-2) - 1)
    scorer = by_hand().scorer(Known(3, LINKS, x))
    pairs = torch.tensor([[0, 0, 1], [1, 2, 2]])
    down = 1 - torch.tensor(-2.0).exp().item()
    # 1 - 6 + 0.5 < 0; 0 + 3 down + 0.5; 0 + 2 down + 0.5
    expected = [-1.0, 2 * (3 * down + 0.5) - 1, 2 * (2 * down + 0.5) - 1]
    assert scorer.logits(pairs).tolist() == pytest.approx(expected)
    assert torch.equal(scorer.logits(pairs.flip(0)), scorer.logits(pairs))
    sparse = by_hand().scorer(Known(3, LINKS, x.to_sparse_coo().coalesce()))
    assert sparse.logits(pairs).tolist() == pytest.approx(expected)
    assert scorer.num_nodes == 3
    assert scorer.cost_per_pair == 2 * 2 * 1 + 20 * 2


def test_a_step_sets_all_links_against_as_many_unlinked_pairs() -> None:
    """Of three nodes with two links one pair is unlinked: it is drawn twice."""
    x = torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 3.0]])
    known = Known(3, LINKS, x)
    learner = by_hand()
    logits = learner.scorer(known).logits(torch.tensor([[0, 0, 1], [1, 2, 2]]))
    losses = list(learner.train().steps(known, Epoch(1, 0)))
    assert len(losses) == 1
    expected = consistency_loss(logits[:2], logits[2:].repeat(2))
    assert losses[0].item() == pytest.approx(expected.item())


def test_it_learns_from_features_and_chooses_its_epoch_by_validation(sbm: Build) -> None:
    graph = sbm(0)
    assert graph.x is not None
    trainer = trainer_for(graph.x, random_split(graph))
    train(trainer)
    found = trainer.finish()
    assert found is not None
    assert found["auc"] > 0.8


def test_the_best_epoch_is_kept_not_the_last(sbm: Build, monkeypatch) -> None:
    graph = sbm(0)
    split = random_split(graph)
    given = iter([0.5, 0.9, 0.7])
    with monkeypatch.context() as patched:
        patched.setattr("cgcl.train.trainer.auc", lambda *_: next(given))
        best = trained(graph.x, split, epochs=15)
    last = trained(graph.x, random_split(graph), epochs=10, evaluate_every=10)
    later = trained(graph.x, random_split(graph), epochs=15, evaluate_every=15)
    assert all(torch.equal(best[name], last[name]) for name in best)
    assert not torch.equal(best["weight"], later["weight"])


def test_the_same_seed_gives_the_same_bits_and_another_seed_others(sbm: Build) -> None:
    graph = sbm(0)
    split = random_split(graph)
    state = torch.get_rng_state()
    first, again, other = (trained(graph.x, split, seed=seed, epochs=10) for seed in (1, 1, 2))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["weight"], other["weight"])
    assert torch.equal(state, torch.get_rng_state())


def test_sparse_features_give_what_dense_ones_give(sbm: Build) -> None:
    graph = sbm(0)
    split = random_split(graph)
    x = functional.one_hot(torch.arange(120) % 7).float()
    quiet = {"input_dropout": 0.0, "epochs": 10}
    dense = trained(x, split, **quiet)
    sparse = trained(x.to_sparse_coo().coalesce(), split, **quiet)
    torch.testing.assert_close(dense, sparse)


def test_without_validation_links_the_last_epoch_is_kept(sbm: Build) -> None:
    graph = sbm(0)
    split = random_split(graph, val=0.0)
    short, long = (trained(graph.x, split, epochs=e) for e in (5, 10))
    assert not torch.equal(short["weight"], long["weight"])


@pytest.mark.parametrize(
    "changed",
    [
        {"hidden": 16},
        {"input_dropout": 0.1},
        {"decoder_dropout": 0.7},
        {"lr": 0.02},
        {"epochs": 3},
        {"weight_decay": 0.5},
        {"evaluate_every": 1},
        {"clip": 0.01},
    ],
)
def test_every_setting_moves_something(sbm: Build, monkeypatch, changed) -> None:
    graph = sbm(0)
    # The first look is the best, so that it matters when it is taken.
    looks = []
    monkeypatch.setattr("cgcl.train.trainer.auc", lambda *_: looks.append(0) or -len(looks))
    usual = trained(graph.x, random_split(graph), **{"epochs": 4, "evaluate_every": 2})
    other = trained(graph.x, random_split(graph), **({"epochs": 4, "evaluate_every": 2} | changed))
    if "epochs" in changed:  # a look at the end, not at epoch 2: the same weights were best before
        usual, other = (
            trained(graph.x, random_split(graph, val=0.0), epochs=epochs) for epochs in (4, 3)
        )
    same = usual["weight"].shape == other["weight"].shape
    assert not (same and torch.equal(usual["weight"], other["weight"]))


def test_links_play_no_part_in_a_score(sbm: Build) -> None:
    graph = sbm(0)
    learner = build_learner(4, Recipe.of("mlp", {"hidden": 8}))
    pairs = torch.tensor([[0, 1], [5, 9]])
    one, other = (
        learner.scorer(Known(120, links, graph.x)).logits(pairs)
        for links in (graph.edges, graph.edges[:, :3])
    )
    assert torch.equal(one, other)


def test_small_blocks_change_nothing(monkeypatch) -> None:
    x = torch.rand(40, 2, generator=torch.Generator().manual_seed(0))
    scorer = by_hand().scorer(Known(40, LINKS, x))
    pairs = torch.combinations(torch.arange(40)).T
    whole = scorer.logits(pairs)
    monkeypatch.setattr(scoring, "_CACHED_ENTRIES", 14)  # seven pairs of width 2
    torch.testing.assert_close(scorer.logits(pairs), whole)
    assert scorer.logits(pairs[:, :0]).shape == (0,)


def test_a_score_is_taken_without_dropout_and_leaves_no_trace(sbm: Build) -> None:
    graph = sbm(0)
    learner = build_learner(4, Recipe.of("mlp", {"hidden": 8})).train()
    state = torch.get_rng_state()
    scorers = [learner.scorer(Known(120, graph.edges, graph.x)) for _ in range(2)]
    pairs = graph.edges[:, :20]
    one, other = (scorer.logits(pairs) for scorer in scorers)
    assert torch.equal(one, other)
    assert not one.requires_grad
    assert learner.training
    assert torch.equal(torch.get_rng_state(), state)


def test_scores_that_are_not_finite_end_the_training(sbm: Build) -> None:
    graph = sbm(0)
    x = graph.x.clone()
    x[3, 1] = torch.nan
    with pytest.raises(TrainingError, match=r"became NaN or infinite at epoch 1 \(lr 0\.01\)"):
        train(trainer_for(x, random_split(graph)))


def test_it_asks_for_features(sbm: Build) -> None:
    graph = sbm(0)
    bare = Known(graph.num_nodes, graph.edges, None)
    learner = METHOD.build(4, FeaturesMLPSettings(hidden=4))
    with pytest.raises(FeatureError, match="needs features"):
        next(iter(learner.steps(bare, Epoch(1, 0))))
    with pytest.raises(FeatureError, match="needs features"):
        learner.scorer(bare)
