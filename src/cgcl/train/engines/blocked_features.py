"""Features of which another part is dropped at every step, in the form that is fast."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from cgcl.train.engines.blocked_coins import Coins, draw_words
from cgcl.train.engines.blocked_sparse import CompressedRows, multiply

# A list of entries tosses its coins in rows of so many: a row takes one word of the generator.
_COLUMNS = 1024
# How many entries of dense features toss their coins at once, to stay in the cache.
_CACHED_ENTRIES = 2**19
# Nanoseconds forth and back at d_v = 512: for an entry of a dense product, for one of a sparse
# product, and to find out whether a sparse one is dropped.
_DENSE, _SPARSE, _CHOICE = 13.0, 77.0, 7.0


class Features(Protocol):
    """X, of which another part is dropped at every step."""

    def drop(self, generator: torch.Generator) -> None:
        """Toss the coins of a step."""
        ...

    def times(self, weight: Tensor, out: Tensor) -> None:
        """Write X W, [n, d_v], where X is what the last `drop` left."""
        ...

    def transposed_times(self, h: Tensor, out: Tensor) -> None:
        """Write X^T H, [d, d_v]."""
        ...

    def dropped(self) -> Tensor:
        """Return a copy of X as the last `drop` left it, dense [n, d], to look at."""
        ...


def features_for(x: Tensor, probability: float) -> Features:
    """Return features in the form whose products take less time, once some are dropped.

    Args:
        x: Features, [n, d], dense or coalesced sparse COO.
        probability: Chance of an entry to be dropped.
    """
    if not x.is_sparse:
        share = int(torch.count_nonzero(x)) / max(x.numel(), 1)
        if share * (_SPARSE * (1 - probability) + _CHOICE) > _DENSE:
            return DenseFeatures(x, probability)
        x = x.to_sparse_coo()
    return SparseFeatures(x, probability)


class DenseFeatures:
    """Features few of which are zero."""

    def __init__(self, x: Tensor, probability: float) -> None:
        """Take the features.

        Args:
            x: Dense, [n, d].
            probability: Chance of an entry to be dropped.
        """
        self._x = x
        self._drops = probability > 0
        self._rows = max(1, _CACHED_ENTRIES // max(x.shape[1], 1))
        self._coins = Coins(probability, x.shape[1], self._rows)
        self._left = torch.empty_like(x) if self._drops else x

    def drop(self, generator: torch.Generator) -> None:
        """Toss the coins of a step."""
        if not self._drops:
            return
        words = draw_words(self._x.shape[0], generator)
        blocks = zip(
            words.split(self._rows),
            self._x.split(self._rows),
            self._left.split(self._rows),
            strict=True,
        )
        for block, x, left in blocks:
            self._coins.toss(block, out=left).mul_(x)

    def times(self, weight: Tensor, out: Tensor) -> None:
        """Write X W, [n, d_v]."""
        torch.addmm(out, self._left, weight, beta=0, alpha=self._coins.scale, out=out)

    def transposed_times(self, h: Tensor, out: Tensor) -> None:
        """Write X^T H, [d, d_v]."""
        torch.addmm(out, self._left.t(), h, beta=0, alpha=self._coins.scale, out=out)

    def dropped(self) -> Tensor:
        """Return a copy of X as the last `drop` left it, dense [n, d], to look at."""
        return self._left * self._coins.scale


class SparseFeatures:
    """Features most of which are zero: by rows and, for the way back, by columns."""

    def __init__(self, x: Tensor, probability: float) -> None:
        """Take the features.

        Args:
            x: Coalesced sparse COO, [n, d].
            probability: Chance of an entry to be dropped.
        """
        row, column = x.indices()
        self._drops = probability > 0
        self._rows = -(-column.numel() // _COLUMNS)
        self._coins = Coins(probability, _COLUMNS, self._rows if self._drops else 0)
        values = x.values() * self._coins.scale
        num_nodes, num_features = x.shape
        self._by_row = CompressedRows.from_sorted(row, column, values, (num_nodes, num_features))
        column, order = column.sort(stable=True)
        self._by_column = CompressedRows.from_sorted(
            column,
            row.index_select(0, order),
            values.index_select(0, order),
            (num_features, num_nodes),
        )
        self._order = order.to(self._by_row.starts.dtype)
        self._forth, self._back = self._by_row.tensor(), self._by_column.tensor()

    def drop(self, generator: torch.Generator) -> None:
        """Toss the coins of a step."""
        if not self._drops:
            return
        kept = torch.empty(self._rows, _COLUMNS, dtype=torch.bool)
        self._coins.toss(draw_words(self._rows, generator), out=kept)
        kept = kept.view(-1)[: self._order.numel()]
        self._forth = self._by_row.only(kept).tensor()
        self._back = self._by_column.only(kept.index_select(0, self._order)).tensor()

    def times(self, weight: Tensor, out: Tensor) -> None:
        """Write X W, [n, d_v]."""
        multiply(self._forth, weight, out)

    def transposed_times(self, h: Tensor, out: Tensor) -> None:
        """Write X^T H, [d, d_v]."""
        multiply(self._back, h, out)

    def dropped(self) -> Tensor:
        """Return a copy of X as the last `drop` left it, dense [n, d], to look at."""
        return self._forth.to_dense()
