"""Links from a table of text: two columns of node names."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import torch

from cgcl.errors import ConfigError, GraphFormatError
from cgcl.graph.wording import listed, shown
from cgcl.readers.delimited import DelimitedFile
from cgcl.readers.edge_list import EDGE_LIST_SUFFIXES, open_edge_list
from cgcl.readers.edge_table import EdgeTable, ignored_note
from cgcl.readers.node_names import MAX_NAME_LENGTH, encode_names
from cgcl.readers.times import read_times

__all__ = ["MAX_NAME_LENGTH", "EdgeTable", "check_name", "missing_column_error", "read_edge_table"]

_SEPARATORS = {";": "';'", "\t": "'\\t'", "|": "'|'", ",": "','", " ": "' '"}


def read_edge_table(
    path: Path,
    *,
    source: str | None = None,
    target: str | None = None,
    separator: str | None = None,
    header: bool | None = None,
    time: str | None = None,
    usage: str = "cgcl train {file}",
) -> EdgeTable:
    """Read the links of a CSV or TSV file or an edge list. Names stay the strings they are.

    Args:
        path: The file.
        source: Column with the one end of each link; "source" if not given.
        target: Column with the other end; "target" if not given.
        separator: The character between columns; None means a tab for .tsv and .tab files, what the
            first line tells for .txt, .edges and .edgelist files, and a comma for all others.
        header: Whether the first line names the columns; without, the first two columns count.
            None means yes, but for edge lists only if the first line holds both column names.
        time: Column with the time of each link; a number from 1 if there is no header.
        usage: The command that a message should show as a remedy.

    Raises:
        GraphFormatError: The file is not a table of links; the message says where and why.
        ConfigError: The separator or the column names make no sense.
    """
    ends = ("source" if source is None else source, "target" if target is None else target)
    is_named = source is not None or target is not None
    notes: tuple[str, ...] = ()
    if path.suffix.lower() in EDGE_LIST_SUFFIXES:
        by_name = True if is_named and header is None and ends != ("source", "target") else header
        file, notes = open_edge_list(path, separator=separator, header=by_name, ends=ends)
    else:
        file = DelimitedFile.open(path, separator=separator, header=header is not False)
    columns = _find_columns(file, *ends, usage)
    when = None if time is None else _time_column(file, time, columns)
    names, pairs, times = _read_cells(file, columns, when)
    others = [column for column in range(file.num_columns) if column not in (*columns, when)]
    labels = [file.column_label(column) for column in others]
    return EdgeTable(
        names,
        torch.from_numpy(pairs),
        (*notes, *ignored_note("Column", labels)),
        times=None if times is None else torch.from_numpy(times),
        ends=ends if file.header is not None else ("column 1", "column 2"),
    )


def check_name(file: DelimitedFile, length: int, row_index: int, column: int) -> None:
    """Refuse a node name that is empty or too long.

    Args:
        file: Where the name stands.
        length: Its number of characters.
        row_index: Its row, from 0, header not counted.
        column: Its column, from 0.

    Raises:
        GraphFormatError: Always, unless the length is fine.
    """
    if 0 < length <= MAX_NAME_LENGTH:
        return
    row = file.row_of_values(row_index)
    place = f"{file.file}, line {row.line}" if row else file.file
    quoted = f"  {row.line} | {shown(row.text)}\n" if row else ""
    if length == 0:
        raise GraphFormatError(
            f"{place}: the node name in column {file.column_label(column)} is empty.\n{quoted}"
            f"Fill in the name, or delete the row."
        )
    raise GraphFormatError(
        f"{place}: a node name of {length:,} characters in column {file.column_label(column)}.\n"
        f"{quoted}Names may have up to {MAX_NAME_LENGTH:,} characters. "
        f"Look for a missing separator or line break."
    )


def missing_column_error(
    file: str, found: tuple[str, ...], wanted: str, asked: tuple[str, str], remedy: str
) -> GraphFormatError:
    """Return the error about a column that is not there, with the names to use instead.

    Args:
        file: What messages call the table.
        found: The columns it has.
        wanted: The column it lacks.
        asked: The names of the two columns that were asked for.
        remedy: The beginning of what to do, up to the two options.
    """
    free = [name for name in found if name not in asked]
    ends = [end if end in found else free.pop(0) if free else found[0] for end in asked]
    options = " ".join(
        f"{flag} {shown(shlex.quote(name))}"
        for flag, name in zip(("--source", "--target"), ends, strict=True)
    )
    return GraphFormatError(
        f"{file} has no column '{shown(wanted)}'. "
        f"Columns found: {listed(found, 10, quoted=False)}.\n{remedy} {options}"
    )


def _find_columns(file: DelimitedFile, source: str, target: str, usage: str) -> tuple[int, int]:
    if file.header is None:
        if file.num_columns < 2:
            raise _one_column_error(file)
        return 0, 1
    if source == target:
        raise ConfigError(
            f"Source and target are both the column '{shown(source)}'.\n"
            f"Name two different columns with `source` and `target`."
        )
    for wanted in (source, target):
        if wanted not in file.header:
            if len(file.header) == 1:
                raise _one_column_error(file)
            remedy = f"Name them: {usage.format(file=shlex.quote(file.file))}"
            error = missing_column_error(file.file, file.header, wanted, (source, target), remedy)
            raise GraphFormatError(f"{error}\nIf the file has no header line, add `header=False`.")
    return file.header.index(source), file.header.index(target)


def _time_column(file: DelimitedFile, time: str, ends: tuple[int, int]) -> int:
    """Return the number of the column with times."""
    if file.header is not None and time in file.header:
        column = file.header.index(time)
    elif file.header is None and time.isascii() and time.isdigit():
        column = int(time[:9]) - 1
    else:
        column = -1
    if column in ends:
        raise ConfigError(
            f"The time column '{shown(time)}' holds node names.\nName another one with `time`."
        )
    if not 0 <= column < file.num_columns:
        found = (
            f"Columns found: {listed(file.header, 10, quoted=False)}."
            if file.header is not None
            else f"It has no header line; columns are numbered 1 to {file.num_columns:,}."
        )
        raise GraphFormatError(
            f"{file.file} has no column '{shown(time)}' for the times. {found}\n"
            f"Name the column with `time`."
        )
    return column


def _one_column_error(file: DelimitedFile) -> GraphFormatError:
    first = next(file.rows())
    other = next((s for s in _SEPARATORS if s != file.separator and s in first.text), None)
    remedy = (
        f"Each row needs two node names. If they are separated by {_SEPARATORS[other]} "
        f"use `separator={_SEPARATORS[other]}`."
        if other
        else "Each row needs two node names, with ',' between them (a tab in .tsv files)."
    )
    return GraphFormatError(
        f"{file.file}, line {first.line}: 1 column, expected at least 2.\n"
        f"  {first.line} | {shown(first.text)}\n{remedy}"
    )


def _read_cells(
    file: DelimitedFile, ends: tuple[int, int], when: int | None
) -> tuple[tuple[str, ...], np.ndarray, np.ndarray | None]:
    """Return the sorted names, the two nodes of every row, int64 [2, rows], and its time."""
    import pyarrow as pa

    wanted = ends if when is None else (*ends, when)
    table = file.read_columns({column: pa.string() for column in wanted})
    if table is None:
        raise GraphFormatError(f"{file.file} cannot be read as a table of names.")
    # One hash table for both columns is several times faster than merging one per block.
    encoded = encode_names([chunk for end in ends for chunk in table.column(str(end)).chunks])
    _check_names(file, ends, encoded.codes, encoded.lengths())
    names, places = encoded.ranked()
    if when is None:
        return names, places.reshape(2, -1), None

    def place(row: int) -> str:
        found = file.row_of_values(row)
        return f"{file.file}, line {found.line}" if found else file.file

    label = file.header[when] if file.header is not None else str(when + 1)
    times = read_times(table.column(str(when)), label, place)
    return names, places.reshape(2, -1), times


def _check_names(
    file: DelimitedFile, ends: tuple[int, int], codes: np.ndarray, lengths: np.ndarray
) -> None:
    bad = (lengths == 0) | (lengths > MAX_NAME_LENGTH)
    if not bad.any():
        return
    both = bad[codes].reshape(2, -1)
    row = int(both.any(axis=0).argmax())
    end = int(both[:, row].argmax())
    check_name(file, int(lengths[codes.reshape(2, -1)[end, row]]), row, ends[end])
