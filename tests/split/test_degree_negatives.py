"""Degree-corrected counter-examples."""

from __future__ import annotations

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import cgcl
from cgcl.errors import SplitError
from cgcl.metrics import auc
from cgcl.split import NegativeSampler, Split, degree_negatives, random_split
from cgcl.split.split import divide


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


def test_counting_links_alone_tells_hardly_anything_apart() -> None:
    graph = cgcl.read("cora")
    split = random_split(graph, 0.05, 0.10, 0)
    degree = torch.cat([split.train, split.val, split.test], dim=1).flatten().bincount()
    score = [degree[p].double().prod(dim=0) for p in (split.test, split.test_negatives)]
    harder = degree[degree_negatives(split)].double().prod(dim=0)
    assert auc(*score) > 0.7
    assert auc(score[0], harder) == pytest.approx(0.5, abs=0.06)


def test_a_complete_graph_has_none() -> None:
    links = [(u, v) for u in range(6) for v in range(u + 1, 6)]
    with pytest.raises(SplitError, match="2 are needed"):
        degree_negatives(as_split(8, links))


def test_the_splits_own_negatives_play_no_part() -> None:
    graph = cgcl.read("cora")
    parts = torch.arange(graph.num_edges).split([4750, 264, graph.num_edges - 5014])
    one, other = (divide(graph, *parts, seed=seed) for seed in (0, 1))
    assert torch.equal(degree_negatives(one), degree_negatives(other))
    assert NegativeSampler(graph.edges, graph.num_nodes).count > 0
