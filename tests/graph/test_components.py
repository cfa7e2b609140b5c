"""Connected pieces against scipy's, numbers included."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components as by_scipy

from cgcl.graph.components import connected_components


def reference(edges: np.ndarray, num_nodes: int) -> np.ndarray:
    ones = np.ones(edges.shape[1])
    return by_scipy(coo_array((ones, tuple(edges)), (num_nodes, num_nodes)), directed=False)[1]


@st.composite
def graphs(draw):
    num_nodes = draw(st.integers(1, 40))
    node = st.integers(0, num_nodes - 1)
    links = draw(st.lists(st.tuples(node, node), max_size=50))
    return np.array(links, dtype=np.int64).reshape(-1, 2).T, num_nodes


@given(graphs())
def test_pieces_are_those_of_scipy(graph):
    edges, num_nodes = graph
    found = connected_components(edges, num_nodes)
    assert found.dtype == np.int64
    assert found.tolist() == reference(edges, num_nodes).tolist()


def test_no_nodes_have_no_pieces():
    assert connected_components(np.empty((2, 0), dtype=np.int64), 0).tolist() == []


@pytest.mark.parametrize("shape", ["path", "shuffled path", "star", "comb"])
def test_long_ways_are_followed_to_their_end(shape):
    """A way of a thousand links is one piece, however its nodes are numbered."""
    nodes = np.arange(1001)
    if shape == "shuffled path":
        nodes = np.random.default_rng(0).permutation(nodes)
    edges = np.stack([nodes[:-1], nodes[1:]])
    if shape == "star":
        edges = np.stack([np.full(1000, 1000), nodes[:-1]])
    if shape == "comb":  # hubs of high numbers, each with leaves of low ones
        edges = np.stack([900 + nodes[:-1] % 100, nodes[:-1]])
        edges = np.concatenate([edges, np.stack([nodes[900:-1], nodes[901:]])], axis=1)
    assert (connected_components(edges, 1001) == 0).all()
