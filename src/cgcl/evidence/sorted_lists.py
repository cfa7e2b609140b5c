"""Many short sorted lists of numbers in two arrays: each node's neighbours, or its features."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from cgcl.graph import Graph
from cgcl.graph.adjacency import connected_components

__all__ = ["Numbers", "SortedLists", "blocks_of", "neighbour_lists"]

Numbers = npt.NDArray[np.int64]
"""An array of whole numbers."""


@dataclass(frozen=True, eq=False)
class SortedLists:
    """One list per row, the items of each in rising order (compressed rows)."""

    starts: Numbers
    """Where each row's list begins in `items`, [rows + 1]."""
    items: Numbers
    """All lists, one after the other."""
    width: int
    """Every item is below this."""

    @classmethod
    def from_entries(cls, rows: Numbers, items: Numbers, num_rows: int, width: int) -> SortedLists:
        """Return the lists from entries that are sorted by row, then by item."""
        starts = np.searchsorted(rows, np.arange(num_rows + 1))
        return cls(starts.astype(np.int64), items, width)

    @cached_property
    def sizes(self) -> Numbers:
        """The length of each row's list."""
        return np.diff(self.starts)

    @cached_property
    def components(self) -> Numbers:
        """A number that nodes share if a way joins them; the lists must hold neighbours."""
        rows = np.repeat(np.arange(len(self.sizes)), self.sizes)
        once = rows < self.items  # every link is there in both directions
        return connected_components(np.stack([rows[once], self.items[once]]), len(self.sizes))

    @cached_property
    def _codes(self) -> Numbers:
        """Row and item of every entry in one number; they rise."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes) * self.width + self.items

    def take(self, rows: Numbers) -> tuple[Numbers, Numbers]:
        """Return the lists of `rows` end to end: each item's place in `rows`, and the item."""
        sizes = self.sizes[rows]
        which = np.repeat(np.arange(len(rows)), sizes)
        first = np.cumsum(sizes) - sizes
        places = np.arange(len(which)) + np.repeat(self.starts[rows] - first, sizes)
        return which, self.items[places]

    def contains(self, rows: Numbers, items: Numbers) -> npt.NDArray[np.bool_]:
        """Return for each row and item whether the item is in the row's list."""
        codes = rows * self.width + items
        if len(self._codes) == 0:
            return np.zeros(len(codes), dtype=np.bool_)
        place = np.searchsorted(self._codes, codes).clip(max=len(self._codes) - 1)
        return self._codes[place] == codes


def neighbour_lists(graph: Graph) -> SortedLists:
    """Return the neighbours of every node.

    Example:
        >>> import torch
        >>> lists = neighbour_lists(Graph.from_pairs("toy", "abc", torch.tensor([[2, 0], [0, 1]])))
        >>> lists.take(np.array([0, 1]))[1].tolist()
        [1, 2, 0]
    """
    low, high = graph.edges.numpy()
    num_nodes = graph.num_nodes
    codes = np.sort(np.concatenate([low * num_nodes + high, high * num_nodes + low]))
    rows, items = np.divmod(codes, max(num_nodes, 1))
    return SortedLists.from_entries(rows, items, num_nodes, num_nodes)


def blocks_of(costs: Numbers, budget: int) -> Iterator[slice]:
    """Yield slices that together cover all places, the costs of each within the budget.

    A place that costs more than the budget comes alone.

    Example:
        >>> list(blocks_of(np.array([3, 3, 9, 1]), 6))
        [slice(0, 2, None), slice(2, 3, None), slice(3, 4, None)]
    """
    totals = np.cumsum(costs)
    start = 0
    while start < len(costs):
        spent = int(totals[start - 1]) if start else 0
        stop = max(int(np.searchsorted(totals, spent + budget, side="right")), start + 1)
        yield slice(start, stop)
        start = stop
