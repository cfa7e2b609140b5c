from dataclasses import replace

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cgcl.graph import Graph
from cgcl.predict.edge_importance import Reason, RestsOn
from cgcl.predict.evidence import evidence_of, explained
from cgcl.testing.graphs import links_graph


def graph_of(n: int, links: list[tuple[int, int]], x: torch.Tensor | None = None) -> Graph:
    return links_graph(links, [f"n{i}" for i in range(n)], x)


def pairs_of(*pairs: tuple[int, int]) -> torch.Tensor:
    return torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).T


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    num_nodes = draw(st.integers(2, 14))
    node = st.integers(0, num_nodes - 1)
    links = draw(st.lists(st.tuples(node, node), max_size=24))
    bits = draw(st.lists(st.booleans(), min_size=5 * num_nodes, max_size=5 * num_nodes))
    x = torch.tensor(bits, dtype=torch.float32).reshape(num_nodes, 5)
    return graph_of(num_nodes, links, x.to_sparse_coo().coalesce())


@given(graphs(), st.sampled_from([1, 2**20]))
@settings(max_examples=60, deadline=None)
def test_everything_equals_what_networkx_says_in_blocks_of_any_size(graph, budget) -> None:
    pairs = torch.triu_indices(graph.num_nodes, graph.num_nodes, 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cgcl.graph.adjacency._BUDGET", budget)
        patch.setattr("cgcl.predict.evidence._NAMED", 100)
        found = evidence_of(graph, pairs)
        turned = evidence_of(graph, pairs.flip(0))  # the order of a pair does not matter
    assert turned.columns() == found.columns()
    assert (turned.neighbours, turned.features) == (found.neighbours, found.features)
    theirs = nx.Graph(graph.edges.T.tolist())
    theirs.add_nodes_from(range(graph.num_nodes))
    has = graph.x.to_dense() != 0
    for number, (one, other) in enumerate(pairs.T.tolist()):
        shared = set(theirs[one]) & set(theirs[other])
        assert found.shared_neighbours[number] == len(shared)
        assert set(found.neighbours[number]) == {graph.names[node] for node in shared}
        assert found.linked[number] == theirs.has_edge(one, other)
        both = (has[one] & has[other]).nonzero().flatten().tolist()
        assert found.common_features[number] == len(both)
        assert set(found.features[number]) == {f"feature {k}" for k in both}
        without = theirs.copy()
        if theirs.has_edge(one, other):
            without.remove_edge(one, other)
        distances = nx.single_source_shortest_path_length(without, one)
        assert found.distance[number] == distances.get(other)


def test_the_most_telling_come_first_and_only_so_many_are_named(monkeypatch) -> None:
    monkeypatch.setattr("cgcl.predict.evidence._NAMED", 2)
    # 0 and 1 share 2, 3 and 4; 2 has four links, 3 two and 4 three.
    links = [(0, 2), (1, 2), (2, 5), (2, 6), (0, 3), (1, 3), (0, 4), (1, 4), (4, 5)]
    x = torch.tensor([[1, 1, 1], [1, 1, 1], [1, 0, 1], [1, 0, 0], *[[0, 0, 0]] * 3])
    sparse = x.float().to_sparse_coo().coalesce()
    graph = replace(graph_of(7, links, sparse), feature_names=("chess", "go", "tea"))
    found = evidence_of(graph, pairs_of((0, 1)))
    columns = {"shared_neighbours": [3], "common_features": [3], "distance": [2]}
    assert found.columns() == columns
    assert found.neighbours == (("n3", "n4"),)
    assert found.features == (("go", "tea"),)


def test_dense_measurements_are_not_features_in_common_but_marks_are() -> None:
    #  height, mark, negative mark, constant, three values, never set
    x = torch.tensor(
        [
            [0.3, 1.0, -2.0, 1.0, 2.0, 0.0],
            [0.9, 1.0, -2.0, 1.0, 1.0, 0.0],
            [0.2, 0.0, 0.0, 1.0, 0.0, 0.0],
        ]
    )
    found = evidence_of(graph_of(3, [(0, 2)], x), pairs_of((0, 1), (0, 2)))
    assert found.columns()["common_features"] == [2, 0]
    assert found.features == (("feature 1", "feature 2"), ())
    measured = evidence_of(graph_of(3, [(0, 2)], x[:, :1]), pairs_of((0, 1)))
    assert measured.common_features is None
    assert "common_features" not in measured.columns()
    assert measured.features == ((),)


def test_an_entry_that_is_listed_but_zero_is_no_feature() -> None:
    entries = torch.tensor([[0, 1, 1], [0, 0, 1]])
    x = torch.sparse_coo_tensor(
        entries, torch.tensor([1.0, 0.0, 1.0]), (2, 2), is_coalesced=True, check_invariants=True
    )
    found = evidence_of(graph_of(2, [], x), pairs_of((0, 1)))
    assert found.common_features.tolist() == [0]


def test_a_node_and_itself_no_pairs_and_no_nodes_are_answered_too() -> None:
    graph = graph_of(2, [(0, 1)])
    assert evidence_of(graph, pairs_of((0, 0))).distance == (0,)
    empty = evidence_of(graph, pairs_of())
    assert empty.columns() == {"shared_neighbours": [], "distance": []}
    assert evidence_of(graph_of(0, []), pairs_of()).columns() == empty.columns()


def toy_evidence():
    links = [(0, 2), (1, 2), (0, 3), (1, 3), (0, 4), (1, 4), (5, 6), (6, 7), (5, 8)]
    x = torch.zeros(9, 2)
    x[:2] = 1
    names = ["Anna", "Eve", "Bob", "Carl", "Dora", "Ida", "Jan", "a\tb", "x" * 100]
    graph = replace(links_graph(links, names, x.to_sparse_coo()), feature_names=("chess", "go"))
    return evidence_of(graph, pairs_of((0, 1), (0, 5), (5, 6), (7, 8), (0, 2)))


def test_evidence_makes_a_sentence() -> None:
    found = toy_evidence()
    rests = RestsOn(0.97, (Reason("Anna", "Bob", 3.0, 0.61),), 6, 6)
    assert explained(("Anna", "Eve"), found, 0, rests) == (
        "Anna and Eve share 3 neighbours (Bob, Carl, Dora) and 2 features (chess, go); "
        "distance 2. The score rests most on Anna-Bob (0.97 -> 0.61 without it)."
    )
    assert explained(("Anna", "Ida"), found, 1) == (
        "Anna and Ida share no neighbour and no feature; no path joins them."
    )
    assert explained(("Ida", "Jan"), found, 2) == (
        "Ida and Jan share no neighbour and no feature; no path joins them but their own link."
    )
    assert explained(("a\tb", "x" * 100), found, 3) == (
        f"a\\tb and {'x' * 39}… share no neighbour and no feature; distance 3."
    )
    assert explained(("Anna", "Bob"), found, 4).endswith("; distance 3 without their own link.")


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (2, "3 neighbours (Bob, Carl and 1 more) and 2 features"),
        (0, "share 3 neighbours and 2 features;"),
    ],
)
def test_a_sentence_says_how_much_it_leaves_out(monkeypatch, names: int, said: str) -> None:
    monkeypatch.setattr("cgcl.predict.evidence._NAMED", names)
    assert said in explained(("Anna", "Eve"), toy_evidence(), 0)


@pytest.mark.parametrize(
    ("rests", "ending"),
    [
        (
            RestsOn(0.97, (Reason("A", "B", 2.0, 0.61), Reason("A", "C", 1.0, 0.9)), 9, 9),
            "rests most on A-B (0.97 -> 0.61 without it) and A-C (0.97 -> 0.90).",
        ),
        (
            RestsOn(0.99996, (Reason("A", "B", 2.0, 0.9991),), 1000, 5321),
            "on A-B (1.000 -> 0.999 without it). Of their 5,321 links 1,000 were tried.",
        ),
        (
            RestsOn(1.0, (Reason("A", "B", 0.01, 1.0),), 1, 1),
            "on A-B (logit down by 0.01 without it).",
        ),
        (RestsOn(0.2, (), 4, 4), "distance 2. The score rests on no single link."),
        (
            RestsOn(0.2, (), 0, 0),
            "Neither has a known link, so the score rests on their features alone.",
        ),
    ],
)
def test_a_sentence_says_what_the_score_rests_on(rests: RestsOn, ending: str) -> None:
    assert explained(("Anna", "Eve"), toy_evidence(), 0, rests).endswith(ending)
