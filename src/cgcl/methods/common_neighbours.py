"""Common neighbours: two nodes that know the same nodes will know each other."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from cgcl.methods.shared_neighbours import Neighbourhoods, as_logits

__all__ = ["CommonNeighbours"]


class CommonNeighbours:
    r"""Counts the neighbours that two nodes share: $|N(u) \cap N(v)|$.

    Example:
        >>> import torch
        >>> square = torch.tensor([[0, 1, 2, 0], [1, 2, 3, 3]])  # 0 - 1 - 2 - 3 - 0
        >>> CommonNeighbours(square, 4).values(torch.tensor([[0, 0], [2, 1]]))
        array([2., 0.])
    """

    def __init__(self, links: Tensor, num_nodes: int) -> None:
        """Take the links to count by.

        Args:
            links: Each link once in any direction, int64 [2, m].
            num_nodes: Number of nodes, isolated ones included.
        """
        self.num_nodes = num_nodes
        self._neighbourhoods = Neighbourhoods(links, num_nodes)
        self._weight = np.ones(num_nodes)

    def values(self, pairs: Tensor) -> np.ndarray:
        """Return the number of shared neighbours of each pair, float64 [p]."""
        return self._neighbourhoods.shared(pairs, self._weight)

    @property
    def cost_per_pair(self) -> float:
        """About how many operations one pair takes when all pairs are scored."""
        return self._neighbourhoods.cost_per_pair

    def logits(self, pairs: Tensor) -> Tensor:
        """Return the logarithm of each pair's number, float32 [p]; a finite floor for none."""
        return as_logits(self.values(pairs))

    def factors(self) -> None:
        """There are none: the count is no function of one vector per node."""
        return
