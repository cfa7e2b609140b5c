import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cgcl.graph import Graph
from cgcl.graph.survey import FeatureSurvey, survey


def graph_of(num_nodes: int, pairs: list[tuple[int, int]], **also) -> Graph:
    edges = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).T
    return Graph.from_pairs("g", [f"n{i}" for i in range(num_nodes)], edges, **also)


@settings(max_examples=150, deadline=None)
@given(
    st.integers(0, 14).flatmap(
        lambda n: st.tuples(
            st.just(n),
            st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=16)
            if n
            else st.just([]),
        )
    )
)
def test_a_survey_agrees_with_networkx(case) -> None:
    n, pairs = case
    graph = graph_of(n, pairs)
    same = nx.Graph(graph.edges.T.tolist())
    same.add_nodes_from(range(n))
    found = survey(graph)
    degrees = [degree for _, degree in same.degree]
    assert found.nodes == n
    assert found.links == same.number_of_edges()
    assert found.components == nx.number_connected_components(same)
    assert found.largest_component == max(map(len, nx.connected_components(same)), default=0)
    assert found.isolated == nx.number_of_isolates(same)
    assert found.density == pytest.approx(nx.density(same))
    assert found.max_degree == max(degrees, default=0)
    if not found.links:
        assert (found.sides, found.hub) == (None, None)
        return
    assert same.degree[int(found.hub[1:])] == found.max_degree
    assert (found.sides is not None) == nx.is_bipartite(same)
    if found.sides is not None:
        assert sum(found.sides) == n - found.isolated
        if found.is_sides_unique:
            piece = max(nx.connected_components(same), key=len)
            halves = nx.bipartite.sets(same.subgraph(piece))
            assert sorted(found.sides) == sorted(map(len, halves))


def test_the_numbers_of_a_star_with_a_stranger() -> None:
    found = survey(graph_of(6, [(2, 0), (2, 1), (2, 3), (2, 4)]))
    assert (found.mean_degree, found.median_degree) == (pytest.approx(8 / 6), 1.0)
    assert (found.hub, found.max_degree) == ("n2", 4)
    assert (found.components, found.largest_component, found.isolated) == (2, 5, 1)
    # The first node of the piece, n0, is a ray, so the rays come first.
    assert (found.sides, found.is_sides_unique) == ((4, 1), True)
    assert found.density == pytest.approx(4 / 15)
    assert not found.is_bipartite
    assert not found.has_times
    assert not survey(graph_of(4, [(0, 1), (2, 3)])).is_sides_unique
    assert survey(graph_of(4, [(1, 2), (2, 3), (1, 3)])).hub == "n1"  # the first of several


def test_the_sides_of_a_bipartite_graph_are_those_it_was_read_with() -> None:
    sides = torch.tensor([False, True, True, False, True])
    times = torch.tensor([1.0, 2.0], dtype=torch.float64)
    found = survey(graph_of(5, [(0, 1), (3, 2)], sides=sides, times=times))
    assert (found.is_bipartite, found.sides, found.is_sides_unique) == (True, (2, 2), True)
    assert found.density == pytest.approx(2 / 6)
    assert found.has_times


X = torch.tensor([[1.0, 0, 3, -1, 0], [1, 0, 3, 2, 0], [1, 0, 0, 2, 0], [0, 0, 0, 0, 0]])


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (X, FeatureSurvey(5, False, 8, 2, 1)),
        (X.to_sparse_coo(), FeatureSurvey(5, True, 8, 2, 1)),
        # Without the row of zeros the first feature is 1 everywhere.
        (X[:3], FeatureSurvey(5, False, 8, 3, 0)),
        (X[:3].to_sparse_coo(), FeatureSurvey(5, True, 8, 3, 0)),
        (-X[:3].to_sparse_coo(), FeatureSurvey(5, True, 8, 3, 0)),
    ],
)
def test_features_are_counted_alike_dense_and_sparse(x, expected: FeatureSurvey) -> None:
    graph = graph_of(x.shape[0], [(0, 1)], x=x.coalesce() if x.is_sparse else x)
    assert survey(graph).features == expected
