from __future__ import annotations

import pytest
import torch

from cgcl.errors import FeatureError
from cgcl.graph import Graph
from cgcl.graph.prepare import features_of, prepare

PAIRS = torch.tensor([[0, 1], [1, 2]])


def graph(x: torch.Tensor | None) -> Graph:
    return Graph.from_pairs("g", "abc", PAIRS, x)


def test_a_graph_without_features_gets_some_from_the_links_to_learn_from() -> None:
    prepared = prepare(graph(None), PAIRS[:, :1])
    assert features_of(prepared).is_sparse
    assert features_of(prepared).to_dense().tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 0]]
    assert prepared.feature_names == ("linked to a", "linked to b", "linked to c")
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
    assert features_of(prepared).shape == (n, 50_000)
    assert features_of(prepared).values().numel() <= 2 * (n - 1)
    assert len(prepared.feature_names) == 50_000


@pytest.mark.parametrize("is_sparse", [False, True])
def test_large_features_are_scaled_and_the_others_left_alone(is_sparse: bool) -> None:
    x = torch.tensor([[0.0, 1.0, -200.0], [30_000.0, 0.0, 50.0], [60_000.0, 9.5, 0.0]])
    given = x.to_sparse_coo().coalesce() if is_sparse else x
    prepared = prepare(graph(given), PAIRS)
    found = features_of(prepared)
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
    assert again.x is not None
    assert again.x.to_dense().sum() == 2  # one link from both its ends
    assert again.notes == prepare(graph, graph.edges[:, :1]).notes
