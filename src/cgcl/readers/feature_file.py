"""Features from a matrix without names: .npz and .mtx files, and matrices in memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cgcl.errors import FeatureError, GraphFormatError
from cgcl.graph.wording import shown
from cgcl.readers.feature_columns import problem_of_number
from cgcl.readers.matrix_market import check_shape, read_matrix_market
from cgcl.readers.npz import read_npz_arrays

__all__ = ["check_finite", "matrix_of_file", "matrix_of_object"]


def matrix_of_file(path: Path) -> Tensor:
    """Read a sparse matrix that scipy saved (.npz), or a Matrix Market file (.mtx).

    Args:
        path: The file; a row per node, a column per feature.

    Returns:
        Float32 [rows, columns], dense or coalesced sparse COO, not yet checked for NaN.

    Raises:
        GraphFormatError: The file is damaged or holds something else.
        ResourceError: It does not fit into memory.
    """
    if path.suffix.lower() == ".npz":
        return _read_npz(path)
    market = read_matrix_market(path)
    if market.indices is None:
        values = market.values.reshape(market.shape, order="F")
        return torch.from_numpy(_as_float32(path.name, values).copy(order="C"))
    return _sparse(path.name, market.indices, market.values, market.shape)


def matrix_of_object(matrix: Any, place: str) -> Tensor:  # noqa: ANN401
    """Return a numpy array, scipy sparse matrix or torch tensor as float32, dense or sparse COO.

    Numbers that are too large for 32 bits become infinite, for `check_finite` to find.

    Args:
        matrix: A row per node, a column per feature.
        place: What messages call it.

    Raises:
        FeatureError: It has not two dimensions, or holds no real numbers.
        GraphFormatError: It is larger than anything that can be trained on.
    """
    if isinstance(matrix, Tensor):
        if matrix.layout is not torch.strided:
            if matrix.dim() != 2:
                raise _shape_error(place, tuple(matrix.shape))
            matrix = matrix.detach().cpu().to_sparse_coo().coalesce()
            indices, values = matrix.indices().numpy(), matrix.values().numpy()
            return _sparse(place, indices, values, (matrix.shape[0], matrix.shape[1]))
        matrix = matrix.detach().cpu().to_dense()
        matrix = (matrix.float() if matrix.dtype is torch.bfloat16 else matrix).numpy()
    shape = tuple(matrix.shape)
    if len(shape) != 2:
        raise _shape_error(place, shape)
    check_shape(place, *shape)
    if hasattr(matrix, "tocoo"):
        entries = matrix.tocoo()
        return _sparse(place, np.stack([entries.row, entries.col]), entries.data, shape)
    return torch.from_numpy(_as_float32(place, np.asarray(matrix)).copy())


def check_finite(x: Tensor, names: Sequence[str], place: str) -> None:
    """Refuse a matrix with an entry that is no finite number.

    Args:
        x: The matrix, dense or coalesced sparse COO.
        names: The node of each row.
        place: What messages call it.

    Raises:
        FeatureError: An entry is NaN or infinite, perhaps because it was too large for 32 bits.
    """
    values = x.values() if x.is_sparse else x
    bad = (~torch.isfinite(values)).nonzero()
    if len(bad) == 0:
        return
    row, column = x.indices()[:, int(bad[0])].tolist() if x.is_sparse else bad[0].tolist()
    value = float(values[tuple(bad[0].tolist())])
    more = f" (and {len(bad) - 1:,} more)" if len(bad) > 1 else ""
    raise FeatureError(
        f"{place}: feature {column + 1:,} of node '{shown(names[row])}' "
        f"{problem_of_number(value, str(value))}{more}.\n"
        f"Every feature must be a finite number of 32 bits, below 3.4e38."
    )


def _read_npz(path: Path) -> Tensor:
    what = read_npz_arrays(path, ["format", "shape"])
    kind, shape = _format(what["format"]), what["shape"]
    if kind not in ("csr", "csc", "coo") or shape.shape != (2,) or shape.dtype.kind not in "iu":
        raise GraphFormatError(
            f"{path.name} holds a matrix of the format '{shown(kind)}' and shape "
            f"{shown(str(shape.tolist()))}, expected csr, csc or coo with two dimensions.\n"
            f"Save it with scipy.sparse.save_npz(FILE, matrix.tocsr())."
        )
    rows, columns = (int(length) for length in shape)
    check_shape(path.name, rows, columns)
    if kind == "coo":
        parts = read_npz_arrays(path, ["row", "col", "data"])
        row, column, values = parts["row"], parts["col"], parts["data"]
    else:
        parts = read_npz_arrays(path, ["indptr", "indices", "data"])
        column, values = parts["indices"], parts["data"]
        length = rows if kind == "csr" else columns
        row = _expanded(path.name, parts["indptr"], length, values.size)
        if kind == "csc":
            row, column = column, row
    if not (row.ndim == 1 and row.shape == column.shape == values.shape) or any(
        index.dtype.kind not in "iu" for index in (row, column)
    ):
        raise _damaged(path.name)
    entries = np.stack([row.astype(np.int64), column.astype(np.int64)])
    return _sparse(path.name, entries, values, (rows, columns))


def _format(array: np.ndarray) -> str:
    value = array.item() if array.size == 1 else ""
    return value.decode("ascii", "replace") if isinstance(value, bytes) else str(value)


def _expanded(file: str, starts: np.ndarray, length: int, entries: int) -> np.ndarray:
    """Return the row of each entry, from where each row starts."""
    if starts.shape != (length + 1,) or starts.dtype.kind not in "iu":
        raise _damaged(file)
    starts = starts.astype(np.int64)
    sizes = np.diff(starts)
    if starts[0] != 0 or (sizes < 0).any() or starts[-1] != entries:
        raise _damaged(file)
    return np.repeat(np.arange(length), sizes)


def _sparse(place: str, indices: np.ndarray, values: np.ndarray, shape: tuple[int, int]) -> Tensor:
    check_shape(place, *shape)
    if indices.shape[1] and (
        indices.min() < 0 or indices[0].max() >= shape[0] or indices[1].max() >= shape[1]
    ):
        raise _damaged(place)
    return torch.sparse_coo_tensor(
        torch.from_numpy(indices.astype(np.int64)),
        torch.from_numpy(_as_float32(place, values).copy()),
        shape,
        check_invariants=True,
    ).coalesce()


def _as_float32(place: str, values: np.ndarray) -> np.ndarray:
    if values.dtype.kind not in "biuf":
        raise FeatureError(
            f"{place} holds values of the type {shown(str(values.dtype))}, expected real numbers."
        )
    with np.errstate(over="ignore"):  # too large becomes infinite, which is refused later
        return values.astype(np.float32)


def _shape_error(place: str, shape: tuple[int, ...]) -> FeatureError:
    return FeatureError(
        f"{place} has the shape {list(shape)}, expected two dimensions: nodes and features."
    )


def _damaged(file: str) -> GraphFormatError:
    return GraphFormatError(
        f"{file}: its parts do not describe a matrix.\nThe file is damaged; save it again."
    )
