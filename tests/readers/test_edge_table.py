import networkx as nx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cgcl.errors import ConfigError, GraphContentError
from cgcl.readers import read
from cgcl.readers.edge_table import DROPPED, EdgeTable, find_sides, merge_edge_tables

FILMS = [(f"user{u}", f"film{f}") for u in range(6) for f in range(4) if (u + f) % 3]
HOW = (
    "counter-examples and suggestions join the two sides only. "
    "If that is wrong, use `bipartite=no`."
)


def write_links(tmp_path, rows, header="user,film"):
    path = tmp_path / "a.csv"
    path.write_text("\n".join([header, *(",".join(row) for row in rows)]) + "\n")
    return path


def table_of(rows, ends=("source", "target"), alone=0):
    names = sorted({name for row in rows for name in row}) + [f"alone{n}" for n in range(alone)]
    number = {name: node for node, name in enumerate(names)}
    pairs = torch.tensor([[number[a], number[b]] for a, b in rows]).T
    return EdgeTable(tuple(names), pairs, ends=ends)


def test_columns_without_a_common_name_are_sides(tmp_path):
    graph = read(write_links(tmp_path, FILMS), source="user", target="film")
    assert [graph.names[n] for n in graph.sides.nonzero()] == [f"film{f}" for f in range(4)]
    assert graph.notes == (f"Bipartite: 6 nodes in 'user', 4 in 'film'; {HOW}",)
    again = read(write_links(tmp_path, FILMS), source="user", target="film", bipartite="no")
    assert (again.sides, again.notes) == (None, ())


CHANCE = {
    "a star": [("hub", f"leaf{n}") for n in range(40)],
    "a matching": [(f"a{n}", f"b{n}") for n in range(40)],
    "stars": [(f"hub{n % 3}", f"leaf{n}") for n in range(40)],
    "few links": [("a", "x"), ("b", "x"), ("a", "y"), ("b", "y")],
    "the same link again and again": [("a", "x"), ("b", "x"), ("a", "y"), ("b", "y")] * 20,
    "one hub on a side": [(f"a{n}", "x") for n in range(30)] + [("a0", "y"), ("a1", "z")],
    "a name in both columns": [*FILMS, ("film0", "film9")],
    "a self-link": [*FILMS, ("user0", "user0")],
}


@pytest.mark.parametrize("case", CHANCE)
def test_columns_that_may_be_apart_by_chance_are_no_sides(case):
    assert find_sides(table_of(CHANCE[case])) == (None, ())


@pytest.mark.parametrize("case", ["a star", "a matching", "stars", "few links"])
def test_who_says_yes_gets_the_columns(case):
    sides, notes = find_sides(table_of(CHANCE[case]), "yes")
    assert sides is not None
    assert notes[0].startswith("Bipartite: ")


def test_without_useful_columns_the_nodes_are_coloured():
    rows = [("a", "x"), ("x", "b"), ("b", "y"), ("p", "q"), ("q", "r"), ("a", "a")]
    table = table_of(rows, alone=2)
    sides, notes = find_sides(table, "yes")
    assert [table.names[n] for n in sides.nonzero()] == ["q", "x", "y"]
    assert notes == (
        "2 nodes without links counted with 'source'.",
        f"Bipartite: 6 nodes on one side, 3 on the other; {HOW}",
        "2 separate components: which of their sides belong together is a guess.",
    )


def test_an_odd_cycle_is_named():
    rows = [("t", "a"), ("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "a")]
    with pytest.raises(GraphContentError) as caught:
        find_sides(table_of(rows), "yes")
    first, second = str(caught.value).split("\n")
    assert first.startswith("The graph is not bipartite: 5 nodes form an odd cycle, ")
    named = first.partition("cycle, ")[2].rstrip(".").replace("'", "").split(", ")
    assert sorted(named) == list("abcde")
    ring = {frozenset(row) for row in rows}
    assert all({named[i], named[i - 1]} in ring for i in range(5))
    assert second.startswith("If equal names in the two columns are different things, use `bip")


pairs = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=15)


@given(rows=pairs)
def test_colouring_agrees_with_networkx(rows):
    graph = nx.Graph([row for row in rows if row[0] != row[1]])
    table = table_of([(str(a), str(b)) for a, b in rows], ends=None)
    if nx.is_bipartite(graph):
        sides, _ = find_sides(table, "yes")
        low, high = table.pairs[:, table.pairs[0] != table.pairs[1]]
        assert bool((sides[low] != sides[high]).all())
    else:
        with pytest.raises(GraphContentError, match="odd cycle"):
            find_sides(table, "yes")


def test_the_sides_that_networkx_marks_are_taken():
    graph = nx.Graph([("a", "x"), ("x", "b")])
    nx.set_node_attributes(graph, {"a": 1, "b": 1, "x": 0}, "bipartite")
    ours = read(graph)
    assert ours.sides.tolist() == [True, True, False]
    assert ours.notes == (f"Bipartite: 1 node in 'side 0', 2 in 'side 1'; {HOW}",)
    graph.add_edge("a", "b")
    assert read(graph).notes == (
        "Node attribute 'bipartite' ignored: 1 link joins nodes of the same side.",
    )
    del graph.nodes["x"]["bipartite"]
    assert read(graph).notes == ()


@pytest.mark.parametrize("option", [{"bipartite": "maybe"}, {"directed": "keep"}])
def test_other_words_are_refused(tmp_path, option):
    with pytest.raises(ConfigError, match=r"must be one of 'auto'|must be 'drop' or"):
        read(write_links(tmp_path, FILMS), source="user", target="film", **option)


@pytest.mark.parametrize(
    ("rows", "note"),
    [
        ([("a", "b"), ("b", "c")], None),
        ([("a", "b"), ("b", "a")], None),
        ([("a", "b"), ("b", "a"), ("c", "c")], None),
        (
            [("a", "b"), ("b", "a"), ("b", "c"), ("c", "d"), ("a", "a")],
            f"1 link is listed in both directions, 2 in one. {DROPPED}",
        ),
        (
            [("a", "b"), ("b", "a"), ("b", "c"), ("c", "b"), ("b", "c"), ("a", "c")],
            f"2 links are listed in both directions, 1 in one. {DROPPED}",
        ),
    ],
)
def test_links_of_which_some_go_both_ways_look_directed(tmp_path, rows, note):
    path = write_links(tmp_path, rows, "source,target")
    found = [text for text in read(path).notes if "irection" in text]
    assert found == ([] if note is None else [note])
    if note is None:
        read(path, directed="error")
    else:
        with pytest.raises(GraphContentError, match=r"listed in both directions, . in one"):
            read(path, directed="error")


def test_a_directed_source_can_be_refused():
    assert read(nx.DiGraph([("a", "b")])).notes == (DROPPED,)
    with pytest.raises(GraphContentError) as caught:
        read(nx.DiGraph([("a", "b")]), directed="error")
    assert str(caught.value) == (
        "The source says that links are directed.\n"
        "This method knows undirected links only. "
        "Leave out `directed=error` to drop the direction."
    )
    assert read(nx.Graph([("a", "b")]), directed="error").num_edges == 1


def test_equal_names_in_two_columns_can_be_kept_apart(tmp_path):
    rows = [(str(a), str(b)) for a in range(5) for b in range(5) if (a * b) % 3]
    path = write_links(tmp_path, rows, "buyer,item")
    columns = {"source": "buyer", "target": "item"}
    with pytest.raises(GraphContentError, match="`bipartite=columns`"):
        read(path, **columns, bipartite="yes")
    graph = read(path, **columns, bipartite="columns")
    assert graph.sides is not None
    assert links(graph) == {(f"buyer:{a}", f"item:{b}") for a, b in rows}
    with pytest.raises(ConfigError, match="two columns of names"):
        read(nx.path_graph(4), bipartite="columns")


def test_names_with_blanks_at_an_end_are_pointed_out(write):
    graph = read(write("a.csv", "source,target\nOtto ,Anna\nOtto,Anna\n"))
    assert graph.names == ("Anna", "Otto", "Otto ")
    assert graph.notes[-1] == (
        "1 name begins or ends with a blank, such as 'Otto ': blanks belong to a name."
    )


def links(graph):
    return {(graph.names[a], graph.names[b]) for a, b in graph.edges.T.tolist()}


def test_it_makes_no_difference_which_file_a_link_stands_in(write):
    more = write("b.csv", "source,target\na,d\nc,b\n")
    parts = read(write("a.csv", "source,target\nb,c\nd,b\n"), also=[more], bipartite="no")
    whole = read(write("all.csv", "source,target\nb,c\nd,b\na,d\nc,b\n"), bipartite="no")
    assert parts.names == whole.names
    assert links(parts) == links(whole) == {("b", "c"), ("b", "d"), ("a", "d")}
    assert parts.fingerprint == whole.fingerprint


def test_features_of_the_first_stay_with_their_nodes():
    x = torch.tensor([[1.0], [2.0]])
    first = EdgeTable(("b", "a"), torch.tensor([[0], [1]]), x=x, sides=torch.tensor([True, False]))
    both = merge_edge_tables(first, [EdgeTable(("a",), torch.zeros(2, 1, dtype=torch.int64))])
    assert both.names == ("a", "b")
    assert both.x.tolist() == [[2.0], [1.0]]
    assert both.sides.tolist() == [False, True]
    with pytest.raises(ConfigError, match="nodes that have none"):
        merge_edge_tables(first, [EdgeTable(("c",), torch.zeros(2, 1, dtype=torch.int64))])


def test_sides_are_those_of_the_first_file_and_reach_new_nodes(tmp_path, write):
    # The other way round, and with a film and a user that the first file does not know.
    more = write("b.csv", "source,target\nfilm0,user0\nnew,user1\nnew,other\n")
    graph = read(write_links(tmp_path, FILMS, "source,target"), also=[more])
    films = {graph.names[node] for node in graph.sides.nonzero()}
    assert films == {"film0", "film1", "film2", "film3", "new"}
    assert not any("both directions" in note for note in graph.notes)


def test_links_held_out_are_not_counted_as_repeated_or_directed(write):
    more = write("b.csv", "source,target\nb,a\n")
    graph = read(write("a.csv", "source,target\na,b\nb,c\na,c\n"), also=[more], directed="error")
    assert graph.notes == ()
    assert graph.num_edges == 3
