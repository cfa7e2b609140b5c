"""Feature matrices in the form that takes less room."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from cgcl.errors import GraphFormatError

__all__ = [
    "SPARSE_UP_TO",
    "compact",
    "from_compressed_rows",
    "placed",
    "same_for_every_node",
]

SPARSE_UP_TO = 0.25
"""Features are kept sparse when at most this share of their entries is not zero."""

# A GPU multiplies dense features faster than it sorts the entries of sparse ones for every
# gradient, if there is room for them.
_DENSE_BYTES = 2 * 2**30


def placed(x: Tensor, device: torch.device) -> Tensor:
    """Return the features on a device, in the form that is fast there.

    Args:
        x: Features, dense or coalesced sparse COO, float32 [n, d].
        device: Where to compute; anything but a CPU gets dense features, up to 2 GiB of them.

    Example:
        >>> placed(torch.eye(8).to_sparse_coo(), torch.device("cpu")).is_sparse
        True
    """
    if device.type == "cpu" or not x.is_sparse:
        return x.to(device)
    moved = x.to(device)
    return moved.to_dense() if x.shape[0] * x.shape[1] * 4 <= _DENSE_BYTES else moved


def compact(x: Tensor) -> Tensor:
    """Return the features as coalesced sparse COO if few are not zero, dense otherwise.

    Args:
        x: Features, dense or sparse, float32 [n, d].

    Example:
        >>> compact(torch.eye(8)).is_sparse
        True
        >>> compact(torch.eye(2)).is_sparse
        False
    """
    if x.is_sparse:
        x = x.coalesce()
        kept = x.values() != 0  # an entry may be listed and still be zero
        x = torch.sparse_coo_tensor(
            x.indices()[:, kept],
            x.values()[kept],
            x.shape,
            is_coalesced=True,
            check_invariants=True,
        )
        nonzeros = x.values().numel()
    else:
        nonzeros = int(torch.count_nonzero(x))
    if nonzeros <= SPARSE_UP_TO * x.shape[0] * x.shape[1]:
        return x if x.is_sparse else x.to_sparse_coo()
    return x.to_dense() if x.is_sparse else x


def same_for_every_node(x: Tensor) -> tuple[list[int], list[int]]:
    """Return which features are zero for every node, and which have one other value for all.

    Args:
        x: Features, dense or coalesced sparse COO without stored zeros, float32 [n, d], n > 0.

    Example:
        >>> same_for_every_node(torch.tensor([[0.0, 2.0, 1.0], [0.0, 2.0, 3.0]]))
        ([0], [1])
    """
    if x.is_sparse:
        column, values = x.indices()[1], x.values()
        counts = torch.bincount(column, minlength=x.shape[1])
        start = torch.zeros(x.shape[1])
        low = start.scatter_reduce(0, column, values, "amin", include_self=False)
        high = start.scatter_reduce(0, column, values, "amax", include_self=False)
        zero = counts == 0
        constant = (counts == x.shape[0]) & (low == high)
    else:
        zero = (x == 0).all(dim=0)
        constant = (x == x[0]).all(dim=0) & ~zero
    return zero.nonzero().flatten().tolist(), constant.nonzero().flatten().tolist()


def from_compressed_rows(
    indptr: np.ndarray, indices: np.ndarray, values: np.ndarray, shape: tuple[int, int]
) -> Tensor:
    """Return a sparse COO tensor from the three arrays of a compressed row matrix.

    Args:
        indptr: Where each row begins in the other two, [n + 1].
        indices: The column of each entry.
        values: The value of each entry.
        shape: Rows and columns.

    Raises:
        GraphFormatError: The arrays do not describe a matrix of this shape.
    """
    sizes = np.diff(indptr.astype(np.int64))
    is_sound = (
        indptr.shape == (shape[0] + 1,)
        and indices.shape == values.shape == (sizes.sum(),)
        and indptr[0] == 0
        and (sizes >= 0).all()
        and (len(indices) == 0 or (indices.min() >= 0 and indices.max() < shape[1]))
    )
    if not is_sound:
        raise GraphFormatError(
            f"The arrays do not describe a matrix of {shape[0]:,} rows and {shape[1]:,} columns.\n"
            f"The file is damaged; fetch it again."
        )
    rows = np.repeat(np.arange(shape[0]), sizes)
    entries = torch.from_numpy(np.stack([rows, indices.astype(np.int64)]))
    numbers = torch.from_numpy(values.astype(np.float32))
    return torch.sparse_coo_tensor(entries, numbers, shape, check_invariants=True).coalesce()
