"""Common neighbours: two nodes that know the same nodes will know each other."""

from __future__ import annotations

import numpy as np

from cgcl.methods.heuristic import Heuristic
from cgcl.methods.method import Method
from cgcl.methods.settings import MethodSettings
from cgcl.methods.shared_neighbours import Numbers, SharedNeighbours, Sums

__all__ = ["METHOD", "CommonNeighbours"]


class CommonNeighbours(SharedNeighbours):
    r"""Counts the neighbours that two nodes share: $|N(u) \cap N(v)|$.

    Example:
        >>> import torch
        >>> square = torch.tensor([[0, 1, 2, 0], [1, 2, 3, 3]])  # 0 - 1 - 2 - 3 - 0
        >>> CommonNeighbours(square, 4).values(torch.tensor([[0, 0], [2, 1]]))
        array([2., 0.])
    """

    def weight_of(self, degree: Numbers) -> Sums:
        """Return 1 for every node."""
        return np.ones(len(degree))


METHOD = Method(
    title="Common neighbours",
    settings=MethodSettings,
    build=lambda _features, _settings: Heuristic(
        lambda known: CommonNeighbours(known.links, known.num_nodes)
    ),
    needs_features=False,
    works_across_sides=False,
)
