import datetime

import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cgcl.errors import GraphFormatError
from cgcl.readers.tables import read_times


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
