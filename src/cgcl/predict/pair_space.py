"""The pairs that may answer a query, walked through in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import torch
from torch import Tensor

from cgcl.graph import Graph
from cgcl.graph.pairs import is_in
from cgcl.predict.query import Query

Tile = tuple[slice, slice]
"""A rectangle of the space: places in `rows`, places in `columns`."""


class PairSpace:
    """Every pair (first end in `rows`, second end in `columns`) that a query allows, once.

    Where a pair could be reported either way round, the smaller node number comes first. With
    sides and neither sources nor targets, the first end is on the side that is False.
    """

    def __init__(self, graph: Graph, query: Query, *, is_flipped: bool = False) -> None:
        """Work out the two sets of ends and the pairs between them that are barred.

        Args:
            graph: Gives the links that are known, and the sides.
            query: Gives sources, targets and excluded pairs.
            is_flipped: Whether to exchange the two ends of every pair.

        Raises:
            GraphContentError: A name is not in the graph.
        """
        self._graph, self._query, self._sides = graph, query, graph.sides
        rows, columns = _chosen(query.sources, graph), _chosen(query.targets, graph)
        if graph.sides is not None:
            if query.sources is None and query.targets is None:
                rows = rows[~graph.sides]
            rows, columns = _across(rows, columns, graph.sides), _across(columns, rows, graph.sides)
        known = graph.node_of
        excluded = [(known[a], known[b]) for a, b in query.exclude if a in known and b in known]
        never = torch.tensor(excluded, dtype=torch.int64).view(-1, 2).T
        self.rows, self.columns = (columns, rows) if is_flipped else (rows, columns)
        self.is_square = torch.equal(rows, columns)
        self._bar(torch.cat([graph.edges, never], dim=1))

    def _bar(self, links: Tensor) -> None:
        """Work out which pairs of the space are barred: links, and every node with itself."""
        row_place, column_place = (self._places(nodes) for nodes in (self.rows, self.columns))
        self._is_row, self._is_column = row_place >= 0, column_place >= 0
        self._width = max(self.columns.numel(), 1)
        codes: list[Tensor] = []
        for one, other in (links, links.flip(0), self.rows.expand(2, -1)):
            near = self._is_row[one]  # first: a query about one node meets few of a million links
            row, column = row_place[one[near]], column_place[other[near]]
            codes.append((row * self._width + column)[column >= 0])
        self._barred = torch.unique(torch.cat(codes))  # sorted by row, then column
        ends = torch.arange(self.rows.numel() + 1) * self._width
        self._barred_start = torch.searchsorted(self._barred, ends)

    def _places(self, nodes: Tensor) -> Tensor:
        """Return where each node stands in `nodes`, -1 for those that do not, int64 [n]."""
        places = torch.full((self._graph.num_nodes,), -1)
        places[nodes] = torch.arange(nodes.numel())
        return places

    def flipped(self) -> PairSpace:
        """Return the same pairs with the two ends exchanged."""
        return PairSpace(self._graph, self._query, is_flipped=True)

    @cached_property
    def size(self) -> int:
        """How many pairs there are."""
        ends = self._is_row, self._is_column, self._is_row & self._is_column

        def among(nodes: Tensor) -> int:
            """Return how many different pairs of different nodes there are among some."""
            rows, columns, both = (int((own & nodes).sum()) for own in ends)
            return rows * columns - both * (both + 1) // 2

        within = () if self._sides is None else (self._sides, ~self._sides)
        pairs = among(torch.ones_like(self._is_row)) - sum(map(among, within))
        one, other = self._barred // self._width, self._barred % self._width
        return pairs - int(self._counts(self.rows[one], self.columns[other]).sum())

    def tiles(self, max_cells: int, height: int = 1) -> Iterator[Tile]:
        """Cut the space into rectangles of at most `max_cells` pairs, in the order of rows.

        Args:
            max_cells: Their size, not below `height`.
            height: How many rows to put together at least; with more than one, pairs come in
                the order of rows only from one group of rows to the next.
        """
        width, low = self.columns.numel(), 0
        while low < self.rows.numel() and width:
            # In a square every pair left of the diagonal is the repeat of one on its right.
            start = low if self.is_square else 0
            high = min(low + max(height, max_cells // (width - start)), self.rows.numel())
            while start < width:
                stop = min(start + max_cells // (high - low), width)
                yield slice(low, high), slice(start, stop)
                start = stop
            low = high

    def allowed(self, tile: Tile, *, once: bool = True) -> Tensor:
        """Say which pairs of a rectangle are allowed, bool [rows, columns].

        Args:
            tile: The rectangle.
            once: Whether a pair that lies in the space both ways round is allowed only once.
        """
        rows, columns = self.rows[tile[0]], self.columns[tile[1]]
        mask = self._counts(rows[:, None], columns[None, :], once=once)
        first, last = self._barred_start[tile[0].start], self._barred_start[tile[0].stop]
        barred = self._barred[first:last]
        row = barred // self._width - tile[0].start
        column = barred % self._width - tile[1].start
        inside = (column >= 0) & (column < columns.numel())
        mask[row[inside], column[inside]] = False
        return mask

    def pairs(self, tile: Tile, mask: Tensor) -> Tensor:
        """Return the pairs of a rectangle where `mask` is set, int64 [2, p]."""
        row, column = mask.nonzero().unbind(1)
        return torch.stack([self.rows[row + tile[0].start], self.columns[column + tile[1].start]])

    def blocks(self, max_pairs: int) -> Iterator[Tensor]:
        """Yield all pairs in the order of first end, second end, at most `max_pairs` at once."""
        for tile in self.tiles(max_pairs):
            yield self.pairs(tile, self.allowed(tile))

    def holds(self, pairs: Tensor) -> Tensor:
        """Say which of `pairs`, int64 [2, p], belong to the space as they stand, bool [p]."""
        one, other = pairs
        held = self._is_row[one] & self._is_column[other] & self._counts(one, other)
        asked = torch.searchsorted(self.rows, one) * self._width
        asked += torch.searchsorted(self.columns, other)
        return held & ~is_in(asked, self._barred)

    def _counts(self, one: Tensor, other: Tensor, *, once: bool = True) -> Tensor:
        """Say which pairs join two nodes, across the sides, and come first this way round."""
        counts = one != other
        if self._sides is not None:
            counts &= self._sides[one] != self._sides[other]
        if once:  # a repeat is in the space the other way round, too, and comes first there
            counts &= ~((one > other) & self._is_column[one] & self._is_row[other])
        return counts


def _chosen(names: Sequence[str] | None, graph: Graph) -> Tensor:
    """Return the nodes asked for, sorted, each once; all of them if nobody asked."""
    return torch.arange(graph.num_nodes) if names is None else graph.nodes_named(names).unique()


def _across(nodes: Tensor, others: Tensor, sides: Tensor) -> Tensor:
    """Return the nodes that have somebody to meet on the other side."""
    there = sides[others]
    return nodes[torch.where(sides[nodes], bool((~there).any()), bool(there.any()))]
