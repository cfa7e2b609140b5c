from __future__ import annotations

from itertools import combinations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cgcl.counter_rng import epoch_key
from cgcl.errors import SplitError
from cgcl.seeds import stream
from cgcl.split import NegativeSampler


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
    assert unlinked._listed is None


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
