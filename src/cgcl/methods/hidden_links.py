"""Part of the links, hidden for an epoch and predicted from the others."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from cgcl.methods.masking import MaskedBatch
from cgcl.methods.method import Epoch, Known

__all__ = ["hidden_links"]


def hidden_links(known: Known, epoch: Epoch, share: float, size: int) -> Iterator[MaskedBatch]:
    """Hide a random share of the links and yield them in batches, all with the same seen links.

    A link is hidden in both directions. At least one is hidden and, if there are two, at least
    one is seen.

    Args:
        known: The links to learn from.
        epoch: Which epoch it is.
        share: Share of the links to hide.
        size: How many hidden links to predict at once.
    """
    links, count, device = known.links, known.links.shape[1], known.device
    order = torch.randperm(count, generator=epoch.stream("hidden", device), device=device)
    number = min(max(round(share * count), 1), max(count - 1, 1))
    hidden = order[:number]
    is_seen = torch.ones(count, dtype=torch.bool, device=device)
    is_seen[hidden] = False
    seen = links[:, is_seen]
    generator = epoch.stream("negatives", device)
    for chosen in hidden.split(size):
        yield MaskedBatch(
            targets=links.index_select(1, chosen),
            negatives=known.unlinked.draw(chosen.numel(), generator),
            seen=seen,
        )
