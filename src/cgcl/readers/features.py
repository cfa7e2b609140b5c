"""Node features from a table: the node's name, then a number per feature."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from cgcl.errors import FeatureError, GraphFormatError
from cgcl.graph.feature_matrix import compact
from cgcl.graph.wording import listed, shown
from cgcl.readers.delimited import DelimitedFile
from cgcl.readers.table import MAX_NAME_LENGTH, check_name

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FeatureTable", "read_features"]

# What Arrow reads as a finite number, blanks around it removed.
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class FeatureTable:
    """The features of all nodes, and with them the node set."""

    names: tuple[str, ...]
    """Every node of the file, sorted by code points: a node without links belongs to the graph."""
    x: Tensor
    """Float32 [n, d] in the order of `names`, coalesced sparse COO or dense."""
    notes: tuple[str, ...]
    """What is worth knowing about them, a sentence each."""


def read_features(
    path: Path, linked: Collection[str], *, separator: str | None = None, header: bool = True
) -> FeatureTable:
    """Read one row of numbers per node; the first column is the node's name.

    Args:
        path: A CSV or TSV file.
        linked: The nodes that have links; each needs a row. Rows of other nodes are welcome: those
            nodes join the graph without links.
        separator: The character between columns; None chooses by the file's suffix.
        header: Whether the first line names the columns.

    Raises:
        GraphFormatError: The file is not a table.
        FeatureError: A cell is not a finite number, a node has two rows, or a linked node has none.
        ConfigError: The separator is not one plain character.
    """
    file = DelimitedFile.open(path, separator=separator, header=header)
    if file.num_columns < 2:
        raise GraphFormatError(
            f"{file.file} has 1 column, expected a node name and at least one feature.\n"
            f"If the columns are separated by another character, use --separator."
        )
    names, values = _read_cells(file)
    order = np.array(sorted(range(len(names)), key=names.__getitem__), dtype=np.int64)
    ordered = tuple(names[row] for row in order)
    _check_unique(file, ordered)
    _check_complete(file, linked, ordered)
    notes = [*_extra_note(file, len(ordered) - len(set(linked))), *_constant_note(file, values)]
    return FeatureTable(ordered, compact(torch.from_numpy(values[order])), tuple(notes))


def _read_cells(file: DelimitedFile) -> tuple[list[str], np.ndarray]:
    """Return the names and the numbers, float32 [rows, d], in the order of the file."""
    import pyarrow as pa
    from pyarrow import compute

    kinds: dict[int, pa.DataType] = {column: pa.float32() for column in range(file.num_columns)}
    kinds[0] = pa.string()
    table = file.read_columns(kinds)
    if table is None:
        raise _cell_error(file)
    lengths = compute.call_function("utf8_length", [table.column("0")]).to_numpy()
    bad = (lengths == 0) | (lengths > MAX_NAME_LENGTH)
    if bad.any():
        row = int(bad.argmax())
        check_name(file, int(lengths[row]), row, 0)
    values = np.empty((table.num_rows, file.num_columns - 1), dtype=np.float32)
    for column in range(1, file.num_columns):
        cells = table.column(str(column))
        if cells.null_count:
            raise _cell_error(file)
        values[:, column - 1] = cells.to_numpy()
    if not np.isfinite(values).all():
        raise _cell_error(file)
    return table.column("0").to_pylist(), values


def _cell_error(file: DelimitedFile) -> FeatureError:
    """Describe the first cell that is no finite number, reading again with line numbers."""
    first: tuple[str, int, str] | None = None
    others = 0
    for number, row in enumerate(file.rows()):
        if number == 0 and file.header is not None:
            continue
        for column in range(1, file.num_columns) if first is None else (first[1],):
            problem = _problem(row.cells[column])
            if problem and first is None:
                first = (row.cells[0], column, problem)
                break
            others += bool(problem)
    if first is None:
        return FeatureError(f"{file.file}: some cell is not a number. Every feature must be one.")
    name, column, problem = first
    more = f" (and {others:,} more node{'' if others == 1 else 's'})" if others else ""
    remedy = (
        "Fill the gaps or delete the column: every node needs every feature."
        if problem == "is empty"
        else "Every feature must be a finite number: replace the value, or delete the column."
    )
    return FeatureError(
        f"{file.file}: feature {file.column_label(column)} of node '{shown(name)}' "
        f"{problem}{more}.\n{remedy}"
    )


def _problem(cell: str) -> str | None:
    bare = cell.strip(" \t")
    if not bare:
        return "is empty"
    if _NUMBER.fullmatch(bare) and abs(float(bare)) <= _LARGEST:
        return None
    if _NUMBER.fullmatch(bare):
        return f"is '{shown(bare)}', too large for a 32-bit number"
    if bare.lower().lstrip("+-") in ("nan", "inf", "infinity"):
        return f"is '{shown(bare)}', not a finite number"
    return f"is '{shown(bare)}', not a number"


def _check_unique(file: DelimitedFile, ordered: tuple[str, ...]) -> None:
    twice = [a for a, b in itertools.pairwise(ordered) if a == b]
    if twice:
        distinct = sorted(set(twice))
        raise FeatureError(
            f"{file.file}: more than one row for node {listed(distinct)}.\n"
            f"Keep one row per node; {len(twice):,} too many."
        )


def _check_complete(file: DelimitedFile, linked: Collection[str], ordered: tuple[str, ...]) -> None:
    missing = sorted(set(linked).difference(ordered))
    if missing:
        raise FeatureError(
            f"{file.file} has no row for {len(missing):,} node{'' if len(missing) == 1 else 's'} "
            f"with links: {listed(missing)}.\n"
            f"Add a row for each, or leave their links out."
        )


def _extra_note(file: DelimitedFile, extra: int) -> list[str]:
    if extra == 0:
        return []
    return [
        f"{extra:,} node{'' if extra == 1 else 's'} of {file.file} without links kept as isolated."
    ]


def _constant_note(file: DelimitedFile, values: np.ndarray) -> list[str]:
    if len(values) < 2:
        return []
    constant = np.flatnonzero((values == values[0]).all(axis=0)) + 1
    if len(constant) == 0:
        return []
    labels = ", ".join(file.column_label(int(column)) for column in constant[:5])
    more = f" and {len(constant) - 5:,} more" if len(constant) > 5 else ""
    if len(constant) == 1:
        return [f"Feature {labels} is the same for every node."]
    return [f"Features {labels}{more} are the same for every node."]
