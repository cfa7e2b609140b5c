"""Matrix Market files (.mtx), read here because scipy's reader crashes on damaged ones."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from cgcl.errors import GraphFormatError
from cgcl.graph.wording import shown
from cgcl.readers.features import check_memory
from cgcl.readers.matrices import Entries, as_float32, check_shape, sparse_tensor
from cgcl.readers.regular_file import check_text, read_bytes

_FIELDS = ("real", "double", "integer", "unsigned-integer", "pattern")
_SIZE = re.compile(rb"(\d{1,18})[ \t]+(\d{1,18})(?:[ \t]+(\d{1,18}))?")
# Characters that numbers are made of, with "nan" and "inf"; Python would also take "1_000".
_NOT_IN_NUMBERS = re.compile(rb"[^-+.0-9eEnaifNAIFtyTY\s]")
_BLOCK_BYTES = 1 << 22


class _Header(NamedTuple):
    shape: tuple[int, int]
    entries: int
    width: int
    """How many numbers an entry has: 1 if all entries are listed, 2 without values, else 3."""
    body_start: int


def read_matrix_market(path: Path) -> Tensor:
    """Read a matrix of real numbers as float32, dense or sparse as it is written.

    Args:
        path: The file: coordinate or array; real, integer or pattern; general.

    Raises:
        GraphFormatError: The file is damaged or of another kind.
        ResourceError: It does not fit into memory.
    """
    content = read_bytes(path)
    check_text(path.name, content)
    shape, entries, width, start = _read_header(path.name, content)
    blocks = [_numbers(path.name, block) for block in _blocks(content, start)]
    numbers = np.concatenate([np.empty(0), *blocks])
    if numbers.size != entries * width:
        raise _damaged(
            f"{path.name} claims {entries:,} entries of {width} number"
            f"{'' if width == 1 else 's'} each, found {numbers.size:,} numbers."
        )
    if width == 1:  # column after column
        values = as_float32(path.name, numbers.reshape(shape, order="F"))
        return torch.from_numpy(values.copy(order="C"))
    table = numbers.reshape(-1, width)
    indices = table[:, :2].T
    # Written so that NaN fails, too.
    is_inside = (indices >= 1) & (indices <= np.array(shape)[:, None])
    if not (is_inside & (indices == np.floor(indices))).all():
        raise _damaged(
            f"{path.name} has an entry outside its {shape[0]:,} rows and {shape[1]:,} columns, "
            f"which count from 1."
        )
    row, column = indices.astype(np.int64) - 1
    values = np.ones(len(table)) if width == 2 else table[:, 2]
    return sparse_tensor(Entries(path.name, shape, row, column, values))


def _read_header(file: str, content: bytes) -> _Header:
    """Understand the first line and the size, and refuse a size that the file cannot hold."""
    reader = io.BytesIO(content)
    is_dense, is_pattern = _kind(file, reader.readline(1000))
    lines = iter(reader.readline, b"")
    line = next((line for line in lines if line.strip() and not line.startswith(b"%")), b"")
    size = _SIZE.fullmatch(line.strip())
    if size is None or (size[3] is None) != is_dense:
        raise _damaged(
            f"{file}: the line with the matrix's size is missing or wrong, found "
            f"'{shown(line[:80].decode('utf-8', 'replace').strip())}'."
        )
    rows, columns = int(size[1]), int(size[2])
    check_shape(file, (rows, columns))
    # An entry takes two characters at least ("1\n"), with its place four.
    entries, least = (rows * columns, 2) if is_dense else (int(size[3]), 4)
    if entries * least > len(content) + 2:
        raise _damaged(
            f"{file} claims {entries:,} entries but has {len(content):,} characters only."
        )
    if is_dense:
        check_memory(file, rows, columns)
    width = 1 if is_dense else 2 if is_pattern else 3
    return _Header((rows, columns), entries, width, reader.tell())


def _kind(file: str, line: bytes) -> tuple[bool, bool]:
    """Return whether all entries are listed, and whether they have no values."""
    words = line.decode("utf-8-sig", "replace").lower().split()
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
    return layout == "array", field == "pattern"


def _blocks(content: bytes, start: int) -> Iterator[bytes]:
    """Yield the body in parts that end where a line ends."""
    while start < len(content):
        end = content.find(b"\n", start + _BLOCK_BYTES)
        end = len(content) if end < 0 else end + 1
        yield content[start:end]
        start = end


def _numbers(file: str, block: bytes) -> np.ndarray:
    try:
        if _NOT_IN_NUMBERS.search(block):
            raise ValueError("text among the numbers")
        words = block.split()
        return np.array(words, dtype=np.bytes_).astype(np.float64) if words else np.empty(0)
    except ValueError as error:
        raise _damaged(f"{file} is damaged: {shown(str(error), 120)}") from error


def _damaged(problem: str) -> GraphFormatError:
    return GraphFormatError(f"{problem}\nWrite it again, such as with scipy.io.mmwrite.")
