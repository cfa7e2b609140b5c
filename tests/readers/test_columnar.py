import datetime
import sys

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from cgcl import memory
from cgcl.errors import GraphFormatError, ResourceError
from cgcl.memory import reading_at_most
from cgcl.readers import read
from cgcl.readers.formats import read_features, read_links
from cgcl.readers.tables import read_times


def write(path, **columns):
    parquet.write_table(pa.table(columns), path)
    return path


KINDS = {
    "text": pa.array(["7", "8"]),
    "large text": pa.array(["7", "8"], pa.large_string()),
    "text view": pa.array(["7", "8"], pa.string_view()),
    "dictionary": pa.array(["7", "8"]).dictionary_encode(),
    "dictionary of numbers": pa.array([7, 8]).dictionary_encode(),
    "small numbers": pa.array([7, 8], pa.int8()),
    "unsigned numbers": pa.array([7, 8], pa.uint64()),
    "whole doubles": pa.array([7.0, 8.0]),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("other", ["text", "small numbers", "dictionary"])
def test_every_kind_of_column_gives_the_same_names(tmp_path, frame, kind, other):
    table = pa.table({"source": KINDS[kind], "target": KINDS[other].take(pa.array([1, 1]))})
    assert read(frame(table)).names == ("7", "8")
    assert read(table).edges.tolist() == [[0], [1]]
    if kind != "text view":
        parquet.write_table(table, tmp_path / "a.parquet")
        assert read(tmp_path / "a.parquet").names == ("7", "8")


def test_large_numbers_keep_every_digit(tmp_path):
    path = write(tmp_path / "a.pq", source=[9007199254740993, 10**12], target=[-5, 2**62])
    assert set(read(path).names) == {"9007199254740993", str(10**12), "-5", str(2**62)}


EMPTY = ", row {}: the node name in column '{}' is empty.\nFill in the name, or delete the row."
OTHER = (
    ": column 'source' holds {}, expected text or whole numbers.\nTurn the column into text first."
)
FRACTION = (
    ": column 'source' holds values that are no node names: Float value {} was truncated "
    "converting to int64\nExpected text (UTF-8) or whole numbers. Turn the column into text first."
)
BAD = [
    (["a", None], ["b", "c"], EMPTY.format(2, "source")),
    (["a"], pa.array([None], pa.int64()), EMPTY.format(1, "target")),
    (["a", "b"], ["b", ""], EMPTY.format(2, "target")),
    ([1.5], ["b"], FRACTION.format("1.500000")),
    ([datetime.date(2024, 1, 1)], ["b"], OTHER.format("date32[day]")),
    (
        pa.array([], pa.string()),
        pa.array([], pa.string()),
        " has no rows.\nExpected a row per link.",
    ),
    (
        ["a" * 1001],
        ["b"],
        ", row 1: a node name of 1,001 characters in column 'source'.\n"
        "Names may have up to 1,000 characters.",
    ),
]


@pytest.mark.parametrize(("source", "target", "message"), BAD)
def test_a_bad_cell_is_refused_with_place_and_remedy(tmp_path, source, target, message):
    with pytest.raises(GraphFormatError) as caught:
        read(write(tmp_path / "a.parquet", source=source, target=target))
    assert str(caught.value) == f"a.parquet{message}"


@pytest.mark.parametrize(
    ("columns", "found"),
    [("from to at", "from, to, at.\nName them: --source from --target to"), ("a", "a.")],
)
def test_missing_columns_are_named(tmp_path, columns, found):
    with pytest.raises(GraphFormatError) as caught:
        read(write(tmp_path / "a.parquet", **{column: ["a"] for column in columns.split()}))
    assert str(caught.value) == f"a.parquet has no column 'source'. Columns found: {found}"


def test_bytes_that_are_not_utf8_are_refused(tmp_path, frame):
    broken = pa.array([b"\xff\xfe"]).view(pa.string())
    path = write(tmp_path / "a.parquet", source=broken, target=["b"])
    with pytest.raises(GraphFormatError, match=r"damaged|no node names"):
        read(path)
    with pytest.raises(GraphFormatError, match="cannot be read as a table"):
        read(frame(pa.table({"source": broken, "target": ["b"]})))


def test_columns_are_chosen_and_the_others_ignored(tmp_path):
    path = write(tmp_path / "a.parquet", weight=[1.5], to=["b"], fro=["a"], source=["x"])
    graph = read(path, source="fro", target="to")
    assert graph.names == ("a", "b")
    assert graph.notes == (
        "Columns 'weight', 'source' ignored: only the two ends of each link are used.",
    )


@pytest.mark.parametrize("when", [[2, 1], ["1970-01-01T00:00:02", "1970-01-01T00:00:01"]])
def test_times_are_a_column_like_any_other(tmp_path, when):
    path = write(tmp_path / "a.parquet", source=["b", "a"], target=["c", "b"], when=when)
    assert read(path, time="when").times.tolist() == [1.0, 2.0]
    with pytest.raises(GraphFormatError, match="has no column 'then'"):
        read(path, time="then")


def test_a_small_file_that_unpacks_to_much_is_refused_by_its_footer(tmp_path, monkeypatch):
    column = pa.DictionaryArray.from_arrays(pa.array([0] * 2_000_000, pa.int32()), ["x" * 900])
    path = write(tmp_path / "bomb.parquet", source=column, target=column)
    assert path.stat().st_size < 400_000  # as text these would be 3.6 GB
    assert read_links(path).names == ("x" * 900,)
    monkeypatch.setattr(memory, "_HARMLESS", 40_000_000)
    with pytest.raises(GraphFormatError, match=r"bytes and claims to hold what takes 192 MB, more"):
        read_links(path)


def test_a_file_with_long_texts_is_refused_while_it_is_read(tmp_path, monkeypatch):
    texts = [f"{row:0900d}" for row in range(1000)]
    path = write(tmp_path / "a.parquet", source=texts, target=texts)
    assert len(read_links(path).names) == 1000
    # 96 bytes a row would be fine.
    with reading_at_most(100_000), pytest.raises(ResourceError, match=r"Reading a\.parquet takes"):
        read_links(path)


def test_a_null_in_a_dictionary_matters_only_if_a_row_points_to_it():
    values = pa.array(["a", None, "b", "a category without rows"])
    column = pa.DictionaryArray.from_arrays(pa.array([0, 2]), values)
    assert read(pa.table({"source": column, "target": ["b", "c"]})).names == ("a", "b", "c")
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1]), values)
    with pytest.raises(GraphFormatError, match=r"row 2: the node name in column 'source' is empty"):
        read(pa.table({"source": column, "target": ["b", "c"]}))


def test_a_table_that_breaks_when_it_is_read_is_our_error():
    class Broken:
        def __arrow_c_stream__(self, requested_schema=None):
            raise RuntimeError("mixed types")

    with pytest.raises(GraphFormatError, match="The Broken cannot be read as a table: mixed types"):
        read(Broken())
    assert "pandas" not in sys.modules


def seconds(values, kind=None):
    return read_times(pa.chunked_array([pa.array(values, kind)]), "when", lambda row: f"row {row}")


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([3, 1], pa.int64(), [3.0, 1.0]),
        ([0.5], pa.float32(), [0.5]),
        (["7", " -1.5 ", "1e3"], pa.string(), [7.0, -1.5, 1000.0]),
        (["1970-01-02"], pa.string(), [86400.0]),
        (["1970-01-01 00:00:01.5", "1970-01-01T00:01"], pa.string(), [1.5, 60.0]),
        (["1970-01-01T01:00:00+01:00", "1970-01-01T00:00:02Z"], pa.large_string(), [0.0, 2.0]),
        ([datetime.date(1970, 1, 2)], pa.date32(), [86400.0]),
        ([datetime.datetime(1970, 1, 1, 0, 0, 3)], pa.timestamp("ns"), [3.0]),
        ([datetime.datetime(1970, 1, 1, 0, 0, 3)], pa.timestamp("s", "Asia/Tokyo"), [3.0]),
    ],
)
def test_numbers_stay_and_dates_become_seconds(values, kind, expected):
    found = seconds(values, kind)
    assert found.tolist() == expected
    assert found.dtype == torch.float64


@pytest.mark.parametrize(
    ("values", "kind", "message"),
    [
        (["1", ""], pa.string(), "row 1: the time in column 'when' is empty"),
        ([1, None], pa.int64(), "row 1: the time in column 'when' is empty"),
        ([1.0, float("nan")], pa.float64(), "row 1: 'nan' in column 'when' is not a time"),
        (["1", "inf"], pa.string(), "row 1: 'inf' in column 'when' is not a time"),
        (["soon"], pa.string(), "row 0: 'soon' in column 'when' is not a time.\nExpected a number"),
        (["1", "2024-01-01"], pa.string(), "Expected one that is written like the first, '1'"),
        (["2024-01-01", "2024-13-01", "x"], pa.string(), "row 1: '2024-13-01'"),
        ([True], pa.bool_(), "row 0: column 'when' holds bool, not times"),
        ([[1]], pa.list_(pa.int64()), "holds list<"),
    ],
)
def test_what_is_no_time_is_refused_by_its_place(values, kind, message):
    with pytest.raises(GraphFormatError) as caught:
        seconds(values, kind)
    assert message in str(caught.value)
    assert str(caught.value).count("\n") < 4


@given(st.integers(1, 200), st.data())
def test_the_first_bad_cell_is_the_one_named(count, data):
    bad = data.draw(st.integers(1, count))
    also = data.draw(st.integers(bad, count))
    cells = ["1"] * (count + 1)
    cells[also] = "y"
    cells[bad] = "x"
    with pytest.raises(GraphFormatError, match=f"row {bad}: 'x'"):
        seconds(cells)


def test_sparse_numbers_that_pack_well_are_no_bomb(tmp_path):
    words = np.random.default_rng(0).random((3000, 3000)) < 0.008
    columns = {f"w{place}": pa.array(words[:, place].astype(np.int8)) for place in range(3000)}
    names = pa.array([str(row) for row in range(3000)])
    path = write(tmp_path / "words.parquet", node=names, **columns)
    assert len(read_features(path, []).names) == 3000
