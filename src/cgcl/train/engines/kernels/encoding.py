"""The encoder, forward and back: features times weights, messages, the ELU."""

# pyrefly: ignore-errors
# ruff: noqa: ANN001, ANN201, D417

import triton
import triton.language as tl

from cgcl.train.engines.kernels.drawing import is_seen
from cgcl.train.engines.kernels.hashing import epoch_key, keeps, mix


@triton.jit
def multiply_sparse(
    order, starts, others, values, coins, dense, out, keys, epoch,
    order_per_run, starts_per_run, entries_per_run, coins_per_run, dense_per_run, out_per_run,
    width, threshold, scale, KEY,
    NUM_KEYS: tl.constexpr, VIEW: tl.constexpr, KIND: tl.constexpr, TRANSPOSED: tl.constexpr,
    ENTRIES: tl.constexpr, COLUMNS: tl.constexpr,
):
    """Multiply sparse features, after dropout, by dense rows: X W, or X^T G if transposed.

    Args:
        order: The rows, those with most entries first.
        starts: Where each row's entries begin, [rows + 1].
        others: The column of each entry; of a transposed matrix it is the node.
        values: The value of each entry; of features made of links the link that it stands for,
            see `FeatureRows`.
        coins: The coins of every link, for features made of links.
        dense: [others, width] for each run.
        out: [rows, width] for each run.
        starts_per_run: 0 if all runs share the same features, as are `order_per_run` and
            `entries_per_run`.
        threshold: Chance to drop a feature in units of 2^-24.
        KEY: Which key decides what is dropped.
        VIEW: The view that is seen, 0 or 1.
        KIND: How views are drawn, for features made of links; `given` for all others.
    """
    run = tl.program_id(2).to(tl.int64)
    row = tl.load(order + run * order_per_run + tl.program_id(0))
    starts += run * starts_per_run
    others += run * entries_per_run
    values += run * entries_per_run
    coins += run * coins_per_run
    dense += run * dense_per_run
    key = epoch_key(tl.load(keys + run * NUM_KEYS + KEY), tl.load(epoch))
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    begin, end = tl.load(starts + row), tl.load(starts + row + 1)
    total = tl.zeros((COLUMNS,), tl.float32)
    for at in range(begin, end, ENTRIES):
        entry = at + tl.arange(0, ENTRIES)
        inside = entry < end
        other = tl.load(others + entry, mask=inside, other=0)
        if TRANSPOSED:
            kept = keeps(mix(other.to(tl.uint32) ^ key), row, threshold)
        else:
            kept = keeps(mix(row.to(tl.uint32) ^ key), other, threshold)
        kept &= inside
        if KIND == "given":
            value = tl.load(values + entry, mask=kept, other=0.0) * scale
        else:
            link = tl.load(values + entry, mask=kept, other=0)
            coin = tl.load(coins + link // 2, mask=kept, other=0).to(tl.int32)
            kept &= is_seen(coin, link % 2 == 1, VIEW, KIND)
            value = tl.where(kept, scale, 0.0)
        rows = tl.load(
            dense + other.to(tl.int64)[:, None] * width + column[None, :],
            mask=kept[:, None] & (column < width)[None, :],
            other=0.0,
        )
        total += tl.sum(value[:, None] * rows, 0)
    place = out + run * out_per_run + row.to(tl.int64) * width + column
    tl.store(place, total, mask=column < width)


@triton.jit
def drop_features(
    x, out, keys, epoch, num_nodes, num_features, stride, size_per_run, threshold, scale, KEY,
    NUM_KEYS: tl.constexpr, BLOCK: tl.constexpr,
):
    """Write dense features after dropout, [n, d] for each run; rows are `stride` apart."""
    node, run = tl.program_id(0).to(tl.int64), tl.program_id(2).to(tl.int64)
    key = epoch_key(tl.load(keys + run * NUM_KEYS + KEY), tl.load(epoch))
    feature = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = feature < num_features
    kept = keeps(mix(node.to(tl.uint32) ^ key), feature, threshold) & inside
    value = tl.load(x + run * size_per_run + node * stride + feature, mask=kept, other=0.0)
    place = (run * num_nodes + node) * stride + feature
    tl.store(out + place, value.to(tl.float32) * scale, mask=inside)


@triton.jit
def propagate(
    order, starts, neighbours, pair_of, coins, scales, h, out, bias, to_clear,
    num_nodes, num_links, weights_per_run, width,
    VIEW: tl.constexpr, KIND: tl.constexpr, BACKWARD: tl.constexpr,
    ENTRIES: tl.constexpr, COLUMNS: tl.constexpr,
):
    """Write A^ H   (Eq. 1), forward with bias and ELU (Eq. 5), backward its transpose alone.

    Forward also clears the gradient of what it writes.
    """
    run = tl.program_id(2).to(tl.int64)
    node = tl.load(order + run * num_nodes + tl.program_id(0))  # those with most links first
    starts += run * (num_nodes + 1)
    neighbours += run * 2 * num_links
    pair_of += run * 2 * num_links
    coins += run * num_links
    scales += (run * 2 + VIEW) * num_nodes
    h += run * num_nodes * width
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    in_row = column < width
    own_scale = tl.load(scales + node)
    own = tl.load(h + node.to(tl.int64) * width + column, mask=in_row, other=0.0)
    total = own_scale * own
    begin, end = tl.load(starts + node), tl.load(starts + node + 1)
    for at in range(begin, end, ENTRIES):
        entry = at + tl.arange(0, ENTRIES)
        inside = entry < end
        neighbour = tl.load(neighbours + entry, mask=inside, other=0)
        pair = tl.load(pair_of + entry, mask=inside, other=0)
        coin = tl.load(coins + pair, mask=inside, other=0).to(tl.int32)
        # A message arrives from the neighbour; a gradient goes back the way the message came.
        along = (neighbour > node) if BACKWARD else (neighbour < node)
        seen = inside & is_seen(coin, along, VIEW, KIND)
        scale = tl.load(scales + neighbour, mask=seen, other=0.0)
        rows = tl.load(
            h + neighbour.to(tl.int64)[:, None] * width + column[None, :],
            mask=seen[:, None] & in_row[None, :],
            other=0.0,
        )
        total += tl.sum(scale[:, None] * rows, 0)
    total *= own_scale
    place = (run * num_nodes + node) * width + column
    if not BACKWARD:
        total += tl.load(bias + run * weights_per_run + column, mask=in_row, other=0.0)
        # exp(x) - 1 loses its digits near 0, where x + x^2 / 2 has them.
        below = tl.where(total > -1e-3, total + 0.5 * total * total, tl.exp(total) - 1)
        total = tl.where(total > 0, total, below)
        tl.store(to_clear + place, tl.zeros((COLUMNS,), tl.float32), mask=in_row)
    tl.store(out + place, total, mask=in_row)


@triton.jit
def elu_backward(
    z, dz, bias_grad, steps, counts, num_nodes, weights_per_run, width, TURN: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):
    """Take dZ back through the ELU in place, add up the bias' gradient, count the step."""
    run = tl.program_id(2).to(tl.int64)
    node = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = (node < num_nodes)[:, None] & (column < width)[None, :]
    place = (run * num_nodes + node.to(tl.int64))[:, None] * width + column[None, :]
    value = tl.load(z + place, mask=inside, other=0.0)
    gradient = tl.load(dz + place, mask=inside, other=0.0)
    gradient *= tl.where(value > 0, 1.0, value + 1.0)
    tl.store(dz + place, gradient, mask=inside)
    bias_grad += run * weights_per_run
    tl.atomic_add(bias_grad + column, tl.sum(gradient, 0), mask=column < width)
    is_first = (tl.program_id(0) == 0) & (tl.program_id(1) == 0)
    # A view that is empty asks for nothing, and no step is taken.
    if is_first & (tl.load(counts + run * 2 + TURN) > 0):
        tl.store(steps + run, tl.load(steps + run) + 1)
