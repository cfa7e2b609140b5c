"""The words of `cgcl.coins`, inside a kernel."""

# pyrefly: ignore-errors
# ruff: noqa: ANN001, ANN201

import triton
import triton.language as tl

_GOLDEN = tl.constexpr(0x9E3779B9)


@triton.jit
def mix(number):
    """Return a word that each bit of a 32-bit number has changed, uint32."""
    x = number.to(tl.uint32)
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def epoch_key(base, epoch):
    """Return the key of a purpose in an epoch, as `coins.epoch_key` does."""
    return mix(base.to(tl.uint32) + epoch.to(tl.uint32) * _GOLDEN)


@triton.jit
def word(key, row, column):
    """Return the word of a row and a column, as `coins.words` does."""
    return mix(mix(row.to(tl.uint32) ^ key) + column.to(tl.uint32) * _GOLDEN)


@triton.jit
def keeps(row_word, column, threshold):
    """Return whether dropout keeps a column, by the word of what it belongs to.

    `threshold` is the chance to be dropped in units of 2^-24.
    """
    coin = mix(row_word + column.to(tl.uint32) * _GOLDEN)
    return (coin >> 8).to(tl.int32) >= threshold
