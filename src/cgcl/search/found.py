"""What a search found, and how it looked, in plain words."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from cgcl.search.way import Way, in_words

__all__ = ["RECALL_AT", "Account", "Found"]

# How many of a node's best partners the candidates are measured on.
RECALL_AT = 100

_CANDIDATES = {
    "linear": "Candidates by a linearised decoder",
    "two-hop": "Candidates two steps apart",
}


@dataclass(frozen=True, eq=False, kw_only=True)
class Account:
    """How a search looked for the best pairs."""

    way: Way
    """`exact`, `linear` or `two-hop`."""
    pairs_scored: int
    """How many pairs the method scored to find the answer."""
    pairs_possible: int
    """How many pairs could have been the answer."""
    recall: float | None
    """The share of the exact best 100 of sampled nodes that the candidates held, or None."""
    nodes_sampled: int = 0
    """On how many nodes that was measured."""
    hubs_left_out: int = 0
    """How many nodes had too many links to look for pairs through them."""

    @property
    def sentence(self) -> str:
        """The same as a sentence for people."""
        if self.way == "exact":
            if self.pairs_scored == 1:
                return "Exact: the only unlinked pair was scored."
            return f"Exact: all {self.pairs_scored:,} unlinked pairs were scored."
        text = (
            f"{_CANDIDATES[self.way]}, rescored exactly: {in_words(self.pairs_scored)} of "
            f"{in_words(self.pairs_possible)} pairs"
        )
        if self.recall is not None:
            # Rounded down: 100 % is said only where nothing was missed.
            percent = math.floor(1000 * self.recall) / 10
            nodes = "node" if self.nodes_sampled == 1 else "nodes"
            text += (
                f"; on {self.nodes_sampled:,} sampled {nodes} they held {percent:.1f} % of the "
                f"exact best {RECALL_AT}"
            )
        if self.hubs_left_out == 1:
            return f"{text}. The largest hub was not walked through."
        if self.hubs_left_out:
            return f"{text}. The {self.hubs_left_out:,} largest hubs were not walked through."
        return f"{text}."


@dataclass(frozen=True, eq=False, kw_only=True)
class Found(Account):
    """The best pairs, and how they were looked for."""

    pairs: Tensor
    """int64 [2, k], best first, equal logits in the order of names."""
    logits: Tensor
    """float [k]"""
