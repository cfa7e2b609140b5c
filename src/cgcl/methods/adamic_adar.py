"""Adamic-Adar: shared neighbours, of which those with few links say more."""

from __future__ import annotations

import numpy as np

from cgcl.methods.heuristic import Heuristic
from cgcl.methods.method import Method
from cgcl.methods.settings import MethodSettings
from cgcl.methods.shared_neighbours import Numbers, SharedNeighbours, Sums

__all__ = ["METHOD", "AdamicAdar"]


class AdamicAdar(SharedNeighbours):
    r"""Sums over shared neighbours, hubs counting less: $\sum_{w} 1 / \log |N(w)|$.

    Example:
        >>> import torch
        >>> square = torch.tensor([[0, 1, 2, 0], [1, 2, 3, 3]])  # 0 - 1 - 2 - 3 - 0
        >>> AdamicAdar(square, 4).values(torch.tensor([[0, 0], [2, 1]])).round(3)  # 2 / log 2
        array([2.885, 0.   ])
    """

    def weight_of(self, degree: Numbers) -> Sums:
        """Return 1 / log of the number of links."""
        # What two nodes share has two links at least; log 1 = 0 is never asked for.
        return np.where(degree >= 2, 1 / np.log(np.maximum(degree, 2)), 0.0)


METHOD = Method(
    title="Adamic-Adar",
    settings=MethodSettings,
    build=lambda _features, _settings: Heuristic(
        lambda known: AdamicAdar(known.links, known.num_nodes)
    ),
    needs_features=False,
    works_across_sides=False,
)
