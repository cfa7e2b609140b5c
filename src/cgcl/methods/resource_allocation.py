"""Resource allocation: shared neighbours, each of which gives its links an equal part of itself."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from cgcl.methods.heuristic import Heuristic
from cgcl.methods.method import Method
from cgcl.methods.settings import MethodSettings
from cgcl.methods.shared_neighbours import Numbers, SharedNeighbours, Sums

__all__ = ["METHOD", "ResourceAllocation"]


class ResourceAllocation(SharedNeighbours):
    r"""Sums over shared neighbours, hubs counting far less: $\sum_{w} 1 / |N(w)|$.

    Zhou, Lü and Zhang, "Predicting missing links via local information", 2009.

    Example:
        >>> import torch
        >>> square = torch.tensor([[0, 1, 2, 0], [1, 2, 3, 3]])  # 0 - 1 - 2 - 3 - 0
        >>> ResourceAllocation(square, 4).values(torch.tensor([[0, 0], [2, 1]]))  # 2 / 2
        array([1., 0.])
    """

    # A shared neighbour with a million links still counts.
    nothing: ClassVar[float] = 1e-9

    def weight_of(self, degree: Numbers) -> Sums:
        """Return 1 / the number of links."""
        return np.where(degree >= 1, 1 / np.maximum(degree, 1), 0.0)


METHOD = Method(
    title="Resource allocation",
    settings=MethodSettings,
    build=lambda _features, _settings: Heuristic(
        lambda known: ResourceAllocation(known.links, known.num_nodes)
    ),
    needs_features=False,
    works_across_sides=False,
)
