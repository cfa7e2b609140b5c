"""Dropout that draws from a generator of its own, for dense and for sparse tensors."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["dropout"]


def dropout(x: Tensor, probability: float, generator: torch.Generator | None) -> Tensor:
    """Zero each entry with the given probability and scale the others to keep the mean.

    Of a sparse tensor only the stored entries are drawn: the others are zero either way.

    Args:
        x: Dense, or coalesced sparse COO.
        probability: Chance of an entry to be dropped, in [0, 1).
        generator: Where the coins come from; torch's global one if None.
    """
    if probability == 0:
        return x
    values = x.values() if x.is_sparse else x
    kept = torch.empty_like(values).bernoulli_(1 - probability, generator=generator)
    if not x.is_sparse:
        return x * kept / (1 - probability)
    survivors = kept.nonzero().squeeze(1)
    return torch.sparse_coo_tensor(
        x.indices().index_select(1, survivors),
        values.index_select(0, survivors) / (1 - probability),
        x.shape,
        check_invariants=False,
        is_coalesced=True,
    )
