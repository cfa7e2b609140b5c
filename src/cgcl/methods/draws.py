"""What chance decides in one epoch of CGCL: the two views and the counter-examples."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from cgcl.methods.cgcl_settings import CGCLSettings
from cgcl.methods.method import Epoch, Known
from cgcl.model import View, Views, draw_views
from cgcl.split import UnlinkedPairs

__all__ = ["Draw", "draw"]


@dataclass(frozen=True, eq=False)
class Draw:
    """The random choices of one epoch, made before anything is computed."""

    views: Views
    negatives: list[Tensor]
    """For each turn of the views as many unlinked pairs as there are links to reconstruct."""


def draw(known: Known, epoch: Epoch, settings: CGCLSettings) -> Draw:
    """Return what chance decides in an epoch; the same epoch always gives the same draw.

    Args:
        known: The training links.
        epoch: Which epoch it is.
        settings: Says how views are drawn and what counter-examples avoid.

    Raises:
        SplitError: Every pair of nodes is linked, so there are no counter-examples.
    """
    views = draw_views(known.links, settings.views, epoch.stream("views", known.device))
    generator = epoch.stream("negatives", known.device)
    negatives = [
        _avoiding(hidden, known, settings).draw(hidden.num_pairs, generator)
        for _, hidden in views.turns()
    ]
    return Draw(views, negatives)


def _avoiding(hidden: View, known: Known, settings: CGCLSettings) -> UnlinkedPairs:
    if settings.negatives == "train":
        return known.unlinked
    return UnlinkedPairs(hidden.pairs, known.num_nodes, known.sides)
