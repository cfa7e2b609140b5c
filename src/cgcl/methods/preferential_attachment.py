"""Preferential attachment: who has many links gets the next one, too."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from cgcl.methods.heuristic import Heuristic
from cgcl.methods.method import Method
from cgcl.methods.settings import MethodSettings
from cgcl.methods.shared_neighbours import Sums, as_logits

__all__ = ["METHOD", "PreferentialAttachment"]

# Two numbers looked up and a logarithm; measured: 1.6e8 pairs a second.
_OPERATIONS = 250.0
# What no link at one end counts, where one link at each end counts 1.
_NO_LINK = 0.1


class PreferentialAttachment:
    r"""Multiplies the numbers of links at the two ends: $|N(u)| \cdot |N(v)|$.

    Barabási and Albert, "Emergence of scaling in random networks", 1999.

    Example:
        >>> star = torch.tensor([[0, 0, 0], [1, 2, 3]])
        >>> PreferentialAttachment(star, 5).values(torch.tensor([[0, 1, 1], [1, 2, 4]]))
        array([3., 1., 0.])
    """

    cost_per_node = 0.0
    """Every pair is scored by itself."""

    def __init__(self, links: Tensor, num_nodes: int) -> None:
        """Count the links of every node.

        Args:
            links: Each link once in any direction, int64 [2, m].
            num_nodes: Number of nodes, isolated ones included.
        """
        self.num_nodes = num_nodes
        self._num_links = links.shape[1]
        degree = np.bincount(links.cpu().numpy().ravel(), minlength=num_nodes)
        self._degree = degree.astype(np.float64)  # products stay exact up to 2^53

    def values(self, pairs: Tensor) -> Sums:
        """Return the product of each pair, float64 [p]."""
        one, other = pairs.cpu().numpy()
        return self._degree[one] * self._degree[other]

    @property
    def cost_per_pair(self) -> float:
        """About how many operations one pair takes."""
        return _OPERATIONS

    def logits(self, pairs: Tensor) -> Tensor:
        r"""Return $\log(|N(u)| \cdot |N(v)| / 2m)$, float32 [p]; a finite floor for no links.

        So a score's odds are the number of links to expect between the two ends if all m links
        were laid anew at random and every node kept as many as it has.
        """
        ends = max(2 * self._num_links, 1)
        return as_logits(self.values(pairs) / ends, nothing=_NO_LINK / ends)

    def factors(self) -> tuple[Tensor, Tensor]:
        """Return the numbers of links, float32 [n, 1], twice: their product is the score."""
        degree = torch.from_numpy(self._degree).float()[:, None]
        return degree, degree


METHOD = Method(
    title="Preferential attachment",
    settings=MethodSettings,
    build=lambda _features, _settings: Heuristic(
        lambda known: PreferentialAttachment(known.links, known.num_nodes)
    ),
    needs_features=False,
    # In groups whose nodes have about as many links each, the numbers of links tell nothing.
    exceptions=frozenset({"check_learns_planted_partition"}),
)
