"""Coupled augmentation: two complementary views of the known links."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

ViewKind = Literal["shared", "disjoint", "directed", "own", "one", "all"]


@dataclass(frozen=True, eq=False)
class View:
    """One view of the graph: what is seen when it is encoded, and what it asks to be rebuilt."""

    edge_index: Tensor
    """Messages flow from row 0 to row 1, int64 [2, e]."""
    pairs: Tensor
    """The links that the other view must reconstruct, int64 [2, p]: those of this view, but for
    `own`."""

    @property
    def num_pairs(self) -> int:
        """Number of links to reconstruct."""
        return self.pairs.shape[1]


@dataclass(frozen=True, eq=False)
class Views:
    """The two views $A_1$ and $A_2$ of one epoch."""

    view_1: View
    view_2: View
    both_ways: bool = True
    """Whether each view reconstructs the other, or only the first one the second."""

    def passes(self) -> list[tuple[View, View]]:
        """List (seen, hidden) in the order of Algorithm 1: encode `seen`, reconstruct `hidden`."""
        there, back = (self.view_1, self.view_2), (self.view_2, self.view_1)
        return [there, back] if self.both_ways else [there]


def draw_views(
    edges: Tensor, kind: ViewKind, generator: torch.Generator, seen: float = 0.5
) -> Views:
    """Divide the links into two complementary views by coins.

    The paper's text, its remark on shared pairs and its authors' code describe three schemes:

    - `disjoint`: one coin per pair; the views share no pair, so no target is ever visible.
    - `shared`: one coin per direction of a pair, then both directions are added: half of the
      pairs are in both views ("these two views may share some edge pairs").
    - `directed`: one coin per direction and nothing added, as the authors' code does: half of
      the targets can be seen in the opposite direction.
    - `own`: as `disjoint`, but each view has to reconstruct itself.
    - `one`: as `disjoint`, but only the first view is encoded (the ablation of Table II).
    - `all`: nothing is divided; all links are encoded and all of them are asked for.

    Args:
        edges: The known links, each once, int64 [2, m].
        kind: One of the schemes above.
        generator: Where the coins come from, on the device of `edges`.
        seen: Chance of a coin to put its link into the first view.
    """
    there, back = (
        torch.rand(edges.shape[1], generator=generator, device=edges.device) < seen
        for _ in range(2)
    )
    return divide(edges, kind, there, back)


def divide(edges: Tensor, kind: ViewKind, there: Tensor, back: Tensor) -> Views:
    """Divide the links by coins that are already tossed.

    Args:
        edges: The known links, each once, int64 [2, m].
        kind: One of the schemes of `draw_views`.
        there: A coin per link, for its direction from row 0 to row 1, bool [m].
        back: A coin per link for the other direction; `shared` and `directed` alone look at it.
    """
    if kind == "directed":
        edge_index = symmetric(edges)
        coin = torch.cat([there, back])
        return Views(_directed(edge_index[:, coin]), _directed(edge_index[:, ~coin]))
    if kind == "all":
        return Views(_symmetric(edges), _symmetric(edges), both_ways=False)
    if kind == "shared":
        return Views(_symmetric(edges[:, there | back]), _symmetric(edges[:, ~(there & back)]))
    one, other = _symmetric(edges[:, there]), _symmetric(edges[:, ~there])
    if kind == "own":
        return Views(replace(one, pairs=other.pairs), replace(other, pairs=one.pairs))
    return Views(one, other, kind != "one")


def _directed(entries: Tensor) -> View:
    return View(edge_index=entries, pairs=entries)


def _symmetric(pairs: Tensor) -> View:
    return View(edge_index=symmetric(pairs), pairs=pairs)


def symmetric(pairs: Tensor) -> Tensor:
    """Return both directions of each pair, int64 [2, 2p]."""
    return torch.cat([pairs, pairs.flip(0)], dim=1)
