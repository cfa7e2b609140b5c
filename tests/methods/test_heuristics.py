from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cgcl.methods import heuristics as module
from cgcl.methods.heuristics import (
    AdamicAdar,
    CommonNeighbours,
    Katz,
    KatzSettings,
    Neighbourhoods,
    PageRank,
    PageRankSettings,
    PreferentialAttachment,
    ResourceAllocation,
    Spreading,
    _from_tables,
    as_logits,
)

SHARED = [CommonNeighbours, AdamicAdar, ResourceAllocation]

# 0 - 1, 0 - 2, 1 - 2, 1 - 3, 2 - 3, 3 - 4, and 5 alone
LINKS = torch.tensor([[0, 0, 1, 1, 2, 3], [1, 2, 2, 3, 3, 4]])
PAIRS = torch.tensor([[0, 1, 1, 0, 4, 0, 5], [3, 2, 4, 4, 2, 1, 3]])
KATZ_PAIRS = torch.tensor([[0, 0, 0, 0, 4], [3, 4, 1, 5, 4]])
# 0 - 1 - 2, and 3 alone
PATH = torch.tensor([[0, 1], [1, 2]])
RANK_PAIRS = torch.tensor([[0, 1, 0, 0, 0, 3], [1, 2, 2, 0, 3, 3]])


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
    # 1 and 2 have 3 of the 12 ends of links each: 9 / 12 links to expect are the odds of a score.
    assert torch.sigmoid(scorer.logits(torch.tensor([[1], [2]]))).item() == pytest.approx(3 / 7)
    logits = scorer.logits(PAIRS).double()
    assert torch.equal(logits.argsort(), torch.from_numpy(scorer.values(PAIRS)).argsort())


@pytest.mark.parametrize(
    "make",
    [
        *SHARED,
        lambda links, nodes: Katz(links, nodes, KatzSettings(beta=0.3)),
        lambda links, nodes: PageRank(links, nodes, PageRankSettings()),
    ],
)
def test_a_score_reads_the_value_as_odds(make) -> None:
    scorer, nobody = make(LINKS, 8), torch.empty(2, 0, dtype=torch.int64)
    pairs = torch.combinations(torch.arange(8)).T
    values, scores = scorer.values(pairs), torch.sigmoid(scorer.logits(pairs)).numpy()
    some = values > 0
    assert scores[some] == pytest.approx(values[some] / (1 + values[some]), rel=1e-5)
    assert scores[~some].max() < min(scores[some].min(), 1e-4)
    assert len(set(scores[~some].tolist())) == 1
    assert scorer.factors() is None
    for links, nodes, asked in ((nobody, 0, nobody), (LINKS, 8, nobody), (nobody, 8, pairs)):
        logits = make(links, nodes).logits(asked)
        assert logits.shape == asked.shape[1:]
        assert torch.isfinite(logits).all()


def test_nothing_shared_is_below_the_least_that_can_be_shared() -> None:
    """A neighbour that ten million nodes share still counts."""
    for method in SHARED:
        scorer = method(LINKS, 6)
        least = scorer.weight_of(np.array([10**7]))[0]
        shared, none = as_logits(np.array([least, 0.0]), scorer.nothing)
        assert shared > none + 4


def links_and_pairs():
    nodes = st.integers(0, 11)
    return st.tuples(
        st.sets(st.tuples(nodes, nodes).filter(lambda p: p[0] < p[1]), max_size=40),
        st.lists(st.tuples(nodes, nodes), min_size=1, max_size=40),
        st.booleans(),
        st.sampled_from([1, 5, 10**6]),
    )


@settings(max_examples=50, deadline=None)
@given(links_and_pairs())
def test_both_ways_to_sum_agree_with_the_definition_in_any_blocks(case) -> None:
    links, pairs, backwards, budget = case
    edges = torch.tensor(sorted(links), dtype=torch.int64).reshape(-1, 2).T
    asked = torch.tensor(pairs, dtype=torch.int64).T
    graph = Neighbourhoods(edges.flip(0) if backwards else edges, 12)
    weight = np.linspace(0.1, 2.3, 12)
    near = [{b for a, b in links if a == n} | {a for a, b in links if b == n} for n in range(12)]
    expected = [sum(weight[w] for w in near[a] & near[b]) for a, b in pairs]
    one, other = asked.numpy()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BUDGET", budget)
        found = graph.shared(asked, weight)
        walked = _from_tables(one, other, lambda nodes: graph.tables(nodes, weight))
    assert found == pytest.approx(expected, abs=1e-8)
    assert (walked == found).all()
    assert (graph.shared(asked.flip(0), weight) == found).all()


def test_walks_are_counted_as_by_hand() -> None:
    """Walks of 1, 2 and 3 steps.

    0 to 3: none, 0-1-3 and 0-2-3, 0-1-2-3 and 0-2-1-3. 0 to 4: 0-1-3-4 and 0-2-3-4.
    0 to 1: 0-1, 0-2-1, and 0-1-0-1, 0-2-0-1, 0-1-2-1, 0-1-3-1, 0-2-3-1. 4 to 4: 4-3-4.
    """
    beta = 0.1
    walks = [(0, 2, 2), (0, 0, 2), (1, 1, 5), (0, 0, 0), (0, 1, 0)]
    expected = [a * beta + b * beta**2 + c * beta**3 for a, b, c in walks]
    katz = Katz(LINKS, 6, KatzSettings(beta=beta, length=3))
    assert katz.values(KATZ_PAIRS) == pytest.approx(expected, rel=1e-12)


@settings(max_examples=25, deadline=None)
@given(
    links=st.sets(
        st.tuples(st.integers(0, 9), st.integers(0, 9)).filter(lambda p: p[0] < p[1]), max_size=30
    ),
    beta=st.sampled_from([1e-6, 0.005, 0.3, 1.0]),
    length=st.integers(1, 20),
)
def test_any_graph_agrees_with_powers_of_its_matrix(links, beta, length) -> None:
    edges = torch.tensor(sorted(links), dtype=torch.int64).reshape(-1, 2).T
    dense = np.zeros((11, 11))
    for a, b in links:
        dense[a, b] = dense[b, a] = 1
    expected = sum(beta**k * np.linalg.matrix_power(dense, k) for k in range(1, length + 1))
    pairs = torch.cartesian_prod(torch.arange(11), torch.arange(11)).T
    katz = Katz(edges, 11, KatzSettings(beta=beta, length=length))
    assert katz.values(pairs) == pytest.approx(expected.ravel(), rel=1e-9)
    logits = katz.logits(pairs)
    assert torch.isfinite(logits).all()
    assert torch.equal(logits, katz.logits(pairs.flip(0)))


def test_walks_are_exact_until_float64_ends() -> None:
    """In a clique of 60, a node has 59 walks for every one that is a step shorter."""
    clique = torch.combinations(torch.arange(60)).T
    assert Katz(clique, 60, KatzSettings(length=9)).rounding == 0  # 59^9 < 2^53 < 59^10
    katz = Katz(clique, 60, KatzSettings(beta=0.02, length=10))
    assert 0 < katz.rounding < 1e-11
    logits = katz.logits(clique)
    assert len(set(logits.tolist())) == 1
    assert torch.equal(logits, katz.logits(clique.flip(0)))


def test_ranks_are_as_by_hand() -> None:
    """With half of the steps going home.

    Seen from 0: p0 = 1/2 + p1 / 4, p1 = (p0 + p2) / 2, p2 = p1 / 4, so 7/12, 1/3 and 1/12.
    Seen from 1: p1 = 1/2 + (p0 + p2) / 2, p0 = p2 = p1 / 4, so 1/6, 2/3 and 1/6.
    """
    rank = PageRank(PATH, 4, PageRankSettings(alpha=0.5, tolerance=1e-12))
    expected = [1 / 3 + 1 / 6, 1 / 6 + 1 / 3, 1 / 12 + 1 / 12, 7 / 12 + 7 / 12, 0, 2]
    assert rank.values(RANK_PAIRS) == pytest.approx(expected, abs=1e-11)


@settings(max_examples=15, deadline=None)
@given(
    links=st.sets(
        st.tuples(st.integers(0, 8), st.integers(0, 8)).filter(lambda p: p[0] < p[1]), max_size=25
    ),
    alpha=st.sampled_from([0.05, 0.15, 0.5, 0.9]),
)
def test_any_graph_agrees_with_networkx(links, alpha) -> None:
    graph = nx.Graph()
    graph.add_nodes_from(range(10))
    graph.add_edges_from(links)
    ranks = [
        nx.pagerank(graph, alpha=1 - alpha, personalization={u: 1}, tol=1e-13, max_iter=5000)
        for u in range(10)
    ]
    pairs = torch.cartesian_prod(torch.arange(10), torch.arange(10)).T
    expected = [ranks[u][v] + ranks[v][u] for u, v in pairs.T.tolist()]
    edges = torch.tensor(sorted(links), dtype=torch.int64).reshape(-1, 2).T
    rank = PageRank(edges, 10, PageRankSettings(alpha=alpha, tolerance=1e-12))
    assert rank.values(pairs) == pytest.approx(expected, abs=1e-10)
    logits = rank.logits(pairs)
    assert torch.isfinite(logits).all()
    assert torch.equal(logits, rank.logits(pairs.flip(0)))


NOBODY = torch.empty(2, 0, dtype=torch.int64)
# Rounding plays a part in each: 1/d in one, more than 2^53 walks in the other.
KINDS = [
    lambda links, nodes: PageRank(links, nodes, PageRankSettings(tolerance=0.01)),
    lambda links, nodes: Katz(links, nodes, KatzSettings(beta=0.3, length=20)),
]


def a_graph(seed: int, nodes: int = 40, links: int = 150) -> torch.Tensor:
    pairs = np.random.default_rng(seed).integers(0, nodes, (2, 3 * links))
    pairs = np.unique(np.sort(pairs[:, pairs[0] != pairs[1]], axis=0), axis=1)
    return torch.from_numpy(pairs)[:, :links]


def all_pairs(nodes: int) -> torch.Tensor:
    return torch.cartesian_prod(torch.arange(nodes), torch.arange(nodes)).T


class Skewed(Spreading):
    """A measure of which the last bits tell which end it was spread from."""

    measure = 1.0
    nothing = 1e-20

    def spread(self, sources):
        return np.tile(self.measure * (1 + 1e-15 * sources), (self.num_nodes, 1))


class Careless(Skewed):
    rounding = 0.0


def between_two_float32() -> float:
    """A number of which the logarithm lies as near as can be between two float32 numbers."""
    low = np.float32(-5.3)
    high = np.nextafter(low, np.float32(0))
    return float(np.exp((np.float64(low) + np.float64(high)) / 2))


@pytest.mark.parametrize("kind", [Skewed, Careless])
def test_which_end_was_spread_from_leaves_no_trace(kind, monkeypatch) -> None:
    """Around a boundary of float32; without the care for rounding, the end does show."""
    scorer = kind(torch.tensor([[0, 1, 2], [3, 3, 3]]), 9, 5)
    pair, company = torch.tensor([[2], [8]]), torch.tensor([[8, 8], [4, 5]])
    found = set()
    for shift in np.linspace(-2e-14, 2e-14, 41):
        monkeypatch.setattr(kind, "measure", between_two_float32() * (1 + shift))
        alone = scorer.logits(pair)
        beside = scorer.logits(torch.cat([pair, company], dim=1))[:1]
        found.add(torch.equal(alone, beside) and torch.equal(alone, scorer.logits(pair.flip(0))))
    assert found == ({True} if kind is Skewed else {True, False})


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("seed", [0, 1])
def test_a_pair_has_the_same_bits_in_any_order_company_and_table(make, seed, monkeypatch) -> None:
    scorer = make(a_graph(seed), 43)  # three nodes alone
    pairs = all_pairs(43)
    logits = scorer.logits(pairs)
    assert torch.equal(logits, scorer.logits(pairs.flip(0)))
    order = torch.randperm(pairs.shape[1], generator=torch.Generator().manual_seed(seed))
    for size in (1, 43 * 7, 10**9):
        monkeypatch.setattr(module, "_TABLE", size)
        assert torch.equal(logits[order], scorer.logits(pairs[:, order]))
    for place in order[:20]:
        assert torch.equal(logits[place : place + 1], scorer.logits(pairs[:, place : place + 1]))
        row = pairs[0] == pairs[0, place]
        assert torch.equal(logits[row], scorer.logits(pairs[:, row]))


@pytest.mark.parametrize("make", KINDS)
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6), links=st.integers(0, 60))
def test_the_ends_differ_by_no_more_than_rounding(make, seed, links) -> None:
    scorer = make(a_graph(seed, 12, links), 12)
    one, other = all_pairs(12).numpy()
    there, back = scorer._spread_from(one, other), scorer._spread_from(other, one)
    assert (np.abs(there - back) <= scorer.rounding * there).all()
    assert scorer.rounding < 1e-11


@pytest.mark.parametrize("make", KINDS)
def test_cutting_the_sums_of_hubs_changes_no_more_than_rounding(make, monkeypatch) -> None:
    links, pairs = a_graph(4), all_pairs(42)
    whole = make(links, 42)
    for part in (1, 2, 5):
        monkeypatch.setattr(module, "_PART", part)
        cut = make(links, 42)
        assert np.diff(cut._parts.indptr).max() <= part
        assert cut.values(pairs) == pytest.approx(whole.values(pairs), rel=1e-12)
        assert torch.equal(cut.logits(pairs), cut.logits(pairs.flip(0)))


def test_hubs_do_not_make_rounding_matter() -> None:
    """A hub of 100,000 links: without cutting its sum, 57 steps could be wrong by 1e-9."""
    leaves = torch.arange(1, 100_001)
    star = torch.stack([torch.zeros_like(leaves), leaves])
    assert PageRank(star, 100_001, PageRankSettings()).rounding < 2e-11
