from __future__ import annotations

from itertools import combinations

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cgcl.counter_rng import epoch_key, integers, words
from cgcl.errors import SplitError
from cgcl.graph import Graph
from cgcl.metrics import auc
from cgcl.seeds import stream
from cgcl.split import NegativeSampler, Split, degree_negatives, random_split
from cgcl.split.split import divide


def pairs_of(columns: torch.Tensor) -> list[tuple[int, int]]:
    return [tuple(pair) for pair in columns.T.tolist()]


linked_pairs = st.integers(2, 12).flatmap(
    lambda n: st.tuples(
        st.just(n), st.sets(st.sampled_from(list(combinations(range(n), 2))), min_size=0)
    )
)


@settings(max_examples=100, deadline=None)
@given(linked_pairs, st.integers(1, 80), st.integers(0, 5))
def test_draws_are_unlinked_ordered_pairs(graph, count: int, seed: int) -> None:
    num_nodes, links = graph
    tensor = torch.tensor(sorted(links), dtype=torch.int64).reshape(-1, 2).T
    unlinked = NegativeSampler(tensor.flip(0), num_nodes)  # the direction given must not matter
    free = set(combinations(range(num_nodes), 2)) - links
    assert unlinked.count == len(free)
    if not free:
        with pytest.raises(SplitError):
            unlinked.draw(count, stream(seed, "test"))
        with pytest.raises(SplitError):
            unlinked.draw_hashed(count, seed)
        return
    drawn = pairs_of(unlinked.draw(count, stream(seed, "test")))
    assert len(drawn) == count
    assert set(drawn) <= free
    hashed = pairs_of(unlinked.draw_hashed(count, seed))
    assert set(hashed) <= free
    assert hashed == pairs_of(unlinked.draw_hashed(count + 7, seed))[:count]
    if count <= len(free):
        distinct = pairs_of(unlinked.draw_distinct(count, stream(seed, "test")))
        assert len(set(distinct)) == count
        assert set(distinct) <= free
    else:
        with pytest.raises(SplitError, match=f"Only {len(free)} pairs are not linked"):
            unlinked.draw_distinct(count, stream(seed, "test"))


@pytest.mark.parametrize("links", [[(0, 1), (2, 3)], list(combinations(range(6), 2))[3:]])
@pytest.mark.parametrize("method", ["draw", "draw_distinct", "draw_hashed"])
def test_every_unlinked_pair_is_equally_likely(links, method: str) -> None:
    """Once in a sparse and once in a crowded graph, which is answered from a list."""
    unlinked = NegativeSampler(torch.tensor(links).T, 6)
    free = sorted(set(combinations(range(6), 2)) - set(links))
    counts = dict.fromkeys(free, 0)
    rounds = 1500
    for seed in range(rounds):
        source = epoch_key(seed, 1) if method == "draw_hashed" else stream(seed, "uniform")
        for pair in pairs_of(getattr(unlinked, method)(2, source)):
            counts[pair] += 1
    expected = 2 * rounds / len(free)
    chi_square = sum((seen - expected) ** 2 / expected for seen in counts.values())
    # The 99.99 % quantile of chi-square with 12 degrees of freedom is 39.1.
    assert chi_square < 39.1, counts


def test_a_large_sparse_graph_is_searched_not_listed() -> None:
    links = torch.stack([torch.arange(0, 99_999), torch.arange(1, 100_000)])
    unlinked = NegativeSampler(links, 100_000)
    drawn = unlinked.draw_distinct(50_000, stream(0, "test"))
    assert torch.unique(drawn, dim=1).shape[1] == 50_000
    assert not ((drawn[1] - drawn[0]) == 1).any()
    assert "_free" not in vars(unlinked)


@pytest.mark.parametrize("num_links", [100, 770])
def test_unlinked_pairs_are_listed_where_most_pairs_are_linked_or_asked_for(num_links) -> None:
    links = torch.combinations(torch.arange(40)).T[:, :num_links]  # of 780 pairs
    for draw, is_listed in (
        (lambda sampler: sampler.draw(3, stream(0, "test")), num_links == 770),
        (lambda sampler: sampler.draw_hashed(3, 5), num_links == 770),
        (lambda sampler: sampler.draw_distinct(1, stream(0, "test")), num_links == 770),
        (lambda sampler: sampler.draw_distinct(8, stream(0, "test")), num_links == 770),
        (lambda sampler: sampler.draw_distinct(sampler.count, stream(0, "test")), True),
    ):
        sampler = NegativeSampler(links, 40)
        draw(sampler)
        assert ("_free" in vars(sampler)) == is_listed


@pytest.mark.parametrize("sides", [None, torch.arange(9) > 4])
def test_a_hashed_pair_is_the_first_of_its_slot_that_is_not_linked(sides) -> None:
    pairs = torch.combinations(torch.arange(9)).T
    if sides is not None:
        pairs = pairs[:, sides[pairs[0]] != sides[pairs[1]]]
    links, key = pairs[:, ::2], epoch_key(3, 1)
    known = set(pairs_of(links))

    def number(slot: int, turn: int, below: int) -> int:
        return int(integers(words(key, torch.tensor([slot]), torch.tensor([turn])), below))

    def pair_of(slot: int, attempt: int) -> tuple[int, int]:
        if sides is not None:
            return number(slot, 2 * attempt, 5), 5 + number(slot, 2 * attempt + 1, 4)
        one, other = number(slot, 2 * attempt, 9), number(slot, 2 * attempt + 1, 8)
        other += other >= one
        return min(one, other), max(one, other)

    expected = []
    for slot in range(50):
        tried = (pair_of(slot, attempt) for attempt in range(100))
        expected.append(next(pair for pair in tried if pair not in known))
    assert pairs_of(NegativeSampler(links, 9, sides).draw_hashed(50, key)) == expected


@given(st.integers(1, 5), st.integers(1, 5), st.data())
def test_in_a_bipartite_graph_only_pairs_across_are_drawn(left, right, data):
    across = [(a, left + b) for a in range(left) for b in range(right)]
    linked = data.draw(st.lists(st.sampled_from(across), unique=True))
    sides = torch.tensor([False] * left + [True] * right)
    links = torch.tensor(linked, dtype=torch.int64).reshape(-1, 2).T
    unlinked = NegativeSampler(links, left + right, sides)
    free = set(across) - set(linked)
    assert unlinked.count == len(free)
    drawn = unlinked.draw_distinct(len(free), torch.Generator().manual_seed(0))
    assert set(map(tuple, drawn.T.tolist())) == free
    if free:
        drawn = unlinked.draw(20, torch.Generator().manual_seed(0))
        assert set(map(tuple, drawn.T.tolist())) <= free
        assert set(map(tuple, unlinked.draw_hashed(20, 5).T.tolist())) <= free


# --- By degree ---


def as_split(n: int, links: list[tuple[int, int]], sides=None, tested: int = 2) -> Split:
    every = torch.tensor(links, dtype=torch.int64).reshape(-1, 2).T
    none = every[:, :0]
    return Split(n, every[:, tested:], none, every[:, :tested], none, none, sides)


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(8, 30), st.booleans(), st.integers(0, 5))
def test_pairs_are_unlinked_ordered_across_and_of_nodes_with_links(
    data, n, two_sided, seed
) -> None:
    sides = (torch.arange(n) % 2).bool() if two_sided else None
    every = [(u, v) for u in range(n) for v in range(u + 1, n) if not two_sided or u % 2 != v % 2]
    links = data.draw(st.lists(st.sampled_from(every), min_size=6, max_size=9, unique=True))
    split = as_split(n, links, sides)
    ends = {node for link in links for node in link}
    assume(any((u, v) not in links for u, v in every if {u, v} <= ends))
    found = degree_negatives(split, seed)
    assert found.shape == (2, 2)
    assert torch.equal(found, degree_negatives(split, seed))
    for u, v in found.T.tolist():
        assert u < v
        assert (u, v) not in links
        assert {u, v} <= ends
        assert sides is None or sides[u] != sides[v]


def test_ends_come_up_as_often_as_they_have_links() -> None:
    """A star of 40 and 20 pairs apart: the hub has 40 of all 120 ends.

    A pair is free if it is hub and pair node (2 * 40 * 40), leaf and pair node (2 * 40 * 40), two
    leaves (40 * 39) or two nodes of different pairs (40 * 38) of 120 * 120 draws of two ends. So
    the hub is in 3200 of 9480.
    """
    links = [(0, leaf) for leaf in range(1, 41)] + [(u, u + 1) for u in range(41, 81, 2)]
    split = as_split(81, links, tested=60)
    found = torch.cat([degree_negatives(split, seed) for seed in range(200)], dim=1)
    assert float((found[0] == 0).double().mean()) == pytest.approx(3200 / 9480, abs=0.02)


def test_counting_links_alone_tells_hardly_anything_apart(cora: Graph) -> None:
    split = random_split(cora, 0.05, 0.10, 0)
    degree = torch.cat([split.train, split.val, split.test], dim=1).flatten().bincount()
    score = [degree[p].double().prod(dim=0) for p in (split.test, split.test_negatives)]
    harder = degree[degree_negatives(split)].double().prod(dim=0)
    assert auc(*score) > 0.7
    assert auc(score[0], harder) == pytest.approx(0.5, abs=0.06)


def test_a_complete_graph_has_none() -> None:
    links = [(u, v) for u in range(6) for v in range(u + 1, 6)]
    with pytest.raises(SplitError, match="2 are needed"):
        degree_negatives(as_split(8, links))


def test_the_splits_own_negatives_play_no_part(cora: Graph) -> None:
    parts = torch.arange(cora.num_edges).split([4750, 264, cora.num_edges - 5014])
    one, other = (divide(cora, *parts, seed=seed) for seed in (0, 1))
    assert torch.equal(degree_negatives(one), degree_negatives(other))
    assert torch.equal(degree_negatives(one), degree_negatives(one, 0))
    assert not torch.equal(degree_negatives(one), degree_negatives(one, 1))
