"""CGCL that ranks, before and after its softmax: views, messages, layers, the decoder."""

# pyrefly: ignore-errors
# ruff: noqa: ANN001, ANN201, ANN202, D417

import triton
import triton.language as tl

from cgcl.train.engines.kernels.hashing import epoch_key, keeps, mix, word
from cgcl.train.engines.kernels.softmax import to_sum

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
    node, column, in_row, starts, middles, neighbours, scales, h, stride, ENTRIES: tl.constexpr,
    COLUMNS: tl.constexpr,
):  # fmt: skip
    """Return some columns of a node's row of A^ H."""
    own_scale = tl.load(scales + node)
    own = tl.load(h + node.to(tl.int64) * stride + column, mask=in_row, other=0.0)
    begin, end = tl.load(starts + node), tl.load(middles + node)
    # Added up at the end: threads wait for each other in every sum.
    total = tl.zeros((ENTRIES, COLUMNS), tl.float32)
    for at in range(begin, end, ENTRIES):
        entry = at + tl.arange(0, ENTRIES)
        neighbour = tl.load(neighbours + entry, mask=entry < end, other=0)
        scale = tl.load(scales + neighbour, mask=entry < end, other=0.0)
        rows = tl.load(
            h + neighbour.to(tl.int64)[:, None] * stride + column[None, :],
            mask=(entry < end)[:, None] & in_row[None, :],
            other=0.0,
        )
        total += scale[:, None] * rows.to(tl.float32)
    return own_scale * (own_scale * own.to(tl.float32) + tl.sum(total, 0))


@triton.jit
def send(
    order, starts, middles, neighbours, scales, h, h_stride, out, out_stride, width,
    ENTRIES: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Write A^ H, [n, width]; the rows of H and of what is written are so far apart."""
    node = tl.load(order + tl.program_id(0))  # those with most links first
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    in_row = column < width
    total = _arrived(
        node, column, in_row, starts, middles, neighbours, scales, h, h_stride, ENTRIES, COLUMNS
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
    node = tl.load(order + tl.program_id(0))
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    in_row = column < width
    total = _arrived(
        node, column, in_row, starts, middles, neighbours, scales, h, h_stride, ENTRIES, COLUMNS
    )
    total += tl.load(bias + column, mask=in_row, other=0.0)
    if OWN:
        own = h + node.to(tl.int64) * h_stride + width + column
        total += tl.load(own, mask=in_row, other=0.0).to(tl.float32)
    place = node.to(tl.int64) * width + column
    value = _elu(total)
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
    value = tl.load(z + at, mask=inside, other=0.0) + _elu(total)
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
    node = tl.load(order + tl.program_id(0))
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    in_row = column < width
    total = _arrived(
        node, column, in_row, starts, middles, neighbours, scales, h, h_stride, ENTRIES, COLUMNS
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
        rows = tl.load(
            right + other.to(tl.int64)[:, None] * stride + column[None, :],
            mask=(entry < end)[:, None] & in_row[None, :],
            other=0.0,
        )
        total += share[:, None] * rows.to(tl.float32)
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
    value = tl.load(
        z + node.to(tl.int64)[:, None] * width + column[None, :], mask=inside, other=0.0
    )
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
    inside = (row < num_rows)[:, None] & (column < width)[None, :]
    place = x + row.to(tl.int64)[:, None] * stride + column[None, :]
    value = tl.load(place, mask=inside, other=0.0).to(tl.float32)
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
def _elu(x):
    # exp(x) - 1 loses its digits near 0, where x + x^2 / 2 has them.
    below = tl.where(x > -1e-3, x + 0.5 * x * x, tl.exp(x) - 1)
    return tl.where(x > 0, x, below)


@triton.jit
def _elu_slope(x):
    return tl.where(x > 0, 1.0, tl.exp(tl.minimum(x, 0.0)))
