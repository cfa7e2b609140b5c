"""What chance decides in an epoch: the views, what they ask for, and the counter-examples."""

# pyrefly: ignore-errors
# ruff: noqa: ANN001, ANN201, ANN202

import triton
import triton.language as tl

from cgcl.train.engines.kernels.hashing import epoch_key, word


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
