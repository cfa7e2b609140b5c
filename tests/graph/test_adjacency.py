"""Compressed rows and pair codes against what a set of pairs says."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components as by_scipy

from cgcl.graph import adjacency as module
from cgcl.graph.adjacency import Adjacency, blocks_of, connected_components
from cgcl.graph.pairs import canonical, decode, encode, encode_ordered, is_in, unique_sorted


@st.composite
def graphs(draw):
    """Links, each once, in any direction and order, and the number of nodes."""
    n = draw(st.integers(0, 12))
    every = [(a, b) for a in range(n) for b in range(n) if a < b]
    links = draw(st.lists(st.sampled_from(every), unique=True)) if every else []
    turned = [(b, a) if draw(st.booleans()) else (a, b) for a, b in links]
    return torch.tensor(turned, dtype=torch.int64).reshape(-1, 2).T, n


@given(graphs())
def test_rows_hold_the_neighbours_of_each_node(graph):
    links, n = graph
    linked = {frozenset(link) for link in links.T.tolist()}
    rows = [[v for v in range(n) if {u, v} in linked and u != v] for u in range(n)]
    built = Adjacency.from_pairs(links, n, edge_ids=True)
    for found in (built, Adjacency.from_pairs(links, n)):
        starts = found.indptr.tolist()
        assert [found.indices.tolist()[starts[u] : starts[u + 1]] for u in range(n)] == rows
        assert found.degree.tolist() == list(map(len, rows))
        nodes = torch.arange(n).flip(0).repeat(2)
        which, who = found.neighbours(nodes)
        assert list(zip(nodes[which].tolist(), who.tolist(), strict=True)) == [
            (u, v) for u in nodes.tolist() for v in rows[u]
        ]
        taken = found.take(nodes.numpy())
        assert torch.equal(torch.from_numpy(taken[0]), which)
        assert torch.equal(torch.from_numpy(taken[1]), who)
    assert torch.equal(built.edge_index.amin(0), links.amin(0)[built.edge_ids])
    assert torch.equal(built.edge_index.amax(0), links.amax(0)[built.edge_ids])


@given(graphs())
def test_rows_become_matrices(graph):
    links, n = graph
    built = Adjacency.from_pairs(links, n, edge_ids=True, self_loops=True)
    dense = torch.eye(n)
    dense[links[0], links[1]] = dense[links[1], links[0]] = 1
    assert torch.equal(torch.from_numpy(built.to_scipy().toarray()).float(), dense)
    assert torch.equal(built.to_torch(torch.ones(built.indices.numel())).to_dense(), dense)
    loops = built.row == built.indices
    assert torch.equal(loops, built.edge_ids == links.shape[1])
    pieces = connected_components(links.numpy(), n)
    assert pieces.tolist() == by_scipy(built.to_scipy())[1].tolist() if n else True


@given(graphs(), st.integers(1, 5))
def test_common_neighbours_are_those_of_both_rows(graph, budget):
    links, n = graph
    found = Adjacency.from_pairs(links, n)
    pairs = torch.cartesian_prod(torch.arange(n), torch.arange(n)).reshape(-1, 2).T
    rows = [set(found.neighbours(torch.tensor([u]))[1].tolist()) for u in range(n)]
    expected = [
        (place, w) for place, (u, v) in enumerate(pairs.T.tolist()) for w in rows[u] & rows[v]
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BUDGET", budget)
        place, node = found.common_neighbours(pairs)
    assert list(zip(place.tolist(), node.tolist(), strict=True)) == sorted(expected)
    linked = {frozenset(link) for link in links.T.tolist()}
    expected = [{u, v} in linked and u != v for u, v in pairs.T.tolist()]
    assert found.contains(*pairs).tolist() == expected


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6))))
def test_codes_stand_for_pairs(pairs):
    pairs = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).T
    assert torch.equal(decode(encode(*pairs, 7), 7), canonical(pairs))
    assert torch.equal(decode(encode_ordered(*pairs, 7), 7), pairs)
    codes = unique_sorted(encode(*pairs, 7))
    assert torch.equal(unique_sorted(codes), codes)
    assert codes.tolist() == sorted({7 * min(p) + max(p) for p in pairs.T.tolist()})
    every = torch.arange(49)
    assert torch.equal(is_in(every, codes), torch.isin(every, codes))


@given(st.lists(st.integers(0, 9)), st.integers(1, 12), st.none() | st.integers(1, 3))
def test_blocks_cover_all_within_the_budget(costs, budget, most):
    blocks = list(blocks_of(np.array(costs, dtype=np.int64), budget, most))
    assert [place for block in blocks for place in range(block.start, block.stop)] == list(
        range(len(costs))
    )
    for block in blocks:
        size = block.stop - block.start
        assert size == 1 or sum(costs[block]) <= budget
        assert size <= (most or size)
