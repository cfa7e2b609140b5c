import numpy as np
import pytest
import torch

from cgcl.errors import FeatureError, GraphFormatError
from cgcl.readers import read


@pytest.fixture
def friends(tmp_path):
    path = tmp_path / "friends.csv"
    path.write_text("source,target\nBob,Anna\nBob,Eve\n")
    return path


def nodes(friends, text):
    path = friends.with_name("nodes.csv")
    path.write_text(text)
    return path


BAD_FEATURES = {
    "empty cells": (
        "node,age\nAnna,1\nBob,\nEve,\nZoe,\n",
        "nodes.csv: feature 'age' of node 'Bob' is empty (and 2 more nodes).\n"
        "Fill the gaps or delete the column: every node needs every feature.",
    ),
    "text": (
        "node,age,job\nAnna,1,baker\nBob,2,smith\nEve,3,4\n",
        "nodes.csv: feature 'job' of node 'Anna' is 'baker', not a number (and 1 more node).\n"
        "If the column holds categories, add `one_hot=job`; if it holds words with blanks between\n"
        "them, add `words=job`. Otherwise delete the column.",
    ),
    "NaN": (
        "node,age\nAnna,1\nBob,NaN\nEve,3\n",
        "nodes.csv: feature 'age' of node 'Bob' is 'NaN', not a finite number.\n"
        "Every feature must be a finite number: replace the value, or delete the column.",
    ),
    "infinity": (
        "node,age\nAnna,1\nBob,2\nEve,-inf\n",
        "nodes.csv: feature 'age' of node 'Eve' is '-inf', not a finite number.\n"
        "Every feature must be a finite number: replace the value, or delete the column.",
    ),
    "too large": (
        "node,age\nAnna,1e40\nBob,2\nEve,3\n",
        "nodes.csv: feature 'age' of node 'Anna' is '1e40', too large for a 32-bit number.\n"
        "Every feature must be a finite number: replace the value, or delete the column.",
    ),
    "two rows for a node": (
        "node,age\nAnna,1\nBob,2\nEve,3\nBob,2\n",
        "nodes.csv: more than one row for node 'Bob'.\nKeep one row per node; 1 too many.",
    ),
    "no row for a linked node": (
        "node,age\nAnna,1\n",
        "nodes.csv has no row for 2 nodes with links: 'Bob', 'Eve'.\n"
        "Add a row for each, or leave their links out.",
    ),
}


@pytest.mark.parametrize("case", BAD_FEATURES)
def test_bad_features_are_refused_with_node_and_column(friends, case):
    text, message = BAD_FEATURES[case]
    with pytest.raises(FeatureError) as caught:
        read(friends, features=nodes(friends, text))
    assert str(caught.value) == message


def test_many_missing_rows_are_counted_and_five_named(tmp_path):
    links = tmp_path / "links.csv"
    links.write_text("source,target\n" + "".join(f"hub,{node}\n" for node in range(8)))
    with pytest.raises(
        FeatureError, match=r"8 nodes with links: '0', '1', '2', '3', '4' and 3 more"
    ):
        read(links, features=nodes(links, "node,a\nhub,1\n"))


def test_a_feature_file_needs_names_and_numbers(friends):
    with pytest.raises(GraphFormatError, match="has 1 column, expected a node name and at least"):
        read(friends, features=nodes(friends, "node\nAnna\n"))
    with pytest.raises(GraphFormatError, match=r"line 3: the node name in column 'node' is empty"):
        read(friends, features=nodes(friends, "node,a\nAnna,1\n,2\n"))
    with pytest.raises(GraphFormatError, match=r"line 3: 1 column, expected 2 \(node, a\)"):
        read(friends, features=nodes(friends, "node,a\nAnna,1\nBob\n"))
    with pytest.raises(GraphFormatError, match="No such file"):
        read(friends, features=friends.with_name("none.csv"))
    with pytest.raises(GraphFormatError, match=r"nodes\.xlsx: files of the kind '\.xlsx'"):
        read(friends, features=friends.with_name("nodes.xlsx"))


def test_features_follow_the_order_of_the_nodes(friends):
    table = "id,a,b\nEve,5,+6\nBob, 3 ,-.4e1\nAnna,1,2.5\n"
    graph = read(friends, features=nodes(friends, table))
    assert graph.names == ("Anna", "Bob", "Eve")
    assert graph.x.tolist() == [[1, 2.5], [3, -4], [5, 6]]
    assert graph.x.dtype == torch.float32
    assert graph.notes == ()
    assert graph.feature_names == ("a", "b")


def test_a_node_known_only_from_its_features_is_kept_without_links(friends):
    table = "id,a,b\nEve,5,6\nCarl,0,6\nBob,3,6\nAnna,1,6\n"
    graph = read(friends, features=nodes(friends, table))
    assert graph.names == ("Anna", "Bob", "Carl", "Eve")
    assert graph.edges.tolist() == [[0, 1], [1, 3]]
    assert graph.notes == (
        "1 node of nodes.csv without links kept as isolated.",
        "Feature 'b' is the same for every node.",
    )


def test_few_nonzeros_are_kept_sparse_and_many_dense(friends):
    sparse = read(
        friends, features=nodes(friends, "n,a,b,c,d\nAnna,0,0,0,1\nBob,1,0,0,0\nEve,0,0,7,0\n")
    )
    assert sparse.x.is_sparse
    assert sparse.x.is_coalesced()
    assert sparse.x.to_dense().tolist() == [[0, 0, 0, 1], [1, 0, 0, 0], [0, 0, 7, 0]]
    dense = read(friends, features=nodes(friends, "n,a,b,c\nAnna,0,0,1\nBob,1,0,0\nEve,0,7,0\n"))
    assert not dense.x.is_sparse


def test_many_features_read_as_numpy_reads_them(tmp_path):
    links = tmp_path / "links.csv"
    links.write_text("source,target\na,b\n")
    values = np.random.default_rng(0).normal(size=(2, 3000)).astype(np.float32)
    header = ",".join(["node", *map(str, range(3000))])
    rows = [
        ",".join([name, *map(repr, row.tolist())]) for name, row in zip("ab", values, strict=True)
    ]
    graph = read(links, features=nodes(links, "\n".join([header, *rows])))
    assert np.array_equal(graph.x.numpy(), values)


def test_feature_files_without_a_header_name_columns_by_number(tmp_path):
    links = tmp_path / "links.csv"
    links.write_text("a,b\n")
    assert read(links, features=nodes(links, "a,1\nb,2\n"), header=False).x.tolist() == [[1], [2]]
    with pytest.raises(FeatureError, match=r"feature 2 of node 'b' is 'x', not a number"):
        read(links, features=nodes(links, "a,1\nb,x\n"), header=False)
