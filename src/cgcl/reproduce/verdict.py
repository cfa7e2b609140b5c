"""What becomes of a claim of the paper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from cgcl.compare.statistics import Spread
from cgcl.reproduce.described import Protocol
from cgcl.reproduce.page import Reproduced

__all__ = ["Check", "Verdict", "Word", "by_interval", "by_sign", "listed"]

Word = Literal[
    "holds", "holds in part", "does not hold", "cannot be told", "not run yet", "not tested"
]


@dataclass(frozen=True)
class Verdict:
    """A word and what it rests on."""

    word: Word
    evidence: str


@dataclass(frozen=True)
class Check:
    """Looks at the runs and says what becomes of a claim."""

    look: Callable[[Reproduced], Verdict]
    experiment: str
    """What it looks at."""
    rows: tuple[str, ...] | None = None
    """The rows that it looks at; None for all."""
    and_also: str = ""
    """A second experiment that it looks at."""
    protocol: Protocol | None = None
    """The protocol that it looks at; None for all of the experiment."""

    def verdict(self, reproduced: Reproduced) -> Verdict:
        """Return the verdict; there is none before the last run that it depends on is there."""
        names = [self.experiment, *([self.and_also] if self.and_also else [])]
        for name in names:
            missing, every = reproduced.missing(name, self.rows, self.protocol)
            if missing:
                option = f" --protocol {self.protocol}" if self.protocol else ""
                return Verdict(
                    "not run yet",
                    f"`cgcl reproduce {name}{option}` decides it: {every - missing:,} of {every:,} "
                    f"runs are there.",
                )
        return self.look(reproduced)


def by_sign(is_so: Sequence[bool]) -> Word:
    """Return whether something is so everywhere, somewhere or nowhere."""
    if all(is_so):
        return "holds"
    return "holds in part" if any(is_so) else "does not hold"


def by_interval(differences: Sequence[Spread]) -> Word:
    """Return whether differences are above zero, where chance does not explain them.

    Args:
        differences: Each with its interval; one that holds zero tells nothing.
    """
    ahead = sum(own.low is not None and own.low > 0 for own in differences)
    behind = sum(own.high is not None and own.high < 0 for own in differences)
    if ahead == len(differences):
        return "holds"
    if ahead:
        return "holds in part"
    return "does not hold" if behind else "cannot be told"


def listed(parts: Sequence[str]) -> str:
    """Return a list as a sentence's part.

    Example:
        >>> listed(["one", "two", "three"])
        'one, two and three'
    """
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"
