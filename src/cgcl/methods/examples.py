"""Links that are learned from in every epoch, one by one, and features that do not tell of them."""

from __future__ import annotations

import torch
from torch import Tensor

from cgcl.methods.method import Known

__all__ = ["example_count", "features_without"]

# Where features are made of links, at most this share of the links are examples.
_MOST_OF_STRUCTURE = 0.5


def example_count(known: Known, share: float) -> int:
    """Return how many links are examples: some are left where features must be made of them.

    Args:
        known: The links to learn from.
        share: Share of them that is asked for.
    """
    if known.structure is not None:
        share = min(share, _MOST_OF_STRUCTURE)
    return max(1, round(share * known.links.shape[1]))


def features_without(known: Known, examples: Tensor) -> Tensor:
    """Return the features; if they are made of links, then of those that are no examples.

    Args:
        known: The links to learn from.
        examples: The numbers of some of them, int64 [any].
    """
    is_left = torch.ones(known.links.shape[1], dtype=torch.bool)
    is_left[examples] = False
    return known.with_links(known.links[:, is_left.to(known.device)]).features
