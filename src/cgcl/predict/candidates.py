"""Candidates: by the largest inner products of a linearised scorer, or two steps apart."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from cgcl.errors import ConfigError
from cgcl.graph import Graph
from cgcl.graph.adjacency import Adjacency, blocks_of
from cgcl.graph.pairs import decode, encode_ordered
from cgcl.methods.scoring import rows_of
from cgcl.predict.pair_space import PairSpace, Tile

# Inner products held at once: 2^23 take 32 MB.
_CELLS = 2**23

# Each node lists a fiftieth of its possible partners, so that both ends' lists together hold at
# most one pair in 25; at most 500, so that lists do not grow with the graph; at least
# 128, so that even in a small graph the best 100 can be among them. docs/decisions/0013.
_SHARE = 50
_LONGEST = 500
_SHORTEST = 128

# Equal products are told apart by this share of their usual size; float32 has 1e-7.
_HAIR = 1e-4

# Steps from a node over a neighbour to a third node that are held at once: 2^21 take some 100 MB.
_STEPS_AT_ONCE = 2**21

# A hub with k neighbours alone makes k^2 steps. Beyond this many in all, the largest hubs are
# not walked through: sharing a neighbour that everybody has says little.
_MOST_STEPS = 10**9


def list_size(partners: int) -> int:
    """Return how many of its possible partners a node lists."""
    return min(_LONGEST, max(_SHORTEST, -(-partners // _SHARE)))


class LinearCandidates:
    """The pairs of which one end is among the other's K largest inner products.

    Known links and other pairs that are not allowed take no place in a list. Two walks over all
    inner products are made: the first finds the K-th largest of every node, the second yields
    what is not below. So memory is one block and one number per node, whatever K is, and pairs
    come in order and once. Rounding may decide about the last of a list.
    """

    def __init__(
        self, space: PairSpace, factors: tuple[Tensor, Tensor], per_node: int | None = None
    ) -> None:
        """Find the K-th largest inner product of every node.

        Args:
            space: The pairs in question.
            factors: left and right, float [n, k]; node a ranks its partners b by
                `left[a] @ right[b]`.
            per_node: K; None for the usual number.
        """
        self._space = space
        self._left, self._right = _without_ties(*factors)
        flipped = space if space.is_square else space.flipped()
        self._row_edge = self._edges(space, per_node)
        self._column_edge = self._row_edge if flipped is space else self._edges(flipped, per_node)

    def blocks(self) -> Iterator[Tensor]:
        """Yield the candidates in the order of first end, second end, int64 [2, p] at once."""
        for tile in self._space.tiles(_CELLS):
            yield self._space.pairs(tile, self.holds(tile) & self._space.allowed(tile))

    def holds(self, tile: Tile) -> Tensor:
        """Say which pairs of a rectangle are in either end's list, bool [rows, columns].

        Pairs that are not allowed may be among them.
        """
        rows, columns = self._space.rows[tile[0]], self._space.columns[tile[1]]
        listed = _products(self._left, rows, self._right, columns) >= self._row_edge[tile[0], None]
        back = _products(self._right, rows, self._left, columns)
        return (listed | (back >= self._column_edge[tile[1]])).cpu()

    def _edges(self, space: PairSpace, per_node: int | None) -> Tensor:
        """Return the K-th largest inner product of each node in `space.rows`, float [rows]."""
        width = space.columns.numel()
        size = list_size(width) if per_node is None else per_node
        edges = torch.full((space.rows.numel(),), -torch.inf, device=self._left.device)
        if size >= width:
            return edges
        for rows in blocks_of(np.full(space.rows.numel(), width), _CELLS):
            tile = rows, slice(0, width)
            scores = _products(self._left, space.rows[rows], self._right, space.columns)
            allowed = space.allowed(tile, once=False).to(scores.device)
            edges[rows] = _kth_largest(scores.masked_fill_(~allowed, -torch.inf), size)
        return edges


def _without_ties(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Add a hair to each product, more for smaller node numbers, and return the new factors.

    Nodes that are all alike, such as isolated ones without features, have equal products with
    everybody; without this, a list would have to hold all of them or none.
    """
    count = max(left.shape[0], 1)
    rank = torch.arange(right.shape[0], 0, -1, device=right.device).to(right) / count  # 1 to 1/n
    size = left.norm(dim=1) * right.norm(dim=1).mean()  # of a node's products
    hair = _HAIR * size.clamp(min=torch.finfo(left.dtype).tiny / _HAIR)
    return torch.cat([left, hair[:, None]], dim=1), torch.cat([right, rank[:, None]], dim=1)


def _products(one: Tensor, rows: Tensor, other: Tensor, columns: Tensor) -> Tensor:
    """Return the inner products of some rows of `one` and of `other`, [rows, columns]."""
    return rows_of(one, rows) @ rows_of(other, columns).T


def _kth_largest(scores: Tensor, size: int) -> Tensor:
    """Return the size-th largest of each row; `scores` may be reordered."""
    if scores.device.type != "cpu":
        return scores.topk(size, dim=1, sorted=True).values[:, -1]
    # Selecting in place is several times faster than topk, which also sorts and keeps places.
    place = scores.shape[1] - size
    values = scores.numpy()
    values.partition(place, axis=1)
    return torch.from_numpy(np.ascontiguousarray(values[:, place]))


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
        self._adjacency = Adjacency.from_pairs(graph.edges, graph.num_nodes)
        self._is_walked = self._adjacency.degree <= self._largest_degree(most_steps)
        self.hubs_left_out = int((~self._is_walked).sum())
        """How many hubs are not walked through."""
        # From each node: the neighbours of its neighbours, counted as often as they are met.
        reach = torch.where(self._is_walked, self._adjacency.degree, 0)
        self._steps = self._sum_over_neighbours(reach)[space.rows]

    @property
    def most_pairs(self) -> int:
        """An upper bound of the number of candidates."""
        steps = int(self._steps.sum())
        return min(self._space.size, steps // 2 if self._space.is_square else steps)

    def blocks(self) -> Iterator[Tensor]:
        """Yield the candidates in the order of first end, second end, int64 [2, p] at once."""
        for block in blocks_of(self._steps.numpy(), _STEPS_AT_ONCE):
            is_too_large = int(self._steps[block].sum()) > _STEPS_AT_ONCE  # a node that comes alone
            propose = self._pairs_of if is_too_large else self._pairs
            pairs = propose(self._space.rows[block])
            yield pairs[:, self._space.holds(pairs)]

    def holds(self, tile: Tile) -> Tensor:
        """Say which pairs of a rectangle share a neighbour, bool [rows, columns]."""
        rows, columns = self._space.rows[tile[0]], self._space.columns[tile[1]]
        return torch.stack([self._reached(node)[columns] for node in rows.tolist()])

    def _largest_degree(self, most_steps: int) -> int:
        """Return the largest degree such that walking through all nodes up to it is few steps."""
        degree = self._adjacency.degree
        is_row = torch.zeros_like(degree)
        is_row[self._space.rows] = 1
        steps = self._sum_over_neighbours(is_row) * degree
        total = torch.zeros(int(degree.max()) + 1 if len(degree) else 1, dtype=torch.int64)
        total = total.index_add_(0, degree, steps).cumsum(0)  # by degree
        return int(torch.searchsorted(total, most_steps, right=True)) - 1

    def _sum_over_neighbours(self, values: Tensor) -> Tensor:
        entries = self._adjacency
        return torch.zeros_like(values).index_add_(0, entries.row, values[entries.indices])

    def _pairs(self, rows: Tensor) -> Tensor:
        """Return each node of `rows` with all that it reaches, once, int64 [2, any]."""
        owner, middle = self._adjacency.neighbours(rows)
        walked = self._is_walked[middle]
        owner, middle = owner[walked], middle[walked]
        place, end = self._adjacency.neighbours(middle)
        n = self._adjacency.num_rows
        return decode(torch.unique(encode_ordered(rows[owner[place]], end, n)), n)

    def _pairs_of(self, rows: Tensor) -> Tensor:
        """Do the same for one node that has more steps than are held at once."""
        ends = self._reached(int(rows)).nonzero().squeeze(1)
        return torch.stack([rows.expand_as(ends), ends])

    def _reached(self, node: int) -> Tensor:
        """Say which nodes share a neighbour with `node`, bool [n]."""
        _, middle = self._adjacency.neighbours(torch.tensor([node]))
        reached = torch.zeros(self._adjacency.num_rows, dtype=torch.bool)
        middle = middle[self._is_walked[middle]]
        for some in blocks_of(self._adjacency.degree[middle].numpy(), _STEPS_AT_ONCE):
            reached[self._adjacency.neighbours(middle[some])[1]] = True
        return reached
