"""How kernels are started."""

from __future__ import annotations

from typing import Any

import triton

THRESHOLDS = 2**24
"""Chances are whole numbers of this part inside a kernel."""


def launch(kernel: Any, *grid: int) -> Any:  # noqa: ANN401 - Triton's own types know no grids
    """Return what starts a kernel's programs over a grid."""
    return kernel[grid]


def blocks(count: int, size: int) -> int:
    """Return how many blocks of a size hold so many things."""
    return int(triton.cdiv(count, size))


def power_of_2(number: int, least: int = 1) -> int:
    """Return the next power of two: a block has no other size."""
    return max(least, int(triton.next_power_of_2(number)))


def dropping(chance: float) -> tuple[int, float]:
    """Return the chance as a threshold, and what the entries that are left are scaled by."""
    threshold = round(chance * THRESHOLDS)
    return threshold, THRESHOLDS / (THRESHOLDS - threshold)
