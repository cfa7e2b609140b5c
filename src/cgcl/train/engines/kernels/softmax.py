"""The softmax of every row of a matrix of scores, in one pass over the matrix."""

# pyrefly: ignore-errors
# ruff: noqa: ANN001, ANN201, D417

import triton
import triton.language as tl

__all__ = ["softmax_rows"]

_NOTHING = tl.constexpr(-1e30)


@triton.jit
def softmax_rows(scores, bias, shares, log_sums, columns, BLOCK: tl.constexpr):
    """Write the softmax of each row, and the logarithm of the sum it divides by.

    Args:
        scores: [rows, columns], float32; minus infinity for what does not count.
        bias: What each column adds to its scores.
        shares: [rows, columns]: the softmax, in the precision that the products with it take.
        log_sums: [rows].
    """
    row = tl.program_id(0)
    scores += row.to(tl.int64) * columns
    shares += row.to(tl.int64) * columns
    at = tl.arange(0, BLOCK)
    # A maximum and a sum for every place of a block: they are joined once, at the end.
    highest = tl.full((BLOCK,), _NOTHING, tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        inside = start + at < columns
        score = tl.load(scores + start + at, mask=inside, other=-float("inf"))
        score += tl.load(bias + start + at, mask=inside, other=0.0)
        above = tl.maximum(highest, score)
        total = total * tl.exp(highest - above) + tl.exp(score - above)
        highest = above
    top = tl.max(highest, 0)
    whole = tl.sum(total * tl.exp(highest - top), 0)
    # The highest score alone adds 1; an empty sum adds nothing, and has no logarithm.
    log_sum = top + tl.log(tl.maximum(whole, 1.0))
    tl.store(log_sums + row, log_sum)
    for start in range(0, columns, BLOCK):
        inside = start + at < columns
        score = tl.load(scores + start + at, mask=inside, other=-float("inf"))
        score += tl.load(bias + start + at, mask=inside, other=0.0)
        share = tl.exp(score - log_sum)
        tl.store(shares + start + at, share.to(shares.dtype.element_ty), mask=inside)
