"""Features from Parquet files and from frames."""

import datetime
import decimal
import json

import pyarrow as pa
import pytest
from pyarrow import parquet

from cgcl.errors import CGCLError, ConfigError, FeatureError, GraphFormatError, ResourceError
from cgcl.readers import feature_arrow, feature_columns
from cgcl.readers.feature_arrow import columns_of_parquet
from cgcl.readers.feature_columns import TextColumns
from cgcl.readers.features import read_features


class Frame:
    """A table of some other package."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


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


@pytest.mark.parametrize("way", ["parquet", "table", "frame"])
def test_every_kind_of_column_becomes_the_matrix_worked_by_hand(tmp_path, way):
    source = {"parquet": as_parquet(TABLE, tmp_path), "table": TABLE, "frame": Frame(TABLE)}[way]
    found = read_features(source, ["Anna"], **CHOICE)
    assert found.names == ("Anna", "Bob", "Eve")
    assert found.feature_names == (
        "whole",
        "part",
        "yes",
        "price",
        "colour=red",
        "text:a",
        "text:b",
    )
    assert found.x.to_dense().tolist() == [
        [0, 1, 0, 0, 1, 0, 1],
        [3, -4, 0, 1.25, 0, 0, 0],
        [5, 0.5, 1, 1.25, 1, 1, 1],
    ]


def test_whole_numbers_are_names_and_numbers_may_be_categories():
    table = pa.table({"node": [10, 2], "group": [7, 8]})
    found = read_features(table, ["2"], one_hot=["group"])
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


BAD_TABLES = {
    "null": (
        {"node": ["a", "b", "c"], "age": [1, None, None]},
        FeatureError,
        "nodes.parquet: feature 'age' of node 'b' is empty (and 1 more node).\n"
        "Fill the gaps or delete the column: every node needs every feature.",
    ),
    "only nulls": (
        {"node": ["a", "b"], "age": pa.nulls(2)},
        FeatureError,
        "nodes.parquet: feature 'age' of node 'a' is empty (and 1 more node).\n"
        "Fill the gaps or delete the column: every node needs every feature.",
    ),
    "NaN": (
        {"node": ["a", "b"], "age": [1.0, float("nan")]},
        FeatureError,
        "nodes.parquet: feature 'age' of node 'b' is 'nan', not a finite number.\n"
        "Every feature must be a finite number: replace the value, or delete the column.",
    ),
    "too large": (
        {"node": ["a", "b"], "age": [1e39, 1.0]},
        FeatureError,
        "nodes.parquet: feature 'age' of node 'a' is '1e+39', too large for a 32-bit number.\n"
        "Every feature must be a finite number: replace the value, or delete the column.",
    ),
    "text": (
        {"node": ["a", "b"], "my job": ["smith", "baker"]},
        FeatureError,
        "nodes.parquet: feature 'my job' of node 'a' is 'smith', not a number (and 1 more node).\n"
        "If the column holds categories, add `one_hot='my job'`; if it holds words with blanks "
        "between\nthem, add `words='my job'`. Otherwise delete the column.",
    ),
    "one column": (
        {"node": ["a", "b"]},
        GraphFormatError,
        "nodes.parquet has 1 column and 2 rows, expected a column of node names, at least one "
        "feature, and a row per node.",
    ),
    "no rows": (
        {"node": pa.array([], pa.string()), "age": pa.array([], pa.float32())},
        GraphFormatError,
        "nodes.parquet has 2 columns and 0 rows, expected a column of node names, at least one "
        "feature, and a row per node.",
    ),
    "empty name": (
        {"node": ["a", None], "age": [1, 2]},
        GraphFormatError,
        "nodes.parquet, row 2: the node name in column 'node' is empty.\n"
        "Names have 1 to 1,000 characters.",
    ),
    "dates for names": (
        {"node": [datetime.date(2024, 1, 1)], "age": [1]},
        GraphFormatError,
        "nodes.parquet: the first column, 'node', holds date32[day], expected the names of the "
        "nodes: text or whole numbers.\nPut the column of names first.",
    ),
    "fractions for names": (
        {"node": [1.5], "age": [1]},
        GraphFormatError,
        "nodes.parquet: the first column, 'node', holds double, expected the names of the "
        "nodes: text or whole numbers.\nPut the column of names first.",
    ),
}


@pytest.mark.parametrize("case", BAD_TABLES)
def test_bad_tables_are_refused(tmp_path, case):
    columns, kind, message = BAD_TABLES[case]
    with pytest.raises(kind) as caught:
        read_features(as_parquet(pa.table(columns), tmp_path), [])
    assert str(caught.value) == message
    with pytest.raises(kind):
        read_features(Frame(pa.table(columns)), [])


def test_columns_with_one_name_are_refused():
    table = pa.table([["a"], [1], [2]], names=["node", "x", "x"])
    with pytest.raises(GraphFormatError, match="has two columns called 'x'"):
        read_features(table, [])


def test_lists_are_no_categories(tmp_path):
    table = pa.table({"node": ["a"], "tags": [["x", "y"]]})
    with pytest.raises(CGCLError):
        read_features(table, [])
    with pytest.raises((FeatureError, ConfigError), match="column 'tags' holds list"):
        read_features(table, [], one_hot=["tags"])


def test_a_frame_that_fails_is_reported():
    class Broken:
        def __arrow_c_stream__(self, requested_schema=None):
            raise RuntimeError("out of order")

    with pytest.raises(GraphFormatError, match=r"features \(Broken\) cannot be read as a table"):
        read_features(Broken(), [])


@pytest.mark.parametrize("other", ["read_batches", "_check_size"])
def test_a_small_file_that_grows_large_is_refused(tmp_path, monkeypatch, other):
    """By its footer before it is read; if that lies, while it is read."""
    table = pa.table({"node": [str(k) for k in range(2000)], "a": [0.0] * 2000})
    path = as_parquet(table, tmp_path)
    assert len(columns_of_parquet(path, TextColumns(), max_bytes=200_000).names) == 2000
    monkeypatch.setattr(feature_arrow, other, lambda *_: None)
    with pytest.raises(GraphFormatError, match=r"unpacks to 2,000 rows and 0\.0 GB, at most 0\.0"):
        columns_of_parquet(path, TextColumns(), max_bytes=20_000)


def test_a_table_larger_than_memory_is_refused_before_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(feature_columns, "_COPIES", 10**15)
    csv = tmp_path / "nodes.csv"
    csv.write_text("node,a,b\nx,1,2\ny,3,4\n")
    for source in (csv, as_parquet(TABLE, tmp_path)):
        with pytest.raises(ResourceError, match=r"GB is free\.\nIf most numbers are zero, save"):
            read_features(source, [], **(CHOICE if source != csv else {}))
