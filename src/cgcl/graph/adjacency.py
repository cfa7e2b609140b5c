"""The neighbours of every node as compressed rows (CSR): the one place where they are built."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cgcl.graph.pairs import decode, encode_ordered, is_in

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Numbers = npt.NDArray[np.int64]
"""An array of whole numbers."""

# How many neighbours are looked up at once: 2^20 take about 50 MB, a GPU has room for more.
_BUDGET, _GPU_BUDGET = 2**20, 2**25


@dataclass(frozen=True, eq=False)
class Adjacency:
    """Rows of rising column numbers: of each node its neighbours, or of each item its features."""

    indptr: Tensor
    """Where each row begins in `indices`, int64 [rows + 1]."""
    indices: Tensor
    """The columns of all rows, one row after the other, int64 [e]."""
    num_columns: int
    edge_ids: Tensor | None = None
    """For each entry the number of its pair, int64 [e]; that of no pair for a self-loop."""

    @classmethod
    def from_pairs(
        cls, pairs: Tensor, num_nodes: int, *, edge_ids: bool = False, self_loops: bool = False
    ) -> Adjacency:
        """Return both directions of each link.

        Args:
            pairs: Each link once in any direction, int64 [2, m], on any device.
            num_nodes: Number of nodes, isolated ones included.
            edge_ids: Whether to keep which link each entry comes from.
            self_loops: Whether to link each node to itself, too.

        Example:
            >>> path = Adjacency.from_pairs(torch.tensor([[1, 1], [0, 2]]), 3)
            >>> path.indptr.tolist(), path.indices.tolist()
            ([0, 1, 3, 4], [1, 0, 2, 1])
        """
        one, other = pairs
        loops = torch.arange(num_nodes if self_loops else 0, device=pairs.device)
        row, column = torch.cat([one, other, loops]), torch.cat([other, one, loops])
        codes = encode_ordered(row, column, num_nodes)
        if not edge_ids:
            return cls.from_codes(_sorted(codes), num_nodes, num_nodes)
        codes, order = codes.sort()
        m = pairs.shape[1]
        link = torch.where(order < 2 * m, order % max(m, 1), m)
        return cls.from_codes(codes, num_nodes, num_nodes, link)

    @classmethod
    def from_codes(
        cls, codes: Tensor, num_rows: int, num_columns: int, edge_ids: Tensor | None = None
    ) -> Adjacency:
        """Return the rows of sorted codes `row * num_columns + column`, int64 [e]."""
        rows, columns = decode(codes, num_columns)
        starts = torch.arange(num_rows + 1, device=codes.device)
        return cls(torch.searchsorted(rows.contiguous(), starts), columns, num_columns, edge_ids)

    @property
    def num_rows(self) -> int:
        """Number of rows; n if they are nodes."""
        return self.indptr.numel() - 1

    @cached_property
    def degree(self) -> Tensor:
        """The number of entries of each row, int64 [rows]."""
        return self.indptr.diff()

    @cached_property
    def row(self) -> Tensor:
        """The row of each entry, int64 [e]."""
        return torch.repeat_interleave(self.degree)

    @cached_property
    def codes(self) -> Tensor:
        """Row and column of each entry as one number; they rise."""
        return encode_ordered(self.row, self.indices, self.num_columns)

    @cached_property
    def edge_index(self) -> Tensor:
        """Row and column of each entry, int64 [2, e]."""
        return torch.stack([self.row, self.indices])

    def neighbours(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Return the rows of `nodes` end to end: each entry's place in `nodes`, and its column."""
        which, places = self.places(nodes)
        return which, self.indices.index_select(0, places)

    def places(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Return of each entry of the rows of `nodes` its place in `nodes`, and in `indices`."""
        size = self.degree.index_select(0, nodes)
        which = torch.repeat_interleave(size)
        offset = self.indptr.index_select(0, nodes) - (size.cumsum(0) - size)
        places = torch.arange(which.numel(), device=which.device) + offset.index_select(0, which)
        return which, places

    def take(self, nodes: Numbers) -> tuple[Numbers, Numbers]:
        """Return what `neighbours` does, for arrays, without a thread of torch's."""
        indptr, indices = self._arrays
        which, places = ranges(indptr[nodes], indptr[nodes + 1] - indptr[nodes])
        return which, indices[places]

    @cached_property
    def _arrays(self) -> tuple[Numbers, Numbers]:
        return self.indptr.cpu().numpy(), self.indices.cpu().numpy()

    def contains(self, row: Tensor, column: Tensor) -> Tensor:
        """Say of each row and column whether they are an entry, bool [p]."""
        return is_in(encode_ordered(row, column, self.num_columns), self.codes)

    def common_neighbours(self, pairs: Tensor) -> tuple[Tensor, Tensor]:
        """Return every neighbour that the two nodes of a pair share.

        Both answers are int64 [any] and sorted: the place of the pair in `pairs`, and the node.
        The order of a pair's ends does not matter. Besides the answer, memory is bounded whatever
        the degrees: the neighbours of the end that has fewer are looked up, some at a time.

        Args:
            pairs: Node numbers, int64 [2, p].
        """
        degrees = self.degree.index_select(0, pairs.flatten()).view(2, -1)
        is_first = degrees[0] <= degrees[1]
        small, large = pairs[0].where(is_first, pairs[1]), pairs[1].where(is_first, pairs[0])
        places, nodes = [pairs.new_empty(0)], [pairs.new_empty(0)]
        budget = _GPU_BUDGET if pairs.is_cuda else _BUDGET
        for block in blocks_of(degrees.amin(dim=0).cpu().numpy(), budget):
            place, node = self.neighbours(small[block])
            is_shared = self.contains(large[block].index_select(0, place), node)
            found = is_shared.nonzero().squeeze(1)
            places.append(place.index_select(0, found) + block.start)
            nodes.append(node.index_select(0, found))
        return torch.cat(places), torch.cat(nodes)

    def to_scipy(self, values: npt.NDArray[np.float64] | None = None) -> csr_array:
        """Return scipy's matrix of these entries, float64; ones if no values are given."""
        from scipy.sparse import csr_array

        indptr, indices = self._arrays
        data = np.ones(indices.size) if values is None else values
        return csr_array((data, indices, indptr), shape=(self.num_rows, self.num_columns))

    def to_torch(self, values: Tensor) -> Tensor:
        """Return torch's sparse matrix with these values, [e]."""
        shape = (self.num_rows, self.num_columns)
        with warnings.catch_warnings():
            # torch says once that these tensors are young; what is used of them is tested here.
            warnings.filterwarnings("ignore", message="Sparse (CSR|invariant)")
            return torch.sparse_csr_tensor(
                self.indptr, self.indices, values, shape, check_invariants=False
            )


def _sorted(codes: Tensor) -> Tensor:
    if codes.device.type == "cpu":  # four times as fast as torch, which finds the order, too
        return torch.from_numpy(np.sort(codes.numpy()))
    return codes.sort().values


def ranges(start: Numbers, size: Numbers) -> tuple[Numbers, Numbers]:
    """Return all places of many stretches: which stretch each belongs to, and the place.

    Args:
        start: Where each stretch begins.
        size: How many places it has.

    Example:
        >>> which, places = ranges(np.array([10, 50]), np.array([2, 3]))
        >>> which.tolist(), places.tolist()
        ([0, 0, 1, 1, 1], [10, 11, 50, 51, 52])
    """
    which = np.repeat(np.arange(size.size), size)
    return which, np.arange(which.size) + (start - (np.cumsum(size) - size))[which]


def blocks_of(costs: Numbers, budget: int, most: int | None = None) -> Iterator[slice]:
    """Yield slices that together cover all places, the costs of each within the budget.

    A place that costs more than the budget comes alone.

    Args:
        costs: What each place costs.
        budget: What a slice may cost.
        most: How many places a slice may have; None for any number.

    Example:
        >>> list(blocks_of(np.array([3, 3, 9, 1]), 6))
        [slice(0, 2, None), slice(2, 3, None), slice(3, 4, None)]
    """
    totals, start = np.cumsum(costs), 0
    while start < totals.size:
        spent = int(totals[start - 1]) if start else 0
        stop = max(int(np.searchsorted(totals, spent + budget, side="right")), start + 1)
        stop = min(stop, start + most) if most else stop
        yield slice(start, stop)
        start = stop


def connected_components(edges: Numbers, num_nodes: int) -> Numbers:
    """Return a number for each node that is the same within a connected piece, [n].

    Pieces are numbered from 0 in the order of their first nodes.

    Args:
        edges: The two ends of each link, either way round, [2, m].
        num_nodes: Number of nodes.

    Example:
        >>> connected_components(np.array([[3, 1], [1, 4]]), 5).tolist()
        [0, 1, 2, 1, 1]
    """
    # Not scipy's, with which a test compares it: every training asks this for its report, and
    # would wait a quarter of a second for scipy alone.
    # Each node points to one of its piece that is not above it; those that point to themselves
    # stand for all that lead to them. Two rounds at least halve their number in a piece.
    root = np.arange(num_nodes)
    low, high = edges
    while low.size:
        one, other = root[low], root[high]
        apart = one != other
        low, high, one, other = low[apart], high[apart], one[apart], other[apart]
        np.minimum.at(root, np.maximum(one, other), np.minimum(one, other))
        while not np.array_equal(root, further := root[root]):
            root = further
    number = np.cumsum(root == np.arange(num_nodes)) - 1
    return number[root]


def two_sides(
    edges: Numbers, num_nodes: int
) -> tuple[Numbers, npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Divide nodes so that every link goes across, as far as there is such a division.

    Every node gets two copies, and every link a - b joins a's first to b's second copy and the
    other way round. A piece with a ring of odd length is then connected with its own copy; any
    other one falls into two, which are the two ways of dividing it.

    Args:
        edges: The two ends of each link, either way round, [2, m].
        num_nodes: Number of nodes.

    Returns:
        For each node the number of its piece, below twice the nodes; its side, the first node of a
        piece on the first; and whether a ring of odd length is in its piece.

    Example:
        >>> [found.tolist() for found in two_sides(np.array([[0, 1], [1, 2]]), 4)]
        [[0, 0, 0, 2], [False, True, False, False], [False, False, False, False]]
    """
    low, high = edges
    crossed = np.stack([np.concatenate([low, high]), np.concatenate([high, low]) + num_nodes])
    copies = connected_components(crossed, 2 * num_nodes).reshape(2, -1)
    piece = copies.min(axis=0)
    return piece, copies[0] != piece, copies[0] == copies[1]
