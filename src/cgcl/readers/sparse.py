"""Sparse matrices as lists of entries: from archives, objects and text, checked when made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cgcl.errors import FeatureError, GraphFormatError
from cgcl.wording import shown

_MAX_ROWS, _MAX_COLUMNS = 10_000_000, 1_000_000
_COMPRESSED = ("data", "indices", "indptr", "shape")
PARTS = {"csr": _COMPRESSED, "csc": _COMPRESSED, "coo": ("data", "row", "col", "shape")}
"""What the arrays of a stored matrix are called, by its format."""


@dataclass(frozen=True)
class Entries:
    """The entries of a sparse matrix."""

    place: str
    """What messages call the matrix."""
    shape: tuple[int, ...]
    """Rows and columns."""
    row: np.ndarray
    """The row of each entry."""
    column: np.ndarray
    """The column of each entry."""
    values: np.ndarray
    """What the entries are."""

    def __post_init__(self) -> None:
        """Refuse entries that are not those of such a matrix.

        Raises:
            GraphFormatError: There is not a place within the matrix for each value.
        """
        for part, length in zip((self.row, self.column), self.shape, strict=False):
            is_sound = part.ndim == 1 and part.shape == self.values.shape and _is_whole(part)
            if not is_sound or (part.size and (part.min() < 0 or part.max() >= length)):
                raise _damaged(self.place, self.shape)

    def tensor(self) -> Tensor:
        """Return the matrix as a coalesced tensor, float32; what is listed twice is added up.

        Raises:
            GraphFormatError: It is empty, or larger than anything that can be trained on.
            FeatureError: It holds no real numbers.
        """
        check_shape(self.place, self.shape)
        return torch.sparse_coo_tensor(
            torch.from_numpy(np.stack([self.row, self.column]).astype(np.int64)),
            torch.from_numpy(as_float32(self.place, self.values).copy()),
            self.shape,
            check_invariants=True,
        ).coalesce()


def stored_entries(
    arrays: Mapping[str, np.ndarray], kind: str, file: str, prefix: str = ""
) -> Entries:
    """Return the entries of a matrix from its arrays, which may be of any shape and type.

    Args:
        arrays: All of `PARTS[kind]`, their names beginning with the prefix.
        kind: csr, csc or coo.
        file: Where they are from, for messages.
        prefix: Tells several matrices in one file apart.

    Raises:
        GraphFormatError: They are not those of a matrix.
    """
    values, one, other, shape = (arrays[f"{prefix}{part}"] for part in PARTS[kind])
    place = f"The matrix '{prefix[:-1]}' in {file}" if prefix else file
    if shape.shape != (2,) or not _is_whole(shape) or (shape < 0).any():
        raise GraphFormatError(
            f"{place} has the shape {shown(str(shape.tolist()))}, expected two whole numbers."
        )
    size = (int(shape[0]), int(shape[1]))
    if kind == "coo":
        return Entries(place, size, one, other, values)
    if kind == "csr":
        return entries_of_rows(other, one, values, size, place)
    turned = entries_of_rows(other, one, values, size[::-1], place)
    return Entries(place, size, turned.column, turned.row, values)


def entries_of_rows(
    starts: np.ndarray,
    columns: np.ndarray,
    values: np.ndarray,
    shape: tuple[int, int],
    place: str,
) -> Entries:
    """Return the entries of compressed rows.

    Args:
        starts: Where each row begins in the other two, and where the last one ends, [n + 1].
        columns: The column of each entry.
        values: The value of each entry.
        shape: Rows and columns.
        place: What messages call the matrix.

    Raises:
        GraphFormatError: The arrays do not describe a matrix of this shape.
    """
    if starts.shape != (shape[0] + 1,) or not _is_whole(starts):
        raise _damaged(place, shape)
    starts = starts.astype(np.int64)
    sizes = np.diff(starts)
    if starts[0] != 0 or (sizes < 0).any() or starts[-1] != values.size:
        raise _damaged(place, shape)
    return Entries(place, shape, np.repeat(np.arange(shape[0]), sizes), columns, values)


def check_shape(place: str, shape: tuple[int, ...]) -> None:
    """Refuse a matrix that cannot be the features of a graph.

    Raises:
        GraphFormatError: It is empty, or larger than anything that can be trained on.
    """
    rows, columns = shape
    if not (0 < rows <= _MAX_ROWS and 0 < columns <= _MAX_COLUMNS):
        raise GraphFormatError(
            f"{place} is a matrix of {rows:,} rows and {columns:,} columns.\n"
            f"Features need a row per node (up to {_MAX_ROWS:,}) and a column per feature (up to "
            f"{_MAX_COLUMNS:,})."
        )


def as_float32(place: str, values: np.ndarray) -> np.ndarray:
    """Return numbers as float32; those that are too large become infinite.

    Raises:
        FeatureError: They are no real numbers.
    """
    if values.dtype.kind not in "biuf":
        raise FeatureError(
            f"{place} holds values of the type {shown(str(values.dtype))}, expected real numbers."
        )
    with np.errstate(over="ignore"):  # too large becomes infinite, which is refused later
        return values.astype(np.float32)


def _is_whole(array: np.ndarray) -> bool:
    return array.dtype.kind in "iu"


def _damaged(place: str, shape: tuple[int, ...]) -> GraphFormatError:
    size = " and ".join(f"{n:,} {what}" for n, what in zip(shape, ("rows", "columns"), strict=True))
    return GraphFormatError(
        f"{place}: its arrays do not describe a matrix of {size}.\n"
        f"The file is damaged; fetch or save it again."
    )
