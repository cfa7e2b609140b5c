"""Katz: two nodes are near if many walks lead from one to the other, short ones counting most."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from torch import Tensor

from cgcl.methods.heuristic import Heuristic
from cgcl.methods.method import Method
from cgcl.methods.settings import MethodSettings
from cgcl.methods.shared_neighbours import Numbers, Sums
from cgcl.methods.spreading import Spreading
from cgcl.settings import Range

__all__ = ["METHOD", "Katz", "KatzSettings"]

# Up to here float64 counts without rounding.
_EXACT = 2.0**53


@dataclass(frozen=True)
class KatzSettings(MethodSettings):
    """The settings of Katz."""

    beta: float = 0.005
    """What a walk counts for each of its steps."""
    length: int = 6
    """Steps of the longest walks that count."""

    # Within these, no power of beta and no number of walks leaves the range of float64.
    RANGES: ClassVar[Mapping[str, Range]] = {
        "beta": Range(low=1e-6, high=1),
        "length": Range(low=1, high=20),
    }


class Katz(Spreading):
    r"""Counts walks between two nodes: $\sum_{l=1}^{L} \beta^l (A^l)_{uv}$.

    Katz, "A new status index derived from sociometric analysis", 1953. There is one difference:
    walks are counted up to a length, not without end, so beta need not be small enough for that
    sum to exist.

    Example:
        >>> import torch
        >>> square = torch.tensor([[0, 1, 2, 0], [1, 2, 3, 3]])  # 0 - 1 - 2 - 3 - 0
        >>> katz = Katz(square, 4, KatzSettings(beta=0.1, length=3))
        >>> katz.values(torch.tensor([[0, 0], [2, 1]]))  # 2 of 2 steps; 1 of 1 and 4 of 3 steps
        array([0.02 , 0.104])
    """

    def __init__(self, links: Tensor, num_nodes: int, settings: KatzSettings) -> None:
        """Lay out the links.

        Args:
            links: Each link once in any direction, int64 [2, m].
            num_nodes: Number of nodes, isolated ones included.
            settings: Which walks count how much.
        """
        super().__init__(links, num_nodes, settings.length)
        self._weights = settings.beta ** np.arange(1, settings.length + 1)  # beta^l
        walks = np.ones(num_nodes)
        for _ in range(settings.length):
            walks = self.step(walks)
        self._is_exact = float(walks.max(initial=0)) < _EXACT

    def spread(self, sources: Numbers) -> Sums:
        """Return the weighted number of walks to every node, float64 [n, s]."""
        walks = np.zeros((self.num_nodes, sources.size))
        walks[sources, np.arange(sources.size)] = 1  # A^0
        total = np.zeros_like(walks)
        for weight in self._weights:
            walks = self.step(walks)
            total += weight * walks
        return total

    @property
    def nothing(self) -> float:
        """A tenth of what a single walk of the full length counts."""
        return 0.1 * float(self._weights[-1])

    @property
    def rounding(self) -> float:
        """0 while walks are counted exactly: then there are as many to as fro, to the last bit."""
        return 0.0 if self._is_exact else super().rounding


METHOD = Method(
    title="Katz",
    settings=KatzSettings,
    build=lambda _features, settings: Heuristic(
        lambda known: Katz(known.links, known.num_nodes, settings)
    ),
    needs_features=False,
    search={"beta": (0.0005, 0.005, 0.05, 0.2), "length": (2, 3, 4, 6)},
)
