"""Batches of links give what whole views give, from less of the graph."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from cgcl.counter_rng import base_key, epoch_key, permuted
from cgcl.errors import ConfigError, FeatureError
from cgcl.graph.adjacency import Adjacency
from cgcl.graph.features import Structure
from cgcl.graph.pairs import encode
from cgcl.methods import cgcl
from cgcl.methods.cgcl import BATCHES, NEGATIVES, CrossViewLearner, tossed
from cgcl.methods.method import Epoch, TrainingGraph
from cgcl.methods.minibatch import FeatureRows, neighbourhood
from cgcl.methods.settings import CGCLSettings
from cgcl.model import divide, propagate, symmetric
from cgcl.seeds import seeded
from cgcl.train.config import Resources, RunConfig
from cgcl.train.engines import PlainEngine, engine_for

NODES, LINKS, EPOCH = 40, 150, Epoch(3, 0)


def random_graph(sparse: bool = False) -> TrainingGraph:
    with seeded(0, "graph"):
        pairs = torch.combinations(torch.arange(NODES)).T
        links = pairs[:, torch.randperm(pairs.shape[1])[:LINKS]]
        x = torch.rand(NODES, 6)
    x = x * (x > 0.5)
    return TrainingGraph(NODES, links, x.to_sparse_coo().coalesce() if sparse else x)


def learner_of(batch: int) -> CrossViewLearner:
    told = CGCLSettings(hidden=8, batch=batch, input_dropout=0.0, decoder_dropout=0.0)
    with seeded(0, "weights"):
        return CrossViewLearner(6, told).train()


def gradients(learner: CrossViewLearner, loss: Tensor) -> list[Tensor]:
    learner.zero_grad()
    loss.backward()
    return [weight.grad.clone() for weight in learner.parameters()]


@settings(max_examples=60)
@given(st.integers(1, 3000), st.integers(0, 99))
def test_a_shuffle_without_memory_is_one(count: int, key: int) -> None:
    found = permuted(torch.arange(count), count, key)
    assert torch.equal(found.sort().values, torch.arange(count))
    some = torch.arange(0, count, 3)
    assert torch.equal(permuted(some, count, key), found[::3])


def test_a_shuffle_leaves_no_order() -> None:
    """Neighbours end up as far apart as chance puts them: a third of the whole on average."""
    found = permuted(torch.arange(100_000), 100_000, 7).double()
    assert found.diff().abs().mean().item() == pytest.approx(100_000 / 3, rel=0.02)
    assert torch.corrcoef(torch.stack([found, torch.arange(100_000).double()]))[0, 1].abs() < 0.02


def test_what_arrives_at_some_nodes_is_what_arrives_at_them_in_the_whole_view() -> None:
    """Nodes 0-1-2 in a row and 3 beside; the view has the links (0, 1) and (1, 2), not (0, 3)."""
    near = Adjacency.from_pairs(torch.tensor([[0, 1, 0], [1, 2, 3]]), 4)
    degree, h = torch.tensor([1, 2, 1, 0]), torch.rand(4, 3)
    found = neighbourhood(near, torch.tensor([0, 2]), degree, lambda _, high: high != 3)
    assert found.nodes.tolist() == [0, 1, 2]
    # Node 0 has h_0 / 2 of its own and h_1 / sqrt(2 * 3) of its neighbour.
    wanted = h[[0, 2]] / 2 + h[1] / 6**0.5
    torch.testing.assert_close(found.sums(h[found.nodes]), wanted)
    whole = propagate(h, symmetric(torch.tensor([[0, 1], [1, 2]])))
    torch.testing.assert_close(wanted, whole[[0, 2]])


@pytest.mark.parametrize("sparse", [False, True])
def test_one_batch_of_all_links_is_both_whole_steps_together(sparse: bool) -> None:
    """Its loss is the mean over links of L_1 and L_2, and its gradients are theirs."""
    known, learner = random_graph(sparse), learner_of(LINKS)
    (loss,) = learner.steps(known, EPOCH)
    found = gradients(learner, loss)
    is_first, back = tossed(known.links, EPOCH)
    keys = (epoch_key(base_key(EPOCH.seed, own), EPOCH.number) for own in (BATCHES, NEGATIVES[0]))
    order = permuted(torch.arange(LINKS), LINKS, next(keys))
    drawn, in_first = known.unlinked.draw_hashed(LINKS, next(keys)), is_first[order]
    views = divide(known.links, "disjoint", is_first, back)
    whole = learner.losses(known.x, views, [drawn[:, ~in_first], drawn[:, in_first]])
    sizes = views.view_2.num_pairs, views.view_1.num_pairs
    expected = sum(own * size / LINKS for own, size in zip(whole, sizes, strict=True))
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(found, gradients(learner, expected))


@pytest.mark.parametrize("batch", [1, 37, 75, LINKS + 1])
def test_each_link_is_asked_for_once_an_epoch_and_not_heard_then(batch: int, monkeypatch) -> None:
    known, learner, asked, around = random_graph(), learner_of(batch), [], []

    def watched(near: Adjacency, wanted: Tensor, degree: Tensor, is_seen):
        found = neighbourhood(near, wanted, degree, is_seen)
        around.append((wanted, degree, is_seen, found))
        return found

    monkeypatch.setattr(cgcl, "neighbourhood", watched)
    learner.decode.register_forward_hook(lambda _, given, __: asked.append(given[1]))
    assert len(list(learner.steps(known, EPOCH))) == -(-LINKS // batch)
    targets, negatives = [], []
    for (wanted, degree, is_seen, found), places in zip(around, asked, strict=True):
        hidden, unlinked = wanted[places].tensor_split(2, dim=1)
        assert not is_seen(*hidden).any()
        targets += encode(*hidden, NODES).tolist()
        negatives += encode(*unlinked, NODES).tolist()
        view = known.links[:, is_seen(*known.links)]
        assert torch.equal(degree, torch.bincount(view.flatten(), minlength=NODES))
        heard = found.nodes[found.rows.index].split(
            [*(found.rows.start.diff()), found.rows.index.numel() - found.rows.start[-1]]
            if wanted.numel()
            else []
        )
        for node, others in zip(wanted.tolist(), heard, strict=True):
            neighbours = view.flip(0)[view == node].tolist()
            assert sorted(others.tolist()) == sorted([node, *neighbours])
    codes = sorted(encode(*known.links, NODES).tolist())
    assert sorted(targets) == codes
    assert len(negatives) == LINKS
    assert not set(negatives) & set(codes)


def test_batches_are_trained_by_the_plain_engine_and_go_with_disjoint_views_alone() -> None:
    known = random_graph()
    recipe = RunConfig.of("cgcl", {"hidden": 8, "batch": 50})
    engine = engine_for(learner_of(50), known, recipe, Resources("cpu"))
    assert isinstance(engine, PlainEngine)
    assert len(engine.run(1, 1)[0]) == 3
    for other in ({"views": "directed"}, {"negatives": "view"}):
        (name, value), *_ = other.items()
        with pytest.raises(
            ConfigError, match=f"`batch` 50 goes with .*, not with `{name}={value}`"
        ):
            CGCLSettings(batch=50, **other)


def test_batches_need_features() -> None:
    known = random_graph()
    bare = TrainingGraph(NODES, known.links, Structure.of(known.links, NODES))
    with pytest.raises(FeatureError, match="`batch` needs features"):
        next(learner_of(50).steps(bare, EPOCH))


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_of_features_are_those_asked_for(sparse: bool) -> None:
    x = random_graph(sparse).x
    nodes = torch.tensor([7, 3, 3, 39])
    found, whole = FeatureRows(x).of(nodes), x.to_dense()
    assert found.is_sparse == sparse
    assert torch.equal(found.to_dense(), whole[nodes])
