"""Links as a reader hands them over: nothing merged, nothing dropped yet."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

__all__ = ["EdgeTable", "ignored_note"]


@dataclass(frozen=True)
class EdgeTable:
    """The links of a file or an object, as written: not yet merged, loops not yet dropped."""

    names: tuple[str, ...]
    """The name of every node."""
    pairs: Tensor
    """Node numbers of every row: int64 [2, rows]."""
    notes: tuple[str, ...] = ()
    """What was ignored, a sentence each."""
    times: Tensor | None = None
    """When each row appeared, float64 [rows]; None if that was not asked for."""
    ends: tuple[str, str] | None = None
    """What the two ends are called; None if it means nothing which of them comes first."""
    is_directed: bool | None = None
    """Whether the source says that links have a direction; None if it does not say."""
    lists_both_ways: bool = False
    """Whether an undirected link is written as two, as in a matrix or an edge_index."""
    sides: Tensor | None = None
    """The side of every node, bool [n], where the source itself says so."""
    x: Tensor | None = None
    """Node features, float32 [n, d], where the source itself has them."""
    is_settled: bool = False
    """Whether `sides` are final and directions dropped; nobody looks again."""


def ignored_note(what: str, names: list[str]) -> tuple[str, ...]:
    """Return the note about columns or attributes of links that are not used.

    Example:
        >>> ignored_note("Column", ["'weight'"])
        ("Column 'weight' ignored: only the two ends of each link are used.",)
    """
    if not names:
        return ()
    more = f" and {len(names) - 5:,} more" if len(names) > 5 else ""
    plural = "" if len(names) == 1 else "s"
    return (
        f"{what}{plural} {', '.join(names[:5])}{more} ignored: "
        f"only the two ends of each link are used.",
    )
