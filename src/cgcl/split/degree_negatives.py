"""Counter-examples whose ends are as sought-after as those of links."""

from __future__ import annotations

import torch
from torch import Tensor

from cgcl.errors import SplitError
from cgcl.seeds import stream
from cgcl.split.split import Split

__all__ = ["degree_negatives"]

# In a graph where one draw of so many finds an unlinked pair, there are hardly any.
_ROUNDS = 1000


def degree_negatives(split: Split, seed: int = 0) -> Tensor:
    """Draw as many unlinked pairs as there are test links, each end as often as it has links.

    A test link is drawn from all links, so a node is its end as often as it has links in all; a
    pair of random nodes has mostly nodes of few links, and a method that only counts links tells
    the two apart. Here the ends of unlinked pairs are drawn from the ends of all links, as
    Aiyappa and others do ("Implicit degree bias in the link prediction task", arXiv 2405.14985).
    Degrees of training links alone would not do: a node whose only link is a test link would be
    an end of test links and of nothing else.

    Pairs are drawn with replacement, which alone keeps the chance of each end. Self pairs and
    links of any part are left out, and in a two-sided graph a pair has an end on each side.

    Args:
        split: The links; its own counter-examples play no part.
        seed: Decides the draws.

    Returns:
        The pairs with the smaller node first, int64 [2, as many as test links].

    Raises:
        SplitError: There are too few unlinked pairs of nodes that have links.

    Example:
        >>> star = torch.tensor([[0, 0, 0, 0], [1, 2, 3, 4]])  # 0 is linked to all others
        >>> none = star[:, :0]
        >>> pairs = degree_negatives(Split(5, star[:, :2], none, star[:, 2:], none, none))
        >>> pairs.shape, bool((pairs > 0).all())
        (torch.Size([2, 2]), True)
    """
    links = torch.cat([split.train, split.val, split.test], dim=1)
    wanted, generator = split.test.shape[1], stream(seed, "degree negatives")
    linked = links.amin(dim=0) * split.num_nodes + links.amax(dim=0)
    ends = _ends(links, split.sides)
    found = linked[:0]
    for _ in range(_ROUNDS):
        if found.numel() >= wanted:
            break
        one, other = (
            side[torch.randint(side.numel(), (wanted,), generator=generator)] for side in ends
        )
        codes = torch.minimum(one, other) * split.num_nodes + torch.maximum(one, other)
        found = torch.cat([found, codes[(one != other) & ~torch.isin(codes, linked)]])
    if found.numel() < wanted:
        raise SplitError(
            f"Of {_ROUNDS * wanted:,} pairs drawn by their ends' numbers of links, "
            f"{found.numel():,} are not linked; {wanted:,} are needed.\n"
            f"Nearly all nodes that have links are linked to each other. Use a sparser graph, or "
            f"evaluate without `against=degree`."
        )
    found = found[:wanted]
    return torch.stack([found // split.num_nodes, found % split.num_nodes])


def _ends(links: Tensor, sides: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the nodes to draw each end from, every node as often as it has links."""
    flat = links.flatten()
    if sides is None:
        return flat, flat
    there = sides[flat]
    return flat[~there], flat[there]
