"""Tables of all kinds as Arrow tables: text, Parquet, frames; and the one path to their links.

A reader makes a `Table`. `links_of` makes links of it; `cgcl.readers.features` makes features.
"""

from __future__ import annotations

import bisect
import io
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from pyarrow import compute, parquet

from cgcl.errors import ConfigError, GraphFormatError
from cgcl.memory import readable_memory, require_readable
from cgcl.readers.edge_table import EdgeTable, LinkOptions, ignored_note
from cgcl.readers.node_names import EncodedNames, encode_names
from cgcl.readers.regular_file import MAX_NAME_LENGTH, opened, read_bytes, told
from cgcl.wording import listed, shown

MAX_COLUMNS = 100_000
# What a cell of text takes at worst until links are made of it, but for names; measured by
# benchmarks/reading.py.
_BYTES_PER_CELL = 48
# A table of numbers is held by Arrow, as one array, and once more in the order of the names.
_COPIES = 3
TEXT_FIRST = "Turn the column into text first."
"""What to do about a column that holds no names."""
NO_HEADER = "If the file has no header line, add `header=False`."
"""What may be wrong with column names that are no names."""
_BATCH_ROWS = 1 << 20
_FEWER = "Keep fewer rows and columns, or use shorter texts"
_TIME_REMEDY = (
    "Every link needs a time: fill it in, delete the row, or name another column with `time`."
)


class Table:
    """A table from anywhere: its columns, how they are read, and how messages speak of it."""

    place: str
    """What messages call it."""
    columns: tuple[str, ...]
    """What all columns of the source are called, in its order."""
    is_text = False
    """Whether all cells are written as text, numbers included."""
    has_header = True
    """Whether the columns have names; without, they are called "1", "2", ..."""

    def read(self, columns: Sequence[str], numbers: Collection[str] = ()) -> pa.Table:
        """Return some columns.

        Args:
            columns: What they are called.
            numbers: Those of them that should hold numbers.

        Raises:
            GraphFormatError: They cannot be read, or would need too much memory.
            ResourceError: They do not fit into memory.
        """
        raise NotImplementedError

    def at(self, row: int) -> tuple[str, str]:
        """Return where a row is, and a line that quotes it, if there is something to quote."""
        return f"{self.place}, row {row + 1:,}", ""

    def label(self, column: str) -> str:
        """Return how messages call a column: its name in quotes, or its number from 1."""
        return f"'{shown(column)}'" if self.has_header else column

    def end_called(self, column: str) -> str:
        """Return what the ends of links in this column are called."""
        return column if self.has_header else f"column {column}"

    def columns_found(self) -> str:
        """Return a sentence on which columns there are."""
        if not self.has_header:
            return f"It has no header line; columns are numbered 1 to {len(self.columns):,}."
        return f"Columns found: {listed(self.columns, 10, quoted=False) or 'none'}."


def _columns_of_links(table: Table, options: LinkOptions) -> list[str]:
    """Return the columns that links are made of, or refuse."""
    place, columns, ends, time = table.place, table.columns, options.ends, options.time
    if ends[0] == ends[1]:
        raise ConfigError(
            f"Source and target are both the column '{shown(ends[0])}'.\n"
            f"Name two different columns with `source` and `target`."
        )
    if time in ends:
        raise ConfigError(
            f"The time column '{shown(time)}' holds node names.\nName another one with `time`."
        )
    refuse_twice(place, columns, {*ends, time})
    wanted = next((end for end in ends if end not in columns), None)
    if wanted is not None:
        raise _no_such_column(table, options, wanted)
    if time is None:
        return list(ends)
    if time not in columns:
        raise GraphFormatError(
            f"{place} has no column '{shown(time)}' for the times. {table.columns_found()}\n"
            f"Name the column with `time`."
        )
    return [*ends, time]


def _no_such_column(table: Table, options: LinkOptions, wanted: str) -> GraphFormatError:
    """Return what to say of a table without a column that is needed."""
    place, columns, ends = table.place, table.columns, options.ends
    free = [name for name in columns if name not in ends]
    use = [end if end in columns else free.pop(0) if free else columns[0] for end in ends]
    source, target = (shown(shlex.quote(name)) for name in use)
    how = f"--source {source} --target {target}"
    if table.is_text:
        how = f"{options.usage.format(file=shlex.quote(place))} {how}\n{NO_HEADER}"
    how = f"\nName them: {how}" if len(columns) > 1 else ""
    return GraphFormatError(
        f"{place} has no column '{shown(wanted)}'. {table.columns_found()}{how}"
    )


def refuse_twice(
    place: str, columns: Sequence[str], among: set[str | None] | None = None, advice: str = ""
) -> None:
    """Refuse a table with two columns of one name.

    Args:
        place: What messages call the table.
        columns: All its columns.
        among: The columns that matter; all if None.
        advice: A sentence to end the message with.

    Raises:
        GraphFormatError: There are two such columns.
    """
    for name, count in Counter(columns).items():
        if count > 1 and (among is None or name in among):
            raise GraphFormatError(
                f"{place} has two columns called '{shown(name)}'. "
                f"Columns found: {listed(columns, 10, quoted=False)}.\n"
                f"Give every column a name of its own.{advice}"
            )


def _are_ends_by_place(table: Table, options: LinkOptions) -> bool:
    """Return whether a table of two columns that nobody named has names of its own for both."""
    is_named = options.source is not None or options.target is not None
    return not is_named and len(table.columns) == 2 and set(options.ends) != set(table.columns)


def note_of_place(table: Table, names: Container[str], options: LinkOptions) -> str:
    """Return the note about two columns that were taken for the ends.

    Args:
        table: The table.
        names: All names in the two columns.
        options: Which columns were taken.

    Raises:
        GraphFormatError: What they are called looks like the ends of a link.
    """
    first, second = table.columns
    is_node = any(end in options.nodes or end in names for end in (first, second))
    if table.is_text and (first.isdecimal() or second.isdecimal() or is_node):
        raise _no_such_column(table, LinkOptions(usage=options.usage), "source")
    return f"Columns '{shown(first)}' and '{shown(second)}' hold the two ends of each link."


def links_of(table: Table, options: LinkOptions, notes: tuple[str, ...] = ()) -> EdgeTable:
    """Return the links of a table. Whole numbers become their decimal text.

    Args:
        table: The table.
        options: Which columns hold the ends and the times; without a header, the first two hold
            the ends.
        notes: Sentences to begin the notes with.

    Raises:
        GraphFormatError: A column is missing or there twice, or a cell is not a node name or not a
            time; the message says where.
        ConfigError: The column names make no sense.
    """
    options, wanted, is_by_place = columns_of_links(table, options)
    data = table.read(wanted)
    if data.num_rows == 0:
        raise no_rows(table.place)
    ends, time = options.ends, options.time
    names, places = encoded(table, data, ends, TEXT_FIRST).ranked()
    if is_by_place:
        notes += (note_of_place(table, {*names}, options),)
    times = None
    if time is not None:
        times = read_times(plain(data.column(time)), time, lambda row: table.at(row)[0])
    return EdgeTable(
        names,
        torch.from_numpy(places.reshape(2, -1)),
        (*notes, *note_of_others(table, wanted)),
        times=times,
        ends=(table.end_called(ends[0]), table.end_called(ends[1])),
    )


def columns_of_links(table: Table, options: LinkOptions) -> tuple[LinkOptions, list[str], bool]:
    """Return the options with the ends' columns, what to read, and whether nobody named them.

    Raises:
        GraphFormatError: A column is missing or there twice.
        ConfigError: The column names make no sense.
    """
    if not table.has_header:
        options = replace(options, source="1", target="2")
    is_by_place = _are_ends_by_place(table, options)
    if is_by_place:
        options = replace(options, source=table.columns[0], target=table.columns[1])
    return options, _columns_of_links(table, options), is_by_place


def note_of_others(table: Table, wanted: Sequence[str]) -> tuple[str, ...]:
    """Return the note about columns that are not read."""
    others = [name for name in table.columns if name not in wanted]
    return ignored_note("Column", others, quoted=table.has_header)


def no_rows(place: str) -> GraphFormatError:
    """Return what to say of a table without a row."""
    return GraphFormatError(f"{place} has no rows.\nExpected a row per link.")


def encoded(table: Table, data: pa.Table, columns: Sequence[str], remedy: str) -> EncodedNames:
    """Return the names in some columns, the cells of one column behind those of the other.

    Args:
        table: For messages.
        data: What was read of it.
        columns: Columns of text or whole numbers, plain or dictionary-encoded.
        remedy: What to do about a column of another kind.

    Raises:
        GraphFormatError: A cell is not a node name; the message says where.
    """
    for name in columns:
        _check_kind(table, name, data.column(name).type, remedy)
    chunks = [(name, chunk) for name in columns for chunk in data.column(name).chunks]
    if all(pa.types.is_string(chunk.type) for _, chunk in chunks):
        # One hash table for both columns is several times faster than merging one per block.
        found = encode_names([chunk.fill_null("") for _, chunk in chunks])
    else:
        texts, codes, start = list[pa.StringArray](), list[np.ndarray](), 0
        for name, chunk in chunks:
            both = chunk if isinstance(chunk, pa.DictionaryArray) else chunk.dictionary_encode()
            text = _as_text(both.dictionary, f"{table.place}: column {table.label(name)}", remedy)
            # Cells without a value get the number of a text that is empty.
            texts.append(pa.concat_arrays([text.fill_null(""), pa.array([""])]))
            number = both.indices.cast(pa.int64()).fill_null(len(text)).to_numpy()
            codes.append(number + start)
            start += len(text) + 1
        all_texts = encode_names(texts)
        found = _used(EncodedNames(all_texts.distinct, all_texts.codes[np.concatenate(codes)]))
    _check_lengths(table, columns, found)
    return found


def _check_kind(table: Table, column: str, kind: pa.DataType, remedy: str) -> None:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not (_is_text(kind) or is_number(kind) or pa.types.is_null(kind)):
        raise GraphFormatError(
            f"{table.place}: column {table.label(column)} holds {kind}, expected text or whole "
            f"numbers.\n{remedy}"
        )


def _as_text(values: pa.Array, what: str, remedy: str) -> pa.StringArray:
    """Return distinct values as text, refusing those that cannot be names."""
    try:
        if pa.types.is_floating(values.type):
            values = values.cast(pa.int64())  # refuses fractions and what doubles cannot hold
        texts: pa.StringArray = values.cast(pa.string())
        texts.validate(full=True)  # Parquet does not promise UTF-8
    except pa.ArrowInvalid as error:
        raise GraphFormatError(
            f"{what} holds values that are no node names: {shown(str(error), 100)}\n"
            f"Expected text (UTF-8) or whole numbers. {remedy}"
        ) from error
    return texts


def _used(names: EncodedNames) -> EncodedNames:
    """Leave out texts that no row has: a column of categories may list more than occur."""
    is_used = np.zeros(len(names.distinct), dtype=bool)
    is_used[names.codes] = True
    number = np.cumsum(is_used) - 1
    return EncodedNames(names.distinct.filter(pa.array(is_used)), number[names.codes])


def _check_lengths(table: Table, columns: Sequence[str], names: EncodedNames) -> None:
    lengths = compute.call_function("utf8_length", [names.distinct]).to_numpy()
    bad = (lengths == 0) | (lengths > MAX_NAME_LENGTH)
    if not bad.any():
        return
    cells = names.codes.reshape(len(columns), -1)
    row = int(bad[cells].any(axis=0).argmax())
    number = int(bad[cells[:, row]].argmax())
    length, label = int(lengths[cells[number, row]]), table.label(columns[number])
    place, quoted = table.at(row)
    if length == 0:
        raise GraphFormatError(
            f"{place}: the node name in column {label} is empty.\n{quoted}"
            f"Fill in the name, or delete the row."
        )
    raise GraphFormatError(
        f"{place}: a node name of {length:,} characters in column {label}.\n"
        f"{quoted}Names may have up to {MAX_NAME_LENGTH:,} characters."
        + (" Look for a missing separator or line break." if quoted else "")
    )


def plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column whose cells are values, not numbers into a list of values."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _is_text(kind: pa.DataType) -> bool:
    is_kind = pa.types
    return is_kind.is_string(kind) or is_kind.is_large_string(kind) or is_kind.is_string_view(kind)


def is_number(kind: pa.DataType) -> bool:
    """Return whether a column of this kind holds whole or floating numbers."""
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)


# --- Parquet files and frames ---


@dataclass
class _Held(Table):
    """A table that pyarrow holds, or knows how to unpack."""

    place: str
    columns: tuple[str, ...]
    cells: Callable[[list[str], int], pa.Table]
    before: int = 0
    """How many rows come before these."""

    def at(self, row: int) -> tuple[str, str]:
        """Return where a row is."""
        return super().at(self.before + row)

    def read(self, columns: Sequence[str], numbers: Collection[str] = ()) -> pa.Table:
        """Return some columns."""
        return self.cells(list(columns), len(numbers))


def open_parquet(path: Path) -> Table:
    """Open a Parquet file.

    Texts are read as numbers into a list of distinct texts: a small file that repeats a long text a
    million times stays small.

    Raises:
        GraphFormatError: It is not a Parquet file.
        ResourceError: It does not fit into memory.
    """
    content = io.BytesIO(read_bytes(path))
    problem = f"{path.name} is damaged or not a Parquet file"
    with told(problem, "Write it again."):
        schema = parquet.read_schema(content)
        columns = schema.names
        _check_width(path.name, columns)
        flat = [field.name for field in schema if not pa.types.is_nested(field.type)]
        file = parquet.ParquetFile(content, read_dictionary=flat)
        rows = file.metadata.num_rows

    def read(wanted: list[str], numbers: int) -> pa.Table:
        check_memory(path.name, rows, numbers)
        with told(problem, "Write it again."):
            size = rows * (_BYTES_PER_CELL * (len(wanted) - numbers) + 4 * _COPIES * numbers)
            if len(wanted) == len(columns):
                groups = map(file.metadata.row_group, range(file.metadata.num_row_groups))
                size += sum(group.total_byte_size for group in groups)
            require_readable(path.name, size, on_disk=content.getbuffer().nbytes, remedy=_FEWER)
            data = _unpacked(path.name, file, wanted)
            data.validate(full=True)  # a damaged file may point outside its dictionary
            return data

    return _Held(path.name, tuple(columns), read)


def parquet_blocks(
    path: Path, choose: Callable[[Table], tuple[Sequence[str], Collection[str]]], size: int
) -> Iterator[tuple[Table, pa.Table]]:
    """Yield some columns of a Parquet file, some rows at a time, each with what it is part of.

    Args:
        path: The file.
        choose: Returns which columns to read, and which of them hold numbers.
        size: About how many bytes a block may take.

    Raises:
        GraphFormatError: It is not a Parquet file.
    """
    damage = f"{path.name} is damaged or not a Parquet file", "Write it again."
    with opened(path) as content:
        with told(*damage):
            schema = parquet.read_schema(content)
            columns = tuple(schema.names)
            _check_width(path.name, columns)
            flat = [field.name for field in schema if not pa.types.is_nested(field.type)]
            content.seek(0)
            file = parquet.ParquetFile(content, read_dictionary=flat, pre_buffer=False)
        head = _Held(path.name, columns, lambda own, _: schema.empty_table().select(own))
        wanted, _ = choose(head)
        # So many of the longest names still fit into one array of Arrow.
        rows = max(min(_BATCH_ROWS >> 3, size // (_BYTES_PER_CELL * len(wanted))), 1)
        with told(*damage):
            batches = file.iter_batches(rows, columns=list(wanted), use_threads=False)
        before = 0
        while True:
            with told(*damage):
                batch = next(batches, None)
                if batch is None:
                    return
                data = pa.Table.from_batches([batch])
                data.validate(full=True)  # a damaged file may point outside its dictionary
            held = _Held(path.name, columns, lambda own, _, data=data: data.select(own), before)
            yield held, data
            before += data.num_rows


def frame_table(frame: Any, place: str) -> Table:  # noqa: ANN401
    """Return a table of pandas, polars, pyarrow or another package that speaks the Arrow protocol.

    Raises:
        GraphFormatError: It cannot be read as a table.
    """
    remedy = "Expected columns of one type each; names of nodes are text or whole numbers."
    with told(f"{place} cannot be read as a table", remedy):
        data: pa.Table = pa.table(frame)
        data.validate(full=True)
    _check_width(place, data.column_names)
    return _Held(place, tuple(data.column_names), lambda wanted, _: data.select(wanted))


def _check_width(place: str, columns: Sequence[str]) -> None:
    if len(columns) > MAX_COLUMNS:
        raise GraphFormatError(
            f"{place} has {len(columns):,} columns, at most {MAX_COLUMNS:,} are read."
        )


def _unpacked(file: str, reader: parquet.ParquetFile, columns: list[str]) -> pa.Table:
    # The footer also tells the size of every column, but asking a damaged one for it ends the
    # process (pyarrow 26: a C++ exception that nobody catches), and it may lie.
    batches: list[pa.RecordBatch] = []
    size, allowed = 0, readable_memory()
    for batch in reader.iter_batches(_BATCH_ROWS, columns=columns, use_threads=False):
        batches.append(batch)
        size += batch.nbytes
        if size > allowed:
            require_readable(file, size, remedy=_FEWER)
    if not batches:
        return reader.schema_arrow.empty_table().select(columns)
    return pa.Table.from_batches(batches)


def check_memory(place: str, rows: int, columns: int) -> None:
    """Refuse a table of numbers that does not fit into memory, before it is read.

    Args:
        place: What messages call the table.
        rows: Number of nodes.
        columns: Number of features.

    Raises:
        ResourceError: It would not fit.
    """
    remedy = (
        "If most numbers are zero, save them as a sparse matrix: .npz (scipy.sparse.save_npz) or "
        ".mtx"
    )
    require_readable(place, _COPIES * 4 * rows * columns, remedy=remedy)


# --- Times ---


def read_times(cells: pa.ChunkedArray, column: str, place: Callable[[int], str]) -> torch.Tensor:
    """Return times as float64: numbers as they are, dates as seconds since 1970.

    Dates and timestamps of text are those of ISO 8601. A timestamp without a zone counts as UTC.
    All cells must be of one kind.

    Args:
        cells: Numbers, dates, timestamps or text.
        column: What messages call them.
        place: Says where the cell of a row is, such as "friends.csv, line 7".

    Raises:
        GraphFormatError: A cell is empty or not a time; the message says where.
    """
    kind = cells.type
    if is_number(kind):
        numbers = cells.cast(pa.float64(), safe=False)
    elif pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        numbers = _seconds(cells)
    elif _is_text(kind):
        numbers = _times_from_text(cells, column, place)
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
    return torch.from_numpy(np.array(values, dtype=np.float64))


def _seconds(cells: pa.ChunkedArray) -> pa.ChunkedArray:
    zone = getattr(cells.type, "tz", None)
    ticks = cells.cast(pa.timestamp("us", zone), safe=False).cast(pa.int64())
    return compute.call_function("divide", [ticks.cast(pa.float64(), safe=False), 1e6])


def _times_from_text(
    cells: pa.ChunkedArray, column: str, place: Callable[[int], str]
) -> pa.ChunkedArray:
    """Read all cells as the kind that fits the first one."""
    bare: pa.ChunkedArray = compute.call_function("utf8_trim_whitespace", [cells])
    kinds = (pa.float64(), pa.timestamp("us"), pa.timestamp("us", "UTC"))
    first = bare.slice(0, 1)
    kind = next((kind for kind in kinds if _cast(first, kind) is not None), None)
    if kind is None:
        raise _time_error(cells[0].as_py(), column, place(0))
    whole = _cast(bare, kind)
    if whole is None:
        # The first cell that is no time is the last of the shortest beginning that is refused.
        row = bisect.bisect(
            range(len(bare) - 1), 0, key=lambda k: _cast(bare.slice(0, k + 1), kind) is None
        )
        raise _time_error(cells[row].as_py(), column, place(row), first[0].as_py())
    return whole if pa.types.is_floating(kind) else _seconds(whole)


def _cast(cells: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray | None:
    try:
        return cells.cast(kind)
    except pa.ArrowInvalid:
        return None


def _time_error(
    value: object, column: str, place: str, first: str | None = None
) -> GraphFormatError:
    if value is None or value == "":
        return GraphFormatError(
            f"{place}: the time in column '{shown(column)}' is empty.\n{_TIME_REMEDY}"
        )
    expected = (
        "a number, or a date such as 2024-12-31 or 2024-12-31 23:59:59"
        if first is None
        else f"one that is written like the first, '{shown(first)}'"
    )
    return GraphFormatError(
        f"{place}: '{shown(str(value))}' in column '{shown(column)}' is not a time.\n"
        f"Expected {expected}.\n{_TIME_REMEDY}"
    )
