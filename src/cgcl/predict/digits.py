"""Numbers with the digits that tell them apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence

__all__ = ["decimals", "told_apart"]

_MOST_MORE = 4


def told_apart(
    values: Sequence[float | None], write: Callable[[float | None, int], str]
) -> list[str]:
    """Return a column of numbers as text, with more digits than usual if equals would not be equal.

    So many more, at most four, that numbers which differ look different; all have as many.

    Example:
        >>> told_apart([0.25, 0.18342, 0.18339], decimals)
        ['0.25000', '0.18342', '0.18339']

    Args:
        values: The numbers, None where there is none.
        write: Writes one of them with so many digits more than usual.
    """
    texts = [write(value, 0) for value in values]
    for more in range(1, _MOST_MORE + 1):
        if len(set(texts)) == len(set(values)):
            break
        texts = [write(value, more) for value in values]
    return texts


def decimals(value: float | None, more: int = 0) -> str:
    """Return a number between 0 and 1 with four decimals, if it is not too small for them.

    Example:
        >>> [decimals(value) for value in (0.5, 0.00021, None)]
        ['0.5000', '2.1e-04', '']
    """
    if value is None:
        return ""
    # Small probabilities are the rule: 0.0002 must not become 0.00.
    if 0 < value < 0.001:
        return f"{value:.{1 + more}e}"
    text = f"{value:.{4 + more}f}"
    # Nearly is not quite: what is below 1 must not become 1.
    return f">0.{'9' * (4 + more)}" if value < 1 and float(text) == 1 else text
