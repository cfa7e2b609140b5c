import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cgcl.errors import GraphContentError
from cgcl.graph import Graph


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
    with pytest.raises(
        GraphContentError, match=r"Pairs must be an int64 tensor of shape \[2, any\]"
    ):
        Graph.from_pairs("any", ["a"], pairs)


def test_asking_an_empty_graph_for_a_node_is_our_error():
    graph = Graph.from_pairs("none", [], torch.zeros(2, 0, dtype=torch.int64))
    with pytest.raises(GraphContentError, match="No node is called 'a'"):
        graph.nodes_named(["a"])
