"""The connected pieces of a graph."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["connected_components"]


def connected_components(edges: npt.NDArray[np.int64], num_nodes: int) -> npt.NDArray[np.int64]:
    """Return a number for each node that is the same within a connected piece, [n].

    Pieces are numbered from 0 in the order of their first nodes.

    Args:
        edges: The two ends of each link, either way round, [2, m].
        num_nodes: Number of nodes.

    Example:
        >>> connected_components(np.array([[3, 1], [1, 4]]), 5).tolist()
        [0, 1, 2, 1, 1]
    """
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
