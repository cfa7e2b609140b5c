"""Sums over the neighbours that two nodes share: what several heuristics are made of."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

__all__ = ["Neighbourhoods", "Numbers", "SharedNeighbours", "Sums", "as_logits"]

Numbers = npt.NDArray[np.int64]
Sums = npt.NDArray[np.float64]

# How many numbers are held at once: 2^20 neighbours, or sums, take about 50 MB with what is
# computed from them.
_BUDGET = 2**20
# Weights are whole multiples of this, so that a sum is exact and its order does not matter: pairs
# that share the same kinds of neighbours have the same score to the last bit.
_GRAIN = 2.0**-32
# A step in a table, or of a walk; measured: 2e7 a second.
_OPERATIONS = 2000.0
# Filling an entry of a table of sums and reading it; measured: 8e8 a second.
_TABLE_ENTRY = 50.0
_NOTHING = 1e-6


class Neighbourhoods:
    """The neighbours of every node, and what pairs of nodes have in common."""

    def __init__(self, links: Tensor, num_nodes: int) -> None:
        """Sort the links by their ends.

        Args:
            links: Each link once in any direction, int64 [2, m].
            num_nodes: Number of nodes, isolated ones included.
        """
        one, other = links.cpu().numpy()
        self.num_nodes = num_nodes
        # A code for each direction of each link, sorted: the neighbours of a node lie together.
        self._codes = np.sort(np.concatenate([one * num_nodes + other, other * num_nodes + one]))
        self._neighbours = self._codes % max(num_nodes, 1)
        self.degree = np.bincount(np.concatenate([one, other]), minlength=num_nodes)
        self._start = np.cumsum(self.degree) - self.degree

    @property
    def cost_per_pair(self) -> float:
        """About how many operations one pair takes when all pairs are summed over.

        In the unit of `cgcl.methods.method`: two ordinary CPU cores do 4e10 a second. A pair takes
        one step in a table, and its share of the walks of two steps that fill the table.
        """
        walks = float(self._walks.sum()) / max(self.num_nodes, 1) ** 2
        return _OPERATIONS * (1 + walks)

    def shared(self, pairs: Tensor, weight: Sums) -> Sums:
        r"""Return $\sum_{w \in N(u) \cap N(v)} weight_w$ for each pair (u, v), float64 [p].

        Memory is bounded whatever the degrees. Where few first ends occur with many partners
        each, their neighbours' neighbours are counted; otherwise the neighbours of the end that
        has fewer are looked up among those of the other. Both give the same bits.

        Args:
            pairs: Node numbers, int64 [2, p], in any direction.
            weight: What each shared neighbour counts, [n].
        """
        weight = np.round(weight / _GRAIN) * _GRAIN
        one, other = pairs.cpu().numpy()
        swap = self.degree[one] > self.degree[other]
        small, large = np.where(swap, other, one), np.where(swap, one, other)
        first, count = np.unique(one, return_counts=True)
        walking = first.size * self.num_nodes + self._walks[first].sum()
        if walking < self.degree[small].sum() + count.sum():
            return self._by_walks(one, other, weight)
        sums = np.zeros(one.size)
        for block in _blocks(self.degree[small]):
            sums[block] = self._by_lookup(small[block], large[block], weight)
        return sums

    @cached_property
    def _walks(self) -> Numbers:
        """How many walks of two steps begin at each node."""
        totals = np.concatenate([[0], np.cumsum(self.degree[self._neighbours])])
        return totals[self._start + self.degree] - totals[self._start]

    def _take(self, nodes: Numbers) -> tuple[Numbers, Numbers]:
        """Return the neighbours of `nodes` end to end: each one's place in `nodes`, and who."""
        count = self.degree[nodes]
        which = np.repeat(np.arange(nodes.size), count)
        offset = self._start[nodes] - (np.cumsum(count) - count)
        return which, self._neighbours[np.arange(which.size) + offset[which]]

    def _by_lookup(self, small: Numbers, large: Numbers, weight: Sums) -> Sums:
        pair, neighbour = self._take(small)
        wanted = large[pair] * self.num_nodes + neighbour
        found = np.searchsorted(self._codes, wanted)
        is_shared = self._codes[np.minimum(found, self._codes.size - 1)] == wanted
        return _summed(pair[is_shared], weight[neighbour[is_shared]], small.size)

    def _by_walks(self, one: Numbers, other: Numbers, weight: Sums) -> Sums:
        first, row = np.unique(one, return_inverse=True)
        by_row = np.argsort(row, kind="stable")
        ends = np.searchsorted(row[by_row], np.arange(first.size + 1))
        sums = np.zeros(one.size)
        for block, table in self._tables(first, weight):
            asked = by_row[ends[block.start] : ends[block.stop]]
            sums[asked] = table[(row[asked] - block.start) * self.num_nodes + other[asked]]
        return sums

    def rows(self, nodes: Numbers, weight: Sums) -> Iterator[Sums]:
        """Yield what nodes share with every node, float64 [some rows x n], block by block."""
        weight = np.round(weight / _GRAIN) * _GRAIN
        for _, table in self._tables(nodes, weight):
            yield table

    def _tables(self, first: Numbers, weight: Sums) -> Iterator[tuple[slice, Sums]]:
        """Yield which of the nodes come next, and the sums of each with every node, end to end."""
        for block in _blocks(self.num_nodes + self._walks[first]):
            start, middle = self._take(first[block])
            step, end = self._take(middle)
            cell = start[step] * self.num_nodes + end
            size = (block.stop - block.start) * self.num_nodes
            yield block, _summed(cell, weight[middle[step]], size)


def _summed(place: Numbers, values: Sums, size: int) -> Sums:
    """Return what falls on each place, added up in the order given."""
    return np.bincount(place, weights=values, minlength=size).astype(np.float64, copy=False)


def _blocks(costs: Numbers) -> Iterator[slice]:
    """Yield slices that cover all places, each within the budget or of one place."""
    totals, start = np.cumsum(costs), 0
    while start < costs.size:
        spent = int(totals[start - 1]) if start else 0
        stop = max(int(np.searchsorted(totals, spent + _BUDGET, side="right")), start + 1)
        yield slice(start, stop)
        start = stop


class SharedNeighbours:
    """A heuristic that sums a weight over the neighbours that two nodes share."""

    nothing: ClassVar[float] = _NOTHING
    """What counts as no shared neighbour: less than any single one weighs."""

    cost_per_node = 0.0
    """Every pair is scored by itself."""

    def __init__(self, links: Tensor, num_nodes: int) -> None:
        """Take the links to go by.

        Args:
            links: Each link once in any direction, int64 [2, m].
            num_nodes: Number of nodes, isolated ones included.
        """
        self.num_nodes = num_nodes
        self._neighbourhoods = Neighbourhoods(links, num_nodes)
        self._weight = self.weight_of(self._neighbourhoods.degree)

    def weight_of(self, degree: Numbers) -> Sums:
        """Return what each node counts if it is shared, float64 [n].

        Args:
            degree: The number of links of each node, int64 [n].
        """
        raise NotImplementedError

    def values(self, pairs: Tensor) -> Sums:
        """Return the sum of each pair, float64 [p]."""
        return self._neighbourhoods.shared(pairs, self._weight)

    @property
    def cost_per_pair(self) -> float:
        """About how many operations one pair takes when all pairs are scored."""
        return self._neighbourhoods.cost_per_pair

    def logits(self, pairs: Tensor) -> Tensor:
        """Return the logarithm of each pair's sum, float32 [p]; a finite floor for no sum."""
        return as_logits(self.values(pairs), self.nothing)

    @property
    def cost_in_rows(self) -> float:
        """About how many operations an entry takes: a place in a table, and its share of walks."""
        return self.cost_per_pair - _OPERATIONS + _TABLE_ENTRY

    def rows(self, nodes: Tensor) -> Tensor:
        """Return the logits of nodes with every node, float32 [r, n] on the CPU."""
        tables = self._neighbourhoods.rows(nodes.cpu().numpy(), self._weight)
        rows = [_sparse_logits(table, self.nothing) for table in tables]
        return torch.cat(rows).view(-1, self.num_nodes)

    def factors(self) -> None:
        """There are none: the sum is no function of one vector per node."""
        return


def _sparse_logits(sums: Sums, nothing: float) -> Tensor:
    """Return what `as_logits` does, sooner where nearly all sums are 0."""
    logits = as_logits(np.zeros(1), nothing).repeat(sums.size)
    there = np.flatnonzero(sums)
    logits[torch.from_numpy(there)] = as_logits(sums[there], nothing)
    return logits


def as_logits(sums: Sums, nothing: float = _NOTHING) -> Tensor:
    r"""Return sums that are 0 or positive as logits, float32 on the CPU.

    The sum s is read as odds: the sigmoid of its logarithm is $s / (1 + s)$, between 0 and 1 and
    in the same order.

    Args:
        sums: What to read as odds, float64 [p].
        nothing: What a sum of 0 is read as; less than any other sum.

    Example:
        >>> torch.sigmoid(as_logits(np.array([0.0, 1.0, 3.0])))
        tensor([1.0000e-06, 5.0000e-01, 7.5000e-01])
    """
    return torch.from_numpy(np.log(np.maximum(sums, nothing))).float()
