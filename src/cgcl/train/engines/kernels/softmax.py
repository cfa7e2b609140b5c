"""All pairs at once: tiles of scores that are summed, or shared out, and never kept."""

# pyrefly: ignore-errors
# ruff: noqa: ANN001, ANN201, ANN202, D417

import triton
import triton.language as tl

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
def add_up_rows(
    found, terms, log_sums, with_own, link_sums, link_terms, partial, num_tiles,
    ROWS: tl.constexpr, TILES: tl.constexpr,
):  # fmt: skip
    """Write the logarithm of each place's sum over all tiles, and clear what links add to.

    Args:
        found: The logarithms within each tile, [num_tiles * TILE, num_tiles].
        log_sums: Without the place's own term; 1e30 where nothing counts, so that nobody has a
            share in it.
        with_own: With it; -1e30 where nothing counts.
        partial: The logarithm of the sum over the rows of a program.
    """
    place = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    top = tl.full((ROWS,), _NOTHING, tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    for start in range(0, num_tiles, TILES):
        tile = start + tl.arange(0, TILES)
        at = found + place.to(tl.int64)[:, None] * num_tiles + tile[None, :]
        some = tl.load(at, mask=(tile < num_tiles)[None, :], other=_NOTHING)
        higher = tl.maximum(top, tl.max(some, 1))
        total = total * tl.exp(top - higher) + tl.sum(tl.exp(some - higher[:, None]), 1)
        top = higher
    term = tl.load(terms + place)
    is_any = top > _NOTHING / 2
    log_sum = top + tl.log(total)
    tl.store(log_sums + place, tl.where(is_any, log_sum, -_NOTHING))
    own = tl.where(is_any & (term > _NOTHING / 2), log_sum + term, _NOTHING)
    tl.store(with_own + place, own)
    tl.store(link_sums + place, tl.zeros((ROWS,), tl.float32))
    tl.store(link_terms + place, tl.zeros((ROWS,), tl.float32))
    top = tl.max(own, 0)
    tl.store(partial + tl.program_id(0), top + tl.log(tl.sum(tl.exp(own - top), 0)))


@triton.jit
def add_up(
    partial, log_total, offset, steps, epoch, num_partial, log_links, average,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Write the logarithm of the sum over all pairs, let the offset follow it, count the step."""
    top = tl.full((BLOCK,), _NOTHING, tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, num_partial, BLOCK):
        at = start + tl.arange(0, BLOCK)
        some = tl.load(partial + at, mask=at < num_partial, other=_NOTHING)
        higher = tl.maximum(top, some)
        total = total * tl.exp(top - higher) + tl.exp(some - higher)
        top = higher
    highest = tl.max(top, 0)
    found = highest + tl.log(tl.sum(total * tl.exp(top - highest), 0))
    is_any = highest > _NOTHING / 2
    found = tl.where(is_any, found, _NOTHING)
    tl.store(log_total, found)
    step = tl.maximum(1 - average, 0.5 / tl.load(epoch).to(tl.float32))
    before = tl.load(offset)
    tl.store(offset, before + step * (tl.where(is_any, found - log_links, 0.0) - before))
    tl.store(steps, tl.load(steps) + 1)


@triton.jit
def to_sum(
    place, inside, link_sums, with_own, log_total, counts, row_share, TURN: tl.constexpr
):  # fmt: skip
    """Return the gradient of the logarithm of some places' sums."""
    total = tl.load(log_total)
    share = tl.exp(tl.load(with_own + place, mask=inside, other=_NOTHING) - total)
    counts_all = (total > _NOTHING / 2) & (tl.load(counts + TURN) > 0)
    everywhere = tl.where(counts_all, (1 - row_share) * share, 0.0)
    return tl.load(link_sums + place, mask=inside, other=0.0) + everywhere


@triton.jit
def share_tiles(
    left, right, terms, starts, entries, log_sums, link_sums, with_own, log_total, counts,
    shares, to_terms, first_row, first_column, num_tiles, width, stride, row_share,
    TURN: tl.constexpr, BOTH: tl.constexpr, DEPTH: tl.constexpr, ENTRIES: tl.constexpr,
):  # fmt: skip
    """Write the gradient of every score of some rows of tiles, in the precision of products.

    A score counts in the sum of its row and, the matrix being symmetric, in that of its column.

    Args:
        log_sums: Of each row; 1e30 where nothing counts.
        link_sums: What links ask of each row's sum; `to_sum` takes the rest.
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
    to_own = to_sum(own, own >= 0, link_sums, with_own, log_total, counts, row_share, TURN)
    in_row *= to_own[:, None]
    in_column = tl.exp(
        scores + (tl.load(terms + own)[:, None] - tl.load(log_sums + other)[None, :])
    )
    to_other = to_sum(other, other >= 0, link_sums, with_own, log_total, counts, row_share, TURN)
    in_column *= to_other[None, :]
    tl.store(to_terms + own.to(tl.int64) * num_tiles + column, tl.sum(in_column, 1))
    if BOTH:
        tl.store(to_terms + other.to(tl.int64) * num_tiles + row, tl.sum(in_row, 0))
    place = (tl.program_id(0) * _TILE + at).to(tl.int64)[:, None] * stride
    place += (tl.program_id(1) * _TILE + at)[None, :]
    tl.store(shares + place, (in_row + in_column).to(shares.dtype.element_ty))


@triton.jit
def link_costs(
    left, right, terms, pairs, seen, counts, with_own, log_total,
    to_scores, link_sums, link_terms, costs, num_pairs, width, row_share,
    TURN: tl.constexpr, PAIRS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """Score links, and write what each costs and which way its score and its ends' sums should go.

    The mathematics is that of `cgcl.model.softmax.softmax_loss`.

    Args:
        pairs: The places of each link's ends, int64 [2, num_pairs].
        seen: Whether the step sees it; it is to find the others.
        counts: How many those are, by step.
        to_scores: The gradient of each link's score.
        link_sums: That of each place's sum; added to, as is that of its term, `link_terms`.
        costs: What the links of a program cost together.
    """
    place = tl.program_id(0) * PAIRS + tl.arange(0, PAIRS)
    asked = tl.load(seen + place, mask=place < num_pairs, other=1) == 0
    one = tl.load(pairs + place, mask=asked, other=0)
    other = tl.load(pairs + num_pairs + place, mask=asked, other=0)
    score = tl.load(terms + one) + tl.load(terms + other)
    deep = tl.arange(0, DEPTH)
    for start in range(0, width, DEPTH):
        column = (start + deep)[None, :]
        products = tl.load(left + one[:, None] * width + column, mask=asked[:, None], other=0.0)
        others = tl.load(right + other[:, None] * width + column, mask=asked[:, None], other=0.0)
        score += tl.sum(products.to(tl.float32) * others.to(tl.float32), 1)
    # A tiny graph may leave a view empty: then nothing is asked, and nothing is learned.
    weight = asked.to(tl.float32) / tl.maximum(tl.load(counts + TURN), 1).to(tl.float32)
    total = tl.load(log_total)
    # Where every pair is a known link there is nothing to stand out from.
    is_any = total > _NOTHING / 2
    from_one, from_other = tl.load(with_own + one) - score, tl.load(with_own + other) - score
    in_rows = (_softplus(from_one) + _softplus(from_other)) / 2
    everywhere = tl.where(is_any, total - score, 0.0)
    cost = weight * (row_share * in_rows + (1 - row_share) * everywhere)
    tl.store(costs + tl.program_id(0), tl.sum(tl.where(asked, cost, 0.0), 0))
    of_one = weight * row_share / 2 * _sigmoid(from_one)
    of_other = weight * row_share / 2 * _sigmoid(from_other)
    gradient = -of_one - of_other - tl.where(is_any, weight * (1 - row_share), 0.0)
    tl.store(to_scores + place, tl.where(asked, gradient, 0.0), mask=place < num_pairs)
    tl.atomic_add(link_sums + one, of_one, mask=asked)
    tl.atomic_add(link_sums + other, of_other, mask=asked)
    tl.atomic_add(link_terms + one, gradient, mask=asked)
    tl.atomic_add(link_terms + other, gradient, mask=asked)


@triton.jit
def _softplus(x):
    return tl.maximum(x, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(x)))


@triton.jit
def _sigmoid(x):
    small = tl.exp(-tl.abs(x))  # never above 1
    return tl.where(x >= 0, 1.0, small) / (1.0 + small)
