"""Matrix Market files (.mtx), read here because scipy's reader crashes on damaged ones."""

from __future__ import annotations

import io
import re
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from cgcl.errors import GraphFormatError
from cgcl.memory import require_readable
from cgcl.readers.regular_file import read_text, told
from cgcl.readers.sparse import Entries, as_float32, check_shape
from cgcl.readers.tables import check_memory
from cgcl.wording import counted, shown

_FIELDS = ("real", "double", "integer", "unsigned-integer", "pattern")
_SIZE = re.compile(r"(\d{1,18})[ \t]+(\d{1,18})(?:[ \t]+(\d{1,18}))?", re.ASCII)
# What a row, an entry with its place, and one without take at worst; measured by
# benchmarks/reading.py.
_ROW_BYTES, _ENTRY_BYTES, _DENSE_BYTES = 120, 60, 24
_REMEDY = "Write it again, such as with scipy.io.mmwrite."


def read_matrix_market(path: Path) -> Tensor:
    """Read a matrix of real numbers as float32, dense or sparse as it is written.

    Args:
        path: The file: coordinate or array; real, integer or pattern; general.

    Raises:
        GraphFormatError: The file is damaged or of another kind.
        ResourceError: It does not fit into memory.
    """
    content = read_text(path)
    lines = io.TextIOWrapper(io.BytesIO(content), encoding="utf-8")
    shape, entries, is_dense, is_pattern = _header(path.name, lines, len(content))
    # How many numbers an entry has: its value if all entries are listed, its place, or both.
    width = 1 if is_dense else 2 if is_pattern else 3
    with told(f"{path.name} is damaged", _REMEDY):
        table = np.loadtxt(lines, comments=None, ndmin=2)
        if table.size != entries * width:
            raise ValueError(
                f"it claims {entries:,} entries of {counted(width, 'number')} each, "
                f"found {table.size:,} numbers."
            )
    table = table.reshape(-1, width)
    if is_dense:  # column after column
        values = as_float32(path.name, table.reshape(shape, order="F"))
        return torch.from_numpy(values.copy(order="C"))
    indices = table[:, :2].T
    # Written so that NaN fails, too.
    is_inside = (indices >= 1) & (indices <= np.array(shape)[:, None])
    if not (is_inside & (indices == np.floor(indices))).all():
        raise _damaged(
            f"{path.name} has an entry outside its {shape[0]:,} rows and {shape[1]:,} columns, "
            f"which count from 1."
        )
    row, column = indices.astype(np.int64) - 1
    values = np.ones(len(table)) if is_pattern else table[:, 2]
    return Entries(path.name, shape, row, column, values).tensor()


def _header(
    file: str, lines: io.TextIOWrapper, characters: int
) -> tuple[tuple[int, int], int, bool, bool]:
    """Return the shape, the number of entries, if all are listed, and if they have no values."""
    words = lines.readline(1000).lower().split()
    if len(words) != 5 or words[:2] != ["%%matrixmarket", "matrix"]:
        raise _damaged(f"{file}, line 1: expected '%%MatrixMarket matrix coordinate real general'.")
    layout, field, symmetry = words[2:]
    # A pattern says which entries are one, so it cannot list all of them.
    fields = {"coordinate": _FIELDS, "array": _FIELDS[:-1]}.get(layout, ())
    if field not in fields or symmetry != "general":
        raise GraphFormatError(
            f"{file}, line 1: a matrix that is '{shown(' '.join(words[2:]))}' is not read as "
            f"features.\nWrite it as coordinate or array, with real, integer or pattern entries, "
            f"general."
        )
    line = next((line for line in lines if line.strip() and not line.startswith("%")), "").strip()
    size, is_dense = _SIZE.fullmatch(line), layout == "array"
    if size is None or (size[3] is None) != is_dense:
        raise _damaged(
            f"{file}: the line with the matrix's size is missing or wrong, found "
            f"'{shown(line, 80)}'."
        )
    rows, columns = int(size[1]), int(size[2])
    check_shape(file, (rows, columns))
    # An entry takes two characters at least ("1\n"), with its place four.
    entries, least = (rows * columns, 2) if is_dense else (int(size[3]), 4)
    if entries * least > characters + 2:
        raise _damaged(f"{file} claims {entries:,} entries but has {characters:,} characters only.")
    if is_dense:
        check_memory(file, rows, columns)
    needed = rows * _ROW_BYTES + entries * (_DENSE_BYTES if is_dense else _ENTRY_BYTES)
    require_readable(file, needed, on_disk=characters)
    return (rows, columns), entries, is_dense, field == "pattern"


def _damaged(problem: str) -> GraphFormatError:
    return GraphFormatError(f"{problem}\n{_REMEDY}")
