"""Categories and words as features."""

import pyarrow as pa
import pytest
import torch

from cgcl.errors import ConfigError, FeatureError
from cgcl.readers.features import read_features
from cgcl.readers.words import bag_of_words

TABLE = (
    "node,age,colour,text\n"
    "Eve,5,red,the cat\n"
    "Bob,3,,\n"
    "Anna,1,blue,cat  and\tCat cat\n"
    "Zoe,0,red,the\n"
)


@pytest.fixture
def nodes(tmp_path):
    def write(text):
        path = tmp_path / "nodes.csv"
        path.write_text(text)
        return path

    return write


def test_categories_and_words_become_the_matrix_worked_by_hand(nodes):
    found = read_features(nodes(TABLE), ["Anna", "Bob"], one_hot=["colour"], words="text")
    assert found.names == ("Anna", "Bob", "Eve", "Zoe")
    assert found.feature_names == (
        "age",
        "colour=blue",
        "colour=red",
        "text:Cat",
        "text:and",
        "text:cat",
        "text:the",
    )
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


def test_a_column_of_numbers_may_be_categories(nodes):
    table = "node,group\na,10\nb,2\nc,2\nd,007\n"
    found = read_features(nodes(table), [], one_hot=["group"])
    assert found.feature_names == ("group=007", "group=10", "group=2")
    assert found.x.to_dense().tolist() == [[0, 1, 0], [0, 0, 1], [0, 0, 1], [1, 0, 0]]


def test_without_a_header_columns_are_called_by_number(nodes):
    found = read_features(nodes("a,red,1\nb,blue,2\n"), [], header=False, one_hot=["2"])
    assert found.feature_names == ("3", "2=blue", "2=red")
    assert found.x.to_dense().tolist() == [[1, 0, 1], [2, 1, 0]]


def test_text_keeps_features_sparse(nodes):
    rows = "".join(f"n{k:03d},w{k} w{k + 1} all\n" for k in range(200))
    found = read_features(nodes("node,text\n" + rows), [], words="text")
    assert found.x.is_sparse
    assert found.x.is_coalesced()
    assert found.x.values().numel() == 600
    assert found.notes[1:] == ("Feature 'text:all' is the same for every node.",)


def test_words_that_occur_once_are_kept_and_too_many_are_refused():
    cells = pa.chunked_array([["a b", "c"]])
    assert bag_of_words(cells, "t", "x.csv", max_words=3)[1] == ("t:a", "t:b", "t:c")
    with pytest.raises(FeatureError) as caught:
        bag_of_words(cells, "t", "x.csv", max_words=2)
    assert str(caught.value).startswith(
        "x.csv: column 't' has more than 2 different words in its first 2 of 2 rows.\nLeave out"
    )


def test_an_identifier_is_no_category(nodes):
    def table(values):
        return nodes("node,id\n" + "".join(f"n{k},{v}\n" for k, v in enumerate(values)))

    with pytest.raises(FeatureError) as caught:
        read_features(table(range(102)), [], one_hot=["id"])
    assert str(caught.value).startswith(
        "nodes.csv: column 'id' has 102 different values for 102 nodes, which is an identifier "
        "rather than a category.\nGroup the values"
    )
    assert read_features(table(range(100)), [], one_hot=["id"]).x.shape == (100, 100)
    assert read_features(table([*range(102)] * 2), [], one_hot=["id"]).x.shape == (204, 102)


BAD_CHOICES = {
    "no such column": (
        {"one_hot": ["color"]},
        ConfigError,
        "nodes.csv has no column 'color' for `one_hot`. Columns found: node, age, colour, text.",
    ),
    "no such column of words": (
        {"words": "body", "one_hot": ["colour"]},
        ConfigError,
        "nodes.csv has no column 'body' for `words`. Columns found: node, age, colour, text.",
    ),
    "the names": (
        {"words": "node"},
        ConfigError,
        "`words` node: the first column of nodes.csv names the nodes, it is no feature.\n"
        "Choose another column.",
    ),
    "both": (
        {"words": "text", "one_hot": ["text"]},
        ConfigError,
        "Column 'text' cannot be both categories and words.\n"
        "Choose one of `one_hot` and `words` for it.",
    ),
    "names of rows": (
        {"row_names": "names.txt", "words": "text", "one_hot": ["colour"]},
        ConfigError,
        "A table names its nodes in the first column.\n"
        "Leave out `row_names`; it is for matrices (.npz, .mtx).",
    ),
    "words forgotten": (
        {"one_hot": ["colour"]},
        FeatureError,
        "nodes.csv: feature 'text' of node 'Eve' is 'the cat', not a number (and 3 more nodes).\n"
        "If the column holds categories, add `one_hot=text`; if it holds words with blanks "
        "between\nthem, add `words=text`. Otherwise delete the column.",
    ),
}


@pytest.mark.parametrize("case", BAD_CHOICES)
def test_choices_that_make_no_sense_are_refused(nodes, case):
    options, kind, message = BAD_CHOICES[case]
    with pytest.raises(kind) as caught:
        read_features(nodes(TABLE), [], **options)
    assert str(caught.value) == message


@pytest.mark.parametrize("options", [{"one_hot": ["c"]}, {"words": "c"}])
def test_a_column_without_any_text_is_refused(nodes, options):
    with pytest.raises(FeatureError, match=r"nodes\.csv: (column 'c' is empty|no text in .* word)"):
        read_features(nodes("node,c\na,\nb,\n"), [], **options)


def test_a_category_asked_for_twice_counts_once(nodes):
    found = read_features(nodes("node,c\na,x\nb,y\n"), [], one_hot=["c", "c"])
    assert torch.equal(found.x.to_dense(), torch.eye(2))
