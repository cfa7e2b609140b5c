"""Links from columns in memory: Parquet files, and any table that speaks the Arrow protocol."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from cgcl.errors import ConfigError, GraphFormatError
from cgcl.graph.wording import listed, shown
from cgcl.readers.delimited import MAX_COLUMNS
from cgcl.readers.edge_table import EdgeTable, ignored_note
from cgcl.readers.node_names import MAX_NAME_LENGTH, EncodedNames, encode_names
from cgcl.readers.parquet_batches import damage_told, read_batches, size_error
from cgcl.readers.regular_file import read_bytes
from cgcl.readers.table import missing_column_error
from cgcl.readers.times import read_times

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["MAX_BYTES", "edges_from_columns", "read_parquet"]

MAX_BYTES = 4_000_000_000
# A row costs two numbers of 4 bytes while it is read, and two of 8 afterwards.
_BYTES_PER_ROW = 24
_REMEDY = "Split the file, or use shorter names."


def read_parquet(
    path: Path,
    *,
    source: str | None = None,
    target: str | None = None,
    time: str | None = None,
    max_bytes: int = MAX_BYTES,
) -> EdgeTable:
    """Read the links of a Parquet file.

    Only the columns that are needed are read, and texts as numbers into a list of distinct texts:
    a small file that repeats a long text a million times stays small.

    Args:
        path: The file.
        source: Column with the one end of each link; "source" if not given.
        target: Column with the other end; "target" if not given.
        time: Column with the time of each link.
        max_bytes: Most that rows and texts may take in memory.

    Raises:
        GraphFormatError: It is not a Parquet file of links, or it would need too much memory.
        ConfigError: The column names make no sense.
    """
    from pyarrow import parquet

    content = read_bytes(path)
    with damage_told(path.name):
        ends = ("source" if source is None else source, "target" if target is None else target)
        reader = io.BytesIO(content)
        schema = parquet.read_schema(reader)
        wanted = _wanted(path.name, schema.names, ends, time)
        for end in ends:
            _check_kind(schema.field(end).type, path.name, end)
        file = parquet.ParquetFile(reader, read_dictionary=list(ends))
        _check_size(path.name, file.metadata.num_rows, max_bytes)
        columns = read_batches(path.name, file, max_bytes, _REMEDY, list(wanted))
        return edges_from_columns(
            columns, path.name, source=source, target=target, time=time, all_names=schema.names
        )


def edges_from_columns(
    table: pa.Table,
    file: str,
    *,
    source: str | None = None,
    target: str | None = None,
    time: str | None = None,
    all_names: list[str] | None = None,
) -> EdgeTable:
    """Return the links of an Arrow table. Whole numbers become their decimal text.

    Args:
        table: Columns of text or whole numbers, plain or dictionary-encoded.
        file: What messages call it.
        source: Column with the one end of each link; "source" if not given.
        target: Column with the other end; "target" if not given.
        time: Column with the time of each link.
        all_names: All columns of the source, if `table` holds only some of them.

    Raises:
        GraphFormatError: A column is missing, or a cell is not a node name.
        ConfigError: The column names make no sense.
    """
    ends = ("source" if source is None else source, "target" if target is None else target)
    found = all_names if all_names is not None else table.column_names
    wanted = _wanted(file, found, ends, time)
    if table.num_rows == 0:
        raise GraphFormatError(f"{file} has no rows.\nExpected a row per link.")
    parts = [_encoded(table.column(end), file, end) for end in ends]
    both = encode_names([part.distinct for part in parts])
    starts = np.cumsum([0, *(len(part.distinct) for part in parts)])
    codes = np.concatenate(
        [both.codes[start + part.codes] for start, part in zip(starts, parts, strict=False)]
    )
    encoded = _used(EncodedNames(both.distinct, codes))
    _check_names(encoded, file, ends)
    names, places = encoded.ranked()
    times = None
    if time is not None:
        cells = _decoded(table.column(time))
        times = read_times(cells, time, lambda row: f"{file}, row {row + 1:,}")
    others = [f"'{shown(name)}'" for name in found if name not in wanted]
    return EdgeTable(
        names,
        torch.from_numpy(places.reshape(2, -1)),
        ignored_note("Column", others),
        times=None if times is None else torch.from_numpy(times),
        ends=ends,
    )


def _wanted(
    file: str, found: list[str], ends: tuple[str, str], time: str | None
) -> tuple[str, ...]:
    """Return the columns to read, or refuse."""
    if len(found) > MAX_COLUMNS:
        raise GraphFormatError(
            f"{file} has {len(found):,} columns, at most {MAX_COLUMNS:,} are read."
        )
    wanted = ends if time is None else (*ends, time)
    if len(set(wanted)) < len(wanted):
        raise ConfigError(
            f"Source, target and time must be different columns, found {listed(wanted)}."
        )
    for name in wanted:
        if found.count(name) > 1:
            raise GraphFormatError(
                f"{file} has two columns called '{shown(name)}'.\n"
                f"Give every column a name of its own."
            )
        if name in found:
            continue
        if name == time or len(found) < 2:
            raise GraphFormatError(
                f"{file} has no column '{shown(name)}'. "
                f"Columns found: {listed(found, 10, quoted=False) or 'none'}."
            )
        raise missing_column_error(file, tuple(found), name, ends, "Name them:")
    return wanted


def _check_size(file: str, rows: int, max_bytes: int) -> None:
    """Refuse by the footer's count of rows alone, before any cell is unpacked.

    The footer also tells the size of every column, but asking a damaged one for it ends the process
    (pyarrow 26: a C++ exception that nobody catches). Sizes are counted as batches come instead.
    """
    if rows * _BYTES_PER_ROW > max_bytes:
        raise size_error(file, rows, rows * _BYTES_PER_ROW, max_bytes, _REMEDY)


def _decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow as pa

    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _encoded(column: pa.ChunkedArray, file: str, name: str) -> EncodedNames:
    """Return a column as numbers into its distinct texts, refusing cells that are no names."""
    import pyarrow as pa

    if column.null_count:
        row = next(i for i, cell in enumerate(column) if not cell.is_valid)
        raise _empty_error(file, row, name)
    chunks = [
        chunk if isinstance(chunk, pa.DictionaryArray) else chunk.dictionary_encode()
        for chunk in column.chunks
    ]
    texts = [_as_text(chunk.dictionary, file, name) for chunk in chunks]
    starts = np.cumsum([0, *(len(text) for text in texts)])
    codes = [
        chunk.indices.to_numpy().astype(np.int64) + start
        for chunk, start in zip(chunks, starts, strict=False)
    ]
    # A dictionary may hold a null; if a row points to it, the name is refused as empty.
    return EncodedNames(pa.concat_arrays(texts).fill_null(""), np.concatenate(codes))


def _used(encoded: EncodedNames) -> EncodedNames:
    """Leave out texts that no row has: a column of categories may list more than occur."""
    import pyarrow as pa

    is_used = np.zeros(len(encoded.distinct), dtype=bool)
    is_used[encoded.codes] = True
    if is_used.all():
        return encoded
    number = np.cumsum(is_used) - 1
    return EncodedNames(encoded.distinct.filter(pa.array(is_used)), number[encoded.codes])


def _check_kind(kind: pa.DataType, file: str, name: str) -> None:
    """Refuse a column that cannot hold names."""
    import pyarrow as pa

    is_kind = pa.types
    plain = kind.value_type if is_kind.is_dictionary(kind) else kind
    is_text = is_kind.is_string(plain) or is_kind.is_large_string(plain)
    is_number = is_kind.is_integer(plain) or is_kind.is_floating(plain)
    if not (is_text or is_number or is_kind.is_string_view(plain) or is_kind.is_null(plain)):
        raise GraphFormatError(
            f"{file}: column '{shown(name)}' holds {plain}, expected text or whole numbers.\n"
            f"Turn it into text first."
        )


def _as_text(values: pa.Array, file: str, name: str) -> pa.StringArray:
    import pyarrow as pa

    _check_kind(values.type, file, name)
    try:
        if pa.types.is_floating(values.type):
            values = values.cast(pa.int64())  # refuses fractions and what doubles cannot hold
        texts: pa.StringArray = values.cast(pa.string())
        texts.validate(full=True)  # Parquet does not promise UTF-8
    except pa.ArrowInvalid as error:
        raise GraphFormatError(
            f"{file}: column '{shown(name)}' holds values that are no node names: "
            f"{shown(str(error), 100)}\nExpected text (UTF-8) or whole numbers."
        ) from error
    return texts


def _check_names(encoded: EncodedNames, file: str, ends: tuple[str, str]) -> None:
    lengths = encoded.lengths()
    bad = (lengths == 0) | (lengths > MAX_NAME_LENGTH)
    cells = bad[encoded.codes].reshape(2, -1)
    if not cells.any():
        return
    row = int(cells.any(axis=0).argmax())
    end = int(cells[:, row].argmax())
    length = int(lengths[encoded.codes.reshape(2, -1)[end, row]])
    if length == 0:
        raise _empty_error(file, row, ends[end])
    raise GraphFormatError(
        f"{file}, row {row + 1:,}: a node name of {length:,} characters in column "
        f"'{shown(ends[end])}'.\nNames may have up to {MAX_NAME_LENGTH:,} characters."
    )


def _empty_error(file: str, row: int, column: str) -> GraphFormatError:
    return GraphFormatError(
        f"{file}, row {row + 1:,}: the node name in column '{shown(column)}' is empty.\n"
        f"Fill in the name, or delete the row."
    )
