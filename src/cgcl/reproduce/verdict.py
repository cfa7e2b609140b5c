"""What becomes of a claim of the paper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from cgcl.reproduce.page import Reproduced

__all__ = ["Check", "Verdict", "Word", "by_sign", "listed", "open_verdict"]

Word = Literal["holds", "holds in part", "does not hold", "not run yet", "not tested"]


@dataclass(frozen=True)
class Verdict:
    """A word and what it rests on."""

    word: Word
    evidence: str


Check = Callable[[Reproduced], Verdict]
"""Looks at the runs and says what becomes of a claim."""


def open_verdict(what: str) -> Verdict:
    """Return that the runs are missing which a claim would be judged by."""
    return Verdict("not run yet", f"The runs of `cgcl reproduce {what}` decide it.")


def by_sign(is_so: Sequence[bool]) -> Word:
    """Return whether something is so everywhere, somewhere or nowhere."""
    if all(is_so):
        return "holds"
    return "holds in part" if any(is_so) else "does not hold"


def listed(parts: Sequence[str]) -> str:
    """Return a list as a sentence's part.

    Example:
        >>> listed(["one", "two", "three"])
        'one, two and three'
    """
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"
