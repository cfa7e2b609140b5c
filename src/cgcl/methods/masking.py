"""Batches of links to predict, each with the links that are left to pass messages along."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from cgcl.methods.method import Epoch, Known

__all__ = ["MaskedBatch", "masked_batches"]


@dataclass(frozen=True, eq=False)
class MaskedBatch:
    """What one step predicts and what it may look at; all int64 [2, any]."""

    targets: Tensor
    """Links to predict."""
    negatives: Tensor
    """As many pairs that are no link."""
    seen: Tensor
    """All other links, each once: none of them is a target."""


def masked_batches(known: Known, epoch: Epoch, size: int) -> Iterator[MaskedBatch]:
    """Yield batches that cover all links once, in random order.

    A batch takes half of the links at most, so that some are always left to be seen.

    Args:
        known: The links to learn from.
        epoch: Which epoch it is.
        size: How many links to predict at once.
    """
    links, count, device = known.links, known.links.shape[1], known.device
    order = torch.randperm(count, generator=epoch.stream("batches", device), device=device)
    generator = epoch.stream("negatives", device)
    for chosen in order.split(max(1, min(size, count // 2))):
        is_left = torch.ones(count, dtype=torch.bool, device=device)
        is_left[chosen] = False
        yield MaskedBatch(
            targets=links.index_select(1, chosen),
            negatives=known.unlinked.draw(chosen.numel(), generator),
            seen=links[:, is_left],
        )
