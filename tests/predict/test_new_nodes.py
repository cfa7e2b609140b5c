import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cgcl.errors import FeatureError, GraphContentError
from cgcl.graph import Graph
from cgcl.graph.features import prepare, scaled
from cgcl.methods.scoring import decode_pairs, embed
from cgcl.model import CGCL, symmetric
from cgcl.predict.new_nodes import read_new_features, with_new_nodes
from cgcl.readers.features import FeatureOptions
from cgcl.seeds import stream
from cgcl.testing.graphs import links_graph
from cgcl.train.fit import known_of


def toy(x: torch.Tensor | None = None, **more) -> Graph:
    links = torch.tensor([[0, 1], [1, 2]])
    return Graph.from_pairs("toy", ["Anna", "Bob", "Carl"], links, x, **more)


def with_own_features(graph: Graph) -> Graph:
    """The graph with a feature for each node, as the package makes them."""
    identity = torch.eye(graph.num_nodes).to_sparse_coo().coalesce()
    return graph.with_features(identity, "No features given: made for this test.")


def as_fitted(graph: Graph, scale: torch.Tensor) -> Graph:
    """The graph as a predictor keeps it whose features were scaled before training."""
    return graph.with_features(scaled(graph.x, scale), "Scaled.", graph.feature_names, scale)


def bipartite(x: torch.Tensor) -> Graph:
    """Anna and Bob read; tea and go are read about."""
    links, sides = torch.tensor([[0, 1, 1], [2, 2, 3]]), torch.arange(4) > 1
    return Graph.from_pairs("books", ["Anna", "Bob", "tea", "go"], links, x, sides=sides)


@st.composite
def whole_graphs(draw: st.DrawFn) -> tuple[Graph, int]:
    """A graph with features in raw units, and how many of its last nodes come later."""
    num_nodes = draw(st.integers(2, 10))
    node = st.integers(0, num_nodes - 1)
    links = draw(st.lists(st.tuples(node, node), max_size=20))
    x = torch.randn(num_nodes, 4, generator=stream(draw(st.integers(0, 99)), "x"))
    x = (x * (x > 0)).to_sparse_coo().coalesce() if draw(st.booleans()) else x
    return links_graph(links, num_nodes, x), draw(st.integers(1, num_nodes - 1))


def first_nodes(graph: Graph, count: int) -> Graph:
    kept, x = (graph.edges < count).all(dim=0), graph.x.index_select(0, torch.arange(count))
    x = x.coalesce() if x.is_sparse else x
    return Graph.from_pairs(graph.title, graph.names[:count], graph.edges[:, kept], x)


@given(whole_graphs(), st.booleans())
@settings(max_examples=60, deadline=None)
def test_a_node_taken_out_and_added_back_scores_as_if_it_had_been_there(
    drawn: tuple[Graph, int], given_sparse: bool
) -> None:
    graph, later = drawn
    known = graph.num_nodes - later
    scale = torch.tensor([1.0, 0.125, 1.0, 0.5])
    fitted = as_fitted(first_nodes(graph, known), scale)
    links = [(graph.names[a], graph.names[b]) for a, b in graph.edges.T.tolist() if b >= known]
    raw = graph.x.to_dense()[known:]
    raw = raw.to_sparse_coo() if given_sparse else raw
    extended, whole = (
        with_new_nodes(fitted, graph.names[known:], links, raw),
        as_fitted(graph, scale),
    )
    assert extended.fingerprint == whole.fingerprint
    assert torch.equal(extended.feature_scale, scale)
    model, pairs = CGCL(4, 6), torch.triu_indices(graph.num_nodes, graph.num_nodes, 1)
    z, again = (embed(model, each.x, symmetric(each.edges)) for each in (extended, whole))
    assert torch.equal(decode_pairs(model, z, pairs), decode_pairs(model, again, pairs))


def test_where_features_are_made_of_links_the_last_node_scores_as_if_it_had_been_there() -> None:
    """But for the feature that would have spoken of it, which nobody has learned."""
    links = torch.tensor([[0, 0, 1, 2, 0], [1, 2, 2, 3, 4]])
    whole = Graph.from_pairs("toy", "abcde", links)
    graph = prepare(Graph.from_pairs("toy", "abcd", links[:, :4]), links[:, :4])
    extended = with_new_nodes(graph, ["e"], [("a", "e")])
    x = known_of(extended, extended.edges, CGCL(4, 3)).features.to_dense()
    expected = prepare(whole, whole.edges).structure.features(whole.edge_index).to_dense()
    assert torch.equal(x, expected[:, :4])
    # Of a node that joined no feature speaks, whoever joins after it.
    twice = with_new_nodes(extended, ["f"], [("e", "f"), ("f", "b")])
    again = known_of(twice, twice.edges, CGCL(4, 3)).features.to_dense()
    assert torch.equal(again[[0, 2, 3, 4]], x[[0, 2, 3, 4]])
    assert again[5].tolist() == [0, 1, 0, 0]
    assert twice.num_features == 4


def test_a_node_with_features_needs_no_link_and_one_without_needs_one() -> None:
    extended = with_new_nodes(toy(torch.eye(3)), ["Zoe"], [], torch.ones(1, 3))
    assert extended.num_edges == 2
    for links in ([], [("Zoe", "Zoe")]):
        with pytest.raises(GraphContentError, match="Nothing is known about 'Zoe': neither links"):
            with_new_nodes(with_own_features(toy()), ["Zoe"], links)


def test_everything_else_of_the_graph_is_kept() -> None:
    graph = toy(torch.eye(3), feature_names=["a", "b", "c"], notes=["Read."])
    extended = with_new_nodes(
        graph, ["Zoe"], [("Anna", "Zoe"), ("Zoe", "Anna")], torch.ones(1, 3, dtype=torch.float64)
    )
    assert extended.title == "toy"
    assert extended.feature_names == ("a", "b", "c")
    assert extended.notes == ("Read.", "1 repeated link merged.")
    assert extended.x.dtype == torch.float32


@pytest.mark.parametrize(
    ("names", "links", "message"),
    [
        (["Anna"], [], "Already in the graph 'books': 'Anna'"),
        (["Zoe", "Zoe"], [], "New nodes are listed twice: 'Zoe'"),
        ([""], [], "A new node is called ''"),
        ([7], [], "A new node is called 7"),
        (["\ud800"], [], "as valid text"),
        (["x" * 20_000], [], "Give a name of 1 to 10,000 characters"),
        (["Zoe"], [("Anna", "go")], "'Anna', 'go' joins two known nodes"),
        (["Zoe"], [("Zoe", "Ana")], "No node is called 'Ana'.*Did you mean 'Anna'"),
        (["Zoe"], [("Zoe", "tea"), ("Zoe", "Bob")], "on the same side"),
        (["Zoe", "Yan"], [("Zoe", "tea"), ("Yan", "tea"), ("Zoe", "Yan")], "'Zoe' and 'Yan' are"),
        (["Zoe", "Yan"], [("Zoe", "Yan")], "on which side 'Zoe', 'Yan' belongs"),
        (["Zoe"], [], "no link says on which side 'Zoe' belongs"),  # features do not say it
    ],
)
def test_names_and_links_that_cannot_be_meant_are_refused(names, links, message) -> None:
    with pytest.raises(GraphContentError, match=message):
        with_new_nodes(bipartite(torch.ones(4, 2)), names, links, torch.ones(len(names), 2))


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize(
    ("x_new", "message"),
    [
        (None, r"The new nodes have no features; 'toy' was trained with 3\."),
        (torch.ones(1, 2), r"must have the shape \[1, 3\], found \[1, 2\]"),
        (torch.ones(3), r"found \[3\]"),
        (torch.tensor([[0, float("nan"), 0]]), "Feature 'tea' of the new node 'Zoe'"),
        (torch.tensor([[0, 0, 1e300]], dtype=torch.float64), "Feature 'go' of the new node 'Zoe'"),
    ],
)
def test_features_that_do_not_fit_are_refused(x_new, message, is_sparse) -> None:
    x = torch.eye(3).flip(0)
    x = x.to_sparse_coo().coalesce() if is_sparse else x
    graph = toy(x, feature_names=["chess", "tea", "go"])
    with pytest.raises(FeatureError, match=message):
        with_new_nodes(graph, ["Zoe"], [("Zoe", "Anna")], x_new)


@pytest.mark.parametrize("prepared", [True, False])
def test_a_graph_trained_without_features_takes_none(prepared: bool) -> None:
    graph = prepare(toy(), toy().edges) if prepared else toy()
    with pytest.raises(FeatureError, match="'toy' was trained without features"):
        with_new_nodes(graph, ["Zoe"], [("Zoe", "Anna")], torch.ones(1, 3))


def test_in_a_bipartite_graph_links_say_the_side() -> None:
    links = [("Zoe", "tea"), ("maps", "Zoe"), ("Yan", "maps"), ("Zoe", "Zoe")]
    graph = with_own_features(bipartite(torch.eye(4)))
    extended = with_new_nodes(graph, ["Yan", "maps", "Zoe"], links)
    assert extended.sides.tolist() == [False, False, True, True, False, True, False]


def named(*feature_names: str) -> Graph:
    return toy(torch.eye(3)[:, : len(feature_names)], feature_names=feature_names)


@pytest.fixture
def read(tmp_path):
    """Read the features of new nodes, of which Zoe has links, from a table that says this."""

    def reading(graph: Graph, text: str, **told):
        (tmp_path / "new.csv").write_text(text)
        return read_new_features(graph, tmp_path / "new.csv", ["Zoe"], FeatureOptions(**told))

    return reading


def test_features_are_put_in_the_order_of_the_graph_by_name(read) -> None:
    table = "node,go,chess,tea\nZoe,3,1,2\nYan,6,4,5\n"
    names, x, notes = read(named("chess", "tea", "go"), table)
    assert (names, x.tolist(), notes) == (["Yan", "Zoe"], [[4, 5, 6], [1, 2, 3]], ())


def test_categories_and_words_may_be_missing_or_new(read) -> None:
    graph, table = named("age", "job=smith", "likes:tea"), "node,age,job,likes\nZoe,30,cook,tea zen"
    _, x, notes = read(graph, table, one_hot=["job"], words="likes")
    assert x.tolist() == [[30, 0, 1]]
    assert notes == ("2 values not seen in training left out: 'job=cook', 'likes:zen'.",)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("node,chess\nZoe,1", "new.csv lacks 2 features: 'tea', 'go'"),
        ("node,chess,tea,go,zen\nZoe,1,1,1,1", "but training had not, 1 feature: 'zen'"),
        ("node,chess,tea,go\nZoe,1,1,1\nBob,1,1,1", "known already: 'Bob'"),
        ("node,chess,tea,go\nYan,1,1,1", "no row for 1 node with links: 'Zoe'"),
    ],
)
def test_rows_and_columns_that_do_not_match_are_named(read, table, message) -> None:
    with pytest.raises(FeatureError, match=message):
        read(named("chess", "tea", "go"), table)


def test_features_without_names_are_counted_instead(read) -> None:
    table = "node,a,b\nZoe,1,2\n"
    assert read(toy(torch.ones(3, 2)), table)[1].tolist() == [[1, 2]]
    with pytest.raises(FeatureError, match=r"has 2 features; 'toy' was trained with 3\."):
        read(toy(torch.eye(3)), table)
    with pytest.raises(FeatureError, match="Leave out `new_features`"):
        read(with_own_features(toy()), table)
