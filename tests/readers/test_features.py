"""Features from tables: text, Parquet, frames."""

import datetime
import decimal
import json
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from cgcl.errors import CGCLError, ConfigError, FeatureError, GraphFormatError, ResourceError
from cgcl.memory import reading_at_most
from cgcl.readers import features as module
from cgcl.readers import read, tables
from cgcl.readers.formats import read_features

FRAME = "features (Frame)"
TEXT = (
    "node,age,colour,text\n"
    "Eve,5,red,the cat\n"
    "Bob,3,,\n"
    "Anna,1,blue,cat  and\tCat cat\n"
    "Zoe,0,red,the\n"
)
TABLE = pa.table(
    {
        "node": ["Eve", "Bob", "Anna"],
        "whole": pa.array([5, 3, 0], pa.int8()),
        "part": pa.array([0.5, -4.0, 1.0], pa.float64()),
        "yes": [True, False, False],
        "price": pa.array([decimal.Decimal("1.25")] * 2 + [decimal.Decimal(0)]),
        "colour": pa.array(["red", None, "red"]).dictionary_encode(),
        "text": pa.array(["a b", "", "b"], pa.large_string()),
    }
)
CHOICE = {"one_hot": ["colour"], "words": "text"}


def as_parquet(table, tmp_path):
    path = tmp_path / "nodes.parquet"
    parquet.write_table(table, path)
    return path


@pytest.fixture
def friends(write):
    return write("friends.csv", "source,target\nBob,Anna\nBob,Eve\n")


@pytest.fixture
def nodes(write):
    return partial(write, "nodes.csv")


FILL = "Fill the gaps or delete the column: every node needs every feature."
FINITE = "Every feature must be a finite number: replace the value, or delete the column."
TEXT_COLUMN = (
    "If the column holds categories, add `one_hot={0}`; if it holds words with blanks between\n"
    "them, add `words={0}`. Otherwise delete the column."
)
BAD_FEATURES = [
    ("a\nAnna,1\nBob,\nEve,\nZoe,\n", f"'Bob' is empty (and 2 more nodes).\n{FILL}"),
    (
        "a\nAnna,baker\nBob,smith\nEve,4\n",
        f"'Anna' is 'baker', not a number (and 1 more node).\n{TEXT_COLUMN.format('a')}",
    ),
    ("a\nAnna,1\nBob,NaN\nEve,3\n", f"'Bob' is 'NaN', not a finite number.\n{FINITE}"),
    ("a\nAnna,1e40\nBob,2\nEve,3\n", f"'Anna' is '1e40', too large for a 32-bit number.\n{FINITE}"),
]
BAD_ROWS = [
    (
        "a\nAnna,1\nBob,2\nEve,3\nBob,2\n",
        ": more than one row for node 'Bob'.\nKeep one row per node; 1 too many.",
    ),
    (
        "a\nAnna,1\n",
        " has no row for 2 nodes with links: 'Bob', 'Eve'.\n"
        "Add a row for each, or leave their links out.",
    ),
    *((text, f": feature 'a' of node {message}") for text, message in BAD_FEATURES),
]


@pytest.mark.parametrize(("text", "message"), BAD_ROWS)
def test_bad_features_are_refused_with_node_and_column(friends, nodes, text, message):
    with pytest.raises(FeatureError) as caught:
        read(friends, features=nodes(f"node,{text}"))
    assert str(caught.value) == f"nodes.csv{message}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("node\nAnna\n", r"line 1: 1 column.*\n.*\nEach row needs a node name and at least one f"),
        ("node,a\nAnna,1\n,2\n", r"line 3: the node name in column 'node' is empty"),
        ("node,a\nAnna,1\nBob\n", r"line 3: 1 column, expected 2 \(node, a\)"),
    ],
)
def test_a_feature_file_needs_names_and_numbers(friends, nodes, text, message):
    with pytest.raises(GraphFormatError, match=message):
        read(friends, features=nodes(text))
    with pytest.raises(GraphFormatError, match="No such file"):
        read(friends, features=friends.with_name("none.csv"))
    with pytest.raises(GraphFormatError, match=r"nodes\.xlsx: files of the kind '\.xlsx'"):
        read(friends, features=friends.with_name("nodes.xlsx"))


def test_features_follow_the_order_of_the_nodes(friends, nodes):
    graph = read(friends, features=nodes("id,a,b\nEve,5,+6\nBob, 3 ,-.4e1\nAnna,1,2.5\n"))
    assert graph.names == ("Anna", "Bob", "Eve")
    assert graph.x.tolist() == [[1, 2.5], [3, -4], [5, 6]]
    assert graph.x.dtype == torch.float32
    assert (graph.notes, graph.feature_names) == ((), ("a", "b"))


def test_a_node_known_only_from_its_features_is_kept_without_links(friends, nodes):
    graph = read(friends, features=nodes("id,a,b\nEve,5,6\nCarl,0,6\nBob,3,6\nAnna,1,6\n"))
    assert graph.names == ("Anna", "Bob", "Carl", "Eve")
    assert graph.edges.tolist() == [[0, 1], [1, 3]]
    assert graph.notes == (
        "1 node of nodes.csv without links kept as isolated.",
        "Feature 'b' is the same for every node.",
    )


def test_few_nonzeros_are_kept_sparse_and_many_dense(nodes):
    sparse = read_features(nodes("n,a,b,c,d\nAnna,0,0,0,1\nBob,1,0,0,0\nEve,0,0,7,0\n"), []).x
    assert sparse.is_sparse
    assert sparse.is_coalesced()
    assert sparse.to_dense().tolist() == [[0, 0, 0, 1], [1, 0, 0, 0], [0, 0, 7, 0]]
    assert not read_features(nodes("n,a,b,c\nAnna,0,0,1\nBob,1,0,0\nEve,0,7,0\n"), []).x.is_sparse


def test_many_features_read_as_numpy_reads_them(nodes):
    values = np.random.default_rng(0).normal(size=(2, 3000)).astype(np.float32)
    header = ",".join(["node", *map(str, range(3000))])
    rows = [
        ",".join([name, *map(repr, row)]) for name, row in zip("ab", values.tolist(), strict=True)
    ]
    found = read_features(nodes("\n".join([header, *rows])), [])
    assert np.array_equal(found.x.numpy(), values)


def test_without_a_header_columns_are_called_by_number(nodes):
    found = read_features(nodes("a,10,1\nb,2,2\nc,007,3\n"), [], header=False, one_hot=["2"])
    assert found.feature_names == ("3", "2=007", "2=10", "2=2")
    assert found.x.to_dense().tolist() == [[1, 0, 1, 0], [2, 0, 0, 1], [3, 1, 0, 0]]
    with pytest.raises(FeatureError, match=r"feature 2 of node 'b' is 'x', not a number"):
        read_features(nodes("a,1\nb,x\n"), [], header=False)


@pytest.mark.parametrize("way", ["parquet", "table", "frame"])
def test_every_kind_of_column_becomes_the_matrix_worked_by_hand(tmp_path, frame, way):
    source = {"parquet": as_parquet(TABLE, tmp_path), "table": TABLE, "frame": frame(TABLE)}[way]
    found = read_features(source, ["Anna"], **CHOICE)
    assert found.names == ("Anna", "Bob", "Eve")
    columns = ("whole", "part", "yes", "price", "colour=red", "text:a", "text:b")
    assert found.feature_names == columns
    assert found.x.to_dense().tolist() == [
        [0, 1, 0, 0, 1, 0, 1],
        [3, -4, 0, 1.25, 0, 0, 0],
        [5, 0.5, 1, 1.25, 1, 1, 1],
    ]


def test_whole_numbers_are_names_and_numbers_may_be_categories():
    found = read_features(pa.table({"node": [10, 2], "group": [7, 8]}), ["2"], one_hot=["group"])
    assert found.names == ("10", "2")
    assert found.feature_names == ("group=7", "group=8")
    assert read_features(pa.table({"node": [1.0, 2.0], "a": [1, 2]}), []).names == ("1", "2")


def test_the_index_of_a_pandas_frame_names_the_nodes():
    table = pa.table({"a": [1.0, 2.0], "who": ["Bob", "Anna"]})
    about = {b"pandas": json.dumps({"index_columns": ["who"]}).encode()}
    found = read_features(table.replace_schema_metadata(about), [])
    assert found.names == ("Anna", "Bob")
    assert found.x.tolist() == [[2], [1]]
    plain = {b"pandas": json.dumps({"index_columns": [{"kind": "range"}]}).encode()}
    table = pa.table({"node": ["a"], "x": [1]}).replace_schema_metadata(plain)
    assert read_features(table, []).names == ("a",)


COUNTS = "expected a column of node names, at least one feature, and a row per node."
A = ": feature 'a' of node "
BAD_TABLES = [
    (["a", "b", "c"], [1, None, None], f"{A}'b' is empty (and 1 more node).\n{FILL}"),
    (["a", "b"], [1e39, 1.0], f"{A}'a' is '1e+39', too large for a 32-bit number.\n{FINITE}"),
    (["a"], [["x", "y"]], f"{A}'a' is '['x', 'y']', not a number.\n{TEXT_COLUMN.format('a')}"),
    (["a", "b"], None, f" has 1 column and 2 rows, {COUNTS}"),
    (pa.array([], pa.string()), pa.nulls(0), f" has 2 columns and 0 rows, {COUNTS}"),
    (
        [datetime.date(2024, 1, 1)],
        [1],
        ": column 'node' holds date32[day], expected text or whole numbers.\n"
        "Put the column of names first.",
    ),
]


@pytest.mark.parametrize(("names", "numbers", "message"), BAD_TABLES)
def test_bad_tables_are_refused(tmp_path, frame, names, numbers, message):
    table = pa.table({"node": names} | ({} if numbers is None else {"a": numbers}))
    for source, place in ((as_parquet(table, tmp_path), "nodes.parquet"), (frame(table), FRAME)):
        with pytest.raises((FeatureError, GraphFormatError)) as caught:
            read_features(source, [])
        assert str(caught.value) == f"{place}{message}"


def test_a_column_name_with_a_blank_is_quoted_for_the_shell():
    table = pa.table({"node": ["a", "b"], "my job": ["smith", "baker"]})
    with pytest.raises(FeatureError, match="add `one_hot='my job'`; if it holds words"):
        read_features(table, [])


def test_odd_columns_of_frames_are_our_errors():
    table = pa.table([["a"], [1], [2]], names=["node", "x", "x"])
    with pytest.raises(GraphFormatError, match=r"has two columns called 'x'(.|\n)*of its own\.$"):
        read_features(table, [])
    table = pa.table({"node": ["a"], "tags": [["x", "y"]]})
    with pytest.raises((FeatureError, ConfigError), match="column 'tags' holds list"):
        read_features(table, [], one_hot=["tags"])


def test_a_small_file_that_grows_large_is_refused(tmp_path):
    path = as_parquet(pa.table({"node": list(map(str, range(2000))), "a": [0.0] * 2000}), tmp_path)
    with reading_at_most("1MB"):
        assert len(read_features(path, []).names) == 2000
    with reading_at_most("100 kB"), pytest.raises(ResourceError, match=r"takes up to 0 MB"):
        read_features(path, [])


def test_a_table_larger_than_memory_is_refused_before_it_is_read(nodes, tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "_COPIES", 10**15)
    for source in (nodes(TEXT), as_parquet(TABLE, tmp_path)):
        with pytest.raises(ResourceError, match=r"may be taken\.\nIf most numbers are zero, save"):
            read_features(source, [], **CHOICE)


def test_categories_and_words_become_the_matrix_worked_by_hand(nodes):
    found = read_features(nodes(TEXT), ["Anna", "Bob"], one_hot=["colour", "colour"], words="text")
    assert found.names == ("Anna", "Bob", "Eve", "Zoe")
    colours, words = ("colour=blue", "colour=red"), ("text:Cat", "text:and", "text:cat", "text:the")
    assert found.feature_names == ("age", *colours, *words)
    assert found.x.to_dense().tolist() == [
        [1, 1, 0, 1, 1, 1, 0],
        [3, 0, 0, 0, 0, 0, 0],
        [5, 0, 1, 0, 0, 1, 1],
        [0, 0, 1, 0, 0, 0, 1],
    ]
    assert found.notes == (
        "2 nodes of nodes.csv without links kept as isolated.",
        "Column 'colour': 1 empty cell, which belongs to no category.",
        "Column 'text': 1 empty cell, which has no words.",
    )


def test_words_that_occur_once_are_kept_and_too_many_are_refused(nodes, monkeypatch):
    path = nodes("node,t\n1,a b\n2,c\n")
    monkeypatch.setattr(module, "MAX_WORDS", 3)
    assert read_features(path, [], words="t").feature_names == ("t:a", "t:b", "t:c")
    monkeypatch.setattr(module, "MAX_WORDS", 2)
    message = r"nodes\.csv: column 't' has 3 different words, at most 2 are accepted\.\nLeave out"
    with pytest.raises(FeatureError, match=message):
        read_features(path, [], words="t")


def test_an_identifier_is_no_category(nodes):
    def table(values):
        return nodes("node,id\n" + "".join(f"n{k},{v}\n" for k, v in enumerate(values)))

    message = "column 'id' has 102 different values for 102 nodes, which is an identifier rather"
    with pytest.raises(FeatureError, match=message):
        read_features(table(range(102)), [], one_hot=["id"])
    assert read_features(table(range(100)), [], one_hot=["id"]).x.shape == (100, 100)
    assert read_features(table([*range(102)] * 2), [], one_hot=["id"]).x.shape == (204, 102)


FOUND = "Columns found: node, age, colour, text."
BAD_CHOICES = [
    ({"one_hot": ["color"]}, f"nodes.csv has no column 'color' for `one_hot`. {FOUND}"),
    (
        {"words": "node"},
        "`words` node: the first column of nodes.csv names the nodes, it is no feature.\n"
        "Choose another column.",
    ),
    (
        {"words": "text", "one_hot": ["text"]},
        "Column 'text' cannot be both categories and words.\n"
        "Choose one of `one_hot` and `words` for it.",
    ),
    (
        {"row_names": "names.txt", **CHOICE},
        "A table names its nodes in the first column.\n"
        "Leave out `row_names`; it is for matrices (.npz, .mtx).",
    ),
]


@pytest.mark.parametrize(("options", "message"), BAD_CHOICES)
def test_choices_that_make_no_sense_are_refused(nodes, options, message):
    with pytest.raises(ConfigError) as caught:
        read_features(nodes(TEXT), [], **options)
    assert str(caught.value) == message


@pytest.mark.parametrize("options", [{"one_hot": ["c"]}, {"words": "c"}])
def test_a_column_without_any_text_is_refused(nodes, options):
    with pytest.raises(FeatureError, match=r"nodes\.csv: (column 'c' is empty|no text in .* word)"):
        read_features(nodes("node,c\na,\nb,\n"), [], **options)


@settings(deadline=None, max_examples=60)
# Python's split takes four separators of records for blanks, which Unicode does not.
@given(
    st.lists(
        st.text(
            st.characters(exclude_categories=["Cs"], exclude_characters="\x1c\x1d\x1e\x1f"),
            max_size=8,
        ),
        min_size=1,
    )
)
def test_words_are_those_between_blanks(cells):
    table = pa.table({"node": list(map(str, range(len(cells)))), "t": cells})
    vocabulary = sorted({word for cell in cells for word in cell.split()})
    if not vocabulary:
        with pytest.raises(CGCLError, match="has a word"):
            read_features(table, [], words="t")
        return
    found = read_features(table, [], words="t")
    assert found.feature_names == tuple(f"t:{word}" for word in vocabulary)
    for name, row in zip(found.names, found.x.to_dense().tolist(), strict=True):
        assert row == [float(word in cells[int(name)].split()) for word in vocabulary]
