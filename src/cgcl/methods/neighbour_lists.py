"""Which neighbours two nodes share, for many pairs at once, on the CPU or on a GPU."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from cgcl.model import symmetric

__all__ = ["NeighbourLists"]

# How many neighbours are looked up at once: 2^20 take about 50 MB.
_BUDGET = 2**20


class NeighbourLists:
    """The sorted neighbours of every node."""

    def __init__(self, links: Tensor, num_nodes: int) -> None:
        """Sort the links by their ends.

        Args:
            links: Each link once in any direction, int64 [2, m].
            num_nodes: Number of nodes, isolated ones included.
        """
        one, other = symmetric(links)
        self._num_nodes = num_nodes
        # A code for each direction of each link, sorted: the neighbours of a node lie together.
        self._codes = (one * num_nodes + other).sort().values
        self._neighbours = self._codes % max(num_nodes, 1)
        self._degree = torch.bincount(one, minlength=num_nodes)
        self._start = self._degree.cumsum(0) - self._degree

    @property
    def mean_degree(self) -> float:
        """How many neighbours a node has on average."""
        return self._codes.numel() / max(self._num_nodes, 1)

    def common(self, pairs: Tensor) -> tuple[Tensor, Tensor]:
        """Return every neighbour that the two nodes of a pair share.

        Both answers are int64 [any] and sorted: the place of the pair in `pairs`, and the node.
        The order of a pair's ends does not matter. Besides the answer, memory is bounded whatever
        the degrees: the neighbours of the end that has fewer are looked up, some at a time.

        Args:
            pairs: Node numbers, int64 [2, p].
        """
        found = [
            self._looked_up(pairs[:, block], block.start) for block in self.blocks(pairs, _BUDGET)
        ]
        if not found:
            return pairs.new_empty(0), pairs.new_empty(0)
        places, nodes = zip(*found, strict=True)
        return torch.cat(places), torch.cat(nodes)

    def blocks(self, pairs: Tensor, most_pairs: int) -> Iterator[slice]:
        """Yield slices that cover all pairs, each cheap to look up or of one pair.

        Args:
            pairs: Node numbers, int64 [2, p].
            most_pairs: How many pairs a slice may hold.
        """
        totals, start = self._fewer(pairs).cumsum(0).cpu(), 0
        while start < totals.numel():
            spent = int(totals[start - 1]) if start else 0
            stop = int(torch.searchsorted(totals, spent + _BUDGET, right=True))
            stop = min(max(stop, start + 1), start + most_pairs)
            yield slice(start, stop)
            start = stop

    def _fewer(self, pairs: Tensor) -> Tensor:
        """Return the smaller degree of each pair's ends, [p]."""
        one, other = self._degree.index_select(0, pairs.flatten()).view(2, -1)
        return torch.minimum(one, other)

    def _looked_up(self, pairs: Tensor, first: int) -> tuple[Tensor, Tensor]:
        """Return what `common` does; pairs are counted from `first`."""
        one, other = self._degree.index_select(0, pairs.flatten()).view(2, -1)
        small = torch.where(one <= other, pairs[0], pairs[1])
        large = torch.where(one <= other, pairs[1], pairs[0])
        count = torch.minimum(one, other)
        places = torch.arange(small.numel(), device=pairs.device).repeat_interleave(count)
        offset = self._start.index_select(0, small) - (count.cumsum(0) - count)
        steps = torch.arange(places.numel(), device=pairs.device)
        nodes = self._neighbours.index_select(0, steps + offset.index_select(0, places))
        wanted = large.index_select(0, places) * self._num_nodes + nodes
        nearest = torch.searchsorted(self._codes, wanted).clamp(max=self._codes.numel() - 1)
        is_shared = self._codes.index_select(0, nearest) == wanted
        return places[is_shared] + first, nodes[is_shared]
