from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cgcl.errors import FeatureError
from cgcl.graph import Graph
from cgcl.graph.features import Structure, features_of, has_structural_features, prepare
from cgcl.graph.graph import read_stored_graph, write_graph
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


def features(links: torch.Tensor, n: int, most: int = 50_000) -> torch.Tensor:
    """Made and counted from the same links."""
    return Structure.of(links, n, most).features(both_ways(links))


def both_ways(links: torch.Tensor) -> torch.Tensor:
    return torch.cat([links, links.flip(0)], dim=1)


def test_features_say_who_is_linked_to_whom() -> None:
    x = features(LINKS, 6)
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


def test_a_link_in_one_direction_is_known_to_the_end_where_it_arrives() -> None:
    x = Structure.of(LINKS, 6).features(torch.tensor([[0], [1]])).to_dense()
    assert x.nonzero().tolist() == [[1, 0]]


def test_many_nodes_share_features_but_the_most_linked_have_their_own() -> None:
    # By degree: 0 (3 links), 3 (2), then 1, 2, 4 (1 each, in the order of the nodes), 5 (0).
    assert Structure.of(LINKS, 6, 4).feature_of_node.tolist() == [0, 2, 3, 1, 2, 3]
    assert Structure.of(LINKS, 6, 5).feature_of_node.tolist() == [0, 4, 2, 1, 3, 4]
    assert features(LINKS, 6, 4).to_dense().tolist() == [
        [0, 1, 1, 1],
        [1, 0, 0, 0],
        [1, 0, 0, 0],
        [1, 0, 1, 0],
        [0, 1, 0, 0],
        [0, 0, 0, 0],
    ]


@given(n=st.integers(1, 40), most=st.integers(2, 30), data=st.data())
@settings(max_examples=60, deadline=None)
def test_no_feature_is_idle_and_every_node_has_one(n: int, most: int, data: st.DataObject) -> None:
    ends = data.draw(st.lists(st.integers(0, n - 1), max_size=30))
    links = torch.tensor([ends, ends[::-1]], dtype=torch.int64).reshape(2, -1)
    feature = Structure.of(links, n, most).feature_of_node
    assert sorted(set(feature.tolist())) == list(range(min(n, most)))
    x = features(links, n, most)
    assert x.shape == (n, min(n, most))
    assert float(x.values().sum()) == 2 * links.shape[1]


@given(graph=graphs(), seed=st.integers(0, 5), most=st.integers(4, 30))
@settings(max_examples=30, deadline=None)
def test_links_that_are_held_back_change_nothing(graph: Graph, seed: int, most: int) -> None:
    split = random_split(graph, 0.2, 0.2, seed)
    prepared = prepare(graph, split.train)
    alone = prepare(Graph(graph.title, graph.names, split.train), split.train)
    assert torch.equal(prepared.structure.feature_of_node, alone.structure.feature_of_node)
    assert prepared.num_nonzeros == alone.num_nonzeros == 2 * split.train.shape[1]
    dense = prepared.structure.features(both_ways(split.train)).to_dense()
    for hidden in (split.val, split.test):
        assert dense[hidden[0], hidden[1]].sum() == 0
        assert dense[hidden[1], hidden[0]].sum() == 0


def test_a_new_node_has_the_features_of_its_links_and_no_feature_speaks_of_it() -> None:
    structure = Structure.of(LINKS, 6, 4).with_new_nodes(2)
    links = torch.tensor([[0, 4, 6], [6, 6, 7]])  # the two new ones know each other
    x = structure.features(both_ways(links)).to_dense()
    assert x.shape == (8, 4)
    assert x[6].tolist() == [1, 0, 1, 0]
    assert x.sum() == 2


def test_a_stored_graph_keeps_how_features_are_made_and_no_features(tmp_path: Path) -> None:
    graph = prepare(Graph.from_pairs("g", "abcdef", LINKS), LINKS[:, :2])
    write_graph(tmp_path / "graph.safetensors", graph)
    again = read_stored_graph(tmp_path / "graph.safetensors")
    assert again.x is None
    assert again.structure.feature_of_node.tolist() == [0, 1, 2, 3, 4, 5]
    assert (again.num_features, again.num_nonzeros) == (6, 4)
    assert again.notes == graph.notes
    assert again.fingerprint == graph.fingerprint
    assert again.fingerprint != Graph.from_pairs("g", "abcdef", LINKS).fingerprint


def test_made_features_can_be_told_from_given_ones() -> None:
    assert has_structural_features(prepare(Graph.from_pairs("g", "abcdef", LINKS), LINKS))
    for x in (None, torch.eye(6)):
        assert not has_structural_features(Graph.from_pairs("g", "abcdef", LINKS, x))


# --- What is done before training ---

PAIRS = torch.tensor([[0, 1], [1, 2]])


def path(x: torch.Tensor | None) -> Graph:
    return Graph.from_pairs("g", "abc", PAIRS, x)


def test_a_graph_without_features_gets_some_from_the_links_to_learn_from() -> None:
    prepared = prepare(path(None), PAIRS[:, :1])
    assert prepared.x is None  # they follow from whatever links are looked at
    assert prepared.structure is features_of(prepared)
    assert prepared.structure.feature_of_node.tolist() == [0, 1, 2]
    assert (prepared.num_features, prepared.num_nonzeros, prepared.is_sparse) == (3, 2, True)
    assert repr(prepared) == "Graph(3 nodes, 2 links, 3 features)"
    assert prepared.feature_scale is None
    assert prepared.notes == (
        "No features given: 3 structural features were made from the links to learn from: "
        "who is linked to whom.",
    )
    with pytest.raises(FeatureError, match="The graph 'g' has no features"):
        features_of(path(None))


def test_many_nodes_get_a_bounded_number_of_features() -> None:
    links = torch.stack([torch.arange(99_999), torch.arange(1, 100_000)])
    prepared = prepare(Graph("path", tuple(map(str, range(100_000))), links), links)
    assert features_of(prepared).features(prepared.edge_index).shape == (100_000, 50_000)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_large_features_are_scaled_and_the_others_left_alone(is_sparse: bool) -> None:
    x = torch.tensor([[0.0, 1.0, -200.0], [30_000.0, 0.0, 50.0], [60_000.0, 9.5, 0.0]])
    given = x.to_sparse_coo().coalesce() if is_sparse else x
    prepared = prepare(path(given), PAIRS)
    found = features_of(prepared)
    assert found.is_sparse == is_sparse
    expected = [[0.0, 1.0, -1.0], [0.5, 0.0, 0.25], [1.0, 9.5, 0.0]]
    torch.testing.assert_close(found.to_dense() if is_sparse else found, torch.tensor(expected))
    assert prepared.notes == (
        "2 features with values beyond 10 scaled: divided by the largest magnitude.",
    )
    torch.testing.assert_close(prepared.feature_scale, torch.tensor([1 / 60_000, 1, 1 / 200]))


def test_ordinary_features_are_not_touched(cora: Graph) -> None:
    assert prepare(cora, cora.edges) is cora


def test_features_of_an_earlier_fit_are_made_anew():
    graph = Graph.from_pairs("toy", "abcd", torch.tensor([[0, 1, 2], [1, 2, 3]]))
    first = prepare(graph, graph.edges)
    again = prepare(first, graph.edges[:, :1])
    assert again.num_nonzeros == 2  # one link from both its ends
    assert again.notes == prepare(graph, graph.edges[:, :1]).notes
