import re

import networkx as nx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cgcl.errors import GraphFormatError, ResourceError
from cgcl.readers import read

fuzzed = settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))
# XML has no control characters, and turns line breaks and tabs in ids into blanks.
names = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Cn", "Zl", "Zp"]), min_size=1, max_size=12
).filter(lambda name: all(ord(c) not in (0xFFFE, 0xFFFF) for c in name))
WRITERS = {".graphml": nx.write_graphml_xml, ".gexf": nx.write_gexf}


def wrapped(body, kind="undirected"):
    return (
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
        f'<graph edgedefault="{kind}">{body}</graph></graphml>'
    )


@pytest.mark.parametrize("suffix", WRITERS)
@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph])
@fuzzed
@given(rows=st.lists(st.tuples(names, names), min_size=1, max_size=10), alone=names)
def test_what_networkx_writes_is_what_we_read(tmp_path, suffix, kind, rows, alone):
    graph = kind(rows)
    graph.add_node(alone)
    path = tmp_path / f"a{suffix}"
    WRITERS[suffix](graph, path)
    ours = read(path)
    assert set(ours.names) == set(graph.nodes)
    links = {frozenset(ours.names[node] for node in link) for link in ours.edges.T.tolist()}
    assert links == {frozenset(row) for row in rows if row[0] != row[1]}
    dropped = "Direction dropped: links are treated as undirected."
    assert (dropped in ours.notes) == graph.is_directed()
    assert read(graph).fingerprint == ours.fingerprint


def test_times_and_sides_are_attributes(tmp_path):
    graph = nx.Graph()
    graph.add_nodes_from(["a", "b"], bipartite=0)
    graph.add_nodes_from(["x", "y"], bipartite=1)
    graph.add_edges_from([("a", "x"), ("b", "y"), ("a", "y")], when="2024-01-01", weight=2.5)
    nx.write_graphml_xml(graph, tmp_path / "a.graphml")
    ours = read(tmp_path / "a.graphml", time="when")
    assert ours.sides.tolist() == [False, False, True, True]
    assert ours.times.tolist() == [1704067200.0] * 3
    assert ours.notes[0].startswith("Link attribute 'weight' ignored")


GEXF = (
    '<gexf xmlns="http://gexf.net/1.3" version="1.3"><graph defaultedgetype="{kind}"><nodes>'
    '<node id="0" label="{a}"/><node id="1" label="{b}"/></nodes>'
    '<edges><edge id="0" source="0" target="1" weight="2"/></edges></graph></gexf>'
)


def test_gexf_nodes_are_called_after_labels_that_tell_them_apart(write):
    graph = read(write("a.gexf", GEXF.format(kind="undirected", a="Anna", b="Bob")))
    assert graph.names == ("Anna", "Bob")
    assert graph.notes[0] == "Nodes are called after their labels, not after their ids."
    graph = read(write("a.gexf", GEXF.format(kind="directed", a="Anna", b="Anna")))
    assert graph.names == ("0", "1")
    assert graph.notes[0] == "Nodes are called after their ids: their labels are not all different."
    assert graph.notes[-1] == "Direction dropped: links are treated as undirected."
    path = write("a.gexf", GEXF.format(kind="undirected", a="0", b="1"))
    assert not any("called" in note for note in read(path).notes)


@pytest.mark.parametrize(("ids", "expected"), [(("n0", "n1"), "Anna"), (("n0", "x"), "n0")])
def test_graphml_ids_that_a_program_made_up_give_way_to_names(tmp_path, ids, expected):
    graph = nx.Graph([ids])
    nx.set_node_attributes(graph, dict(zip(ids, ("Anna", "Bob"), strict=True)), "name")
    nx.write_graphml_xml(graph, tmp_path / "a.graphml")
    assert read(tmp_path / "a.graphml").names[0] == expected


LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
BAD = {
    "not XML": ("source,target", "line 1, column 1: not well-formed XML (syntax error)"),
    "cut short": (wrapped("<node id='a'/>")[:-12], "not well-formed XML"),
    "billion laughs": (
        f'<!DOCTYPE a [<!ENTITY l0 "ha">{LAUGHS}]><a>&l9;</a>',
        "line 1: a document type declaration (<!DOCTYPE)",
    ),
    "external entity": (
        '<?xml version="1.0"?>\n<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>',
        "line 2: a document type declaration (<!DOCTYPE)",
    ),
    "hidden in UTF-16": (
        '<!DOCTYPE a [<!ENTITY x "y">]><a>&x;</a>'.encode("utf-16"),
        "a document type declaration",
    ),
    "unknown encoding": ('<?xml version="1.0" encoding="nonsense"?><a/>', "unknown encoding"),
    "other XML": ("<html><body/></html>", "has no <graph> element, expected one"),
    "two graphs": (
        wrapped("<node id='a'/></graph><graph edgedefault='undirected'>"),
        "has 2 <graph> elements, expected one",
    ),
    "a graph in a node": (wrapped("<node id='a'><graph/></node>"), "has 2 <graph> elements"),
    "no nodes": (wrapped(""), "has no nodes"),
    "a node without an id": (wrapped("\n<node/>"), "line 2: <node> has no id"),
    "a link without an end": (wrapped("<edge source='a'/>"), "line 1: <edge> has no target"),
    "an empty end": (wrapped("<edge source='' target='b'/>"), "line 1: <edge> has no source"),
    "a hyperedge": (wrapped("<node id='a'/><hyperedge/>"), "cannot be read as GraphML"),
    "mixed directions": (
        wrapped("<edge source='a' target='b' directed='true'/>"),
        "cannot be read as GraphML: directed=true edge found in undirected graph.",
    ),
    "an unknown key": (
        wrapped("<node id='a'><data key='k'>1</data></node>"),
        "cannot be read as GraphML: Bad GraphML data: no key k",
    ),
    "very deep": ("<a>" * 200 + "</a>" * 200, "more than 100 deep"),
    "deep at its end": (f"<g>{'<b/>' * 200}{'<a>' * 200}{'</a>' * 200}</g>", "more than 100 deep"),
    "a long name": (wrapped(f"<node id='{'x' * 1001}'/>"), "a node name of 1,001 characters"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_is_refused_with_place_and_remedy(write, case):
    text, message = BAD[case]
    with pytest.raises(GraphFormatError, match=rf"^a\.graphml.*{re.escape(message)}") as caught:
        read(write("a.graphml", text))
    assert str(caught.value).count("\n") < 4


def test_a_file_that_takes_too_much_memory_is_not_parsed(write):
    path = write("a.graphml", wrapped("<node id='a'/>"))
    with pytest.raises(ResourceError, match="Save the links as CSV or Parquet, or allow more with"):
        read(path, max_memory=1000)
