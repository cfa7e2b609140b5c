"""Dropout coins at a fraction of the price of a generator's: a hash of rows and columns."""

from __future__ import annotations

import torch
from torch import Tensor

from cgcl.coins import mix

_SIDES = 2**16  # a coin is a number of 16 bits, compared with a threshold
_HALF = _SIDES // 2
# The multipliers of `cgcl.coins`, as numbers of 32 bits with a sign.
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
