from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cgcl.methods import shared_neighbours as module
from cgcl.methods.adamic_adar import AdamicAdar
from cgcl.methods.common_neighbours import CommonNeighbours
from cgcl.methods.method import Known
from cgcl.methods.preferential_attachment import PreferentialAttachment
from cgcl.methods.resource_allocation import ResourceAllocation
from cgcl.methods.shared_neighbours import Neighbourhoods, as_logits
from cgcl.methods.table import method_named

SHARED = [CommonNeighbours, AdamicAdar, ResourceAllocation]

# 0 - 1, 0 - 2, 1 - 2, 1 - 3, 2 - 3, 3 - 4, and 5 alone
LINKS = torch.tensor([[0, 0, 1, 1, 2, 3], [1, 2, 2, 3, 3, 4]])
PAIRS = torch.tensor([[0, 1, 1, 0, 4, 0, 5], [3, 2, 4, 4, 2, 1, 3]])


def test_common_neighbours_are_counted_as_by_hand() -> None:
    """0 and 3 share 1 and 2; 1 and 2 share 0 and 3; 1 and 4 share 3; 0 and 4 nobody."""
    assert CommonNeighbours(LINKS, 6).values(PAIRS).tolist() == [2, 2, 1, 0, 1, 1, 0]


def test_adamic_adar_is_summed_as_by_hand() -> None:
    """Degrees: 0 has 2, 1, 2 and 3 have 3, 4 has 1."""
    two, three = 1 / math.log(2), 1 / math.log(3)
    expected = [2 * three, two + three, three, 0, three, three, 0]
    assert AdamicAdar(LINKS, 6).values(PAIRS) == pytest.approx(expected, abs=1e-9)


def test_resource_allocation_is_summed_as_by_hand() -> None:
    """0 and 3 share 1 and 2, of 3 links each; 1 and 2 share 0, of 2, and 3, of 3."""
    expected = [2 / 3, 1 / 2 + 1 / 3, 1 / 3, 0, 1 / 3, 1 / 3, 0]
    assert ResourceAllocation(LINKS, 6).values(PAIRS) == pytest.approx(expected, abs=1e-9)


def test_preferential_attachment_is_multiplied_as_by_hand() -> None:
    """Degrees: 0 has 2, 1, 2 and 3 have 3, 4 has 1, 5 has none."""
    scorer = PreferentialAttachment(LINKS, 6)
    assert scorer.values(PAIRS).tolist() == [6, 9, 3, 2, 3, 6, 0]
    left, right = scorer.factors()
    assert torch.equal(
        (left @ right.T)[PAIRS[0], PAIRS[1]].double(),
        torch.tensor([6.0, 9, 3, 2, 3, 6, 0]).double(),
    )
    assert scorer.num_nodes == 6
    assert scorer.cost_per_pair > 0


def test_preferential_attachment_reads_the_links_to_expect_as_odds() -> None:
    """1 and 2 have 3 of the 12 ends of links each: 9 / 12 links to expect, and 3 / 7 as score."""
    scorer = PreferentialAttachment(LINKS, 6)
    pairs = torch.cartesian_prod(torch.arange(6), torch.arange(6)).T
    logits, values = scorer.logits(pairs), scorer.values(pairs)
    assert logits.dtype == torch.float32
    assert torch.isfinite(logits).all()
    assert torch.equal(logits, scorer.logits(pairs.flip(0)))
    for a in range(36):
        for b in range(36):
            assert (values[a] < values[b]) == bool(logits[a] < logits[b])
    assert torch.sigmoid(scorer.logits(torch.tensor([[1], [2]]))).item() == pytest.approx(3 / 7)


def test_preferential_attachment_cannot_tell_equals_apart() -> None:
    """Two triangles: a pair within one and a pair across have the same score, by its nature."""
    triangles = torch.tensor([[0, 0, 1, 3, 3, 4], [1, 2, 2, 4, 5, 5]])
    within, across = PreferentialAttachment(triangles, 6).logits(torch.tensor([[0, 0], [1, 3]]))
    assert within == across
    assert method_named("preferential-attachment").exceptions == {"check_learns_planted_partition"}


@pytest.mark.parametrize(
    ("name", "kind", "across"),
    [
        ("common-neighbours", CommonNeighbours, False),
        ("adamic-adar", AdamicAdar, False),
        ("resource-allocation", ResourceAllocation, False),
        ("preferential-attachment", PreferentialAttachment, True),
    ],
)
def test_the_table_leads_to_the_formula(name, kind, across) -> None:
    method = method_named(name)
    learner = method.build(7, method.settings())
    scorer = learner.scorer(Known(6, LINKS))
    assert type(scorer) is kind
    assert torch.equal(scorer.logits(PAIRS), kind(LINKS, 6).logits(PAIRS))
    assert list(learner.parameters()) == []
    assert not method.needs_features
    assert method.works_across_sides is across


@pytest.mark.parametrize("method", SHARED)
def test_logits_are_finite_float32_in_the_order_of_the_values(method) -> None:
    scorer = method(LINKS, 6)
    pairs = torch.cartesian_prod(torch.arange(6), torch.arange(6)).T
    logits, values = scorer.logits(pairs), scorer.values(pairs)
    assert logits.dtype == torch.float32
    assert torch.isfinite(logits).all()
    for a in range(36):
        for b in range(36):
            assert (values[a] < values[b]) == bool(logits[a] < logits[b])
    shared = values > 0
    scores = torch.sigmoid(logits).numpy()
    assert scores[shared] == pytest.approx(values[shared] / (1 + values[shared]), rel=1e-5)
    assert (scores[~shared] < 1e-5).all()
    assert scorer.num_nodes == 6
    assert scorer.factors() is None
    assert scorer.cost_per_pair >= 1000


def test_nothing_shared_is_below_the_least_that_can_be_shared() -> None:
    """A neighbour that ten million nodes share still counts."""
    for method in SHARED:
        scorer = method(LINKS, 6)
        least = scorer.weight_of(np.array([10**7]))[0]
        shared, none = as_logits(np.array([least, 0.0]), scorer.nothing)
        assert shared > none + 4


def test_what_nothing_counts_is_the_methods_own() -> None:
    unshared = torch.tensor([[0], [5]])
    odds = [math.exp(method(LINKS, 6).logits(unshared).item()) for method in SHARED]
    assert odds == pytest.approx([1e-6, 1e-6, 1e-9], rel=1e-4)


def links_and_pairs():
    nodes = st.integers(0, 11)
    return st.tuples(
        st.sets(st.tuples(nodes, nodes).filter(lambda p: p[0] < p[1]), max_size=40),
        st.lists(st.tuples(nodes, nodes), min_size=1, max_size=40),
        st.booleans(),
        st.sampled_from([1, 5, 10**6]),
    )


@given(links_and_pairs())
def test_both_ways_to_sum_agree_with_the_definition_in_any_blocks(case) -> None:
    links, pairs, backwards, budget = case
    edges = torch.tensor(sorted(links), dtype=torch.int64).reshape(-1, 2).T
    asked = torch.tensor(pairs, dtype=torch.int64).T
    graph = Neighbourhoods(edges.flip(0) if backwards else edges, 12)
    weight = np.linspace(0.1, 2.3, 12)
    near = [{b for a, b in links if a == n} | {a for a, b in links if b == n} for n in range(12)]
    expected = [sum(weight[w] for w in near[a] & near[b]) for a, b in pairs]
    rounded = np.round(weight * 2**32) / 2**32
    one, other = asked.numpy()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BUDGET", budget)
        found = graph.shared(asked, weight)
        walked = graph._by_walks(one, other, rounded)
    assert found == pytest.approx(expected, abs=1e-8)
    assert (walked == found).all()
    assert (graph.shared(asked.flip(0), weight) == found).all()


def test_the_order_of_a_sum_leaves_no_trace() -> None:
    """Two pairs share neighbours of the same degrees, in another order: the scores are equal.

    0 and 1 share 4, 5, 6 with 2, 3, 4 links; 2 and 3 share 7, 8, 9 with 4, 3, 2.
    """
    pairs = [(a, w) for a in (0, 1) for w in (4, 5, 6)] + [
        (a, w) for a in (2, 3) for w in (7, 8, 9)
    ]
    pairs += [(5, 10), (6, 11), (6, 12), (8, 13), (7, 14), (7, 15)]
    links = torch.tensor(pairs).T
    first, second = AdamicAdar(links, 16).values(torch.tensor([[0, 2], [1, 3]]))
    assert first == second


def test_hubs_are_taken_from_their_small_end(monkeypatch) -> None:
    """A thousand questions about a hub of a thousand links cost a thousand steps, not a million."""
    leaves = torch.arange(1, 1001)
    graph = Neighbourhoods(torch.stack([torch.zeros_like(leaves), leaves]), 2001)
    taken = []
    take = Neighbourhoods._take
    monkeypatch.setattr(
        Neighbourhoods, "_take", lambda self, nodes: taken.append(nodes) or take(self, nodes)
    )
    pairs = torch.stack([torch.arange(1001, 2001), torch.zeros(1000, dtype=torch.int64)])
    pairs[0, :500] = leaves[:500]
    for asked in (pairs, pairs.flip(0)):
        taken.clear()
        graph.shared(asked, np.ones(2001))
        assert sum(int(graph.degree[nodes].sum()) for nodes in taken) == 500


def test_blocks_stay_within_the_budget(monkeypatch) -> None:
    monkeypatch.setattr(module, "_BUDGET", 6)
    blocks = list(module._blocks(np.array([3, 3, 9, 1, 0])))
    assert blocks == [slice(0, 2), slice(2, 3), slice(3, 5)]
    assert list(module._blocks(np.array([], dtype=np.int64))) == []


def test_graphs_without_links_or_pairs_are_fine() -> None:
    nobody = torch.empty(2, 0, dtype=torch.int64)
    for method in (*SHARED, PreferentialAttachment):
        assert method(nobody, 3).values(torch.tensor([[0, 1], [1, 2]])).tolist() == [0, 0]
        assert torch.isfinite(method(nobody, 3).logits(torch.tensor([[0, 1], [1, 1]]))).all()
        assert method(LINKS, 6).logits(nobody).shape == (0,)
        assert method(nobody, 0).logits(nobody).shape == (0,)
