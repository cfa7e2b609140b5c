from __future__ import annotations

import pytest
import torch

from cgcl.errors import FeatureError
from cgcl.graph import Graph
from cgcl.graph.features import features_of, prepare

PAIRS = torch.tensor([[0, 1], [1, 2]])


def graph(x: torch.Tensor | None) -> Graph:
    return Graph.from_pairs("g", "abc", PAIRS, x)


def test_a_graph_without_features_gets_some_from_the_links_to_learn_from() -> None:
    prepared = prepare(graph(None), PAIRS[:, :1])
    assert prepared.x is None  # they follow from whatever links are looked at
    assert prepared.structure is features_of(prepared)
    assert prepared.structure is not None
    assert prepared.structure.feature_of_node.tolist() == [0, 1, 2]
    assert (prepared.num_features, prepared.num_nonzeros, prepared.is_sparse) == (3, 2, True)
    assert repr(prepared) == "Graph(3 nodes, 2 links, 3 features)"
    assert prepared.feature_scale is None
    assert prepared.notes == (
        "No features given: 3 structural features were made from the links to learn from: "
        "who is linked to whom.",
    )
    with pytest.raises(FeatureError, match="The graph 'g' has no features"):
        features_of(graph(None))


def test_many_nodes_get_a_bounded_number_of_features() -> None:
    n = 100_000
    names = tuple(map(str, range(n)))
    links = torch.stack([torch.arange(n - 1), torch.arange(1, n)])
    prepared = prepare(Graph("path", names, links), links)
    assert prepared.num_features == 50_000
    assert prepared.structure is not None
    x = prepared.structure.features(prepared.edge_index)
    assert x.shape == (n, 50_000)
    assert x.values().numel() <= 2 * (n - 1)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_large_features_are_scaled_and_the_others_left_alone(is_sparse: bool) -> None:
    x = torch.tensor([[0.0, 1.0, -200.0], [30_000.0, 0.0, 50.0], [60_000.0, 9.5, 0.0]])
    given = x.to_sparse_coo().coalesce() if is_sparse else x
    prepared = prepare(graph(given), PAIRS)
    found = features_of(prepared)
    assert isinstance(found, torch.Tensor)
    assert found.is_sparse == is_sparse
    expected = [[0.0, 1.0, -1.0], [0.5, 0.0, 0.25], [1.0, 9.5, 0.0]]
    torch.testing.assert_close(found.to_dense() if is_sparse else found, torch.tensor(expected))
    assert prepared.notes == (
        "2 features with values beyond 10 scaled: divided by the largest magnitude.",
    )
    assert prepared.feature_scale is not None
    torch.testing.assert_close(prepared.feature_scale, torch.tensor([1 / 60_000, 1, 1 / 200]))


def test_ordinary_features_are_not_touched(cora: Graph) -> None:
    assert prepare(cora, cora.edges) is cora


def test_features_of_an_earlier_fit_are_made_anew():
    graph = Graph.from_pairs("toy", "abcd", torch.tensor([[0, 1, 2], [1, 2, 3]]))
    first = prepare(graph, graph.edges)
    again = prepare(first, graph.edges[:, :1])
    assert again.num_nonzeros == 2  # one link from both its ends
    assert again.notes == prepare(graph, graph.edges[:, :1]).notes
