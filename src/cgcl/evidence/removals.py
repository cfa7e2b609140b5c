"""Pairs without one link of theirs: which links are tried, and what came out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cgcl.evidence.sorted_lists import Numbers, SortedLists

__all__ = ["Removals", "links_to_try"]


@dataclass(frozen=True, eq=False)
class Removals:
    """The logits of some pairs, and again without each link of their ends."""

    pairs: slice
    """Which of the pairs asked for these are."""
    logits: npt.NDArray[np.float32]
    """With all known links, [p]."""
    pair: Numbers
    """For each removal the pair, from 0 in this block, [r]."""
    end: Numbers
    """The node whose link was removed, [r]."""
    neighbour: Numbers
    """The node that the link joined it to, [r]."""
    logits_without: npt.NDArray[np.float32]
    """The pair's logit without the link, [r]."""


def links_to_try(lists: SortedLists, ends: Numbers, most: int) -> tuple[Numbers, Numbers, Numbers]:
    """Return pair, end and neighbour of each link to remove, the pair's own link once."""
    parts: list[tuple[Numbers, Numbers, Numbers]] = []
    for side in (0, 1):
        pair, neighbour = lists.take(ends[side])
        end = ends[side][pair]
        if (lists.sizes[ends[side]] > most).any():
            # A message's weight falls with its sender's links: the fewest first.
            order = np.lexsort((neighbour, lists.sizes[neighbour], pair))
            pair, end, neighbour = pair[order], end[order], neighbour[order]
            rank = np.arange(len(pair)) - np.searchsorted(pair, pair)
            kept = rank < most
            pair, end, neighbour = pair[kept], end[kept], neighbour[kept]
        if side == 1:
            is_repeated = (neighbour == ends[0][pair]) | (end == ends[0][pair])
            pair, end, neighbour = pair[~is_repeated], end[~is_repeated], neighbour[~is_repeated]
        parts.append((pair, end, neighbour))
    pairs, nodes, partners = zip(*parts, strict=True)
    return np.concatenate(pairs), np.concatenate(nodes), np.concatenate(partners)
