"""Features as shares: each row divided by its sum."""

from __future__ import annotations

import torch
from torch import Tensor

from cgcl.model.product import product

__all__ = ["row_shares"]


def row_shares(x: Tensor) -> Tensor:
    """Return the features with each row divided by the sum of its magnitudes, if that is not 0.

    Args:
        x: Features, [n, d], dense or coalesced sparse COO.
    """
    ones = torch.ones(x.shape[1], 1, dtype=x.dtype, device=x.device)
    total = product(x.abs(), ones)  # [n, 1]
    total = torch.where(total > 0, total, torch.ones_like(total))
    if not x.is_sparse:
        return x / total
    values = x.values() / total.squeeze(1).index_select(0, x.indices()[0])
    return torch.sparse_coo_tensor(
        x.indices(), values, x.shape, check_invariants=False, is_coalesced=True
    )
