"""Rooted PageRank: how often a walker that keeps coming home to one node is at the other."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from cgcl.methods.heuristic import Heuristic
from cgcl.methods.method import Method
from cgcl.methods.settings import MethodSettings
from cgcl.methods.shared_neighbours import Numbers, Sums
from cgcl.methods.spreading import Spreading
from cgcl.settings import Range

__all__ = ["METHOD", "PageRank", "PageRankSettings"]


@dataclass(frozen=True)
class PageRankSettings(MethodSettings):
    """The settings of rooted PageRank."""

    alpha: float = 0.15
    """Chance of the walker to go home instead of taking a step."""
    tolerance: float = 1e-4
    """Share of walks that may be cut short; it decides how many steps are followed."""

    RANGES: ClassVar[Mapping[str, Range]] = {
        "alpha": Range(low=0.01, high=0.99),
        "tolerance": Range(low=1e-12, below=1),
    }


class PageRank(Spreading):
    r"""Adds the rank of each end as seen from the other: $\pi_u(v) + \pi_v(u)$.

    $\pi_u$ is the fixed point of $\pi = \alpha e_u + (1 - \alpha) P \pi$, where P moves the
    walker to a neighbour, each as likely as the others. Who has no neighbour stays.

    Page and others, "The PageRank citation ranking", 1999; for links,
    Liben-Nowell and Kleinberg, "The link-prediction problem for social networks", 2007.

    A walk is as likely as the same walk backwards but for the degrees of its two ends, so
    $\pi_v(u) = \pi_u(v) \, d_u / d_v$, and one spread gives both summands.

    Example:
        >>> import torch
        >>> link = torch.tensor([[0], [1]])  # seen from either end, the other's rank is 1/3
        >>> PageRank(link, 2, PageRankSettings(alpha=0.5, tolerance=1e-9)).values(link).round(6)
        array([0.666667])
    """

    def __init__(self, links: Tensor, num_nodes: int, settings: PageRankSettings) -> None:
        """Lay out the links.

        Args:
            links: Each link once in any direction, int64 [2, m].
            num_nodes: Number of nodes, isolated ones included.
            settings: How often the walker goes home, and how long it is followed.
        """
        # After k steps, walks of a weight of (1 - alpha)^k have not come home yet.
        steps = math.ceil(math.log(settings.tolerance) / math.log(1 - settings.alpha))
        # A link to itself, which has both ends there, keeps the walker.
        links = links.cpu()
        alone = (links.flatten().bincount(minlength=num_nodes) == 0).nonzero().T
        super().__init__(torch.cat([links, alone.expand(2, -1)], dim=1), num_nodes, steps)
        self._alpha = settings.alpha

    def spread(self, sources: Numbers) -> Sums:
        r"""Return $\pi_u(v) / d_v$ for every node v, float64 [n, s]: a column for each source u."""
        columns = np.arange(sources.size)
        scale = ((1 - self._alpha) / self.degree)[:, None]  # [n, 1]
        at_home = self._alpha / self.degree[sources]
        ranks = np.zeros((self.num_nodes, sources.size))
        ranks[sources, columns] = 1 / self.degree[sources]
        for _ in range(self.steps):
            ranks = self.step(ranks)
            ranks *= scale
            ranks[sources, columns] += at_home
        return ranks

    def between(self, source: Numbers, target: Numbers, reached: Sums) -> Sums:
        r"""Return $(d_u + d_v) \, \pi_u(v) / d_v$ for each pair, float64 [p]."""
        return (self.degree[source] + self.degree[target]) * reached

    @property
    def nothing(self) -> float:
        """A rank too small for any walk to matter."""
        return 1e-20


METHOD = Method(
    title="Rooted PageRank",
    settings=PageRankSettings,
    build=lambda _features, settings: Heuristic(
        lambda known: PageRank(known.links, known.num_nodes, settings)
    ),
    needs_features=False,
    search={"alpha": (0.05, 0.15, 0.3, 0.5)},
)
