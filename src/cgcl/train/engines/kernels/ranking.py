"""CGCL that ranks: views, messages, layers, the decoder, and the softmax over all pairs.

All pairs are gone through in tiles of scores that are summed, or shared out, and never kept.
"""

# pyrefly: ignore-errors
# ruff: noqa: ANN001, ANN201, ANN202, D417

import triton
import triton.language as tl

from cgcl.train.engines.kernels.shared import elu, epoch_key, keeps, mix, some_of, word

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
    found = _log_sum(scores + tl.load(terms + other)[None, :], 1)
    tl.store(log_sums + own.to(tl.int64) * num_tiles + column, found)
    if row != column:
        found = _log_sum(scores + tl.load(terms + own)[:, None], 0)
        tl.store(log_sums + other.to(tl.int64) * num_tiles + row, found)


@triton.jit
def _log_sum(scored, AXIS: tl.constexpr):
    """Return the logarithm of each row's or column's sum."""
    top = tl.maximum(tl.max(scored, AXIS), _NOTHING)
    total = tl.sum(tl.exp(scored - tl.expand_dims(top, AXIS)), AXIS)
    # The highest alone adds 1, if anything counts at all.
    return tl.where(top > _BARRED / 2, top + tl.log(tl.maximum(total, 1.0)), _NOTHING)


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


# As in `cgcl.model.ranker` and in torch's layer norm: they keep a length away from zero.
_TINY = tl.constexpr(1e-6)
_EPSILON = tl.constexpr(1e-5)


@triton.jit
def see_links(links, seen, counts, keys, epoch, num_links, below, least, BLOCK: tl.constexpr):
    """Write which links each of an epoch's two steps sees, [2, m], and count those it hides.

    The first step sees words under `below`, the second those from `least` on.
    """
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < num_links
    low = tl.load(links + at, mask=inside, other=0)
    high = tl.load(links + num_links + at, mask=inside, other=0)
    coin = word(epoch_key(tl.load(keys), tl.load(epoch)), low, high).to(tl.int64)
    first, second = coin < below, coin >= least
    tl.store(seen + at, first.to(tl.int8), mask=inside)
    tl.store(seen + num_links + at, second.to(tl.int8), mask=inside)
    tl.atomic_add(counts, tl.sum((inside & (first == 0)).to(tl.int32), 0))
    tl.atomic_add(counts + 1, tl.sum((inside & (second == 0)).to(tl.int32), 0))


@triton.jit
def sort_links(
    starts, neighbours, pair_of, seen, places, sorted_neighbours, sorted_links, middles, scales,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Sort each node's links: first those that are seen, from the end those that are hidden.

    Args:
        starts: Where each node's links begin, [n + 1].
        neighbours: The other end of each.
        pair_of: The number of each.
        places: Where each node stands among the factors of scores.
        sorted_neighbours: The other end of a link that is seen, the place of that of a hidden one.
        sorted_links: The number of each hidden link.
        middles: Where each node's hidden links begin.
        scales: One over the root of each node's degree, itself included   (Eq. 1).
    """
    node = tl.program_id(0)
    begin, end = tl.load(starts + node), tl.load(starts + node + 1)
    front, back = begin, end
    for at in range(begin, end, BLOCK):
        entry = at + tl.arange(0, BLOCK)
        inside = entry < end
        link = tl.load(pair_of + entry, mask=inside, other=0)
        other = tl.load(neighbours + entry, mask=inside, other=0)
        is_seen = (tl.load(seen + link, mask=inside, other=0) != 0) & inside
        is_hidden = inside & (is_seen == 0)
        place = front + tl.cumsum(is_seen.to(tl.int32), 0) - 1
        tl.store(sorted_neighbours + place, other, mask=is_seen)
        place = back - tl.cumsum(is_hidden.to(tl.int32), 0)
        other = tl.load(places + other, mask=is_hidden, other=0).to(tl.int32)
        tl.store(sorted_neighbours + place, other, mask=is_hidden)
        tl.store(sorted_links + place, link, mask=is_hidden)
        front += tl.sum(is_seen.to(tl.int32), 0)
        back -= tl.sum(is_hidden.to(tl.int32), 0)
    tl.store(middles + node, front)
    tl.store(scales + node, 1 / tl.sqrt((front - begin + 1).to(tl.float32)))


@triton.jit
def _arrived(
    order, starts, middles, neighbours, scales, h, stride, width, ENTRIES: tl.constexpr,
    COLUMNS: tl.constexpr,
):  # fmt: skip
    """Return a program's node and columns, which of these there are, and their row of A^ H."""
    node = tl.load(order + tl.program_id(0))  # those with most links first
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    in_row = column < width
    own_scale = tl.load(scales + node)
    own = tl.load(h + node.to(tl.int64) * stride + column, mask=in_row, other=0.0)
    begin, end = tl.load(starts + node), tl.load(middles + node)
    # Added up at the end: threads wait for each other in every sum.
    total = tl.zeros((ENTRIES, COLUMNS), tl.float32)
    for at in range(begin, end, ENTRIES):
        entry = at + tl.arange(0, ENTRIES)
        neighbour = tl.load(neighbours + entry, mask=entry < end, other=0)
        scale = tl.load(scales + neighbour, mask=entry < end, other=0.0)
        rows = some_of(h, neighbour, column, stride, entry < end, in_row)
        total += scale[:, None] * rows
    total = own_scale * (own_scale * own.to(tl.float32) + tl.sum(total, 0))
    return node, column, in_row, total


@triton.jit
def send(
    order, starts, middles, neighbours, scales, h, h_stride, out, out_stride, width,
    ENTRIES: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Write A^ H, [n, width]; the rows of H and of what is written are so far apart."""
    node, column, in_row, total = _arrived(
        order, starts, middles, neighbours, scales, h, h_stride, width, ENTRIES, COLUMNS
    )
    tl.store(out + node.to(tl.int64) * out_stride + column, total, mask=in_row)


@triton.jit
def first_layer(
    order, starts, middles, neighbours, scales, h, h_stride, bias, pre, z, dropped,
    keys, epoch, width, threshold, scale, KEY,
    OWN: tl.constexpr, NEXT: tl.constexpr, ENTRIES: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Write the first layer, before and after its ELU, and what dropout leaves of it.

    Args:
        h: What neighbours send and, if OWN, behind it what a node has of itself.
        NEXT: Whether there is another layer.
    """
    node, column, in_row, total = _arrived(
        order, starts, middles, neighbours, scales, h, h_stride, width, ENTRIES, COLUMNS
    )
    total += tl.load(bias + column, mask=in_row, other=0.0)
    if OWN:
        own = h + node.to(tl.int64) * h_stride + width + column
        total += tl.load(own, mask=in_row, other=0.0).to(tl.float32)
    place = node.to(tl.int64) * width + column
    value = elu(total)
    tl.store(pre + place, total, mask=in_row)
    tl.store(z + place, value, mask=in_row)
    if NEXT:
        row_word = mix(node.to(tl.uint32) ^ epoch_key(tl.load(keys + KEY), tl.load(epoch)))
        left = tl.where(keeps(row_word, column, threshold), value * scale, 0.0)
        tl.store(dropped + place, left, mask=in_row)


@triton.jit
def activate(
    pre, bias, z, dropped, keys, epoch, width, size, threshold, scale, KEY,
    NEXT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Add a further layer to Z, after its bias and ELU, and write what dropout leaves of Z."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    node, column = at // width, at % width
    total = tl.load(pre + at, mask=inside, other=0.0).to(tl.float32)
    total += tl.load(bias + column, mask=inside, other=0.0)
    value = tl.load(z + at, mask=inside, other=0.0) + elu(total)
    tl.store(pre + at, total, mask=inside)
    tl.store(z + at, value, mask=inside)
    if NEXT:
        row_word = mix(node.to(tl.uint32) ^ epoch_key(tl.load(keys + KEY), tl.load(epoch)))
        left = tl.where(keeps(row_word, column, threshold), value * scale, 0.0)
        tl.store(dropped + at, left, mask=inside)


@triton.jit
def send_back(
    order, starts, middles, neighbours, scales, h, h_stride, to_z, pre, to_pre, stride,
    keys, epoch, width, threshold, scale, KEY, ENTRIES: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Add to dZ what a layer's messages ask of the layer below, and take it through that ELU.

    Args:
        h: The gradient of the messages.
        to_pre: What is written for the layer below, its rows `stride` apart.
    """
    node, column, in_row, total = _arrived(
        order, starts, middles, neighbours, scales, h, h_stride, width, ENTRIES, COLUMNS
    )
    row_word = mix(node.to(tl.uint32) ^ epoch_key(tl.load(keys + KEY), tl.load(epoch)))
    total = tl.where(keeps(row_word, column, threshold), total * scale, 0.0)
    place = node.to(tl.int64) * width + column
    total += tl.load(to_z + place, mask=in_row, other=0.0)
    tl.store(to_z + place, total, mask=in_row)
    slope = _elu_slope(tl.load(pre + place, mask=in_row, other=0.0).to(tl.float32))
    tl.store(to_pre + node.to(tl.int64) * stride + column, total * slope, mask=in_row)


@triton.jit
def add_links(
    order, starts, middles, others, links, to_scores, places, right, products, stride, width,
    ENTRIES: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Add to what all pairs ask of each vector what the links to be found ask of it."""
    node = tl.load(order + tl.program_id(0))
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    in_row = column < width
    place = products + tl.load(places + node) * stride + column
    begin, end = tl.load(middles + node), tl.load(starts + node + 1)
    total = tl.zeros((ENTRIES, COLUMNS), tl.float32)
    for at in range(begin, end, ENTRIES):
        entry = at + tl.arange(0, ENTRIES)
        link = tl.load(links + entry, mask=entry < end, other=0)
        other = tl.load(others + entry, mask=entry < end, other=0)
        share = tl.load(to_scores + link, mask=entry < end, other=0.0)
        rows = some_of(right, other, column, stride, entry < end, in_row)
        total += share[:, None] * rows
    before = tl.load(place, mask=in_row, other=0.0)
    tl.store(place, before + tl.sum(total, 0), mask=in_row)


@triton.jit
def normalise(
    z, places, weights, popularity, popularity_bias, left, right, half, terms, keys, epoch,
    num_nodes, width, stride, threshold, scale, KEY,
    NORM: tl.constexpr, POPULAR: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Write what the decoder makes of Z at each node's place: factors of scores, and its term.

    Args:
        left: R times w, and R as `right` and once more as `half`, [places, stride].
        terms: p of each place.
    """
    node = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)
    here, in_row = node < num_nodes, column < width
    inside = here[:, None] & in_row[None, :]
    value = some_of(z, node, column, width, here, in_row)
    normal, _ = _normal(value, inside, width, NORM)
    row_word = mix(node.to(tl.uint32) ^ epoch_key(tl.load(keys + KEY), tl.load(epoch)))
    normal = tl.where(keeps(row_word[:, None], column[None, :], threshold), normal * scale, 0.0)
    own = tl.load(places + node, mask=here, other=0)
    place = own[:, None] * stride + column[None, :]
    w = tl.load(weights + column, mask=in_row, other=0.0)
    tl.store(right + place, normal, mask=inside)
    tl.store(half + place, normal, mask=inside)
    tl.store(left + place, normal * w[None, :], mask=inside)
    term = tl.zeros((ROWS,), tl.float32)
    if POPULAR:
        v = tl.load(popularity + column, mask=in_row, other=0.0)
        squared = tl.sum(value * value, 1) / width + _TINY
        term = tl.sum(value * v[None, :], 1) * tl.exp2(-0.25 * tl.log2(squared))
        term += tl.load(popularity_bias)
    tl.store(terms + own, term, mask=here)


@triton.jit
def normalise_back(
    products, z, pre, places, weights, popularity, to_terms, link_terms, link_sums, with_own,
    log_total, counts, to_weights, to_popularity, to_popularity_bias, to_z, to_pre, pre_stride,
    keys, epoch, num_nodes, width, stride, num_tiles, row_share, threshold, scale, KEY,
    TURN: tl.constexpr, NORM: tl.constexpr, POPULAR: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr, TILES: tl.constexpr,
):  # fmt: skip
    """Take what the loss asks of factors and terms back to Z, and through the last ELU.

    Args:
        products: The gradient of S and its transpose, times R, at each place.
        to_weights: Is added to, as are the gradients of the popularity's weights.
    """
    column = tl.arange(0, COLUMNS)
    in_row = column < width
    w = tl.load(weights + column, mask=in_row, other=0.0)[None, :]
    key = epoch_key(tl.load(keys + KEY), tl.load(epoch))
    # Added up at the end, over all rows: few programs wait for each other then.
    to_w = tl.zeros((ROWS, COLUMNS), tl.float32)
    to_v = tl.zeros((ROWS, COLUMNS), tl.float32)
    to_b = tl.zeros((ROWS,), tl.float32)
    for start in range(tl.program_id(0) * ROWS, num_nodes, tl.num_programs(0) * ROWS):
        node = start + tl.arange(0, ROWS)
        here = node < num_nodes
        inside = here[:, None] & in_row[None, :]
        at = node.to(tl.int64)[:, None] * width + column[None, :]
        value = tl.load(z + at, mask=inside, other=0.0)
        normal, one_over = _normal(value, inside, width, NORM)
        row_word = mix(node.to(tl.uint32) ^ key)
        kept = tl.where(keeps(row_word[:, None], column[None, :], threshold), scale, 0.0)
        own = tl.load(places + node, mask=here, other=0)
        place = own[:, None] * stride + column[None, :]
        product = tl.load(products + place, mask=inside, other=0.0)
        to_w += product * kept * normal
        gradient = product * kept * w
        if NORM:
            along = tl.sum(gradient * normal, 1) / width
            gradient -= tl.sum(gradient, 1)[:, None] / width + along[:, None] * normal
            gradient *= one_over[:, None]
        if POPULAR:
            to_term = _to_term(
                own, here, to_terms, link_terms, link_sums, with_own, log_total, counts,
                num_tiles, row_share, TURN, TILES,
            )  # fmt: skip
            v = tl.load(popularity + column, mask=in_row, other=0.0)[None, :]
            squared = tl.sum(value * value, 1) / width + _TINY
            shrink = to_term * tl.exp2(-0.25 * tl.log2(squared))
            less = -0.5 / width * tl.sum(value * v, 1) / squared
            gradient += shrink[:, None] * (v + less[:, None] * value)
            to_v += shrink[:, None] * value
            to_b += to_term
        tl.store(to_z + at, gradient, mask=inside)
        slope = _elu_slope(tl.load(pre + at, mask=inside, other=0.0).to(tl.float32))
        below = to_pre + node.to(tl.int64)[:, None] * pre_stride + column[None, :]
        tl.store(below, gradient * slope, mask=inside)
    # S is symmetric in its two factors, and w stands between them once.
    tl.atomic_add(to_weights + column, tl.sum(to_w, 0) / 2, mask=in_row)
    if POPULAR:
        tl.atomic_add(to_popularity + column, tl.sum(to_v, 0), mask=in_row)
        tl.atomic_add(to_popularity_bias, tl.sum(to_b, 0))


@triton.jit
def _to_term(
    place, here, to_terms, link_terms, link_sums, with_own, log_total, counts, num_tiles,
    row_share, TURN: tl.constexpr, TILES: tl.constexpr,
):  # fmt: skip
    """Return the gradient of the terms of some places."""
    total = tl.load(link_terms + place, mask=here, other=0.0)
    total += to_sum(place, here, link_sums, with_own, log_total, counts, row_share, TURN)
    for first in range(0, num_tiles, TILES):
        tile = first + tl.arange(0, TILES)
        known = here[:, None] & (tile < num_tiles)[None, :]
        found = to_terms + place[:, None] * num_tiles + tile[None, :]
        total += tl.sum(tl.load(found, mask=known, other=0.0), 1)
    return tl.where(here, total, 0.0)


@triton.jit
def add_columns(x, stride, out, num_rows, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Add the sum of each column of a matrix to what is there."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    value = some_of(x, row, column, stride, row < num_rows, column < width)
    tl.atomic_add(out + column, tl.sum(value, 0), mask=column < width)


@triton.jit
def _normal(value, inside, width, NORM: tl.constexpr):
    """Return a layer norm of some rows, and one over their deviations."""
    one_over = tl.sum(tl.where(inside, 0.0, 0.0), 1) + 1
    if NORM:
        value = tl.where(inside, value - tl.sum(value, 1)[:, None] / width, 0.0)
        one_over = 1 / tl.sqrt(tl.sum(value * value, 1) / width + _EPSILON)
    return value * one_over[:, None], one_over


@triton.jit
def _elu_slope(x):
    return tl.where(x > 0, 1.0, tl.exp(tl.minimum(x, 0.0)))
