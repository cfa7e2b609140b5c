"""When links appeared: numbers, or dates and timestamps as ISO 8601 writes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from cgcl.errors import GraphFormatError
from cgcl.graph.wording import shown

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["read_times"]

_REMEDY = "Every link needs a time: fill it in, delete the row, or name another column with `time`."


def read_times(cells: pa.ChunkedArray, column: str, place: Callable[[int], str]) -> np.ndarray:
    """Return times as float64: numbers as they are, dates as seconds since 1970.

    A timestamp without a zone counts as UTC. All cells must be of one kind.

    Args:
        cells: Numbers, dates, timestamps or text.
        column: What messages call them.
        place: Says where the cell of a row is, such as "friends.csv, line 7".

    Raises:
        GraphFormatError: A cell is empty or not a time; the message says where.
    """
    import pyarrow as pa

    kind = cells.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        numbers = cells.cast(pa.float64(), safe=False)
    elif pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        numbers = _seconds(cells)
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        numbers = _from_text(cells, column, place)
    else:
        raise GraphFormatError(
            f"{place(0)}: column '{shown(column)}' holds {kind}, not times.\n"
            f"Expected numbers, dates or timestamps."
        )
    values = numbers.to_numpy()
    bad = ~np.isfinite(values)  # nulls have become NaN
    if bad.any():
        row = int(bad.argmax())
        raise _time_error(cells[row].as_py(), column, place(row))
    return np.array(values, dtype=np.float64)


def _seconds(cells: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow as pa
    from pyarrow import compute

    zone = getattr(cells.type, "tz", None)
    ticks = cells.cast(pa.timestamp("us", zone), safe=False).cast(pa.int64())
    return compute.call_function("divide", [ticks.cast(pa.float64(), safe=False), 1e6])


def _from_text(cells: pa.ChunkedArray, column: str, place: Callable[[int], str]) -> pa.ChunkedArray:
    """Read all cells as the kind that fits the first one."""
    import pyarrow as pa
    from pyarrow import compute

    bare: pa.ChunkedArray = compute.call_function("utf8_trim_whitespace", [cells])
    kinds = (pa.float64(), pa.timestamp("us"), pa.timestamp("us", "UTC"))
    first = bare.slice(0, 1)
    kind = next((kind for kind in kinds if _cast(first, kind) is not None), None)
    if kind is None:
        raise _time_error(cells[0].as_py(), column, place(0))
    whole = _cast(bare, kind)
    if whole is None:
        # Halve the range until one cell is left: the first that cannot be read.
        start, stop = 0, len(bare)
        while stop - start > 1:
            middle = (start + stop) // 2
            if _cast(bare.slice(start, middle - start), kind) is None:
                stop = middle
            else:
                start = middle
        raise _time_error(cells[start].as_py(), column, place(start), first[0].as_py())
    return whole if pa.types.is_floating(kind) else _seconds(whole)


def _cast(cells: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray | None:
    import pyarrow as pa

    try:
        return cells.cast(kind)
    except pa.ArrowInvalid:
        return None


def _time_error(
    value: object, column: str, place: str, first: str | None = None
) -> GraphFormatError:
    if value is None or value == "":
        return GraphFormatError(
            f"{place}: the time in column '{shown(column)}' is empty.\n{_REMEDY}"
        )
    expected = (
        "a number, or a date such as 2024-12-31 or 2024-12-31 23:59:59"
        if first is None
        else f"one that is written like the first, '{shown(first)}'"
    )
    return GraphFormatError(
        f"{place}: '{shown(str(value))}' in column '{shown(column)}' is not a time.\n"
        f"Expected {expected}.\n{_REMEDY}"
    )
