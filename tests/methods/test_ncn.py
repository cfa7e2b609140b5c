from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from cgcl.graph import Graph
from cgcl.graph.adjacency import Adjacency
from cgcl.methods import ncn as module
from cgcl.methods.method import Epoch, Known
from cgcl.methods.ncn import NCN, NCNScorer, NCNSettings, shared_sum
from cgcl.model import propagate, symmetric
from cgcl.seeds import seeded

Build = Callable[[int], Graph]


def learner_of(known: Known, **settings) -> NCN:
    with seeded(0, "weights"):
        return NCN(known.features.shape[1], NCNSettings(**{"hidden": 16} | settings))


def known_of(graph: Graph) -> Known:
    return Known(graph.num_nodes, graph.edges, graph.x)


def codes(pairs: Tensor) -> list[int]:
    return sorted((pairs[0] * 1000 + pairs[1]).tolist())


def test_the_sum_over_common_neighbours_is_as_by_hand() -> None:
    """On 0 - 2, 1 - 2, 0 - 3, 1 - 3, 0 - 4 the nodes 0 and 1 share 2 and 3, but not 4."""
    lists = Adjacency.from_pairs(torch.tensor([[0, 1, 0, 1, 0], [2, 2, 3, 3, 4]]), 5)
    values = torch.tensor([[1.0, 10.0], [2.0, 20.0], [4.0, 40.0], [8.0, 80.0], [16.0, 160.0]])
    pairs = torch.tensor([[0, 1, 2, 2, 4], [1, 0, 3, 4, 1]])
    # {2, 3}, {2, 3}, {0, 1}, {0}, nothing
    expected = torch.tensor([[12.0, 120.0], [12.0, 120.0], [3.0, 30.0], [1.0, 10.0], [0.0, 0.0]])
    assert torch.equal(shared_sum(*lists.common_neighbours(pairs), values, 5), expected)


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
    lists = Adjacency.from_pairs(known.links, known.num_nodes)
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


def test_common_neighbours_come_from_the_links_given_to_the_scorer(sbm: Build) -> None:
    known = known_of(sbm(0))
    learner = learner_of(known).eval()
    h = learner.encode(known).detach()
    pairs = torch.combinations(torch.arange(120)).T
    many, few = (
        NCNScorer(learner.decode, h, Adjacency.from_pairs(links, 120)).logits(pairs)
        for links in (known.links, known.links[:, :10])
    )
    assert not torch.equal(many, few)


def test_small_blocks_change_nothing(sbm: Build, monkeypatch) -> None:
    known = known_of(sbm(0))
    scorer = learner_of(known).scorer(known)
    pairs = torch.combinations(torch.arange(120)).T
    whole = scorer.logits(pairs)
    monkeypatch.setattr(module, "_BUDGET", 40)
    monkeypatch.setattr(module, "block_size", lambda *_: 7)
    torch.testing.assert_close(scorer.logits(pairs), whole)
    assert scorer.logits(pairs[:, :0]).shape == (0,)


def test_a_graph_without_any_common_neighbour_can_be_learned() -> None:
    known = Known(6, torch.tensor([[0, 2, 4], [1, 3, 5]]), torch.eye(6))
    learner = learner_of(known)
    for loss in learner.steps(known, Epoch(1, 0)):
        loss.backward()
    assert all(
        parameter.grad is None or parameter.grad.isfinite().all()
        for parameter in learner.parameters()
    )


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
