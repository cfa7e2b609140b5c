"""Batches of links to predict, each with the links that are left to pass messages along."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from cgcl.methods.method import Epoch, Known


@dataclass(frozen=True, eq=False)
class MaskedBatch:
    """What one step predicts and what it may look at; all int64 [2, any]."""

    targets: Tensor
    """Links to predict."""
    negatives: Tensor
    """As many pairs that are no link."""
    seen: Tensor
    """The links to pass messages along, each once: none of them is a target."""


def masked_batches(known: Known, epoch: Epoch, size: int) -> Iterator[MaskedBatch]:
    """Yield batches that cover all links once, in random order, each with all others to see.

    A batch takes half of the links at most, so that some are always left to be seen.

    Args:
        known: The links to learn from.
        epoch: Which epoch it is.
        size: How many links to predict at once.
    """
    generator, count = epoch.stream("negatives", known.device), known.links.shape[1]
    for chosen in _shuffled(known, epoch, "batches").split(max(1, min(size, count // 2))):
        yield _batch(known, chosen, _without(known, chosen), generator)


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
    count = known.links.shape[1]
    number = min(max(round(share * count), 1), max(count - 1, 1))
    hidden = _shuffled(known, epoch, "hidden")[:number]
    seen = _without(known, hidden)
    generator = epoch.stream("negatives", known.device)
    for chosen in hidden.split(size):
        yield _batch(known, chosen, seen, generator)


def visible_links(known: Known, epoch: Epoch) -> MaskedBatch:
    """Return all links to predict, all of them to see: for what does not look, or may."""
    negatives = known.unlinked.draw(known.links.shape[1], epoch.stream("negatives", known.device))
    return MaskedBatch(known.links, negatives, known.links)


def _shuffled(known: Known, epoch: Epoch, purpose: str) -> Tensor:
    generator = epoch.stream(purpose, known.device)
    return torch.randperm(known.links.shape[1], generator=generator, device=known.device)


def _without(known: Known, chosen: Tensor) -> Tensor:
    """Return all links but some, int64 [2, any]."""
    is_left = torch.ones(known.links.shape[1], dtype=torch.bool, device=known.device)
    is_left[chosen] = False
    return known.links[:, is_left]


def _batch(known: Known, chosen: Tensor, seen: Tensor, generator: torch.Generator) -> MaskedBatch:
    negatives = known.unlinked.draw(chosen.numel(), generator)
    return MaskedBatch(known.links.index_select(1, chosen), negatives, seen)
