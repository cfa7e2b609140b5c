"""What chance decides in one epoch: the two views and the counter-examples."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cgcl.model import View, Views, draw_views
from cgcl.seeds import stream
from cgcl.split import UnlinkedPairs
from cgcl.train.config import TrainConfig

__all__ = ["Draw", "Drawer"]


@dataclass(frozen=True, eq=False)
class Draw:
    """The random choices of one epoch, made before anything is computed."""

    views: Views
    negatives: list[Tensor]
    """For each turn of the views as many unlinked pairs as there are links to reconstruct."""


class Drawer:
    """Draws views and counter-examples; the same epoch always gives the same draw."""

    def __init__(
        self, links: Tensor, num_nodes: int, config: TrainConfig, sides: Tensor | None = None
    ) -> None:
        """Prepare to draw from the training links.

        Args:
            links: Training links, each once, int64 [2, m], on the device to compute on.
            num_nodes: Number of nodes.
            config: Says how views are drawn and what counter-examples avoid.
            sides: The side of every node of a bipartite graph, bool [n], or None.
        """
        self._links = links
        self._num_nodes = num_nodes
        self._sides = sides
        self._config = config
        # Only the training links: avoiding held-out links too would tell which pairs they are.
        self._unlinked = UnlinkedPairs(links, num_nodes, sides)

    def draw(self, epoch: int) -> Draw:
        """Return what chance decides in `epoch`.

        Raises:
            SplitError: Every pair of nodes is linked, so there are no counter-examples.
        """
        views = draw_views(self._links, self._config.views, self._stream("views", epoch))
        generator = self._stream("negatives", epoch)
        negatives = [
            self._avoiding(hidden).draw(hidden.num_pairs, generator) for _, hidden in views.turns()
        ]
        return Draw(views, negatives)

    def _avoiding(self, hidden: View) -> UnlinkedPairs:
        if self._config.negatives == "train":
            return self._unlinked
        return UnlinkedPairs(hidden.pairs, self._num_nodes, self._sides)

    def _stream(self, purpose: str, epoch: int) -> torch.Generator:
        return stream(self._config.seed, purpose, epoch, self._links.device)
