"""Numbers and lists as parts of sentences and tables."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["joined", "signed"]


def joined(parts: Sequence[str]) -> str:
    """Return a list as a sentence's part.

    Example:
        >>> joined(["one", "two", "three"])
        'one, two and three'
    """
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def signed(number: float, digits: int = 2) -> str:
    """Return a number with its sign; with none if it is printed as zero.

    Example:
        >>> signed(0.126), signed(-0.126), signed(-0.001)
        ('+0.13', '-0.13', '0.00')
    """
    text = f"{number:+.{digits}f}"
    return text if float(text) else text[1:]
