"""All pairs at once: tiles of scores that are summed, or shared out, and never kept."""

# pyrefly: ignore-errors
# ruff: noqa: ANN001, ANN201, ANN202, D417

import triton
import triton.language as tl

__all__ = ["TILE", "link_costs", "share_tiles", "sum_tiles"]

TILE = 128
"""Rows and columns of a tile."""
_TILE = tl.constexpr(TILE)
# What is added to a score that does not count; far below any score, and its exponential is zero.
_BARRED = tl.constexpr(-1e9)
_NOTHING = tl.constexpr(-1e30)


@triton.jit
def _scores(
    left, right, starts, entries, row, column, num_tiles, width,
    DEPTH: tl.constexpr, ENTRIES: tl.constexpr,
):  # fmt: skip
    """Return a tile of scores, [TILE, TILE], without the columns' terms.

    What does not count is masked as one more product: a one for the row of each such entry, times
    a large negative number for its column.
    """
    at, deep = tl.arange(0, _TILE), tl.arange(0, DEPTH)
    ones = left + (row * _TILE + at).to(tl.int64)[:, None] * width + deep[None, :]
    others = right + (column * _TILE + at).to(tl.int64)[:, None] * width + deep[None, :]
    total = tl.zeros((_TILE, _TILE), tl.float32)
    for start in range(0, width, DEPTH):
        one, other = tl.load(ones + start), tl.load(others + start)
        total = tl.dot(one, tl.trans(other), total, input_precision="tf32")
    tile = row * num_tiles + column
    begin, end = tl.load(starts + tile), tl.load(starts + tile + 1)
    for start in range(begin, end, ENTRIES):
        place = start + tl.arange(0, ENTRIES)
        entry = tl.load(entries + place, mask=place < end, other=_TILE * _TILE)
        in_row = tl.where(at[:, None] == (entry // _TILE)[None, :], 1.0, 0.0)
        in_column = tl.where(at[:, None] == (entry % _TILE)[None, :], _BARRED, 0.0)
        total = tl.dot(in_row, tl.trans(in_column), total, input_precision="tf32")
    return total


@triton.jit
def sum_tiles(
    left, right, terms, starts, entries, rows, columns, log_sums, num_tiles, width,
    DEPTH: tl.constexpr, ENTRIES: tl.constexpr,
):  # fmt: skip
    """Write the logarithm of each row's sum within a tile, and of each column's.

    The matrix of scores is symmetric: a tile off its diagonal is also the tile across, turned.

    Args:
        left: [num_tiles * TILE, width], in the precision of the products.
        right: Likewise.
        terms: What each node adds to its scores as a column; -1e30 where nobody stands.
        starts: Where the entries of each tile that do not count begin, [num_tiles^2 + 1].
        entries: row * TILE + column within its tile, of each such entry.
        rows: The tiles to go through, int32, and likewise their `columns`.
        log_sums: [num_tiles * TILE, num_tiles], by row and tile.
    """
    row, column = tl.load(rows + tl.program_id(0)), tl.load(columns + tl.program_id(0))
    scores = _scores(
        left, right, starts, entries, row, column, num_tiles, width, DEPTH, ENTRIES
    )  # fmt: skip
    at = tl.arange(0, _TILE)
    own, other = row * _TILE + at, column * _TILE + at
    scored = scores + tl.load(terms + other)[None, :]
    top = tl.maximum(tl.max(scored, 1), _NOTHING)
    total = tl.sum(tl.exp(scored - top[:, None]), 1)
    # The highest alone adds 1, if anything counts at all.
    found = tl.where(top > _BARRED / 2, top + tl.log(tl.maximum(total, 1.0)), _NOTHING)
    tl.store(log_sums + own.to(tl.int64) * num_tiles + column, found)
    if row != column:
        scored = scores + tl.load(terms + own)[:, None]
        top = tl.maximum(tl.max(scored, 0), _NOTHING)
        total = tl.sum(tl.exp(scored - top[None, :]), 0)
        found = tl.where(top > _BARRED / 2, top + tl.log(tl.maximum(total, 1.0)), _NOTHING)
        tl.store(log_sums + other.to(tl.int64) * num_tiles + row, found)


@triton.jit
def share_tiles(
    left, right, terms, starts, entries, log_sums, gradients, shares, to_terms,
    first_row, first_column, num_tiles, width, stride,
    BOTH: tl.constexpr, DEPTH: tl.constexpr, ENTRIES: tl.constexpr,
):  # fmt: skip
    """Write the gradient of every score of some rows of tiles, in the precision of products.

    A score counts in the sum of its row and, the matrix being symmetric, in that of its column.

    Args:
        log_sums: Of each row; 1e30 where nothing counts.
        gradients: Of each row's sum.
        shares: [rows, columns], `stride` apart.
        to_terms: The gradient of each node's term, by node and tile, [num_tiles * TILE, num_tiles].
        first_row: The first tile of the rows, and likewise `first_column`.
        BOTH: Whether the columns are other nodes than the rows, and get their terms' gradient here.
    """
    row, column = first_row + tl.program_id(0), first_column + tl.program_id(1)
    scores = _scores(
        left, right, starts, entries, row, column, num_tiles, width, DEPTH, ENTRIES
    )  # fmt: skip
    at = tl.arange(0, _TILE)
    own, other = row * _TILE + at, column * _TILE + at
    in_row = tl.exp(scores + (tl.load(terms + other)[None, :] - tl.load(log_sums + own)[:, None]))
    in_row *= tl.load(gradients + own)[:, None]
    in_column = tl.exp(
        scores + (tl.load(terms + own)[:, None] - tl.load(log_sums + other)[None, :])
    )
    in_column *= tl.load(gradients + other)[None, :]
    tl.store(to_terms + own.to(tl.int64) * num_tiles + column, tl.sum(in_column, 1))
    if BOTH:
        tl.store(to_terms + other.to(tl.int64) * num_tiles + row, tl.sum(in_row, 0))
    place = (tl.program_id(0) * _TILE + at).to(tl.int64)[:, None] * stride
    place += (tl.program_id(1) * _TILE + at)[None, :]
    tl.store(shares + place, (in_row + in_column).to(shares.dtype.element_ty))


@triton.jit
def link_costs(
    left, right, terms, pairs, asked, num_asked, log_sums, log_total,
    to_scores, to_sums, to_terms, losses, num_pairs, width, row_share,
    PAIRS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """Score links, and write what each costs and which way its score and its ends' sums should go.

    The mathematics is that of `cgcl.model.softmax.softmax_loss`.

    Args:
        pairs: The ends of each link, int64 [2, num_pairs].
        asked: Whether it is to be found.
        num_asked: How many are.
        log_sums: Of each node, its own term included, and `log_total` of all of them.
        to_scores: The gradient of each link's score.
        to_sums: That of each node's sum; added to, as is that of its term, `to_terms`.
        losses: What the links of a program cost together.
    """
    place = tl.program_id(0) * PAIRS + tl.arange(0, PAIRS)
    inside = place < num_pairs
    one = tl.load(pairs + place, mask=inside, other=0)
    other = tl.load(pairs + num_pairs + place, mask=inside, other=0)
    score = tl.load(terms + one) + tl.load(terms + other)
    deep = tl.arange(0, DEPTH)
    for start in range(0, width, DEPTH):
        column = (start + deep)[None, :]
        products = tl.load(left + one[:, None] * width + column).to(tl.float32)
        products *= tl.load(right + other[:, None] * width + column).to(tl.float32)
        score += tl.sum(products, 1)
    # A tiny graph may leave a view empty: then nothing is asked, and nothing is learned.
    weight = tl.load(asked + place, mask=inside, other=0).to(tl.float32)
    weight /= tl.maximum(tl.load(num_asked), 1).to(tl.float32)
    total = tl.load(log_total)
    # Where every pair is a known link there is nothing to stand out from.
    is_any = total > _NOTHING / 2
    from_one, from_other = tl.load(log_sums + one) - score, tl.load(log_sums + other) - score
    in_rows = (_softplus(from_one) + _softplus(from_other)) / 2
    everywhere = tl.where(is_any, total - score, 0.0)
    costs = weight * (row_share * in_rows + (1 - row_share) * everywhere)
    tl.store(losses + tl.program_id(0), tl.sum(costs, 0))
    of_one = weight * row_share / 2 * _sigmoid(from_one)
    of_other = weight * row_share / 2 * _sigmoid(from_other)
    gradient = -of_one - of_other - tl.where(is_any, weight * (1 - row_share), 0.0)
    tl.store(to_scores + place, gradient, mask=inside)
    tl.atomic_add(to_sums + one, of_one, mask=inside)
    tl.atomic_add(to_sums + other, of_other, mask=inside)
    tl.atomic_add(to_terms + one, gradient, mask=inside)
    tl.atomic_add(to_terms + other, gradient, mask=inside)


@triton.jit
def _softplus(x):
    return tl.maximum(x, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(x)))


@triton.jit
def _sigmoid(x):
    small = tl.exp(-tl.abs(x))  # never above 1
    return tl.where(x >= 0, 1.0, small) / (1.0 + small)
