from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.optim import Adam

from cgcl.errors import ConfigError, FeatureError
from cgcl.graph import Graph
from cgcl.methods import ncn as module
from cgcl.methods import neighbour_lists
from cgcl.methods.method import Epoch, Known
from cgcl.methods.ncn import METHOD, NCN, NCNScorer, NCNSettings, shared_sum
from cgcl.methods.neighbour_lists import NeighbourLists
from cgcl.metrics import auc
from cgcl.model import propagate, symmetric
from cgcl.seeds import seeded
from cgcl.split import random_split

Build = Callable[[int], Graph]


def learner_of(known: Known, **settings) -> NCN:
    with seeded(0, "weights"):
        return NCN(known.features.shape[1], NCNSettings(**{"hidden": 16} | settings))


def known_of(graph: Graph) -> Known:
    return Known(graph.num_nodes, graph.edges, graph.x)


def losses(known: Known, **settings) -> list[float]:
    learner = learner_of(known, **settings)
    with seeded(0, "epoch", 1):
        return [loss.item() for loss in learner.steps(known, Epoch(1, 0))]


def codes(pairs: Tensor) -> list[int]:
    return sorted((pairs[0] * 1000 + pairs[1]).tolist())


def test_the_sum_over_common_neighbours_is_as_by_hand() -> None:
    """On 0 - 2, 1 - 2, 0 - 3, 1 - 3, 0 - 4 the nodes 0 and 1 share 2 and 3, but not 4."""
    lists = NeighbourLists(torch.tensor([[0, 1, 0, 1, 0], [2, 2, 3, 3, 4]]), 5)
    values = torch.tensor([[1.0, 10.0], [2.0, 20.0], [4.0, 40.0], [8.0, 80.0], [16.0, 160.0]])
    pairs = torch.tensor([[0, 1, 2, 2, 4], [1, 0, 3, 4, 1]])
    # {2, 3}, {2, 3}, {0, 1}, {0}, nothing
    expected = torch.tensor([[12.0, 120.0], [12.0, 120.0], [3.0, 30.0], [1.0, 10.0], [0.0, 0.0]])
    assert torch.equal(shared_sum(*lists.common(pairs), values, 5), expected)


def test_a_score_is_made_of_the_product_and_the_common_neighbours() -> None:
    """MLP(f(h_0 * h_1) + beta g(h_2 + r(h_2) + h_3 + r(h_3))) for nodes that share 2 and 3."""
    x = torch.rand(5, 3, generator=torch.Generator().manual_seed(0))
    known = Known(5, torch.tensor([[0, 1, 0, 1, 0], [2, 2, 3, 3, 4]]), x)
    learner = learner_of(known, hidden=4, head_layers=2).eval()
    decode, h = learner.decode, learner.encode(known)
    with torch.no_grad():
        decode.weight_of_shared.fill_(0.7)
        shared = h[2] + decode.refine(h[2]) + h[3] + decode.refine(h[3])
        both = decode.from_product(h[0] * h[1]) + 0.7 * decode.from_shared(shared)
        expected = decode.last(decode.head(both))
        alone = decode.from_product(h[1] * h[4]) + 0.7 * decode.from_shared(torch.zeros(4))
        nothing_shared = decode.last(decode.head(alone))
    scores = learner.scorer(known).logits(torch.tensor([[0, 1], [1, 4]]))
    torch.testing.assert_close(scores, torch.cat([expected, nothing_shared]))


def test_training_and_scoring_agree_where_nothing_is_dropped(sbm: Build) -> None:
    known = known_of(sbm(0))
    learner = learner_of(known).eval()
    pairs = torch.combinations(torch.arange(120)).T
    lists = NeighbourLists(known.links, known.num_nodes)
    trained = learner._logits(learner.encode(known), lists, pairs)
    torch.testing.assert_close(trained.detach(), learner.scorer(known).logits(pairs))


def test_embeddings_are_a_weighted_sum_of_propagations(sbm: Build) -> None:
    known = known_of(sbm(0))
    learner = learner_of(known, layers=2).eval()
    with torch.no_grad():
        assert learner.shares.tolist() == [0.5, 0.5]
        learner.shares.copy_(torch.tensor([2.0, -3.0]))
        projected = learner.project(known.features)
        once = propagate(projected, symmetric(known.links))
        twice = propagate(once, symmetric(known.links))
        torch.testing.assert_close(learner.encode(known), 2 * once - 3 * twice)


def test_targets_are_hidden_from_messages_and_from_neighbourhoods(sbm: Build, monkeypatch) -> None:
    known = known_of(sbm(0))
    learner, seen, counted, asked = learner_of(known, batch=100), [], [], []
    encode = learner.encode

    def spy(some: Known) -> Tensor:
        seen.append(some.links)
        return encode(some)

    class Spied(NeighbourLists):
        def __init__(self, links: Tensor, num_nodes: int) -> None:
            counted.append(links)
            super().__init__(links, num_nodes)

    monkeypatch.setattr(module, "NeighbourLists", Spied)
    learner.encode = spy
    learner.decode.register_forward_pre_hook(lambda _, given: asked.append(given[1]))
    count = len(list(learner.steps(known, Epoch(1, 0))))
    assert len(seen) == len(counted) == count == -(-known.links.shape[1] // 100)
    every = codes(known.links)
    for links, by, targets, negatives in zip(seen, counted, asked[::2], asked[1::2], strict=True):
        assert torch.equal(links, by)
        assert sorted(codes(links) + codes(targets)) == every
        assert not set(codes(negatives)) & set(every)
        assert negatives.shape == targets.shape
    assert codes(torch.cat(asked[::2], dim=1)) == every


def test_two_targets_of_a_triangle_share_no_neighbour_by_each_other() -> None:
    """In a triangle whose links are all targets but one, no target has a common neighbour."""
    known = Known(4, torch.tensor([[0, 0, 1, 2], [1, 2, 2, 3]]), torch.eye(4))
    learner, sums = learner_of(known, batch=2), []
    learner.decode.register_forward_pre_hook(lambda _, given: sums.append(given[1:]))
    for number in range(1, 9):
        list(learner.steps(known, Epoch(number, 0)))
    for targets, shared in sums[::2]:
        if codes(targets) in ([1, 2], [1, 1002], [2, 1002]):
            assert not shared.any()


def test_embeddings_follow_from_the_links_given_and_no_others(sbm: Build) -> None:
    known = known_of(sbm(0))
    learner = learner_of(known, layers=2).eval()
    few = known.with_links(known.links[:, ::2])
    before = learner.encode(few)
    assert not torch.equal(learner.encode(known), before)
    list(learner.train().steps(known, Epoch(1, 0)))
    assert torch.equal(learner.eval().encode(few), before)


def test_common_neighbours_come_from_the_links_given_to_the_scorer(sbm: Build) -> None:
    known = known_of(sbm(0))
    learner = learner_of(known).eval()
    h = learner.encode(known).detach()
    pairs = torch.combinations(torch.arange(120)).T
    many, few = (
        NCNScorer(learner.decode, h, NeighbourLists(links, 120)).logits(pairs)
        for links in (known.links, known.links[:, :10])
    )
    assert not torch.equal(many, few)


def test_scores_do_not_depend_on_order_or_company_and_dropout_is_off(sbm: Build) -> None:
    known = known_of(sbm(0))
    dropped = dict.fromkeys(("decoder_dropout", "encoder_dropout", "neighbour_dropout"), 0.9)
    learner = learner_of(known, **dropped).train()
    scorer = learner.scorer(known)
    pairs = torch.combinations(torch.arange(120)).T
    scores = scorer.logits(pairs)
    assert torch.equal(scorer.logits(pairs.flip(0)), scores)
    torch.testing.assert_close(scorer.logits(pairs[:, 5:6]), scores[5:6])
    assert torch.equal(learner.scorer(known).logits(pairs), scores)
    assert learner.training
    assert scores.dtype == torch.float32
    assert not scores.requires_grad
    assert scorer.num_nodes == 120
    assert scorer.factors() is None
    neighbours = 2 * known.links.shape[1] / 120
    operations = 2 * 16 * (16 * 4 + 1)
    assert scorer.cost_per_pair == pytest.approx(operations + 20 * 16 + 2000 * neighbours)


def test_small_blocks_change_nothing(sbm: Build, monkeypatch) -> None:
    known = known_of(sbm(0))
    scorer = learner_of(known).scorer(known)
    pairs = torch.combinations(torch.arange(120)).T
    whole = scorer.logits(pairs)
    monkeypatch.setattr(neighbour_lists, "_BUDGET", 40)
    monkeypatch.setattr(module, "block_size", lambda *_: 7)
    torch.testing.assert_close(scorer.logits(pairs), whole)
    assert scorer.logits(pairs[:, :0]).shape == (0,)


def test_sparse_features_give_what_dense_ones_give(sbm: Build) -> None:
    known = known_of(sbm(0))
    x = known.features * (known.features > 0.3)
    dense = Known(120, known.links, x)
    sparse = Known(120, known.links, x.to_sparse_coo().coalesce())
    assert losses(dense, input_dropout=0.0) == (
        pytest.approx(losses(sparse, input_dropout=0.0), abs=1e-5)
    )


def test_nodes_without_links_and_nodes_that_join_later_are_scored(sbm: Build) -> None:
    known = known_of(sbm(0))
    learner = learner_of(known)
    larger = Known(123, known.links, torch.cat([known.features, torch.rand(3, 4)]))
    assert learner.scorer(larger).logits(torch.tensor([[0, 121], [120, 122]])).isfinite().all()
    nothing = known.with_links(known.links[:, :0])
    assert learner.scorer(nothing).logits(torch.tensor([[0], [1]])).isfinite().all()
    with pytest.raises(FeatureError, match="needs features"):
        learner.scorer(Known(120, known.links))


def test_a_graph_without_any_common_neighbour_can_be_learned() -> None:
    known = Known(6, torch.tensor([[0, 2, 4], [1, 3, 5]]), torch.eye(6))
    learner = learner_of(known)
    for loss in learner.steps(known, Epoch(1, 0)):
        loss.backward()
    assert all(
        parameter.grad is None or parameter.grad.isfinite().all()
        for parameter in learner.parameters()
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"hidden": 8},
        {"layers": 2},
        {"head_layers": 2},
        {"input_dropout": 0.7},
        {"encoder_dropout": 0.5},
        {"embedding_dropout": 0.5},
        {"decoder_dropout": 0.5},
        {"neighbour_dropout": 0.5},
        {"batch": 300},
    ],
)
def test_every_setting_changes_what_is_learned(sbm: Build, changed: dict[str, float]) -> None:
    known = known_of(sbm(0))
    plain = losses(known)
    assert losses(known, **changed) != plain
    assert losses(known) == plain


def test_common_neighbours_are_left_out_at_the_rate_asked_for(sbm: Build) -> None:
    known = known_of(sbm(0))
    counts = []
    for rate in (0.0, 0.6):
        learner, sums = learner_of(known, neighbour_dropout=rate, decoder_dropout=0.0), []
        learner.decode.refined = lambda h: torch.ones_like(h)
        learner.decode.register_forward_pre_hook(lambda _, given, to=sums: to.append(given[2]))
        with seeded(0, "epoch", 1):
            list(learner.steps(known, Epoch(1, 0)))
        counts.append(sum(shared[:, 0].sum().item() for shared in sums))
    assert counts[1] / counts[0] == pytest.approx(0.4, abs=0.03)


def test_it_learns(sbm: Build) -> None:
    graph = sbm(0)
    split = random_split(graph)
    known = Known(graph.num_nodes, split.train, graph.x)
    learner = learner_of(known)
    optimizer = Adam(learner.parameters(), lr=0.01)
    for number in range(1, 31):
        with seeded(0, "epoch", number):
            for loss in learner.steps(known, Epoch(number, 0)):
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    scorer = learner.scorer(known)
    assert auc(scorer.logits(split.test), scorer.logits(split.test_negatives)) > 0.8


def test_published_settings_and_the_search_are_within_range() -> None:
    for graph in ("cora", "citeseer", "pubmed", "photo", "computers"):
        METHOD.settings(**METHOD.authors_settings(graph))
    assert METHOD.authors_settings("cora")["batch"] == 1152
    for name, values in METHOD.search.items():
        for value in values:
            METHOD.settings(**{name: value})
    with pytest.raises(ConfigError, match="neighbour_dropout is 1; it must be at least 0"):
        NCNSettings(neighbour_dropout=1)
