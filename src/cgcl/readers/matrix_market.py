"""Matrix Market files (.mtx), read here because scipy's reader crashes on damaged ones."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cgcl.errors import GraphFormatError
from cgcl.graph.wording import shown
from cgcl.readers.feature_columns import check_memory
from cgcl.readers.regular_file import check_text, read_bytes

__all__ = ["MatrixMarket", "check_shape", "read_matrix_market"]

_WHAT_TO_DO = "Write it again, such as with scipy.io.mmwrite."
_FIELDS = ("real", "double", "integer", "unsigned-integer", "pattern")
_SIZE = re.compile(rb"(\d{1,18})[ \t]+(\d{1,18})(?:[ \t]+(\d{1,18}))?")
# Characters that numbers are made of, with "nan" and "inf"; Python would also take "1_000".
_NOT_IN_NUMBERS = re.compile(rb"[^-+.0-9eEnaifNAIFtyTY\s]")
_BLOCK_BYTES = 1 << 22


@dataclass(frozen=True)
class MatrixMarket:
    """What a Matrix Market file holds."""

    shape: tuple[int, int]
    indices: np.ndarray | None
    """Row and column of each entry from 0, int64 [2, entries]; None if all entries are listed."""
    values: np.ndarray
    """The entries, float64; column after column if all are listed."""


@dataclass(frozen=True)
class _Header:
    shape: tuple[int, int]
    entries: int
    is_dense: bool
    is_pattern: bool
    body_start: int


def read_matrix_market(path: Path) -> MatrixMarket:
    """Read a matrix of real numbers.

    Args:
        path: The file: coordinate or array; real, integer or pattern; general.

    Raises:
        GraphFormatError: The file is damaged or of another kind.
        ResourceError: It does not fit into memory.
    """
    content = read_bytes(path)
    check_text(path.name, content)
    header = _read_header(path.name, content)
    width = 1 if header.is_dense else 2 if header.is_pattern else 3
    blocks = [_numbers(path.name, block) for block in _blocks(content, header.body_start)]
    numbers = np.concatenate(blocks) if blocks else np.empty(0)
    if numbers.size != header.entries * width:
        raise GraphFormatError(
            f"{path.name} claims {header.entries:,} entries of {width} number"
            f"{'' if width == 1 else 's'} each, found {numbers.size:,} numbers.\n{_WHAT_TO_DO}"
        )
    if header.is_dense:
        return MatrixMarket(header.shape, None, numbers)
    table = numbers.reshape(-1, width)
    indices = table[:, :2].T
    size = np.array(header.shape)[:, None]
    # Written so that NaN fails, too.
    if not ((indices >= 1) & (indices <= size) & (indices == np.floor(indices))).all():
        raise GraphFormatError(
            f"{path.name} has an entry outside its {header.shape[0]:,} rows and "
            f"{header.shape[1]:,} columns, which count from 1.\n{_WHAT_TO_DO}"
        )
    values = np.ones(len(table)) if header.is_pattern else table[:, 2]
    return MatrixMarket(header.shape, indices.astype(np.int64) - 1, values)


def _read_header(file: str, content: bytes) -> _Header:
    """Understand the first line and the size, and refuse a size that the file cannot hold."""
    reader = io.BytesIO(content)
    kind = _kind(file, reader.readline(1000))
    lines = iter(reader.readline, b"")
    line = next((line for line in lines if line.strip() and not line.startswith(b"%")), b"")
    size = _SIZE.fullmatch(line.strip())
    is_dense = kind[0] == "array"
    if size is None or (size[3] is None) != is_dense:
        raise GraphFormatError(
            f"{file}: the line with the matrix's size is missing or wrong, found "
            f"'{shown(line[:80].decode('utf-8', 'replace').strip())}'.\n{_WHAT_TO_DO}"
        )
    rows, columns = int(size[1]), int(size[2])
    check_shape(file, rows, columns)
    # An entry takes two characters at least ("1\n"), with its place four.
    entries, least = (rows * columns, 2) if is_dense else (int(size[3]), 4)
    if entries * least > len(content) + 2:
        raise GraphFormatError(
            f"{file} claims {entries:,} entries but has {len(content):,} characters only.\n"
            f"{_WHAT_TO_DO}"
        )
    if is_dense:
        check_memory(file, rows, columns)
    return _Header((rows, columns), entries, is_dense, kind[1] == "pattern", reader.tell())


def _kind(file: str, line: bytes) -> list[str]:
    """Return layout, field and symmetry from the first line."""
    words = line.decode("utf-8-sig", "replace").lower().split()
    if len(words) != 5 or words[:2] != ["%%matrixmarket", "matrix"]:
        raise GraphFormatError(
            f"{file}, line 1: expected '%%MatrixMarket matrix coordinate real general'.\n"
            f"{_WHAT_TO_DO}"
        )
    layout, field, symmetry = words[2:]
    # A pattern says which entries are one, so it cannot list all of them.
    is_known = (layout == "coordinate" and field in _FIELDS) or (
        layout == "array" and field in _FIELDS[:-1]
    )
    if not is_known or symmetry != "general":
        raise GraphFormatError(
            f"{file}, line 1: a matrix that is '{shown(' '.join(words[2:]))}' is not read as "
            f"features.\nWrite it as coordinate or array, with real, integer or pattern entries, "
            f"general."
        )
    return words[2:]


def check_shape(place: str, rows: int, columns: int) -> None:
    """Refuse a matrix that cannot be the features of a graph.

    Args:
        place: What messages call it.
        rows: Number of rows.
        columns: Number of columns.

    Raises:
        GraphFormatError: It is empty, or larger than anything that can be trained on.
    """
    most_rows, most_columns = 10_000_000, 1_000_000
    if not (0 < rows <= most_rows and 0 < columns <= most_columns):
        raise GraphFormatError(
            f"{place} is a matrix of {rows:,} rows and {columns:,} columns.\n"
            f"Features need a row per node (up to {most_rows:,}) and a column per feature (up to "
            f"{most_columns:,})."
        )


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
        raise GraphFormatError(
            f"{file} is damaged: {shown(str(error), 120)}\n{_WHAT_TO_DO}"
        ) from error
