from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cgcl.errors import GraphContentError
from cgcl.graph import Graph
from cgcl.graph.graph import read_stored_graph, write_graph


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=40))
def test_from_pairs_keeps_exactly_the_unordered_pairs_of_two_nodes(pairs):
    tensor = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).T
    graph = Graph.from_pairs("any", [str(node) for node in range(10)], tensor)
    assert {frozenset(pair) for pair in graph.edges.T.tolist()} == {
        frozenset(pair) for pair in pairs if pair[0] != pair[1]
    }
    assert graph.num_edges == len({frozenset(pair) for pair in pairs if pair[0] != pair[1]})


@pytest.mark.parametrize(
    "pairs",
    [torch.zeros(2, 3), torch.zeros(3, 2, dtype=torch.int64), torch.zeros(2, dtype=torch.int64)],
)
def test_pairs_of_another_type_or_shape_are_refused(pairs):
    for build, what in ((Graph.from_pairs, "Pairs"), (Graph, "Links of a graph")):
        with pytest.raises(GraphContentError, match=rf"{what} must be an int64 .* \[2, any\]"):
            build("any", ("a",), pairs)


def test_asking_an_empty_graph_for_a_node_is_our_error():
    graph = Graph.from_pairs("none", [], torch.zeros(2, 0, dtype=torch.int64))
    with pytest.raises(GraphContentError, match="No node is called 'a'"):
        graph.nodes_named(["a"])


def test_a_link_within_a_side_is_refused():
    sides = torch.tensor([True, True, False])
    with pytest.raises(GraphContentError, match="same side"):
        Graph.from_pairs("toy", "abc", torch.tensor([[0], [1]]), sides=sides)


def test_a_repeated_link_counts_from_its_first_time():
    pairs = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 2]])
    times = torch.tensor([5.0, 3.0, 9.0, 1.0], dtype=torch.float64)
    graph = Graph.from_pairs("toy", "abc", pairs, times=times)
    assert graph.times.tolist() == [3.0, 9.0]


def test_whatever_a_score_depends_on_is_part_of_the_fingerprint():
    features = torch.tensor([[1.0, 0.0], [0.0, 0.0], [0.0, 2.0]])
    graph = Graph.from_pairs("g", "abc", torch.tensor([[0], [1]]), features)
    others = [
        Graph.from_pairs("g", "abx", graph.edges, features),
        Graph.from_pairs("g", "abc", torch.tensor([[0], [2]]), features),
        Graph.from_pairs("g", "abc", graph.edges),
        Graph.from_pairs("g", "abc", graph.edges, features.flip(1)),
        Graph.from_pairs("g", "abc", graph.edges, features * 2),
        Graph.from_pairs("g", "abc", graph.edges, features[:, [0, 1, 1]] * torch.tensor([1, 1, 0])),
        replace(graph, sides=torch.tensor([True, False, False])),
    ]
    assert len({found.fingerprint for found in (graph, *others)}) == 8
    assert Graph.from_pairs("h", "abc", graph.edges, features).fingerprint == graph.fingerprint


def test_a_stored_graph_keeps_sides_times_and_feature_names(tmp_path):
    graph = Graph.from_pairs(
        "toy",
        "abc",
        torch.tensor([[0, 1], [2, 2]]),
        torch.eye(3),
        sides=torch.tensor([False, False, True]),
        times=torch.tensor([1.0, 2.0], dtype=torch.float64),
        feature_names=("red", "green", "blue"),
    )
    graph = replace(graph, notes=("Halved.",), feature_scale=torch.ones(3) / 2)
    write_graph(tmp_path / "g", graph)
    again = read_stored_graph(tmp_path / "g")
    assert again.fingerprint == graph.fingerprint
    assert again.sides.equal(graph.sides)
    assert again.times.equal(graph.times)
    assert again.feature_scale.equal(graph.feature_scale)
    assert again.feature_names == ("red", "green", "blue")
    assert again.notes == graph.notes
