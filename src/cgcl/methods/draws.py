"""What chance decides in one epoch of CGCL: the two views and the counter-examples."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from cgcl.coins import base_key, epoch_key, words, words_below
from cgcl.methods.cgcl_settings import CGCLSettings
from cgcl.methods.method import Epoch, Known
from cgcl.model import View, Views, divide
from cgcl.split import UnlinkedPairs

__all__ = ["NEGATIVES", "VIEWS", "Draw", "draw", "tossed", "view_key"]

VIEWS = "views"
"""The purpose of the coins that divide the links."""
NEGATIVES = ("negatives 1", "negatives 2")
"""The purpose of the counter-examples of each turn."""


@dataclass(frozen=True, eq=False)
class Draw:
    """The random choices of one epoch, made before anything is computed."""

    views: Views
    negatives: list[Tensor]
    """For each turn of the views as many unlinked pairs as there are links to reconstruct."""


def draw(known: Known, epoch: Epoch, settings: CGCLSettings) -> Draw:
    """Return what chance decides in an epoch; the same epoch always gives the same draw.

    The coin of a link is a hash of seed, epoch and the link's two ends, and so are the
    counter-examples: every engine, device and worker draws the same.

    Args:
        known: The training links.
        epoch: Which epoch it is.
        settings: Says how views are drawn and what counter-examples avoid.

    Raises:
        SplitError: Every pair of nodes is linked, so there are no counter-examples.
    """
    views = divide(known.links, settings.views, *tossed(known.links, epoch, settings.seen))
    negatives = [
        _avoiding(hidden, known, settings).draw_hashed(hidden.num_pairs, _key(epoch, purpose))
        for (_, hidden), purpose in zip(views.turns(), NEGATIVES, strict=False)
    ]
    return Draw(views, negatives)


def tossed(links: Tensor, epoch: Epoch, seen: float = 0.5) -> tuple[Tensor, Tensor]:
    """Return a coin for each direction of each link, bool [m] there and bool [m] back.

    Args:
        links: Each link once, int64 [2, m].
        epoch: Which epoch it is.
        seen: Chance of a coin to be True.
    """
    key, (low, high) = view_key(epoch), links
    limit = words_below(seen)
    return words(key, low, high) < limit, words(key, high, low) < limit


def view_key(epoch: Epoch) -> int:
    """Return the key of the coins that divide the links."""
    return _key(epoch, VIEWS)


def _key(epoch: Epoch, purpose: str) -> int:
    return epoch_key(base_key(epoch.seed, purpose), epoch.number)


def _avoiding(hidden: View, known: Known, settings: CGCLSettings) -> UnlinkedPairs:
    if settings.negatives == "train":
        return known.unlinked
    return UnlinkedPairs(hidden.pairs, known.num_nodes, known.sides)
