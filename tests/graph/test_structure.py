from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cgcl.graph import Graph
from cgcl.graph.prepare import features_of, prepare
from cgcl.graph.structure import (
    MAX_FEATURES,
    feature_of_each_node,
    has_structural_features,
    neighbour_features,
    neighbour_names,
    rows_of_new_nodes,
)
from cgcl.split import random_split

# A star around node 0, a link between 3 and 4, and node 5 alone.
LINKS = torch.tensor([[0, 0, 0, 3], [1, 2, 3, 4]])


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    n = draw(st.integers(14, 20))
    pairs = draw(
        st.lists(
            st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda p: p[0] != p[1]),
            min_size=30,
            max_size=36,
            unique_by=lambda pair: frozenset(pair),
        )
    )
    return Graph.from_pairs("g", [f"n{k:02d}" for k in range(n)], torch.tensor(pairs).T)


def test_features_say_who_is_linked_to_whom() -> None:
    x = neighbour_features(LINKS, 6)
    assert x.is_sparse
    assert x.is_coalesced()
    assert x.dtype == torch.float32
    assert x.to_dense().tolist() == [
        [0, 1, 1, 1, 0, 0],
        [1, 0, 0, 0, 0, 0],
        [1, 0, 0, 0, 0, 0],
        [1, 0, 0, 0, 1, 0],
        [0, 0, 0, 1, 0, 0],
        [0, 0, 0, 0, 0, 0],
    ]


def test_many_nodes_share_features_but_the_most_linked_have_their_own() -> None:
    # By degree: 0 (3 links), 3 (2), then 1, 2, 4 (1 each, in the order of the nodes), 5 (0).
    assert feature_of_each_node(LINKS, 6, 4).tolist() == [0, 2, 3, 1, 2, 3]
    assert feature_of_each_node(LINKS, 6, 5).tolist() == [0, 4, 2, 1, 3, 4]
    x = neighbour_features(LINKS, 6, 4)
    assert x.to_dense().tolist() == [
        [0, 1, 1, 1],
        [1, 0, 0, 0],
        [1, 0, 0, 0],
        [1, 0, 1, 0],
        [0, 1, 0, 0],
        [0, 0, 0, 0],
    ]
    both = torch.tensor([[0, 0], [1, 4]])  # nodes 1 and 4 share a feature here
    assert neighbour_features(both, 6, 4).to_dense()[0].tolist() == [0, 1, 1, 0]


def test_two_links_to_nodes_that_share_a_feature_count_twice() -> None:
    links = torch.tensor([[0, 0, 0, 1, 1, 1], [2, 3, 4, 2, 3, 4]])
    x = neighbour_features(links, 5, 3)
    assert feature_of_each_node(links, 5, 3).tolist() == [0, 2, 1, 2, 1]
    assert x.to_dense()[0].tolist() == [0, 2, 1]


@given(n=st.integers(1, 40), most=st.integers(2, 30), data=st.data())
@settings(max_examples=60, deadline=None)
def test_no_feature_is_idle_and_every_node_has_one(n: int, most: int, data: st.DataObject) -> None:
    ends = data.draw(st.lists(st.integers(0, n - 1), max_size=30))
    links = torch.tensor([ends, ends[::-1]], dtype=torch.int64).reshape(2, -1)
    feature = feature_of_each_node(links, n, most)
    assert sorted(set(feature.tolist())) == list(range(min(n, most)))
    x = neighbour_features(links, n, most)
    assert x.shape == (n, min(n, most))
    assert float(x.values().sum()) == 2 * links.shape[1]


@given(graph=graphs(), seed=st.integers(0, 5))
@settings(max_examples=30, deadline=None)
def test_links_that_are_held_back_change_no_feature(graph: Graph, seed: int) -> None:
    split = random_split(graph, 0.2, 0.2, seed)
    prepared = prepare(graph, split.train)
    alone = Graph(graph.title, graph.names, split.train)
    expected = features_of(prepare(alone, split.train))
    assert torch.equal(features_of(prepared).indices(), expected.indices())
    assert torch.equal(features_of(prepared).values(), expected.values())
    dense = features_of(prepared).to_dense()
    for hidden in (split.val, split.test):
        assert dense[hidden[0], hidden[1]].sum() == 0
        assert dense[hidden[1], hidden[0]].sum() == 0


def test_features_are_called_after_the_nodes() -> None:
    assert neighbour_names(torch.tensor([1, 0]), ("=cmd()", "b")) == (
        "linked to b",
        "linked to =cmd()",
    )


def test_a_new_node_has_the_features_of_its_links() -> None:
    new_links = torch.tensor([[0, 0, 2], [0, 4, 5]])
    x = rows_of_new_nodes(LINKS, 6, new_links, 3)
    assert x.to_dense().tolist() == [[1, 0, 0, 0, 1, 0], [0] * 6, [0, 0, 0, 0, 0, 1]]


def test_a_new_node_gets_the_features_that_training_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    n = MAX_FEATURES + 1
    links = torch.tensor([[0], [n - 1]])
    x = rows_of_new_nodes(links, n, torch.tensor([[0], [n - 1]]), 1)
    feature = feature_of_each_node(links, n)
    assert x.shape == (1, MAX_FEATURES)
    assert x.indices()[1].tolist() == [int(feature[n - 1])] == [1]


def test_made_features_can_be_told_from_given_ones() -> None:
    graph = Graph.from_pairs("g", "abcdef", LINKS)
    assert has_structural_features(prepare(graph, LINKS))
    assert not has_structural_features(graph)
    given_x = Graph.from_pairs("g", "abcdef", LINKS, torch.eye(6))
    assert not has_structural_features(prepare(given_x, LINKS))
