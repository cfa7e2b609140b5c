import math
from functools import partial

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
    ItemCosine,
    Katz,
    KatzSettings,
    Neighbourhoods,
    PageRank,
    PageRankSettings,
    PreferentialAttachment,
    ResourceAllocation,
    Spreading,
    ThreeStepPaths,
    _from_tables,
    as_logits,
)
from cgcl.methods.method import TrainingGraph
from cgcl.methods.table import method_named

SHARED = [CommonNeighbours, AdamicAdar, ResourceAllocation]

# 0 - 1, 0 - 2, 1 - 2, 1 - 3, 2 - 3, 3 - 4, and 5 alone
LINKS = torch.tensor([[0, 0, 1, 1, 2, 3], [1, 2, 2, 3, 3, 4]])
PAIRS = torch.tensor([[0, 1, 1, 0, 4, 0, 5], [3, 2, 4, 4, 2, 1, 3]])
NOBODY = torch.empty(2, 0, dtype=torch.int64)


def katz(links: torch.Tensor, nodes: int, **told) -> Katz:
    return Katz(links, nodes, KatzSettings(**told))


def page_rank(links: torch.Tensor, nodes: int, **told) -> PageRank:
    return PageRank(links, nodes, PageRankSettings(**told))


def item_cosine(links: torch.Tensor, nodes: int) -> ItemCosine:
    return ItemCosine(links, nodes, None)


def all_pairs(nodes: int) -> torch.Tensor:
    return torch.cartesian_prod(torch.arange(nodes), torch.arange(nodes)).T


@st.composite
def graphs(draw: st.DrawFn, nodes: int, most: int) -> torch.Tensor:
    """Any links among some nodes, int64 [2, m]."""
    ends = st.integers(0, nodes - 1)
    pairs = st.tuples(ends, ends).filter(lambda pair: pair[0] < pair[1])
    links = draw(st.sets(pairs, max_size=most))
    return torch.tensor(sorted(links), dtype=torch.int64).reshape(-1, 2).T


def dense(links: torch.Tensor, nodes: int) -> np.ndarray:
    matrix = np.zeros((nodes, nodes))
    matrix[tuple(links)] = 1
    return matrix + matrix.T


def require_same_both_ways(scorer, pairs: torch.Tensor) -> None:
    logits = scorer.logits(pairs)
    assert torch.isfinite(logits).all()
    assert torch.equal(logits, scorer.logits(pairs.flip(0)))


TWO, THREE = 1 / math.log(2), 1 / math.log(3)


def test_preferential_attachment_is_multiplied_as_by_hand() -> None:
    """Degrees: 0 has 2, 1, 2 and 3 have 3, 4 has 1, 5 has none."""
    scorer, expected = PreferentialAttachment(LINKS, 6), [6, 9, 3, 2, 3, 6, 0]
    assert scorer.values(PAIRS).tolist() == expected
    left, right = scorer.factors()
    assert (left @ right.T)[PAIRS[0], PAIRS[1]].tolist() == expected
    # 1 and 2 have 3 of the 12 ends of links each: 9 / 12 links to expect are the odds of a score.
    assert torch.sigmoid(scorer.logits(torch.tensor([[1], [2]]))).item() == pytest.approx(3 / 7)
    logits = scorer.logits(PAIRS).double()
    assert torch.equal(logits.argsort(), torch.from_numpy(scorer.values(PAIRS)).argsort())
    # Of a node without links: a tenth of what one link each would give.
    assert logits[-1].item() == pytest.approx(math.log(0.1 / 12))


@pytest.mark.parametrize(
    "make", [*SHARED, partial(katz, beta=0.3), page_rank, ThreeStepPaths, item_cosine]
)
def test_a_score_reads_the_value_as_odds(make) -> None:
    scorer, pairs = make(LINKS, 8), torch.combinations(torch.arange(8)).T
    values, scores = scorer.values(pairs), torch.sigmoid(scorer.logits(pairs)).numpy()
    some = values > 0
    assert scores[some] == pytest.approx(values[some] / (1 + values[some]), rel=1e-5)
    assert scores[~some].max() < min(scores[some].min(), 1e-4)
    assert len(set(scores[~some].tolist())) == 1
    assert scorer.factors() is None
    for links, nodes, asked in ((NOBODY, 0, NOBODY), (LINKS, 8, NOBODY), (NOBODY, 8, pairs)):
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


@settings(max_examples=50, deadline=None)
@given(graphs(12, 40), st.booleans(), st.sampled_from([1, 5, 10**6]), st.data())
def test_both_ways_to_sum_agree_with_the_definition_in_any_blocks(
    links, backwards, budget, data
) -> None:
    ends = st.lists(st.integers(0, 143), min_size=1, max_size=40)
    asked = torch.tensor(data.draw(ends))
    asked = one, other = torch.stack([asked // 12, asked % 12])
    graph, weight = (
        Neighbourhoods(links.flip(0) if backwards else links, 12),
        np.linspace(0.1, 2.3, 12),
    )
    near = dense(links, 12)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BUDGET", budget)
        found = graph.shared(asked, weight)
        walked = _from_tables(*asked.numpy(), lambda nodes: graph.tables(nodes, weight))
    assert found == pytest.approx(((near * weight) @ near.T)[one, other], abs=1e-8)
    assert (walked == found).all()
    assert (graph.shared(asked.flip(0), weight) == found).all()


@settings(max_examples=25, deadline=None)
@given(graphs(10, 30), st.sampled_from([1e-6, 0.005, 0.3, 1.0]), st.integers(1, 20))
def test_any_graph_agrees_with_powers_of_its_matrix(links, beta, length) -> None:
    near = dense(links, 11)
    expected = sum(beta**k * np.linalg.matrix_power(near, k) for k in range(1, length + 1))
    scorer = katz(links, 11, beta=beta, length=length)
    assert scorer.values(all_pairs(11)) == pytest.approx(expected.ravel(), rel=1e-9)
    require_same_both_ways(scorer, all_pairs(11))


def test_walks_are_exact_until_float64_ends() -> None:
    """In a clique of 60, a node has 59 walks for every one that is a step shorter."""
    clique = torch.combinations(torch.arange(60)).T
    assert katz(clique, 60, length=9).rounding == 0  # 59^9 < 2^53 < 59^10
    scorer = katz(clique, 60, beta=0.02, length=10)
    assert 0 < scorer.rounding < 1e-11
    assert len(set(scorer.logits(clique).tolist())) == 1
    require_same_both_ways(scorer, clique)


@settings(max_examples=15, deadline=None)
@given(graphs(9, 25), st.sampled_from([0.05, 0.15, 0.5, 0.9]))
def test_any_graph_agrees_with_networkx(links, alpha) -> None:
    graph = nx.empty_graph(10)
    graph.add_edges_from(links.T.tolist())
    ranks = [
        nx.pagerank(graph, alpha=1 - alpha, personalization={u: 1}, tol=1e-13, max_iter=5000)
        for u in range(10)
    ]
    expected = [ranks[u][v] + ranks[v][u] for u, v in all_pairs(10).T.tolist()]
    scorer = page_rank(links, 10, alpha=alpha, tolerance=1e-12)
    assert scorer.values(all_pairs(10)) == pytest.approx(expected, abs=1e-10)
    require_same_both_ways(scorer, all_pairs(10))


# People 0 to 3, items 4 to 7: 0 has 4 and 5, 1 has 4 and 6, 2 has 4, 5 and 6, 3 has none; 7 nobody.
RATED = torch.tensor([[0, 0, 1, 1, 2, 2, 2], [4, 5, 4, 6, 4, 5, 6]])
IS_ITEM = torch.arange(8) >= 4


@pytest.mark.parametrize("sides", [IS_ITEM, ~IS_ITEM, None], ids=["items", "people", "none"])
def test_the_method_tells_item_cosine_the_sides_of_the_graph(sides) -> None:
    method, known = method_named("item-cosine"), TrainingGraph(8, RATED, sides=sides)
    found = method.build(0, method.settings()).scorer(known).logits(all_pairs(8))
    assert torch.equal(found, ItemCosine(RATED, 8, sides).logits(all_pairs(8)))


@settings(max_examples=50, deadline=None)
@given(graphs(10, 30), st.none() | st.lists(st.booleans(), min_size=11, max_size=11))
def test_paths_and_cosines_agree_with_the_definition(links, told) -> None:
    sides = None if told is None else torch.tensor(told)
    if sides is not None:
        links = links[:, sides[links[0]] != sides[links[1]]]
    near = dense(links, 11)
    paths = ThreeStepPaths(links, 11)
    assert (paths.values(all_pairs(11)) == np.linalg.matrix_power(near, 3).ravel()).all()
    assert paths.rounding == 0
    require_same_both_ways(paths, all_pairs(11))
    length = np.maximum(np.linalg.norm(near, axis=0), 1)
    cosine = (near @ near) / np.outer(length, length)  # of the columns of two nodes
    one_way = near @ cosine * (1 if told is None else np.array(told))
    scorer = ItemCosine(links, 11, sides)
    expected = (one_way + one_way.T).ravel()
    assert scorer.values(all_pairs(11)) == pytest.approx(expected, rel=1e-12)
    require_same_both_ways(scorer, all_pairs(11))


# Rounding plays a part in each: 1/d in one, more than 2^53 walks in another, roots in the last.
KINDS = [partial(page_rank, tolerance=0.01), partial(katz, beta=0.3, length=20), item_cosine]


def a_graph(seed: int, nodes: int = 40, links: int = 150) -> torch.Tensor:
    pairs = np.random.default_rng(seed).integers(0, nodes, (2, 3 * links))
    pairs = np.unique(np.sort(pairs[:, pairs[0] != pairs[1]], axis=0), axis=1)
    return torch.from_numpy(pairs)[:, :links]


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
    require_same_both_ways(scorer, pairs)
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
        require_same_both_ways(cut, pairs)


def test_hubs_do_not_make_rounding_matter() -> None:
    """A hub of 100,000 links: without cutting its sum, 57 steps could be wrong by 1e-9."""
    leaves = torch.arange(1, 100_001)
    star = torch.stack([torch.zeros_like(leaves), leaves])
    assert page_rank(star, 100_001).rounding < 2e-11
