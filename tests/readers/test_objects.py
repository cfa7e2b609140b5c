import datetime
import warnings

import networkx as nx
import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse
import torch
from hypothesis import given
from hypothesis import strategies as st

from cgcl.errors import CGCLError, ConfigError, FeatureError, GraphFormatError
from cgcl.readers import read

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch_geometric.data import Data, HeteroData

INDEX = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


class Attributes(dict):
    """Those of igraph's vertices or edges."""

    def attributes(self):
        return list(self)


class Igraph:
    """The little of an igraph graph that is asked for; igraph itself is not installed."""

    def __init__(self, count, links, directed=False, vs=None, es=None):
        self.vs, self.es = Attributes(vs or {}), Attributes(es or {})
        self.vcount, self.get_edgelist = (lambda: count), (lambda: links)
        self.is_directed = lambda: directed


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph])
def test_networkx_graphs_of_all_kinds(kind):
    graph = kind([(10, 2), (2, "x"), ((1, 2), 10)], name="my graph!")
    graph.add_node("alone")
    ours = read(graph)
    assert ours.names == ("(1, 2)", "10", "2", "alone", "x")
    assert ours.edges.tolist() == [[0, 1, 2], [1, 2, 4]]
    assert ours.title == "my-graph"
    assert ours.notes == (
        ("Direction dropped: links are treated as undirected.",) if graph.is_directed() else ()
    )


def test_two_nodes_of_the_same_text_are_refused():
    with pytest.raises(GraphFormatError) as caught:
        read(nx.Graph([(1, "1")]))
    assert str(caught.value) == (
        "The networkx graph: the nodes 1 and '1' are both called '1'.\n"
        "Every node needs a name of its own: rename one of them."
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "a node has an empty name"),
        ("x" * 1001, "a node name of 1,001 characters"),
        ("a\ud800", r"the node name 'a\\ud800' holds half a character \(a lone surrogate\)"),
    ],
)
def test_impossible_names_are_refused(name, message):
    for graph in (nx.Graph([(name, "b")]), Igraph(2, [(0, 1)], vs={"name": [name, "b"]})):
        with pytest.raises(GraphFormatError, match=message):
            read(graph)
    with pytest.raises(CGCLError):
        read(pa.table({"source": ["a"], "target": ["b"]}), source=name)


def test_attributes_of_networkx_are_noted_and_times_read():
    graph = nx.Graph()
    graph.add_edge("b", "c", weight=1, when=datetime.date(1970, 1, 2))
    graph.add_edge("a", "b", weight=2, when=datetime.datetime(1970, 1, 1, 0, 0, 5))
    graph.add_node("a", age=3)
    ours = read(graph, time="when")
    assert ours.times.tolist() == [5.0, 86400.0]
    assert ours.notes == (
        "Link attribute 'weight' ignored: only the two ends of each link are used.",
        "Node attribute 'age' ignored: give features as a table with `features`.",
    )
    graph.add_edge("c", "d", when="1970-01-03")
    with pytest.raises(GraphFormatError, match="The networkx graph, link 3: '1970-01-03'"):
        read(graph, time="when")
    with pytest.raises(GraphFormatError, match="the time in column 'since' is empty"):
        read(graph, time="since")


@pytest.mark.parametrize("value", [10**400, float("nan"), [1], True])
def test_odd_times_of_networkx_are_our_errors(value):
    graph = nx.Graph()
    graph.add_edge("a", "b", t=value)
    with pytest.raises(GraphFormatError, match="is not a time"):
        read(graph, time="t")


def test_igraph_is_known_by_its_manners():
    graph = Igraph(
        3,
        [(0, 1), (1, 0)],
        directed=True,
        vs={"name": ["b", "a", "c"], "age": [1, 2, 3]},
        es={"weight": [1, 2], "t": [7, 8]},
    )
    ours = read(graph, time="t")
    assert ours.names == ("a", "b", "c")
    assert ours.edges.tolist() == [[0], [1]]
    assert ours.times.tolist() == [7.0]
    assert ours.notes == (
        "Link attribute 'weight' ignored: only the two ends of each link are used.",
        "Node attribute 'age' ignored: give features as a table with `features`.",
        "Direction dropped: links are treated as undirected.",
        "1 repeated link merged.",
    )
    assert read(Igraph(3, [(0, 2)])).names == ("0", "1", "2")
    with pytest.raises(GraphFormatError, match="two nodes are called 'a'"):
        read(Igraph(2, [(0, 1)], vs={"name": ["a", "a"]}))


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"])
@pytest.mark.parametrize("family", [scipy.sparse.coo_array, scipy.sparse.coo_matrix])
def test_scipy_matrices_of_all_kinds(kind, family):
    matrix = family((np.ones(4), INDEX.numpy()), shape=(4, 4)).asformat(kind)
    ours = read(matrix)
    assert (ours.num_nodes, ours.edges.tolist(), ours.notes) == (4, [[0, 1], [1, 2]], ())
    with pytest.raises(GraphFormatError, match="The sparse matrix has the shape 2 x 3"):
        read(scipy.sparse.random(2, 3, format=kind))


@pytest.mark.parametrize(
    "index", [INDEX, INDEX.to(torch.int32), INDEX.numpy(), INDEX.numpy().astype(np.uint8)]
)
def test_an_edge_index_of_any_whole_numbers(index):
    ours = read(index)
    assert (ours.names, ours.edges.tolist()) == (("0", "1", "2"), [[0, 1], [1, 2]])
    assert ours.notes == ()


def test_numbers_of_an_edge_index_are_names():
    assert read(np.array([[10**12, -3], [5, 10**12]])).names == ("-3", "5", "1000000000000")


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (INDEX.T, r"has the shape 4 x 2, expected 2 x links.*\nIs it a list of pairs\?"),
        (torch.ones(3, 3), "An adjacency matrix must be a scipy sparse matrix"),
        (torch.ones(3), "has the shape 3, expected 2 x links"),
        (np.array(3), "has the shape no dimensions"),
        (torch.ones(2, 3), "holds float32, expected whole numbers"),
        (np.array([["a"], ["b"]]), "holds <U1, expected whole numbers"),
        (INDEX.to_sparse(), "is a sparse tensor"),
        (np.array([[2**63], [1]], dtype=np.uint64), "numbers of 2\\^63 and more"),
    ],
)
def test_what_is_no_edge_index_is_refused_with_advice(index, message):
    with pytest.raises(GraphFormatError, match=message):
        read(index)


def test_pyg_data_keeps_its_features_and_its_isolated_nodes():
    data = Data(edge_index=INDEX, x=torch.eye(4), edge_attr=torch.ones(4, 1), y=torch.ones(4))
    ours = read(data)
    assert (ours.num_nodes, ours.edges.tolist()) == (4, [[0, 1], [1, 2]])
    assert ours.x.to_dense().equal(torch.eye(4))
    assert ours.notes == (
        "Link attribute 'edge_attr' ignored: only the two ends of each link are used.",
    )
    assert read(Data(edge_index=INDEX, num_nodes=5)).num_nodes == 5
    assert read(Data(edge_index=INDEX)).num_nodes == 3
    times = Data(edge_index=INDEX[:, [0, 2]], t=torch.tensor([3, 1]))
    assert read(times, time="t").times.tolist() == [3.0, 1.0]


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (HeteroData(), GraphFormatError, "several kinds of nodes and links"),
        (Data(x=torch.eye(3)), GraphFormatError, "has no edge_index, so no links"),
        (Data(edge_index=INDEX, x=torch.ones(4)), FeatureError, r"x has the shape \[4\]"),
        (Data(edge_index=INDEX, x=torch.eye(2)), GraphFormatError, r"must lie in 0\.\.1, found"),
        (Data(edge_index=INDEX.float()), GraphFormatError, "holds float32"),
        (Data(edge_index=INDEX, t=torch.ones(3)), GraphFormatError, "a time for each of 4 links"),
        (Data(edge_index=INDEX, x=torch.full((3, 1), torch.nan)), FeatureError, "not a finite"),
    ],
)
def test_pyg_data_that_is_no_graph_is_refused(data, error, message):
    with pytest.raises(error, match=message):
        read(data, time="t" if "t" in data else None)


@pytest.mark.parametrize("thing", [None, 3, [("a", "b")], {"a": ["b"]}, object(), b"a.csv"])
def test_other_things_are_refused_with_what_is_read(thing):
    with pytest.raises(GraphFormatError, match=r"is not a graph that is read\.\nGive a file"):
        read(thing)


def test_options_that_do_not_fit_an_object_are_refused():
    with pytest.raises(ConfigError, match="A Graph has no columns"):
        read(nx.Graph([(1, 2)]), source="a")
    with pytest.raises(ConfigError, match="A Tensor has no link attributes"):
        read(INDEX, time="t")


nodes = st.integers() | st.text(min_size=1, max_size=5) | st.tuples(st.integers(), st.booleans())


@given(rows=st.lists(st.tuples(nodes, nodes), min_size=1, max_size=10))
def test_names_out_are_names_in_or_refused(rows):
    graph = nx.Graph(rows)
    texts = [str(node) for node in graph]
    is_fine = len(set(texts)) == len(texts)
    if is_fine and not any("\ud800" <= c <= "\udfff" for text in texts for c in text):
        assert read(graph).names == tuple(sorted(texts))
    else:
        with pytest.raises(GraphFormatError):
            read(graph)
