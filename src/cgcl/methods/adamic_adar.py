"""Adamic-Adar: shared neighbours, of which those with few links say more."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from cgcl.methods.shared_neighbours import Neighbourhoods, as_logits

__all__ = ["AdamicAdar"]


class AdamicAdar:
    r"""Sums over shared neighbours, hubs counting less: $\sum_{w} 1 / \log |N(w)|$.

    Example:
        >>> import torch
        >>> square = torch.tensor([[0, 1, 2, 0], [1, 2, 3, 3]])  # 0 - 1 - 2 - 3 - 0
        >>> AdamicAdar(square, 4).values(torch.tensor([[0, 0], [2, 1]])).round(3)  # 2 / log 2
        array([2.885, 0.   ])
    """

    def __init__(self, links: Tensor, num_nodes: int) -> None:
        """Take the links to sum over.

        Args:
            links: Each link once in any direction, int64 [2, m].
            num_nodes: Number of nodes, isolated ones included.
        """
        self.num_nodes = num_nodes
        self._neighbourhoods = Neighbourhoods(links, num_nodes)
        degree = self._neighbourhoods.degree
        # What two nodes share has two links at least; log 1 = 0 is never asked for.
        self._weight = np.where(degree >= 2, 1 / np.log(np.maximum(degree, 2)), 0.0)

    def values(self, pairs: Tensor) -> np.ndarray:
        """Return the sum of each pair, float64 [p]."""
        return self._neighbourhoods.shared(pairs, self._weight)

    @property
    def cost_per_pair(self) -> float:
        """About how many operations one pair takes when all pairs are scored."""
        return self._neighbourhoods.cost_per_pair

    def logits(self, pairs: Tensor) -> Tensor:
        """Return the logarithm of each pair's sum, float32 [p]; a finite floor for no sum."""
        return as_logits(self.values(pairs))

    def factors(self) -> None:
        """There are none: the sum is no function of one vector per node."""
        return
