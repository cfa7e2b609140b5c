from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from cgcl.errors import ConfigError, FeatureError
from cgcl.graph import Graph
from cgcl.methods import labelled
from cgcl.methods import seal as module
from cgcl.methods.method import Epoch, Known
from cgcl.methods.seal import METHOD, SEAL, FeatureRows, SEALSettings
from cgcl.metrics import auc
from cgcl.seeds import seeded
from cgcl.split import random_split

Build = Callable[[int], Graph]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CGCL_CACHE", str(tmp_path))


@pytest.fixture
def known(sbm: Build) -> Known:
    """The links among half of the nodes."""
    graph = sbm(0)
    assert graph.x is not None
    return Known(60, graph.edges[:, (graph.edges < 60).all(dim=0)], graph.x[:60])


def learner_for(known: Known, seed: int = 0, **changed: object) -> SEAL:
    width = 0 if known.x is None else known.x.shape[1]
    with seeded(seed, "weights"):
        return SEAL(width, SEALSettings(**{"hidden": 8, **changed}))


def train(learner: SEAL, known: Known, epochs: int, lr: float = 1e-3, seed: int = 0) -> list[float]:
    optimizer = torch.optim.Adam(learner.parameters(), lr=lr)
    losses: list[float] = []
    for number in range(1, epochs + 1):
        with seeded(seed, "epoch", number):
            learner.train()
            for loss in learner.steps(known, Epoch(number, seed)):
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
    return losses


def some_pairs(known: Known, count: int = 60) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.cat([known.links[:, :count], known.unlinked.draw(count, generator)], dim=1)


def test_it_learns(sbm: Build) -> None:
    graph = sbm(0)
    split = random_split(graph)
    known = Known(graph.num_nodes, split.train, graph.x)
    learner = learner_for(known)
    losses = train(learner, known, epochs=1, lr=3e-3)
    assert sum(losses[-10:]) < sum(losses[:10])
    scorer = learner.scorer(known)
    assert auc(scorer.logits(split.test), scorer.logits(split.test_negatives)) > 0.8


def test_a_pair_scores_the_same_whether_its_own_link_is_known_or_not(known: Known) -> None:
    """The link is not seen, neither as a message nor by a label nor by a degree."""
    learner = learner_for(known, hops=2)
    train(learner, known, epochs=1)
    scorer = learner.scorer(known)
    for at in range(0, known.links.shape[1], 20):
        pair = known.links[:, at : at + 1]
        without = torch.cat([known.links[:, :at], known.links[:, at + 1 :]], dim=1)
        alone = learner.scorer(known.with_links(without))
        assert torch.equal(scorer.logits(pair), alone.logits(pair))


def test_no_step_passes_messages_along_a_link_it_predicts(known: Known, monkeypatch) -> None:
    looked_at = 0

    def spy(network: module.DGCNN, batch: labelled.Batch, features: Tensor | None) -> Tensor:
        nonlocal looked_at
        here = torch.arange(batch.nodes.numel()).repeat_interleave(batch.degree)
        source = batch.start[:-1].index_select(0, batch.owner.index_select(0, here))
        assert torch.equal(batch.owner[here], batch.owner[batch.neighbours])  # blocks apart
        assert not ((here == source) & (batch.neighbours == source + 1)).any()
        assert not ((here == source + 1) & (batch.neighbours == source)).any()
        looked_at += batch.num_pairs
        return forward(network, batch, features)

    forward = module.DGCNN.forward
    monkeypatch.setattr(module.DGCNN, "forward", spy)
    train(learner_for(known), known, epochs=1)
    assert looked_at == 2 * known.links.shape[1]


def test_a_score_depends_neither_on_direction_nor_on_the_other_pairs(known: Known) -> None:
    learner = learner_for(known, nodes_per_hop=5)
    train(learner, known, epochs=1)
    scorer, pairs = learner.scorer(known), some_pairs(known)
    together = scorer.logits(pairs)
    assert together.dtype == torch.float32
    assert together.unique().numel() > 50
    assert torch.equal(scorer.logits(pairs.flip(0)), together)
    assert torch.equal(scorer.logits(pairs.flip(1)), together.flip(0))
    alone = [scorer.logits(pairs[:, at : at + 1]) for at in range(0, 120, 7)]
    assert torch.equal(torch.cat(alone), together[::7])
    assert scorer.logits(pairs[:, :0]).shape == (0,)


def test_small_blocks_change_nothing(known: Known, monkeypatch) -> None:
    learner = learner_for(known)
    train(learner, known, epochs=1)
    scorer, pairs = learner.scorer(known), some_pairs(known)
    whole = scorer.logits(pairs)
    monkeypatch.setattr(module, "_SCORED_NODES", 50)
    monkeypatch.setattr(labelled, "_UNPACKED", 500)
    assert torch.equal(scorer.logits(pairs), whole)


def test_scoring_has_no_dropout_and_leaves_the_mode_alone(known: Known) -> None:
    learner = learner_for(known)
    learner.train()
    scorer, pairs = learner.scorer(known), some_pairs(known)
    first = scorer.logits(pairs)
    assert torch.equal(scorer.logits(pairs), first)
    assert not first.requires_grad
    assert learner.training
    assert learner.network.training


def test_the_same_seed_gives_the_same_bits_and_another_seed_others(known: Known) -> None:
    pairs = some_pairs(known)
    results = []
    for seed in (1, 1, 2):
        learner = learner_for(known, seed=seed)
        losses = train(learner, known, epochs=1, seed=seed)
        results.append((losses, learner.scorer(known).logits(pairs)))
    assert results[0][0] == results[1][0]
    assert torch.equal(results[0][1], results[1][1])
    assert results[0][0] != results[2][0]


def test_a_learner_that_takes_over_the_weights_goes_on_alike(known: Known) -> None:
    one = learner_for(known)
    train(one, known, epochs=1)
    other = learner_for(known, seed=5)
    other.load_state_dict(one.state_dict())
    assert int(other.network.sorted_nodes) == int(one.network.sorted_nodes) > 10
    pairs = some_pairs(known)
    assert torch.equal(other.scorer(known).logits(pairs), one.scorer(known).logits(pairs))
    losses = [
        [loss.item() for loss in learner.eval().steps(known, Epoch(2, 0))]
        for learner in (one, other)
    ]
    assert losses[0] == losses[1]


def test_the_unlinked_examples_are_drawn_once(known: Known, monkeypatch) -> None:
    asked: list[Tensor] = []
    kept = module.LabelledSubgraphs.kept

    def note(links: Tensor, num_nodes: int, pairs: Tensor, rule: object) -> object:
        asked.append(pairs)
        return kept(links, num_nodes, pairs, rule)

    monkeypatch.setattr(module.LabelledSubgraphs, "kept", note)
    learner = learner_for(known)
    train(learner, known, epochs=2)
    train(learner_for(known), known, epochs=1)  # as after an interruption
    assert len(asked) == 2
    assert torch.equal(*asked)
    links, unlinked = asked[0].tensor_split(2, dim=1)
    assert torch.equal(links, known.links)
    codes = known.links[0] * known.num_nodes + known.links[1]
    assert not torch.isin(unlinked.amin(0) * known.num_nodes + unlinked.amax(0), codes).any()
    next(learner.steps(known, Epoch(1, 9)))  # another seed
    next(learner.steps(known.with_links(known.links[:, 1:]), Epoch(1, 9)))  # another graph
    assert len(asked) == 4
    assert not torch.equal(asked[2], asked[0])


def test_sparse_features_give_what_dense_ones_give(known: Known) -> None:
    dense = replace(known, x=torch.rand(60, 7) * (torch.rand(60, 7) < 0.4))
    sparse = replace(dense, x=dense.features.to_sparse_coo().coalesce())
    learners = [learner_for(dense), learner_for(sparse)]
    losses = [
        train(learner, it, epochs=1) for learner, it in zip(learners, (dense, sparse), strict=True)
    ]
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)
    one, other = (learner.network.features for learner in learners)
    torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-3)


def test_rows_of_features_times_weights_and_their_gradient() -> None:
    x = torch.tensor([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0], [0.0, 0.0, 0.0]])
    nodes, upstream = torch.tensor([1, 0, 1, 2]), torch.rand(4, 5)
    for features in (FeatureRows(x), FeatureRows(x.to_sparse_coo().coalesce())):
        weight = torch.rand(3, 5, requires_grad=True)
        product = features.times(nodes, weight)
        torch.testing.assert_close(product, x[nodes] @ weight)
        product.backward(upstream)
        torch.testing.assert_close(weight.grad, x[nodes].T @ upstream)


def test_more_nodes_and_more_links_than_were_learned_from(known: Known) -> None:
    learner = learner_for(known)
    train(learner, known, epochs=1)
    grown = Known(
        63,
        torch.cat([known.links, torch.tensor([[0, 5, 60], [60, 60, 61]])], dim=1),
        torch.cat([known.features, torch.rand(3, 4)]),
    )
    scorer = learner.scorer(grown)
    assert scorer.num_nodes == 63
    new = scorer.logits(torch.tensor([[60, 62, 61], [1, 0, 62]]))
    assert torch.isfinite(new).all()
    assert scorer.factors() is None


def test_a_graph_that_is_only_scored_leaves_nothing_behind(known: Known) -> None:
    learner = learner_for(known)
    train(learner, known, 1)
    other = Known(known.num_nodes, known.links[:, 1:], known.x)
    learner.scorer(other).logits(some_pairs(known))
    assert len(learner._around) == 1
    del other
    gc.collect()
    assert len(learner._around) == 0


def test_a_tiny_graph_with_isolated_nodes(known: Known) -> None:
    links = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
    tiny = Known(9, links, torch.eye(9).to_sparse_coo().coalesce())
    learner = learner_for(tiny)
    assert len(train(learner, tiny, epochs=2)) == 2
    assert torch.isfinite(learner.scorer(tiny).logits(torch.combinations(torch.arange(9)).T)).all()


CHANGES = {
    "batch": 64,
    "hops": 2,
    "nodes_per_hop": 4,
    "hidden": 12,
    "layers": 1,
    "use_features": False,
    "share": 0.3,
}


@pytest.mark.parametrize("name", CHANGES)
def test_every_setting_makes_a_difference(known: Known, name: str) -> None:
    usual, changed = learner_for(known), learner_for(known, **{name: CHANGES[name]})
    losses = [train(learner, known, epochs=1) for learner in (usual, changed)]
    assert losses[0] != losses[1]
    links = known.links.shape[1]
    steps = {"batch": -(-2 * links // 64), "share": -(-2 * round(0.3 * links) // 32)}
    assert len(losses[1]) == steps.get(name, -(-2 * links // 32))


def test_all_settings_of_its_own_are_tested() -> None:
    trained = {"lr", "epochs", "weight_decay", "evaluate_every", "clip", "choose_by"}
    assert {field.name for field in fields(SEALSettings)} == trained | CHANGES.keys()


def test_the_share_of_links_is_an_even_choice_and_all_are_seen(known: Known, monkeypatch) -> None:
    asked = []
    kept = module.LabelledSubgraphs.kept

    def note(links: Tensor, num_nodes: int, pairs: Tensor, rule: object) -> object:
        asked.append((links, pairs))
        return kept(links, num_nodes, pairs, rule)

    monkeypatch.setattr(module.LabelledSubgraphs, "kept", note)
    next(learner_for(known, share=0.25).steps(known, Epoch(1, 0)))
    links, pairs = asked[0]
    assert torch.equal(links, known.links)
    count = round(0.25 * known.links.shape[1])
    assert pairs.shape[1] == 2 * count
    codes = known.links[0] * known.num_nodes + known.links[1]
    chosen = torch.isin(codes, pairs[0, :count] * known.num_nodes + pairs[1, :count])
    assert chosen.sum() == count
    quarters = [part.float().mean().item() for part in chosen.tensor_split(4)]
    assert min(quarters) > 0.1


def test_caps_are_told_in_words() -> None:
    assert SEALSettings().caps == "1 hop, width 32, at most 100 nodes a hop"
    some = SEALSettings(hops=2, hidden=64, nodes_per_hop=1500, share=0.3)
    assert some.caps == ("2 hops, width 64, at most 1,500 nodes a hop, 30 % of the training links")
    assert SEALSettings(nodes_per_hop=0).caps == "1 hop, width 32"


def test_settings_out_of_range_are_refused() -> None:
    for wrong in ({"hops": 0}, {"share": 0.0}, {"share": 1.5}, {"layers": 0}, {"batch": 0}):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            SEALSettings(**wrong)


def test_features_are_asked_for_only_if_they_are_used(known: Known) -> None:
    bare = replace(known, x=None)
    with pytest.raises(FeatureError, match="needs features"):
        learner_for(bare).scorer(bare)
    labels_only = learner_for(bare, use_features=False)
    train(labels_only, bare, epochs=1)
    assert labels_only.scorer(bare).logits(some_pairs(bare)).std() > 0


def test_the_cost_of_a_pair_grows_with_its_surroundings(known: Known) -> None:
    def cost(**changed: object) -> float:
        return learner_for(known, **changed).scorer(known).cost_per_pair

    assert cost() == cost()
    assert cost(nodes_per_hop=4) < cost() < cost(hops=2)
    assert cost(hidden=8) < cost(hidden=64)


def test_the_dense_layer_fits_the_largest_subgraphs() -> None:
    assert SEALSettings(nodes_per_hop=30).most_sorted == 32
    assert SEALSettings(nodes_per_hop=3).most_sorted == 10
    assert SEALSettings(nodes_per_hop=0).most_sorted == 256
    assert SEALSettings(hops=5).most_sorted == 256


def test_what_its_authors_and_a_search_set_is_valid() -> None:
    for graph in ("cora", "citeseer", "pubmed", "photo", "computers"):
        SEALSettings(**METHOD.authors_settings(graph))
    for name, values in METHOD.search.items():
        for value in values:
            SEALSettings(**{name: value})
