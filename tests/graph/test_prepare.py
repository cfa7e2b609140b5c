from __future__ import annotations

import pytest
import torch

from cgcl.errors import FeatureError
from cgcl.graph import Graph
from cgcl.graph.prepare import features_of, prepare

PAIRS = torch.tensor([[0, 1], [1, 2]])


def graph(x: torch.Tensor | None) -> Graph:
    return Graph.from_pairs("g", "abc", PAIRS, x)


def test_a_graph_without_features_gets_one_per_node() -> None:
    prepared = prepare(graph(None))
    assert features_of(prepared).is_sparse
    assert torch.equal(features_of(prepared).to_dense(), torch.eye(3))
    assert prepared.notes == ("No features given: every node has one of its own.",)
    with pytest.raises(FeatureError, match="The graph 'g' has no features"):
        features_of(graph(None))


def test_too_many_nodes_to_do_without_features_are_refused(monkeypatch) -> None:
    monkeypatch.setattr("cgcl.graph.prepare._MAX_NODES", 2)
    with pytest.raises(FeatureError, match=r"3 nodes are too many .*\(at most 2\)"):
        prepare(graph(None))


@pytest.mark.parametrize("is_sparse", [False, True])
def test_large_features_are_scaled_and_the_others_left_alone(is_sparse: bool) -> None:
    x = torch.tensor([[0.0, 1.0, -200.0], [30_000.0, 0.0, 50.0], [60_000.0, 9.5, 0.0]])
    given = x.to_sparse_coo().coalesce() if is_sparse else x
    prepared = prepare(graph(given))
    found = features_of(prepared)
    assert found.is_sparse == is_sparse
    expected = [[0.0, 1.0, -1.0], [0.5, 0.0, 0.25], [1.0, 9.5, 0.0]]
    torch.testing.assert_close(found.to_dense() if is_sparse else found, torch.tensor(expected))
    assert prepared.notes == (
        "2 features with values beyond 10 scaled: divided by the largest magnitude.",
    )


def test_ordinary_features_are_not_touched(cora: Graph) -> None:
    assert prepare(cora) is cora
