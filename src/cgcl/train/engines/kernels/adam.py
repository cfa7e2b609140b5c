"""Adam for the weights of every run in one kernel."""

# pyrefly: ignore-errors
# ruff: noqa: ANN001, ANN201, D417

import math

import triton
import triton.language as tl

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
