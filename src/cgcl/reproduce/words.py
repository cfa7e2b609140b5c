"""Numbers and lists as parts of sentences and tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["joined", "markdown_table", "signed"]


def joined(parts: Sequence[str]) -> str:
    """Return a list as a sentence's part.

    Example:
        >>> joined(["one", "two", "three"])
        'one, two and three'
    """
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a small table of a page.

    Example:
        >>> print(markdown_table(["graph", "AUC"], [["Cora", "97.0"]]))
        | graph | AUC |
        | --- | --- |
        | Cora | 97.0 |
    """
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def signed(number: float, digits: int = 2) -> str:
    """Return a number with its sign; with none if it is printed as zero.

    Example:
        >>> signed(0.126), signed(-0.126), signed(-0.001)
        ('+0.13', '-0.13', '0.00')
    """
    text = f"{number:+.{digits}f}"
    return text if float(text) else text[1:]
