"""The decoder and the loss, forward and back, without ever writing a [pairs, d_v] tensor.

The gradient of a pair's logit depends on that logit alone, and that of its hidden layer is the
same number times $W_2$ wherever a ReLU is open. So only two things are kept from the way forward:
the gradient of each logit, and one bit for each hidden unit. Products of embeddings are gathered
again, and dropout is tossed again, wherever they are needed.
"""

# pyrefly: ignore-errors
# ruff: noqa: ANN001, ANN201, ANN202, D417

import triton
import triton.language as tl

from cgcl.train.engines.kernels.hashing import epoch_key, keeps, word


@triton.jit
def _dot(a, b, PRECISION: tl.constexpr):
    # Both branches end in a return: what follows a decided branch would be compiled as well.
    if PRECISION == "bf16":
        return tl.dot(a.to(tl.bfloat16), b.to(tl.bfloat16))
    else:
        return tl.dot(a, b, input_precision=PRECISION)


@triton.jit
def _product(z, one, other, inside, row_word, column, width, threshold):
    """Return both ends' embeddings and which entries of their product are kept."""
    mask = inside[:, None] & (column < width)[None, :]
    left = tl.load(z + one[:, None] * width + column[None, :], mask=mask, other=0.0)
    right = tl.load(z + other[:, None] * width + column[None, :], mask=mask, other=0.0)
    kept = mask & keeps(row_word[:, None], column[None, :], threshold)
    return left, right, kept


@triton.jit
def _hidden(
    z, w1, b1, one, other, inside, row_word, width, hidden, threshold, scale,
    PRECISION: tl.constexpr, PAIRS: tl.constexpr, COLUMNS: tl.constexpr, HIDDEN: tl.constexpr,
):
    """Return W_1 h + b_1 before the ReLU   (Eq. 6-7), [pairs, d_v / 2]."""
    unit = tl.arange(0, HIDDEN)
    total = tl.zeros((PAIRS, HIDDEN), tl.float32)
    for start in range(0, width, COLUMNS):
        column = start + tl.arange(0, COLUMNS)
        left, right, kept = _product(z, one, other, inside, row_word, column, width, threshold)
        h = tl.where(kept, left * right * scale, 0.0)
        weight = tl.load(
            w1 + unit[None, :] * width + column[:, None],
            mask=(unit < hidden)[None, :] & (column < width)[:, None],
            other=0.0,
        )
        total += _dot(h, weight, PRECISION)
    return total + tl.load(b1 + unit, mask=unit < hidden, other=0.0)[None, :]


@triton.jit
def _loss_of(logit, wanted, inside, count, RELU: tl.constexpr):
    """Return each pair's share of the loss   (Eq. 8), and the gradient of its logit."""
    slope = tl.where(inside, 1.0, 0.0) / count
    if RELU:
        slope = tl.where(logit > 0, slope, 0.0)
        logit = tl.maximum(logit, 0.0)
    # log(1 + e^s) - y s, without overflow
    each = tl.maximum(logit, 0.0) - wanted * logit + tl.log(1 + tl.exp(-tl.abs(logit)))
    return tl.where(inside, each, 0.0) / count, (1 / (1 + tl.exp(-logit)) - wanted) * slope


@triton.jit
def _pack(bits, place, inside, is_open, PAIRS: tl.constexpr, HIDDEN: tl.constexpr):
    """Write which units are open, 32 to a word."""
    shifted = tl.reshape(is_open.to(tl.int32), (PAIRS, HIDDEN // 32, 32))
    packed = tl.sum(shifted << tl.arange(0, 32)[None, None, :], 2)
    words = place[:, None] * (HIDDEN // 32) + tl.arange(0, HIDDEN // 32)[None, :]
    tl.store(bits + words, packed, mask=inside[:, None])


@triton.jit
def decode_forward(
    z, w1, b1, w2, b2, b1_grad, w2_grad, b2_grad,
    ends, counts, gradients, bits, losses, keys, epoch,
    num_nodes, capacity, weights_per_run, width, hidden, threshold, scale, linked, unlinked,
    num_kept_losses, KEY,
    TURN: tl.constexpr, NUM_KEYS: tl.constexpr, RELU: tl.constexpr, PRECISION: tl.constexpr,
    PAIRS: tl.constexpr, COLUMNS: tl.constexpr, HIDDEN: tl.constexpr,
):
    """Score a turn's pairs, add up its loss (Eq. 8) and the gradients of all but W_1.

    Args:
        linked: What a link should score as a probability, 1, or 0.731 by the letter of Eq. 8.
        unlinked: What an unlinked pair should.
        gradients: Written: the gradient of each logit, [label, slot].
        bits: Written: which hidden units are open, 32 to a word, [label, slot, units / 32].
    """
    run = tl.program_id(1).to(tl.int64)
    z += run * num_nodes * width
    w1 += run * weights_per_run
    ends += run * 8 * capacity + TURN * 4 * capacity
    gradients += run * 2 * capacity
    bits += run * 2 * capacity * (HIDDEN // 32)
    number = tl.load(epoch)
    key = epoch_key(tl.load(keys + run * NUM_KEYS + KEY), number)
    count = tl.load(counts + run * 2 + TURN)
    unit = tl.arange(0, HIDDEN)
    is_unit = unit < hidden
    second = tl.load(w2 + run * weights_per_run + unit, mask=is_unit, other=0.0)
    sum_b1 = tl.zeros((HIDDEN,), tl.float32)
    sum_w2 = tl.zeros((HIDDEN,), tl.float32)
    sum_b2 = 0.0
    sum_loss = 0.0
    tiles = tl.cdiv(count, PAIRS)
    for tile in range(tl.program_id(0), 2 * tiles, tl.num_programs(0)):
        label = (tile >= tiles).to(tl.int32)
        slot = (tile - label * tiles) * PAIRS + tl.arange(0, PAIRS)
        inside = slot < count
        row = ends + label * 2 * capacity
        one = tl.load(row + slot, mask=inside, other=0).to(tl.int64)
        other = tl.load(row + capacity + slot, mask=inside, other=0).to(tl.int64)
        before = _hidden(
            z, w1, b1 + run * weights_per_run, one, other, inside, word(key, one, other),
            width, hidden, threshold, scale, PRECISION, PAIRS, COLUMNS, HIDDEN,
        )
        is_open = (before > 0) & is_unit[None, :]
        after = tl.where(is_open, before, 0.0)
        logit = tl.sum(after * second[None, :], 1) + tl.load(b2 + run * weights_per_run)
        wanted = tl.where(label == 0, linked, unlinked)
        loss, gradient = _loss_of(logit, wanted, inside, count, RELU)
        sum_b1 += tl.sum(tl.where(is_open, gradient[:, None], 0.0), 0)
        sum_w2 += tl.sum(after * gradient[:, None], 0)
        sum_b2 += tl.sum(gradient, 0)
        sum_loss += tl.sum(loss, 0)
        tl.store(gradients + label * capacity + slot, gradient, mask=inside)
        _pack(bits, (label * capacity + slot).to(tl.int64), inside, is_open, PAIRS, HIDDEN)
    tl.atomic_add(b1_grad + run * weights_per_run + unit, sum_b1 * second, mask=is_unit)
    tl.atomic_add(w2_grad + run * weights_per_run + unit, sum_w2, mask=is_unit)
    tl.atomic_add(b2_grad + run * weights_per_run, sum_b2)
    kept_at = (number % num_kept_losses) * tl.num_programs(1) + run
    tl.atomic_add(losses + kept_at * 2 + TURN, sum_loss)


@triton.jit
def _open_units(bits, place, inside, unit):
    """Return 1 where a unit of a pair is open and 0 elsewhere, [pairs, units]."""
    packed = tl.load(bits + place[:, None] + (unit // 32)[None, :], mask=inside[:, None], other=0)
    return ((packed >> (unit % 32)[None, :]) & 1).to(tl.float32)


@triton.jit
def decode_backward(
    z, dz, w1, w2, ends, counts, gradients, bits, keys, epoch,
    num_nodes, capacity, weights_per_run, width, hidden, threshold, scale, KEY,
    TURN: tl.constexpr, NUM_KEYS: tl.constexpr, PRECISION: tl.constexpr,
    PAIRS: tl.constexpr, COLUMNS: tl.constexpr, UNITS: tl.constexpr, HIDDEN: tl.constexpr,
):
    """Add up dZ: the open units of each pair, times W_1, times the other end's embedding."""
    run = tl.program_id(2).to(tl.int64)
    z += run * num_nodes * width
    dz += run * num_nodes * width
    w1 += run * weights_per_run
    w2 += run * weights_per_run
    ends += run * 8 * capacity + TURN * 4 * capacity
    gradients += run * 2 * capacity
    bits += run * 2 * capacity * (HIDDEN // 32)
    key = epoch_key(tl.load(keys + run * NUM_KEYS + KEY), tl.load(epoch))
    count = tl.load(counts + run * 2 + TURN)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    tiles = tl.cdiv(count, PAIRS)
    for tile in range(tl.program_id(1), 2 * tiles, tl.num_programs(1)):
        label = (tile >= tiles).to(tl.int32)
        slot = (tile - label * tiles) * PAIRS + tl.arange(0, PAIRS)
        inside = slot < count
        place = (label * capacity + slot).to(tl.int64) * (HIDDEN // 32)
        dh = tl.zeros((PAIRS, COLUMNS), tl.float32)
        for start in range(0, HIDDEN, UNITS):
            unit = start + tl.arange(0, UNITS)
            weight = tl.load(
                w1 + unit[:, None] * width + column[None, :],
                mask=(unit < hidden)[:, None] & (column < width)[None, :],
                other=0.0,
            )
            weight *= tl.load(w2 + unit, mask=unit < hidden, other=0.0)[:, None]
            dh += _dot(_open_units(bits, place, inside, unit), weight, PRECISION)
        row = ends + label * 2 * capacity
        one = tl.load(row + slot, mask=inside, other=0).to(tl.int64)
        other = tl.load(row + capacity + slot, mask=inside, other=0).to(tl.int64)
        gradient = tl.load(gradients + label * capacity + slot, mask=inside, other=0.0)
        left, right, kept = _product(
            z, one, other, inside, word(key, one, other), column, width, threshold
        )
        dh *= (gradient * scale)[:, None]
        tl.atomic_add(
            dz + one[:, None] * width + column[None, :], dh * right, mask=kept, sem="relaxed"
        )
        tl.atomic_add(
            dz + other[:, None] * width + column[None, :], dh * left, mask=kept, sem="relaxed"
        )


@triton.jit
def first_layer_gradient(
    z, w2, w1_grad, ends, counts, gradients, bits, keys, epoch,
    num_nodes, capacity, weights_per_run, width, hidden, threshold, scale, KEY,
    TURN: tl.constexpr, NUM_KEYS: tl.constexpr, PRECISION: tl.constexpr,
    PAIRS: tl.constexpr, COLUMNS: tl.constexpr, HIDDEN: tl.constexpr,
):
    """Add up the gradient of W_1: the products of the pairs, times their open units."""
    run = tl.program_id(2).to(tl.int64)
    z += run * num_nodes * width
    ends += run * 8 * capacity + TURN * 4 * capacity
    gradients += run * 2 * capacity
    bits += run * 2 * capacity * (HIDDEN // 32)
    key = epoch_key(tl.load(keys + run * NUM_KEYS + KEY), tl.load(epoch))
    count = tl.load(counts + run * 2 + TURN)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    unit = tl.arange(0, HIDDEN)
    total = tl.zeros((COLUMNS, HIDDEN), tl.float32)
    tiles = tl.cdiv(count, PAIRS)
    for tile in range(tl.program_id(1), 2 * tiles, tl.num_programs(1)):
        label = (tile >= tiles).to(tl.int32)
        slot = (tile - label * tiles) * PAIRS + tl.arange(0, PAIRS)
        inside = slot < count
        row = ends + label * 2 * capacity
        one = tl.load(row + slot, mask=inside, other=0).to(tl.int64)
        other = tl.load(row + capacity + slot, mask=inside, other=0).to(tl.int64)
        row_word = word(key, one, other)
        left, right, kept = _product(z, one, other, inside, row_word, column, width, threshold)
        gradient = tl.load(gradients + label * capacity + slot, mask=inside, other=0.0)
        h = tl.where(kept, left * right * (gradient * scale)[:, None], 0.0)
        place = (label * capacity + slot).to(tl.int64) * (HIDDEN // 32)
        total += _dot(tl.trans(h), _open_units(bits, place, inside, unit), PRECISION)
    second = tl.load(w2 + run * weights_per_run + unit, mask=unit < hidden, other=0.0)
    place = w1_grad + run * weights_per_run + unit[None, :] * width + column[:, None]
    mask = (unit < hidden)[None, :] & (column < width)[:, None]
    tl.atomic_add(place, total * second[None, :], mask=mask)


@triton.jit
def decode_only(
    z, w1, b1, w2, b2, pairs, logits, num_nodes, num_pairs, weights_per_run, width, hidden,
    RELU: tl.constexpr, PRECISION: tl.constexpr,
    PAIRS: tl.constexpr, COLUMNS: tl.constexpr, HIDDEN: tl.constexpr,
):
    """Score pairs without dropout, [p] for each run; pairs are [2, p] for each run."""
    run = tl.program_id(1).to(tl.int64)
    slot = tl.program_id(0) * PAIRS + tl.arange(0, PAIRS)
    inside = slot < num_pairs
    pairs += run * 2 * num_pairs
    one = tl.load(pairs + slot, mask=inside, other=0).to(tl.int64)
    other = tl.load(pairs + num_pairs + slot, mask=inside, other=0).to(tl.int64)
    before = _hidden(
        z + run * num_nodes * width, w1 + run * weights_per_run, b1 + run * weights_per_run,
        one, other, inside, one.to(tl.uint32), width, hidden, 0, 1.0,
        PRECISION, PAIRS, COLUMNS, HIDDEN,
    )
    unit = tl.arange(0, HIDDEN)
    second = tl.load(w2 + run * weights_per_run + unit, mask=unit < hidden, other=0.0)
    logit = tl.sum(tl.maximum(before, 0.0) * second[None, :], 1)
    logit += tl.load(b2 + run * weights_per_run)
    if RELU:
        logit = tl.maximum(logit, 0.0)
    tl.store(logits + run * num_pairs + slot, logit, mask=inside)
