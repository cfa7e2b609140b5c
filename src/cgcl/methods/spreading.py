"""Scores by what spreads along the links from one node to all others, step by step."""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from cgcl.methods.shared_neighbours import Numbers, Sums

__all__ = ["Spreading"]

# How many numbers one table holds: 2^19 take 4 MB and stay near the processor. A graph of more
# nodes takes a table of one column; three tables are held at once.
_TABLE = 2**19
# So many neighbours are added up at once; the sums of a node that has more are added up then. It
# keeps rounding small at hubs.
_PART = 2**10
# One step along one direction of a link, at one node, and the place of one pair in a table.
# Measured on 20,000 nodes: 1.6e9, 1.6e9 and 2.7e7 a second.
_ALONG_LINK = 25.0
_AT_NODE = 25.0
_LOOK_UP = 1500.0


class Spreading:
    """Scores a pair by what reaches one end if it spreads from the other.

    It is for measures that do not depend, but for rounding, on which end it spreads from. So each
    pair is taken from the end that more of the pairs asked for have: all pairs with one node take
    one spread. Where rounding could show in a logit, it is taken from the smaller node number, so
    that the order of a pair and its company leave no trace.
    """

    def __init__(self, links: Tensor, num_nodes: int, steps: int) -> None:
        """Lay out the links.

        Args:
            links: Each link once in any direction, int64 [2, m].
            num_nodes: Number of nodes, isolated ones included.
            steps: How many steps one spread takes.
        """
        one, other = links.cpu().numpy()
        ends = np.concatenate([one, other]), np.concatenate([other, one])
        self.num_nodes = num_nodes
        self.steps = steps
        self.degree: Numbers = np.bincount(ends[0], minlength=num_nodes)
        adjacency = csr_array((np.ones(ends[0].size), ends), shape=(num_nodes, num_nodes))
        self._num_links = adjacency.nnz
        self._parts, self._whole = _in_parts(adjacency)

    def step(self, table: Sums) -> Sums:
        """Return what is at the neighbours of each node, added up, float64 [n, s] or [n].

        A column does not depend on the columns beside it: it is added up in the order of the
        neighbours' numbers.
        """
        table = self._parts @ table
        return table if self._whole is None else self._whole @ table

    def spread(self, sources: Numbers) -> Sums:
        """Return what reaches every node, 0 or more, float64 [n, s]: a column for each source."""
        raise NotImplementedError

    def between(self, source: Numbers, target: Numbers, reached: Sums) -> Sums:  # noqa: ARG002
        """Return the measure of pairs from what reached the targets, float64 [p]."""
        return reached

    @property
    def nothing(self) -> float:
        """What counts as nothing: less than any measure that matters."""
        raise NotImplementedError

    @property
    def rounding(self) -> float:
        """How far the two ends' measures can be apart, relative to them.

        A sum of k numbers above 0 is wrong by k - 1 roundings at most, a step by three more, and
        two spreads are compared.
        """
        most = int(self.degree.max(initial=0))
        added = min(most, _PART) + most // _PART + 1
        return self.steps * (added + 4) * 2.0**-52 + 2.0**-40

    @property
    def cost_per_pair(self) -> float:
        """About how many operations it takes to look up a pair in what has been spread."""
        return _LOOK_UP

    @property
    def cost_per_node(self) -> float:
        """About how many operations one spread takes, whatever number of pairs it serves."""
        return self.steps * (_ALONG_LINK * self._num_links + _AT_NODE * self.num_nodes)

    def values(self, pairs: Tensor) -> Sums:
        """Return the measure of each pair, float64 [p]; the last bits depend on what is asked."""
        one, other = pairs.cpu().numpy()
        asked = np.bincount(np.concatenate([one, other]), minlength=self.num_nodes)
        swap = asked[other] > asked[one]
        return self._spread_from(np.where(swap, other, one), np.where(swap, one, other))

    def logits(self, pairs: Tensor) -> Tensor:
        """Return the logarithm of each pair's measure, float32 [p]; a finite floor for none.

        Its sigmoid is s / (1 + s) for the measure s.
        """
        logs, rounding = self._logs(self.values(pairs)), self.rounding
        low, high = ((logs + shift).astype(np.float32) for shift in (-rounding, rounding))
        doubtful = np.flatnonzero(low != high)
        smaller, larger = np.sort(pairs.cpu().numpy()[:, doubtful], axis=0)
        logs[doubtful] = self._logs(self._spread_from(smaller, larger))
        return torch.from_numpy(logs.astype(np.float32))

    def factors(self) -> None:
        """There are none: what spreads is no function of one vector per node."""
        return

    def _logs(self, values: Sums) -> Sums:
        # The floor is a float32, far from where float32 numbers meet: it is never in doubt.
        floor = np.float64(np.float32(np.log(self.nothing)))
        return np.maximum(np.log(np.maximum(values, self.nothing / 2)), floor)

    def _spread_from(self, source: Numbers, target: Numbers) -> Sums:
        """Return the measure of each pair, spread from its source, float64 [p]."""
        sources, column = np.unique(source, return_inverse=True)
        in_order = np.argsort(column, kind="stable")
        start_of = np.searchsorted(column[in_order], np.arange(sources.size + 1))
        width = max(1, _TABLE // max(self.num_nodes, 1))
        reached = np.zeros(source.size)
        for start in range(0, sources.size, width):
            stop = min(start + width, sources.size)
            table = self.spread(sources[start:stop])
            asked = in_order[start_of[start] : start_of[stop]]
            reached[asked] = table[target[asked], column[asked] - start]
        return self.between(source, target, reached)


def _in_parts(adjacency: csr_array) -> tuple[csr_array, csr_array | None]:
    """Cut long rows in pieces; return all pieces, and what adds them up if any row was cut."""
    count = np.diff(adjacency.indptr)
    pieces = np.maximum(-(-count // _PART), 1)
    if not (pieces > 1).any():
        return adjacency, None
    num_nodes, total = count.size, int(pieces.sum())
    first = np.cumsum(pieces) - pieces  # [n]
    row = np.repeat(np.arange(num_nodes), pieces)  # [total]
    start = adjacency.indptr[row] + _PART * (np.arange(total) - first[row])
    parts = csr_array(
        (adjacency.data, adjacency.indices, np.append(start, adjacency.nnz)),
        shape=(total, num_nodes),
    )
    whole = csr_array(
        (np.ones(total), np.arange(total), np.append(first, total)), shape=(num_nodes, total)
    )
    return parts, whole
