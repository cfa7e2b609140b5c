"""Features from Parquet files and from tables in memory that speak the Arrow protocol."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cgcl.errors import CGCLError, FeatureError, GraphFormatError
from cgcl.graph.wording import listed, shown
from cgcl.readers.delimited import MAX_COLUMNS
from cgcl.readers.feature_columns import (
    FeatureColumns,
    TextColumns,
    bad_cell,
    check_memory,
    problem_of_number,
)
from cgcl.readers.parquet_batches import damage_told, read_batches, size_error
from cgcl.readers.regular_file import read_bytes
from cgcl.readers.table import MAX_NAME_LENGTH

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import parquet

__all__ = ["MAX_BYTES", "columns_of_frame", "columns_of_parquet"]

MAX_BYTES = 4_000_000_000
_REMEDY = "Keep fewer columns, or save a sparse matrix."


def columns_of_parquet(
    path: Path, text: TextColumns, *, max_bytes: int = MAX_BYTES
) -> FeatureColumns:
    """Read a Parquet file with a row per node; its first column names the nodes.

    Args:
        path: The file.
        text: Which columns hold text; all others must hold numbers.
        max_bytes: Most that the columns may take in memory.

    Raises:
        GraphFormatError: It is not a Parquet file, or unpacks to too much.
        FeatureError: A cell is not a finite number.
        ConfigError: The columns make no sense.
        ResourceError: The numbers do not fit into memory.
    """
    from pyarrow import parquet

    content = read_bytes(path)
    with damage_told(path.name):
        reader = io.BytesIO(content)
        # Texts that repeat stay numbers into a list of distinct ones: no small file grows large.
        names = parquet.read_schema(reader).names
        file = parquet.ParquetFile(reader, read_dictionary=names)
        _check_size(path.name, file.metadata, max_bytes)
        check_memory(path.name, file.metadata.num_rows, len(names))
        table = read_batches(path.name, file, max_bytes, _REMEDY)
        return _columns(_index_first(table), path.name, text)


def columns_of_frame(frame: Any, text: TextColumns) -> FeatureColumns:  # noqa: ANN401
    """Read a table of pandas, polars, pyarrow or another package that speaks the Arrow protocol.

    The first column names the nodes, or the index of a pandas frame that has one of its own.

    Args:
        frame: The table, a row per node.
        text: Which columns hold text; all others must hold numbers.

    Raises:
        GraphFormatError: It cannot be read as a table.
        FeatureError: A cell is not a finite number.
        ConfigError: The columns make no sense.
    """
    import pyarrow as pa

    place = f"features ({type(frame).__name__})"
    try:
        table: pa.Table = pa.table(frame)
        table.validate(full=True)
        return _columns(_index_first(table), place, text)
    except CGCLError:
        raise
    except Exception as error:  # other packages may raise anything
        raise GraphFormatError(
            f"{place} cannot be read as a table: {shown(str(error), 120)}\n"
            f"Give a column of node names and columns of numbers."
        ) from error


def _check_size(file: str, about: parquet.FileMetaData, max_bytes: int) -> None:
    """Refuse from the footer alone, before any cell is unpacked."""
    if about.num_columns > MAX_COLUMNS:
        raise GraphFormatError(
            f"{file} has {about.num_columns:,} columns, at most {MAX_COLUMNS:,} are read."
        )
    groups = [about.row_group(number) for number in range(about.num_row_groups)]
    size = sum(group.total_byte_size for group in groups)
    # Eight bytes a cell: what a number, or the number of a text, takes at most.
    size += 8 * about.num_rows * about.num_columns
    if size > max_bytes:
        raise size_error(file, about.num_rows, size, max_bytes, _REMEDY)


def _index_first(table: pa.Table) -> pa.Table:
    """Put the index of a pandas frame, which Arrow lists last, where the names are expected."""
    about = (table.schema.metadata or {}).get(b"pandas", b"{}")
    index = json.loads(about).get("index_columns", [])
    named = [name for name in index if isinstance(name, str) and name in table.column_names]
    if len(named) != 1:
        return table
    return table.select([named[0], *(name for name in table.column_names if name != named[0])])


def _columns(table: pa.Table, place: str, text: TextColumns) -> FeatureColumns:
    columns = table.column_names
    if len(columns) < 2 or table.num_rows == 0:
        raise GraphFormatError(
            f"{place} has {len(columns)} column{'' if len(columns) == 1 else 's'} and "
            f"{table.num_rows:,} rows, expected a column of node names, at least one feature, and "
            f"a row per node."
        )
    twice = [name for name in columns if columns.count(name) > 1] if _repeats(columns) else []
    if twice:
        raise GraphFormatError(
            f"{place} has two columns called '{shown(twice[0])}'. "
            f"Columns found: {listed(columns, 10, quoted=False)}.\n"
            f"Give every column a name of its own."
        )
    text.check(place, columns)
    names = _node_names(table.column(0), place, columns[0])
    numeric = [name for name in columns[1:] if name not in text.all]
    values = np.empty((table.num_rows, len(numeric)), dtype=np.float32)
    for number, name in enumerate(numeric):
        values[:, number] = _number_column(table.column(name), place, name, names)
    texts = {name: _text_column(table.column(name), place, name) for name in sorted(text.all)}
    return FeatureColumns(place, names, values, tuple(numeric), texts)


def _repeats(columns: list[str]) -> bool:
    return len(set(columns)) < len(columns)


def _node_names(column: pa.ChunkedArray, place: str, label: str) -> list[str]:
    import pyarrow as pa

    cells = _plain(column)
    if pa.types.is_floating(cells.type):
        try:
            cells = cells.cast(pa.int64())  # refuses fractions and what doubles cannot hold
        except pa.ArrowInvalid:
            raise _names_error(place, label, cells.type) from None
    if not (pa.types.is_integer(cells.type) or _is_text(cells.type)):
        raise _names_error(place, label, cells.type)
    names: list[str | None] = cells.cast(pa.string()).to_pylist()
    found: list[str] = []
    for row, name in enumerate(names):
        if not name or len(name) > MAX_NAME_LENGTH:
            what = "is empty" if not name else f"has {len(name):,} characters"
            raise GraphFormatError(
                f"{place}, row {row + 1:,}: the node name in column '{shown(label)}' {what}.\n"
                f"Names have 1 to {MAX_NAME_LENGTH:,} characters."
            )
        found.append(name)
    return found


def _names_error(place: str, label: str, kind: pa.DataType) -> GraphFormatError:
    return GraphFormatError(
        f"{place}: the first column, '{shown(label)}', holds {shown(str(kind))}, expected the "
        f"names of the nodes: text or whole numbers.\nPut the column of names first."
    )


def _number_column(column: pa.ChunkedArray, place: str, label: str, names: list[str]) -> np.ndarray:
    """Return a column as float64 [n], or refuse its first bad cell."""
    import pyarrow as pa

    cells, called = _plain(column), f"'{shown(label)}'"
    kind = cells.type
    if pa.types.is_null(kind):
        raise bad_cell(place, label, called, names[0], "is empty", len(names) - 1)
    if not (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
    ):
        row = next((k for k, cell in enumerate(cells) if cell.is_valid), 0)
        value = shown(str(cells[row].as_py()))
        more = len(names) - cells.null_count - 1
        raise bad_cell(place, label, called, names[row], f"is '{value}', not a number", more)
    if pa.types.is_boolean(kind):
        cells = cells.cast(pa.uint8())
    values = cells.cast(pa.float64(), safe=False).to_numpy()  # null becomes NaN
    bad = ~(np.abs(values) <= np.finfo(np.float32).max)
    if bad.any():
        row = int(bad.argmax())
        value = cells[row].as_py()
        problem = problem_of_number(None if value is None else float(value), str(value))
        raise bad_cell(
            place, label, called, names[row], problem or "is not a number", int(bad.sum()) - 1
        )
    return values


def _text_column(column: pa.ChunkedArray, place: str, label: str) -> pa.ChunkedArray:
    import pyarrow as pa

    cells = _plain(column)
    try:
        texts = cells.cast(pa.string())
        texts.validate(full=True)  # Parquet does not promise UTF-8
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise FeatureError(
            f"{place}: column '{shown(label)}' holds {shown(str(cells.type))}, which cannot be "
            f"read as text.\nTurn it into text first, or delete the column."
        ) from error
    return texts


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow as pa

    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return (
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )
