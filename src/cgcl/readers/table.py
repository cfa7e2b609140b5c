"""Links from a table: two columns of node names."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from cgcl.errors import ConfigError, GraphFormatError
from cgcl.graph.wording import listed, shown
from cgcl.readers.delimited import DelimitedFile

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["MAX_NAME_LENGTH", "EdgeTable", "check_name", "read_edge_table"]

MAX_NAME_LENGTH = 1000
_SEPARATORS = {";": "';'", "\t": "'\\t'", "|": "'|'", ",": "','", " ": "' '"}


@dataclass(frozen=True)
class EdgeTable:
    """The links of a file, as written: not yet merged, loops not yet dropped."""

    names: tuple[str, ...]
    """The nodes that occur, sorted by code points, so that row order never matters."""
    pairs: Tensor
    """Node numbers of every row: int64 [2, rows]."""
    notes: tuple[str, ...]
    """What was ignored, a sentence each."""


def read_edge_table(
    path: Path,
    *,
    source: str = "source",
    target: str = "target",
    separator: str | None = None,
    header: bool = True,
    usage: str = "cgcl train {file}",
) -> EdgeTable:
    """Read the links of a CSV or TSV file. Names stay the strings they are.

    Args:
        path: The file.
        source: Column with the one end of each link.
        target: Column with the other end.
        separator: The character between columns; None chooses by the file's suffix.
        header: Whether the first line names the columns; without, the first two columns count.
        usage: The command that a message should show as a remedy.

    Raises:
        GraphFormatError: The file is not a table of links; the message says where and why.
        ConfigError: The separator or the column names make no sense.
    """
    file = DelimitedFile.open(path, separator=separator, header=header)
    ends = _find_columns(file, source, target, usage)
    names, pairs = _number_nodes(file, ends)
    return EdgeTable(tuple(names), torch.from_numpy(pairs), _ignored_note(file, ends))


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


def _find_columns(file: DelimitedFile, source: str, target: str, usage: str) -> tuple[int, int]:
    if file.header is None:
        if file.num_columns < 2:
            raise _one_column_error(file)
        return 0, 1
    if source == target:
        raise ConfigError(
            f"Source and target are both the column '{shown(source)}'.\n"
            f"Name two different columns with --source and --target."
        )
    for wanted in (source, target):
        if wanted not in file.header:
            raise _missing_column_error(file, file.header, wanted, (source, target), usage)
    return file.header.index(source), file.header.index(target)


def _missing_column_error(
    file: DelimitedFile,
    header: tuple[str, ...],
    wanted: str,
    asked: tuple[str, str],
    usage: str,
) -> GraphFormatError:
    if len(header) == 1:
        return _one_column_error(file)
    free = [name for name in header if name not in asked]
    ends = [end if end in header else free.pop(0) if free else header[0] for end in asked]
    options = " ".join(
        f"{flag} {shown(shlex.quote(name))}"
        for flag, name in zip(("--source", "--target"), ends, strict=True)
    )
    return GraphFormatError(
        f"{file.file} has no column '{shown(wanted)}'. "
        f"Columns found: {listed(header, 10, quoted=False)}.\n"
        f"Name them: {usage.format(file=shlex.quote(file.file))} {options}\n"
        f"If the file has no header line, add --no-header."
    )


def _one_column_error(file: DelimitedFile) -> GraphFormatError:
    first = next(file.rows())
    other = next((s for s in _SEPARATORS if s != file.separator and s in first.text), None)
    remedy = (
        f"Each row needs two node names. If they are separated by {_SEPARATORS[other]} "
        f"use --separator {_SEPARATORS[other]}."
        if other
        else "Each row needs two node names, with ',' between them (a tab in .tsv files)."
    )
    return GraphFormatError(
        f"{file.file}, line {first.line}: 1 column, expected at least 2.\n"
        f"  {first.line} | {shown(first.text)}\n{remedy}"
    )


def _number_nodes(file: DelimitedFile, ends: tuple[int, int]) -> tuple[list[str], np.ndarray]:
    """Return the sorted names and, for every row, the numbers of its two nodes, int64 [2, rows]."""
    import pyarrow as pa
    from pyarrow import compute

    table = file.read_columns({end: pa.string() for end in ends})
    if table is None:
        raise GraphFormatError(f"{file.file} cannot be read as a table of names.")
    chunks = [chunk for end in ends for chunk in table.column(str(end)).chunks]
    # One hash table for both columns is several times faster than merging one per block.
    column: pa.DictionaryArray = pa.chunked_array(chunks, pa.string()).dictionary_encode()
    column = column.combine_chunks()
    codes = column.indices.to_numpy()
    lengths = compute.call_function("utf8_length", [column.dictionary]).to_numpy()
    _check_names(file, ends, codes, lengths)
    order = compute.call_function("array_sort_indices", [column.dictionary]).to_numpy()
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return column.dictionary.take(pa.array(order)).to_pylist(), rank[codes].reshape(2, -1)


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


def _ignored_note(file: DelimitedFile, ends: tuple[int, int]) -> tuple[str, ...]:
    others = [column for column in range(file.num_columns) if column not in ends]
    if not others:
        return ()
    labels = [file.column_label(column) for column in others[:5]]
    more = f" and {len(others) - 5:,} more" if len(others) > 5 else ""
    word = "Column" if len(others) == 1 else "Columns"
    return (f"{word} {', '.join(labels)}{more} ignored: only the two ends of each link are used.",)
