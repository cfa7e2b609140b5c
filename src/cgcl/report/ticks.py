"""Round numbers along an axis."""

from __future__ import annotations

import math

__all__ = ["tick_label", "ticks"]

# A step reads well if it is one of these times a power of ten.
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Return round numbers between two ends, at most `most` + 1 of them.

    Args:
        low: The lower end.
        high: The upper end, above it.
        most: The most steps.

    Example:
        >>> ticks(0, 1, 5)
        [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
        >>> ticks(-3, 12, 4)
        [0.0, 5.0, 10.0]
    """
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(step for step in _STEPS if step * power >= rough * (1 - 1e-9)) * power
    # A hair beyond the ends, where rounding may have put them.
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    # Rounded to what the step shows: 3 * 0.1 is no 0.3.
    return [round(number * step, _decimals(step) + 2) + 0.0 for number in range(first, last + 1)]


def tick_label(value: float, step: float) -> str:
    """Return what is written at a tick.

    Args:
        value: Where it stands.
        step: How far the next one is.

    Example:
        >>> tick_label(1200, 200), tick_label(0.5, 0.25)
        ('1,200', '0.50')
    """
    return f"{value:,.{_decimals(step)}f}".replace("-", "\N{MINUS SIGN}")


def _decimals(step: float) -> int:
    """Return how many decimals tell the multiples of a step apart."""
    step = float(f"{step:.6g}")  # a difference of ticks is not quite as round as they are
    decimals = max(0, -math.floor(math.log10(step)))
    return decimals + (abs(round(step, decimals) - step) > 1e-9 * step)
