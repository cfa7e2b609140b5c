"""A matrix times a dense one, whichever way the first is stored."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["product"]


def product(matrix: Tensor, dense: Tensor) -> Tensor:
    """Return `matrix @ dense`, [n, k].

    A GPU adds up the rows of a sparse product in any order. Where torch was told to be
    deterministic, the rows are gathered and added in order instead; that takes memory for one row
    of `dense` per entry of the matrix.

    Args:
        matrix: [n, m], dense or sparse COO.
        dense: [m, k].

    Example:
        >>> product(torch.eye(2).to_sparse_coo(), torch.tensor([[1.0], [2.0]]))
        tensor([[1.],
                [2.]])
    """
    if not matrix.is_sparse:
        return matrix @ dense
    if not torch.are_deterministic_algorithms_enabled():
        return torch.sparse.mm(matrix, dense)
    # The entries as they are: coalesced() is not known for what was just put together.
    row, column = matrix._indices()
    each = matrix._values().unsqueeze(1) * dense.index_select(0, column)  # [entries, k]
    return dense.new_zeros(matrix.shape[0], dense.shape[1]).index_add(0, row, each)
