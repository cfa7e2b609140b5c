"""Candidates two steps apart: pairs of nodes that share a neighbour."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from cgcl.errors import ConfigError
from cgcl.graph import Graph
from cgcl.search.pair_space import PairSpace, Tile

__all__ = ["TwoHopCandidates"]

# Steps from a node over a neighbour to a third node that are held at once: 2^21 take some 100 MB.
_STEPS_AT_ONCE = 2**21

# A hub with k neighbours alone makes k^2 steps. Beyond this many in all, the largest hubs are
# not walked through: sharing a neighbour that everybody has says little.
_MOST_STEPS = 10**9


class TwoHopCandidates:
    """The allowed pairs that share at least one neighbour in the known graph."""

    def __init__(self, graph: Graph, space: PairSpace, most_steps: int = _MOST_STEPS) -> None:
        """Order the links by node and decide which hubs are too large to walk through.

        Args:
            graph: Gives the known links.
            space: The pairs in question.
            most_steps: How many steps may be walked in all.

        Raises:
            ConfigError: The graph has two sides.
        """
        if graph.sides is not None:
            raise ConfigError(
                "In a graph with two sides, nodes that share a neighbour are on the same side and "
                "are never suggested.\nUse `candidates=linear` or `candidates=exact`."
            )
        self._space = space
        one, other = graph.edge_index
        order = torch.argsort(one * space.num_nodes + other)
        self._partner = other[order]
        self._degree = torch.bincount(one, minlength=space.num_nodes)
        self._start = self._degree.cumsum(0) - self._degree
        self._is_walked = self._degree <= self._largest_degree(one, other, most_steps)
        self.hubs_left_out = int((~self._is_walked).sum())
        """How many hubs are not walked through."""
        # From each node: the neighbours of its neighbours, counted as often as they are met.
        reach = torch.where(self._is_walked, self._degree, 0)
        steps = torch.zeros_like(reach).index_add_(0, one, reach[other])
        self._steps = steps[space.rows]

    @property
    def most_pairs(self) -> int:
        """An upper bound of the number of candidates."""
        steps = int(self._steps.sum())
        return min(self._space.size, steps // 2 if self._space.is_square else steps)

    def blocks(self) -> Iterator[Tensor]:
        """Yield the candidates in the order of first end, second end, int64 [2, p] at once."""
        ends = self._steps.cumsum(0)
        low = 0
        while low < ends.numel():
            before = int(ends[low - 1]) if low else 0
            high = int(torch.searchsorted(ends, before + _STEPS_AT_ONCE, right=True))
            rows = self._space.rows[low : max(high, low + 1)]
            pairs = self._pairs(rows) if high > low else self._pairs_of(rows)
            yield pairs[:, self._space.holds(pairs)]
            low = max(high, low + 1)

    def holds(self, tile: Tile) -> Tensor:
        """Say which pairs of a rectangle share a neighbour, bool [rows, columns]."""
        rows, columns = self._space.rows[tile[0]], self._space.columns[tile[1]]
        return torch.stack([self._reached(node)[columns] for node in rows.tolist()])

    def _largest_degree(self, one: Tensor, other: Tensor, most_steps: int) -> int:
        """Return the largest degree such that walking through all nodes up to it is few steps."""
        is_row = torch.zeros(self._space.num_nodes, dtype=torch.int64)
        is_row[self._space.rows] = 1
        steps = torch.zeros_like(is_row).index_add_(0, other, is_row[one]) * self._degree
        total = torch.zeros(int(self._degree.max()) + 1 if len(self._degree) else 1).long()
        total = total.index_add_(0, self._degree, steps).cumsum(0)  # by degree
        return int(torch.searchsorted(total, most_steps, right=True)) - 1

    def _pairs(self, rows: Tensor) -> Tensor:
        """Return each node of `rows` with all that it reaches, once, int64 [2, any]."""
        owner, middle = self._neighbours(rows)
        walked = self._is_walked[middle]
        owner, middle = owner[walked], middle[walked]
        place, end = self._neighbours(middle)
        codes = torch.unique(rows[owner[place]] * self._space.num_nodes + end)
        return torch.stack([codes // self._space.num_nodes, codes % self._space.num_nodes])

    def _pairs_of(self, rows: Tensor) -> Tensor:
        """Do the same for one node that has more steps than are held at once."""
        ends = self._reached(int(rows)).nonzero().squeeze(1)
        return torch.stack([rows.expand_as(ends), ends])

    def _reached(self, node: int) -> Tensor:
        """Say which nodes share a neighbour with `node`, bool [n]."""
        _, middle = self._neighbours(torch.tensor([node]))
        reached = torch.zeros(self._space.num_nodes, dtype=torch.bool)
        middle = middle[self._is_walked[middle]]
        part = self._degree[middle].cumsum(0) // _STEPS_AT_ONCE
        for some in middle.split(torch.bincount(part).tolist()):
            reached[self._neighbours(some)[1]] = True
        return reached

    def _neighbours(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Return all neighbours of `nodes`, and the place in `nodes` each belongs to."""
        counts = self._degree[nodes]
        owner = torch.repeat_interleave(torch.arange(nodes.numel()), counts)
        first = counts.cumsum(0) - counts
        place = torch.arange(owner.numel()) - first[owner] + self._start[nodes][owner]
        return owner, self._partner[place]
