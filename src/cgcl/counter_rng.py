"""Random numbers without a state: a hash of a key and of what the number is for.

The coin of a link follows from the seed, the epoch and the link itself. Nothing is stored and
nothing has an order, so that a CPU, a GPU and any number of workers draw the same.
"""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor

WORDS = 2**32
"""How many different words there are."""

_MASK = WORDS - 1
_GOLDEN = 0x9E3779B9  # 2^32 divided by the golden ratio: spreads neighbouring numbers
# Multipliers with a low bias, found by search: Wellons, "Prospecting for hash functions", 2018.
_FIRST, _SECOND = 0x7FEB352D, 0x846CA68B
# So many rounds of a Feistel network look random (Luby and Rackoff, 1988).
_ROUNDS = 4


def mix(number: Tensor) -> Tensor:
    """Return a word in 0..2^32-1 that each bit of a number's low 32 bits has changed, int64."""
    x = number & _MASK
    x = ((x ^ (x >> 16)) * _FIRST) & _MASK
    x = ((x ^ (x >> 15)) * _SECOND) & _MASK
    return x ^ (x >> 16)


def base_key(seed: int, purpose: str) -> int:
    """Return the key of one purpose, such as `"views"`; the epoch is still to be mixed in."""
    return int.from_bytes(hashlib.sha256(f"cgcl/{seed}/{purpose}".encode()).digest()[:4], "big")


def epoch_key(base: int, epoch: int) -> int:
    """Return the key of one purpose in one epoch."""
    return int(mix(torch.tensor(base + epoch * _GOLDEN)))


def words(key: int | Tensor, row: Tensor, column: Tensor) -> Tensor:
    """Return the word of each (row, column), in 0..2^32-1, int64.

    Args:
        key: What `epoch_key` gave, or the word of something else for each row.
        row: Such as one end of a link, int64.
        column: Such as its other end, int64; what can be broadcast.

    Example:
        >>> key = epoch_key(base_key(0, "views"), epoch=3)
        >>> one, other = torch.tensor([0, 1]), torch.tensor([1, 0])
        >>> words(key, one, other).tolist()
        [1072741933, 2826038674]
    """
    return mix(mix(row ^ key) + column * _GOLDEN)


def words_below(chance: float) -> int:
    """Return the limit below which a word lies with this chance."""
    return round(WORDS * chance)


def permuted(places: Tensor, count: int, key: int) -> Tensor:
    """Return where a shuffle of 0..count-1 puts some places, int64.

    Nothing is shuffled in memory: four rounds of a Feistel network change the bits of a place, and
    what falls outside is changed again.

    Args:
        places: Different numbers in 0..count-1, int64.
        count: How many there are to shuffle.
        key: What `epoch_key` gave.

    Example:
        >>> permuted(torch.arange(5), 5, key=1).sort().values
        tensor([0, 1, 2, 3, 4])
    """
    half = max((count - 1).bit_length() + 1, 2) // 2
    mask, found = (1 << half) - 1, places.clone()
    waiting = torch.arange(places.numel(), device=places.device)
    while waiting.numel():
        one, other = found.index_select(0, waiting) >> half, found.index_select(0, waiting) & mask
        for turn in range(_ROUNDS):
            one, other = other, one ^ (words(key, other, torch.full_like(other, turn)) & mask)
        moved = (one << half) | other
        found.index_copy_(0, waiting, moved)
        waiting = waiting[moved >= count]
    return found


def integers(words: Tensor, below: int) -> Tensor:
    """Return whole numbers in 0..below-1, equally likely up to a share of below / 2^32."""
    return (words * below) >> 32
