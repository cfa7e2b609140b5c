"""Candidates: by the largest inner products of a linearised scorer, or two steps apart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from cgcl.errors import ConfigError
from cgcl.graph import Graph
from cgcl.graph.adjacency import Adjacency, blocks_of
from cgcl.methods.scoring import rows_of
from cgcl.predict.pair_space import PairSpace, Tile

if TYPE_CHECKING:
    from scipy.sparse import csr_array

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

    def __init__(self, space: PairSpace, factors: tuple[Tensor, Tensor]) -> None:
        """Find the K-th largest inner product of every node.

        Args:
            space: The pairs in question.
            factors: left and right, float [n, k]; node a ranks its partners b by
                `left[a] @ right[b]`.
        """
        self._space = space
        self._left, self._right = _without_ties(*factors)
        flipped = space if space.is_square else space.flipped()
        self._row_edge = self._edges(space)
        self._column_edge = self._row_edge if flipped is space else self._edges(flipped)

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

    def _edges(self, space: PairSpace) -> Tensor:
        """Return the K-th largest inner product of each node in `space.rows`, float [rows]."""
        width = space.columns.numel()
        size = list_size(width)
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
        adjacency = Adjacency.from_pairs(graph.edges, graph.num_nodes)
        self._links, degree = adjacency.to_scipy(), adjacency.degree.numpy()
        # Through a node lead as many steps as it has links to `rows`, times all that it has. All
        # nodes are walked through up to the largest degree with which that is few steps.
        is_row = np.zeros(degree.size)
        is_row[space.rows.numpy()] = 1
        by_degree = np.bincount(degree, (self._links @ is_row) * degree).cumsum()
        self._is_walked = degree < np.searchsorted(by_degree, most_steps, side="right")
        self.hubs_left_out = int((~self._is_walked).sum())
        """How many hubs are not walked through."""
        # From each node: the neighbours of its neighbours, counted as often as they are met.
        self._steps = (self._links @ (self._is_walked * degree))[space.rows.numpy()]

    @property
    def most_pairs(self) -> int:
        """An upper bound of the number of candidates."""
        steps = int(self._steps.sum())
        return min(self._space.size, steps // 2 if self._space.is_square else steps)

    def blocks(self) -> Iterator[Tensor]:
        """Yield the candidates in the order of first end, second end, int64 [2, p] at once."""
        for block in blocks_of(self._steps, _STEPS_AT_ONCE):
            rows = self._space.rows[block]
            row, end = self._reached(rows).nonzero()
            pairs = torch.stack([rows[torch.from_numpy(row).long()], torch.from_numpy(end).long()])
            yield pairs[:, self._space.holds(pairs)]

    def holds(self, tile: Tile) -> Tensor:
        """Say which pairs of a rectangle share a neighbour, bool [rows, columns]."""
        reached = self._reached(self._space.rows[tile[0]]).toarray() > 0
        return torch.from_numpy(reached)[:, self._space.columns[tile[1]]]

    def _reached(self, nodes: Tensor) -> csr_array:
        """Return how many neighbours some nodes share with every node, [nodes, n]."""
        links: Any = self._links[nodes.numpy()]  # scipy's types know no rows of a csr_array
        links.data *= self._is_walked[links.indices]
        links.eliminate_zeros()
        return (links @ self._links).sorted_indices()
