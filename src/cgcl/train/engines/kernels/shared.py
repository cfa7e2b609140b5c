"""What the kernels of both networks need: the words of `cgcl.counter_rng`, dropout, Adam."""

# pyrefly: ignore-errors
# ruff: noqa: ANN001, ANN201, D417

import math

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
    """Return the key of a purpose in an epoch, as `counter_rng.epoch_key` does."""
    return mix(base.to(tl.uint32) + epoch.to(tl.uint32) * _GOLDEN)


@triton.jit
def word(key, row, column):
    """Return the word of a row and a column, as `counter_rng.words` does."""
    return mix(mix(row.to(tl.uint32) ^ key) + column.to(tl.uint32) * _GOLDEN)


@triton.jit
def keeps(row_word, column, threshold):
    """Return whether dropout keeps a column, by the word of what it belongs to.

    `threshold` is the chance to be dropped in units of 2^-24.
    """
    coin = mix(row_word + column.to(tl.uint32) * _GOLDEN)
    return (coin >> 8).to(tl.int32) >= threshold


@triton.jit
def some_of(matrix, row, column, stride, is_row, is_column):
    """Return some rows and columns of a matrix in full precision; 0 where there is no entry.

    Its rows are `stride` apart.
    """
    place = matrix + row.to(tl.int64)[:, None] * stride + column[None, :]
    found = tl.load(place, mask=is_row[:, None] & is_column[None, :], other=0.0)
    return found.to(tl.float32)


@triton.jit
def elu(x):
    """Return x, or e^x - 1 below 0."""
    # exp(x) - 1 loses its digits near 0, where x + x^2 / 2 has them.
    below = tl.where(x > -1e-3, x + 0.5 * x * x, tl.exp(x) - 1)
    return tl.where(x > 0, x, below)


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


_BETA_1 = tl.constexpr(0.9)
_BETA_2 = tl.constexpr(0.999)
_LOG_1 = tl.constexpr(math.log2(0.9))
_LOG_2 = tl.constexpr(math.log2(0.999))
_EPSILON = tl.constexpr(1e-8)


@triton.jit
def adam_step(
    weights, gradients, first, second, steps, counts, lr, weight_decay, averages, epoch,
    weights_per_run, least, TURN: tl.constexpr, FOLLOW: tl.constexpr, BLOCK: tl.constexpr,
):
    """Step every weight of a run as torch's Adam does, and clear its gradient.

    Args:
        steps: How many steps each run has taken, this one included.
        counts: How many links each run's turn asked for; without any there is no step.
        lr: The learning rate of each run.
        weight_decay: The L2 penalty of each run.
        averages: The moving average of each weight, if it is to FOLLOW.
        epoch: The number of the epoch: at first the average is over the steps so far.
        weights_per_run: A multiple of BLOCK.
        least: How far the average follows in the end.
    """
    run = tl.program_id(1).to(tl.int64)
    at = run * weights_per_run + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if tl.load(counts + run * 2 + TURN) > 0:
        weight = tl.load(weights + at)
        gradient = tl.load(gradients + at) + tl.load(weight_decay + run) * weight
        m = tl.load(first + at)
        m += (1 - _BETA_1) * (gradient - m)
        v = _BETA_2 * tl.load(second + at) + (1 - _BETA_2) * gradient * gradient
        # In double precision, or the first steps lose half of their digits.
        step = tl.load(steps + run).to(tl.float64)
        correction_1 = (1 - tl.exp2(step * _LOG_1)).to(tl.float32)
        correction_2 = (1 - tl.exp2(step * _LOG_2)).to(tl.float32)
        spread = tl.sqrt_rn(v) / tl.sqrt_rn(correction_2) + _EPSILON
        weight -= tl.load(lr + run) / correction_1 * m / spread
        tl.store(weights + at, weight)
        tl.store(first + at, m)
        tl.store(second + at, v)
        if FOLLOW:
            average = tl.load(averages + at)
            step = tl.maximum(least, 0.5 / tl.load(epoch).to(tl.float32))
            tl.store(averages + at, average + step * (weight - average))
    tl.store(gradients + at, tl.zeros((BLOCK,), tl.float32))
