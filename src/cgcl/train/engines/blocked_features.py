"""Features of which another part is dropped at every step, in the form that is fast on a CPU."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from cgcl.counter_rng import mix
from cgcl.graph.pairs import decode, encode_ordered

_SIDES = 2**16  # a coin is a number of 16 bits, compared with a threshold
_HALF = _SIDES // 2
# The multipliers of `cgcl.counter_rng`, as numbers of 32 bits with a sign.
_MULTIPLIERS = (0x7FEB352D, 0x846CA68B - 2**32)
_SHIFTS = (16, 15)


def draw_words(count: int, generator: torch.Generator) -> Tensor:
    """Return random words of 32 bits, one for each row that tosses coins, int32 [count]."""
    return torch.empty(count, dtype=torch.int32).random_(-(2**31), 2**31, generator=generator)


class Coins:
    """Tosses a coin for each entry of a matrix.

    Only a word per row comes from a generator, which takes its time over each. The coins of a
    row follow from its word and the column, so it does not matter in which blocks rows are asked.
    """

    def __init__(self, probability: float, columns: int, most_rows: int) -> None:
        """Set aside room for the words.

        Args:
            probability: Chance of an entry to be dropped, in [0, 1); kept to 16 bits.
            columns: Number of columns.
            most_rows: How many rows may be asked for at once.
        """
        dropped = min(round(probability * _SIDES), _SIDES - 1)
        self.scale = _SIDES / (_SIDES - dropped)
        """What the entries that are kept must be multiplied by, for the mean to stay."""
        self.columns = columns
        self._threshold = dropped - _HALF
        both = torch.arange((columns + 1) // 2)  # a word makes the coins of two columns
        self._column_words = (mix(both) - 2**31).to(torch.int32)
        self._words = torch.empty(most_rows, both.numel(), dtype=torch.int32)
        self._shifted = torch.empty_like(self._words)

    def toss(self, words: Tensor, out: Tensor) -> Tensor:
        """Write 1 where an entry is kept and 0 where it is dropped, and return it.

        Args:
            words: A word for each row, int32 [rows].
            out: Any number type, [rows, columns].
        """
        mixed, shifted = self._words[: words.numel()], self._shifted[: words.numel()]
        torch.add(words.unsqueeze(1), self._column_words, out=mixed)
        for shift, multiplier in zip(_SHIFTS, _MULTIPLIERS, strict=True):
            torch.bitwise_right_shift(mixed, shift, out=shifted)
            mixed.bitwise_xor_(shifted).mul_(multiplier)
        numbers = mixed.view(torch.int16)[:, : self.columns]
        return torch.ge(numbers, self._threshold, out=out)


def compressed(row: Tensor, column: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    """Return a matrix in compressed rows from entries in the order of their rows, int64 [entries].

    MKL counts in 32 bits: numbers of 64 would be converted for each product.
    """
    starts = torch.searchsorted(row, torch.arange(shape[0] + 1))
    kind = torch.int32 if max(*shape, row.numel()) < 2**31 else torch.int64
    return _compressed(starts.to(kind), column.to(kind), values, shape)


def only(matrix: Tensor, kept: Tensor) -> Tensor:
    """Return a matrix in compressed rows with only those entries that are kept, bool [entries]."""
    places, starts = kept.nonzero().squeeze(1), matrix.crow_indices()
    return _compressed(
        torch.searchsorted(places, starts.long()).to(starts.dtype),
        matrix.col_indices().index_select(0, places),
        matrix.values().index_select(0, places),
        matrix.shape,
    )


def _compressed(starts: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, ...]) -> Tensor:
    with warnings.catch_warnings():
        # torch says once that these tensors are young; what is used of them is tested here.
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(starts, columns, values, shape, check_invariants=False)


def propagation(
    edge_index: Tensor, num_nodes: int, dtype: torch.dtype, *, is_symmetric: bool
) -> tuple[Tensor, Tensor]:
    r"""Return $\hat A_v = \tilde D^{-1/2} \tilde A \tilde D^{-1/2}$ of a view, [n, n]   (Eq. 1).

    Messages take the first matrix forth and their gradients the second one back.

    Args:
        edge_index: Links without self-links, int64 [2, e], from row 0 to row 1.
        num_nodes: Number of nodes.
        dtype: Of the entries, which are those of `cgcl.model.propagate`.
        is_symmetric: Whether all links are there in both directions: both matrices are one.
    """
    loops = torch.arange(num_nodes).expand(2, -1)
    source, target = torch.cat([edge_index, loops], dim=1)
    scale = torch.bincount(target, minlength=num_nodes).to(dtype).rsqrt()

    def matrix(row: Tensor, column: Tensor) -> Tensor:
        row, column = decode(encode_ordered(row, column, num_nodes).sort().values, num_nodes)
        values = scale.index_select(0, row) * scale.index_select(0, column)
        return compressed(row, column, values, (num_nodes, num_nodes))

    forth = matrix(target, source)
    return forth, forth if is_symmetric else matrix(source, target)


def multiply(matrix: Tensor, dense: Tensor, out: Tensor) -> None:
    """Write the product of a matrix in compressed rows and a dense one."""
    torch.addmm(out, matrix, dense, beta=0, out=out)


# A list of entries tosses its coins in rows of so many: a row takes one word of the generator.
_COLUMNS = 1024
# How many entries of dense features toss their coins at once, to stay in the cache.
_CACHED_ENTRIES = 2**19
# Nanoseconds forth and back at d_v = 512: for an entry of a dense product, for one of a sparse
# product, and to find out whether a sparse one is dropped.
_DENSE, _SPARSE, _CHOICE = 13.0, 77.0, 7.0


class Features:
    """X of which another part is dropped at every step; each kind tosses its coins in its way."""

    scale = 1.0
    """What both must still be multiplied by."""

    def __init__(self, forth: Tensor, back: Tensor) -> None:
        """Take all of X and of its transpose, as `drop` will leave a part of them."""
        self.forth, self.back = forth, back

    def drop(self, generator: torch.Generator) -> None:
        """Toss the coins of a step, if any entry may be dropped."""

    def times(self, weight: Tensor, out: Tensor) -> None:
        """Write X W, [n, d_v]."""
        torch.addmm(out, self.forth, weight, beta=0, alpha=self.scale, out=out)

    def transposed_times(self, h: Tensor, out: Tensor) -> None:
        """Write X^T H, [d, d_v]."""
        torch.addmm(out, self.back, h, beta=0, alpha=self.scale, out=out)


class DenseFeatures(Features):
    """Features few of which are zero."""

    def __init__(self, x: Tensor, probability: float) -> None:
        """Take the features.

        Args:
            x: Dense, [n, d].
            probability: Chance of an entry to be dropped.
        """
        left = torch.empty_like(x) if probability > 0 else x
        super().__init__(left, left.t())
        self._x = x
        self._rows = max(1, _CACHED_ENTRIES // max(x.shape[1], 1))
        self._coins = Coins(probability, x.shape[1], self._rows)
        self.scale = self._coins.scale

    def drop(self, generator: torch.Generator) -> None:
        """Toss the coins of a step."""
        if self.forth is self._x:
            return
        each = (draw_words(self._x.shape[0], generator), self._x, self.forth)
        for words, x, left in zip(*(rows.split(self._rows) for rows in each), strict=True):
            self._coins.toss(words, out=left).mul_(x)


class SparseFeatures(Features):
    """Features most of which are zero: by rows and, for the way back, by columns."""

    def __init__(self, x: Tensor, probability: float) -> None:
        """Take the features.

        Args:
            x: Coalesced sparse COO, [n, d].
            probability: Chance of an entry to be dropped.
        """
        row, column = x.indices()
        self._rows = -(-column.numel() // _COLUMNS) if probability > 0 else 0
        self._coins = Coins(probability, _COLUMNS, self._rows)
        values, (num_nodes, num_features) = x.values() * self._coins.scale, x.shape
        self._by_row = compressed(row, column, values, (num_nodes, num_features))
        column, order = column.sort(stable=True)
        row, values = row.index_select(0, order), values.index_select(0, order)
        self._by_column = compressed(column, row, values, (num_features, num_nodes))
        self._order = order.to(self._by_row.crow_indices().dtype)
        super().__init__(self._by_row, self._by_column)

    def drop(self, generator: torch.Generator) -> None:
        """Toss the coins of a step."""
        if not self._rows:
            return
        kept = torch.empty(self._rows, _COLUMNS, dtype=torch.bool)
        self._coins.toss(draw_words(self._rows, generator), out=kept)
        kept = kept.view(-1)[: self._order.numel()]
        self.forth = only(self._by_row, kept)
        self.back = only(self._by_column, kept.index_select(0, self._order))


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
