"""Features from a table of text: the node's name, then a cell per feature."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cgcl.errors import FeatureError, GraphFormatError
from cgcl.graph.wording import shown
from cgcl.readers.delimited import DelimitedFile
from cgcl.readers.feature_columns import (
    FeatureColumns,
    TextColumns,
    bad_cell,
    check_memory,
    problem_of_number,
)
from cgcl.readers.table import MAX_NAME_LENGTH, check_name

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["columns_of_text_file"]

# What Arrow reads as a finite number, blanks around it removed.
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def columns_of_text_file(
    path: Path, text: TextColumns, *, separator: str | None, header: bool
) -> FeatureColumns:
    """Read a CSV or TSV file with a row per node.

    Args:
        path: The file; its first column names the nodes.
        text: Which columns hold text; all others must hold numbers.
        separator: The character between columns; None chooses by the file's suffix.
        header: Whether the first line names the columns; else they are called 1, 2, ...

    Raises:
        GraphFormatError: The file is not a table.
        FeatureError: A cell is not a finite number.
        ConfigError: The separator or the columns make no sense.
        ResourceError: The numbers do not fit into memory.
    """
    file = DelimitedFile.open(path, separator=separator, header=header)
    if file.num_columns < 2:
        raise GraphFormatError(
            f"{file.file} has 1 column, expected a node name and at least one feature.\n"
            f"If the columns are separated by another character, use `separator`."
        )
    columns = file.header or tuple(str(column + 1) for column in range(file.num_columns))
    text.check(file.file, columns)
    numeric = [k for k in range(1, file.num_columns) if columns[k] not in text.all]
    check_memory(file.file, _most_rows(file), len(numeric))
    table = _read(file, frozenset(numeric))
    _check_names(file, table)
    return FeatureColumns(
        place=file.file,
        names=table.column("0").to_pylist(),
        numbers=_numbers(file, table, numeric),
        labels=tuple(columns[k] for k in numeric),
        texts={columns[k]: table.column(str(k)) for k in _others(file, numeric)},
    )


def _others(file: DelimitedFile, numeric: list[int]) -> list[int]:
    return sorted(set(range(1, file.num_columns)).difference(numeric))


def _most_rows(file: DelimitedFile) -> int:
    content = file.content
    return max(content.count(b"\n", file.body_start), content.count(b"\r", file.body_start)) + 1


def _read(file: DelimitedFile, numeric: frozenset[int]) -> pa.Table:
    import pyarrow as pa

    table = file.read_columns(
        {k: pa.float32() if k in numeric else pa.string() for k in range(file.num_columns)}
    )
    if table is None:
        raise _cell_error(file, sorted(numeric))
    return table


def _check_names(file: DelimitedFile, table: pa.Table) -> None:
    from pyarrow import compute

    lengths = compute.call_function("utf8_length", [table.column("0")]).to_numpy()
    bad = (lengths == 0) | (lengths > MAX_NAME_LENGTH)
    if bad.any():
        row = int(bad.argmax())
        check_name(file, int(lengths[row]), row, 0)


def _numbers(file: DelimitedFile, table: pa.Table, numeric: list[int]) -> np.ndarray:
    values = np.empty((table.num_rows, len(numeric)), dtype=np.float32)
    for place, column in enumerate(numeric):
        values[:, place] = table.column(str(column)).to_numpy()  # an empty cell becomes NaN
    if not np.isfinite(values).all():
        raise _cell_error(file, numeric)
    return values


def _cell_error(file: DelimitedFile, numeric: list[int]) -> FeatureError:
    """Describe the first cell that is no finite number, reading again row by row."""
    first: tuple[str, int, str] | None = None
    more = 0
    for number, row in enumerate(file.rows()):
        if (number == 0 and file.header is not None) or len(row.cells) != file.num_columns:
            continue
        for column in numeric if first is None else (first[1],):
            problem = _problem(row.cells[column])
            if problem and first is None:
                first = (row.cells[0], column, problem)
                break
            more += bool(problem)
    if first is None:
        return FeatureError(f"{file.file}: some cell is not a number. Every feature must be one.")
    name, column, problem = first
    called = file.header[column] if file.header else str(column + 1)
    return bad_cell(file.file, called, file.column_label(column), name, problem, more)


def _problem(cell: str) -> str | None:
    bare = cell.strip(" \t")
    if not bare:
        return "is empty"
    if _NUMBER.fullmatch(bare) or bare.lower().lstrip("+-") in ("nan", "inf", "infinity"):
        return problem_of_number(float(bare), bare)
    return f"is '{shown(bare)}', not a number"
