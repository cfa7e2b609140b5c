"""The best pairs seen so far, in bounded memory, equal ones in the order of names."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

__all__ = ["Best", "NameOrder"]

# How many pairs may wait before the best of them are chosen; 2^18 take 6 MB.
_WAITING = 2**18


class NameOrder:
    """Sorts pairs by the names of their ends, by code points: first ends first.

    Only the names that occur are compared, unless most do.
    """

    def __init__(self, names: Sequence[str]) -> None:
        """Remember the names, in node order."""
        self._names = names

    def order(self, pairs: Tensor) -> Tensor:
        """Return the permutation that sorts `pairs`, int64 [p]."""
        present, place = torch.unique(pairs, return_inverse=True)
        if 4 * present.numel() > len(self._names):
            rank = self._rank[present]
        else:
            rank = _rank([self._names[node] for node in present.tolist()])
        first, second = rank[place]
        return (first * len(self._names) + second).argsort()

    @cached_property
    def _rank(self) -> Tensor:
        return _rank(self._names)


def _rank(names: Sequence[str]) -> Tensor:
    """Return the place of each name when they are sorted."""
    order = sorted(range(len(names)), key=names.__getitem__)
    rank = torch.empty(len(names), dtype=torch.int64)
    rank[torch.tensor(order, dtype=torch.int64)] = torch.arange(len(names))
    return rank


class Best:
    """Keeps the pairs with the highest logits; of equal ones those that come first by name."""

    def __init__(self, count: int | None, names: Sequence[str]) -> None:
        """Start with nothing.

        Args:
            count: How many to keep; None for all.
            names: The name of every node, for ties.
        """
        self.count = count
        self._by_name = NameOrder(names)
        self._pairs: list[Tensor] = []
        self._logits: list[Tensor] = []
        self._size = 0
        self._edge = -torch.inf
        self._next_cut = count or 0

    def edge(self) -> float:
        """Return a logit below which nothing is taken any more; minus infinity for none."""
        # Not for every pair: to choose among many costs more than it saves.
        if self.count is not None and self._size >= self._next_cut:
            self._cut(self.count)
        return self._edge

    def add(self, pairs: Tensor, logits: Tensor) -> None:
        """Take the best of some more pairs, int64 [2, p] and float [p]; no pair may come twice."""
        near = logits >= self._edge
        self._pairs.append(pairs[:, near])
        self._logits.append(logits[near])
        self._size += self._pairs[-1].shape[1]
        if self.count is not None and self._size > 2 * self.count + _WAITING:
            self._cut(self.count)

    def sorted(self) -> tuple[Tensor, Tensor]:
        """Return pairs [2, k] and logits [k], highest first, equal ones in the order of names."""
        if self.count is not None and self._size > self.count:
            self._cut(self.count)
        pairs, logits = self._joined()
        by_name = self._by_name.order(pairs)
        order = by_name[logits[by_name].argsort(descending=True, stable=True)]
        return pairs[:, order], logits[order]

    def _cut(self, count: int) -> None:
        """Forget all but the best `count`."""
        pairs, logits = self._joined()
        self._edge = float(logits.topk(count).values[-1])
        above = (logits > self._edge).nonzero().squeeze(1)
        tied = (logits == self._edge).nonzero().squeeze(1)
        if above.numel() + tied.numel() > count:  # only then do names matter
            tied = tied[self._by_name.order(pairs[:, tied])][: count - above.numel()]
        kept = torch.cat([above, tied])
        self._pairs, self._logits, self._size = [pairs[:, kept]], [logits[kept]], count
        self._next_cut = count + count // 8 + 1

    def _joined(self) -> tuple[Tensor, Tensor]:
        if not self._pairs:
            return torch.empty(2, 0, dtype=torch.int64), torch.empty(0)
        return torch.cat(self._pairs, dim=1), torch.cat(self._logits)
