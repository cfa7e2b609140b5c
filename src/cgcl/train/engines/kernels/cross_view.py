"""CGCL's epoch: views and counter-examples, the encoder, the decoder and the loss.

The decoder never writes a [pairs, d_v] tensor. The gradient of a pair's logit depends on that logit
alone, and that of its hidden layer is the same number times $W_2$ wherever a ReLU is open. So only
two things are kept from the way forward: the gradient of each logit, and one bit for each hidden
unit. Products of embeddings are gathered again, and dropout is tossed again, wherever they are
needed.
"""

# pyrefly: ignore-errors
# ruff: noqa: ANN001, ANN201, ANN202, D417

import triton
import triton.language as tl

from cgcl.train.engines.kernels.shared import elu, epoch_key, keeps, mix, some_of, word


@triton.jit
def _in_view(there, back, VIEW: tl.constexpr, KIND: tl.constexpr):
    """Return whether a link is in view 0 or 1, by its two coins; `directed` has its own rule."""
    if KIND == "shared":
        return (there | back) if VIEW == 0 else (there & back) == 0
    return there if VIEW == 0 else there == 0


@triton.jit
def is_seen(coins, along, VIEW: tl.constexpr, KIND: tl.constexpr):
    """Return whether a message passes along a link, seen from view 0 or 1.

    Args:
        coins: Bit 0 is the coin from the low to the high end, bit 1 the one back.
        along: Whether the message goes from the low to the high end.
        VIEW: 0 or 1; the turn that encodes it has the same number.
        KIND: How views are drawn, or `all` for every link.
    """
    there, back = coins & 1, (coins >> 1) & 1
    if KIND == "all":
        seen = (coins | 1) > 0
    elif KIND == "directed":
        coin = tl.where(along, there, back)
        seen = (coin == 1) if VIEW == 0 else (coin == 0)
    else:
        seen = _in_view(there, back, VIEW, KIND) != 0
    return seen


@triton.jit
def _append(low, high, wanted, ends, counts, capacity, TURN: tl.constexpr):
    """Write the wanted pairs behind those that are there, in any order of blocks."""
    number = wanted.to(tl.int32)
    base = tl.atomic_add(counts + TURN, tl.sum(number, 0))
    place = base + tl.cumsum(number, 0) - number
    # ends: [turn, label, end, slot]; label 0 are links.
    row = ends + TURN * 4 * capacity
    tl.store(row + place, low, mask=wanted)
    tl.store(row + capacity + place, high, mask=wanted)


@triton.jit
def draw_views(
    links, coins, ends, counts, keys, epoch,
    num_links, capacity, limit, KIND: tl.constexpr, NUM_KEYS: tl.constexpr, BLOCK: tl.constexpr,
):
    """Toss the coins of every link and list what each turn has to reconstruct.

    A word below `limit` is a coin of 1.
    """
    run = tl.program_id(1).to(tl.int64)
    links += run * 2 * num_links
    coins += run * num_links
    ends += run * 8 * capacity
    counts += run * 2
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < num_links
    low = tl.load(links + at, mask=inside, other=0)
    high = tl.load(links + num_links + at, mask=inside, other=0)
    key = epoch_key(tl.load(keys + run * NUM_KEYS), tl.load(epoch))
    there = (word(key, low, high).to(tl.int64) < limit).to(tl.int32)
    back = (word(key, high, low).to(tl.int64) < limit).to(tl.int32)
    tl.store(coins + at, (there + 2 * back).to(tl.int8), mask=inside)
    if KIND == "directed":
        # Turn 0 reconstructs view 1, which has the entries with tails.
        _append(low, high, inside & (there == 0), ends, counts, capacity, 0)
        _append(high, low, inside & (back == 0), ends, counts, capacity, 0)
        _append(low, high, inside & (there == 1), ends, counts, capacity, 1)
        _append(high, low, inside & (back == 1), ends, counts, capacity, 1)
    elif KIND == "all":
        _append(low, high, inside, ends, counts, capacity, 0)
    elif KIND == "own":
        _append(low, high, inside & (there == 1), ends, counts, capacity, 0)
        _append(low, high, inside & (there == 0), ends, counts, capacity, 1)
    else:
        hidden_first = _in_view(there, back, 1, KIND) != 0
        _append(low, high, inside & hidden_first, ends, counts, capacity, 0)
        if KIND != "one":
            hidden_second = _in_view(there, back, 0, KIND) != 0
            _append(low, high, inside & hidden_second, ends, counts, capacity, 1)


@triton.jit
def _below(word, limit):
    return ((word.to(tl.int64) * limit) >> 32).to(tl.int32)


@triton.jit
def _are_linked(code, wanted, codes, num_links, STEPS: tl.constexpr):
    """Return which codes are among the sorted ones, by bisection."""
    low = tl.zeros_like(code)
    high = tl.zeros_like(code) + num_links
    for _ in range(STEPS):
        middle = (low + high) // 2
        open_ = wanted & (low < high)
        found = tl.load(codes + middle, mask=open_, other=0)
        low = tl.where(open_ & (found < code), middle + 1, low)
        high = tl.where(open_ & (found >= code), middle, high)
    inside = wanted & (low < num_links)
    return inside & (tl.load(codes + low, mask=inside, other=-1) == code)


@triton.jit
def draw_negatives(
    codes, ends, counts, keys, epoch, num_nodes, num_links, capacity,
    NUM_KEYS: tl.constexpr, STEPS: tl.constexpr, BLOCK: tl.constexpr,
):
    """Draw as many unlinked pairs for each turn as it has links, as `draw_hashed` does."""
    turn, run = tl.program_id(1), tl.program_id(2).to(tl.int64)
    count = tl.load(counts + run * 2 + turn)
    first_slot = tl.program_id(0) * BLOCK
    if first_slot < count:
        codes += run * num_links
        row = ends + run * 8 * capacity + turn * 4 * capacity + 2 * capacity
        key = epoch_key(tl.load(keys + run * NUM_KEYS + 1 + turn), tl.load(epoch))
        slot = first_slot + tl.arange(0, BLOCK)
        again = slot < count
        one = tl.zeros_like(slot)
        other = tl.zeros_like(slot)
        column = tl.zeros_like(slot)
        while tl.sum(again.to(tl.int32), 0) > 0:
            first = _below(word(key, slot, column), num_nodes)
            second = _below(word(key, slot, column + 1), num_nodes - 1)
            second += (second >= first).to(tl.int32)
            one = tl.where(again, tl.minimum(first, second), one)
            other = tl.where(again, tl.maximum(first, second), other)
            code = one.to(tl.int64) * num_nodes + other
            again = _are_linked(code, again, codes, num_links, STEPS)
            column += 2
        tl.store(row + slot, one, mask=slot < count)
        tl.store(row + capacity + slot, other, mask=slot < count)


@triton.jit
def scale_nodes(
    starts, neighbours, pair_of, coins, scales, num_nodes, num_links,
    KIND: tl.constexpr, BLOCK: tl.constexpr,
):
    """Write D~^(-1/2) of the view that each turn encodes   (Eq. 1)."""
    node, run = tl.program_id(0), tl.program_id(1).to(tl.int64)
    starts += run * (num_nodes + 1)
    neighbours += run * 2 * num_links
    pair_of += run * 2 * num_links
    coins += run * num_links
    begin, end = tl.load(starts + node), tl.load(starts + node + 1)
    degree_0 = tl.zeros((BLOCK,), tl.float32)
    degree_1 = tl.zeros((BLOCK,), tl.float32)
    for at in range(begin, end, BLOCK):
        entry = at + tl.arange(0, BLOCK)
        inside = entry < end
        pair = tl.load(pair_of + entry, mask=inside, other=0)
        along = tl.load(neighbours + entry, mask=inside, other=0) < node
        coin = tl.load(coins + pair, mask=inside, other=0).to(tl.int32)
        degree_0 += (inside & is_seen(coin, along, 0, KIND)).to(tl.float32)
        degree_1 += (inside & is_seen(coin, along, 1, KIND)).to(tl.float32)
    scales += run * 2 * num_nodes + node
    tl.store(scales, 1 / tl.sqrt_rn(1 + tl.sum(degree_0, 0)))
    tl.store(scales + num_nodes, 1 / tl.sqrt_rn(1 + tl.sum(degree_1, 0)))


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
        rows = some_of(dense, other, column, width, kept, column < width)
        total += tl.sum(value[:, None] * rows, 0)
    place = out + run * out_per_run + row.to(tl.int64) * width + column
    tl.store(place, total, mask=column < width)


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
        rows = some_of(h, neighbour, column, width, seen, in_row)
        total += tl.sum(scale[:, None] * rows, 0)
    total *= own_scale
    place = (run * num_nodes + node) * width + column
    if not BACKWARD:
        total += tl.load(bias + run * weights_per_run + column, mask=in_row, other=0.0)
        total = elu(total)
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


@triton.jit
def _dot(a, b, PRECISION: tl.constexpr):
    return tl.dot(a, b, input_precision=PRECISION)


@triton.jit
def _slots_of(tile, tiles, count, PAIRS: tl.constexpr):
    """Return the label of a tile's pairs, where they stand, and which of them there are."""
    label = (tile >= tiles).to(tl.int32)
    slot = (tile - label * tiles) * PAIRS + tl.arange(0, PAIRS)
    return label, slot, slot < count


@triton.jit
def _ends_of(ends, label, slot, inside, capacity):
    """Return both ends of pairs."""
    row = ends + label * 2 * capacity
    one = tl.load(row + slot, mask=inside, other=0).to(tl.int64)
    return one, tl.load(row + capacity + slot, mask=inside, other=0).to(tl.int64)


@triton.jit
def _product(z, one, other, inside, row_word, column, width, threshold):
    """Return both ends' embeddings and which entries of their product are kept."""
    left = some_of(z, one, column, width, inside, column < width)
    right = some_of(z, other, column, width, inside, column < width)
    mask = inside[:, None] & (column < width)[None, :]
    return left, right, mask & keeps(row_word[:, None], column[None, :], threshold)


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
        label, slot, inside = _slots_of(tile, tiles, count, PAIRS)
        one, other = _ends_of(ends, label, slot, inside, capacity)
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
        label, slot, inside = _slots_of(tile, tiles, count, PAIRS)
        place = (label * capacity + slot).to(tl.int64) * (HIDDEN // 32)
        dh = tl.zeros((PAIRS, COLUMNS), tl.float32)
        for start in range(0, HIDDEN, UNITS):
            unit = start + tl.arange(0, UNITS)
            weight = some_of(w1, unit, column, width, unit < hidden, column < width)
            weight *= tl.load(w2 + unit, mask=unit < hidden, other=0.0)[:, None]
            dh += _dot(_open_units(bits, place, inside, unit), weight, PRECISION)
        one, other = _ends_of(ends, label, slot, inside, capacity)
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
        label, slot, inside = _slots_of(tile, tiles, count, PAIRS)
        one, other = _ends_of(ends, label, slot, inside, capacity)
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
    one, other = _ends_of(pairs, 0, slot, inside, num_pairs)
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
