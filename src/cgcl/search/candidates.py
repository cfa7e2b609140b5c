"""Candidates by the largest inner products of a linearised scorer."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from cgcl.methods.scoring import rows_of
from cgcl.search.pair_space import PairSpace, Tile

__all__ = ["LinearCandidates", "list_size"]

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
        step = max(1, _CELLS // width)
        for low in range(0, space.rows.numel(), step):
            tile = slice(low, min(low + step, space.rows.numel())), slice(0, width)
            scores = _products(self._left, space.rows[tile[0]], self._right, space.columns)
            allowed = space.allowed(tile, once=False).to(scores.device)
            edges[tile[0]] = _kth_largest(scores.masked_fill_(~allowed, -torch.inf), size)
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
