"""Of a long stream of scored pairs, all the best and a fair sample of the others."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Kept", "Reservoir"]


@dataclass(frozen=True, eq=False)
class Kept:
    """Pairs, their logits, and how many pairs each of them stands for."""

    pairs: Tensor
    """int64 [2, k]."""
    logits: Tensor
    """float32 [k]."""
    weights: Tensor
    """float64 [k]."""


class Reservoir:
    """Keeps the best pairs that are offered, and about as many random ones of the others.

    The highest scores decide how probable a suggestion is, and are too rare for a uniform sample.
    Memory is bounded by what is kept, whatever is offered.
    """

    def __init__(self, size: int, expected: int, generator: torch.Generator) -> None:
        """Remember how much to keep.

        Args:
            size: Twice as many pairs are kept, half of them for their scores.
            expected: How many pairs will be offered; if no more than are kept, all stay.
            generator: Source of the coins, on the CPU.
        """
        self._size = expected if expected <= 2 * size else size
        self._chance = size / max(expected, 1)
        self._generator = generator
        self._offered = 0
        self._edge = -torch.inf
        # Rows: place in the stream, first node, second node.
        self._best = torch.empty(3, 0, dtype=torch.int64), torch.empty(0)
        self._random = [self._best]

    def offer(self, pairs: Tensor, logits: Tensor) -> None:
        """Look at some pairs, int64 [2, p], and their logits, [p]."""
        count = logits.numel()
        places = torch.arange(self._offered, self._offered + count)
        self._offered += count
        rows = torch.cat([places[None], pairs])
        lucky = torch.rand(count, generator=self._generator) < self._chance
        self._random.append((rows[:, lucky], logits[lucky]))
        # Equals of the last that is kept need not replace it.
        better = logits > self._edge
        self._best = (
            torch.cat([self._best[0], rows[:, better]], dim=1),
            torch.cat([self._best[1], logits[better]]),
        )
        if self._best[1].numel() > 2 * self._size:
            self._drop()

    def kept(self, total: float) -> Kept:
        """Return what was kept, with weights that add up to `total`."""
        self._drop()
        best_rows, best_logits = self._best
        rows = torch.cat([row for row, _ in self._random], dim=1)
        logits = torch.cat([logit for _, logit in self._random])
        outside = ~torch.isin(rows[0], best_rows[0])
        rows, logits = rows[:, outside], logits[outside]
        others = self._offered - best_logits.numel()
        weights = torch.ones(best_logits.numel() + logits.numel(), dtype=torch.float64)
        weights[best_logits.numel() :] = others / max(logits.numel(), 1)
        return Kept(
            torch.cat([best_rows, rows], dim=1)[1:],
            torch.cat([best_logits, logits]),
            weights * (total / max(self._offered, 1)),
        )

    def _drop(self) -> None:
        """Let go of all but the best."""
        rows, logits = self._best
        if logits.numel() > self._size:
            values, order = logits.topk(self._size)
            self._best = rows.index_select(1, order), values
            self._edge = float(values[-1])
