"""What becomes of a claim of the paper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from cgcl.compare.statistics import LEVEL, Difference
from cgcl.reproduce.described import Protocol
from cgcl.reproduce.page import Reproduced

__all__ = [
    "Check",
    "Numbers",
    "Verdict",
    "Word",
    "by_sign",
    "by_test",
    "sign_of",
    "told",
]

_NOTHING = 1e-9

Word = Literal[
    "holds", "holds in part", "does not hold", "cannot be told", "not run yet", "not tested"
]

Numbers = list[tuple[str, ...]]
"""A line of titles, and a line for each place."""


@dataclass(frozen=True)
class Verdict:
    """A word and what it rests on."""

    word: Word
    evidence: str
    numbers: Sequence[Sequence[str]] = ()
    """What is behind it, as a table: a line of titles and a line for each place."""


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
        """Return the verdict; there is none before the last run that it depends on is there.

        A clear exception among some runs may be none among all, with more comparisons to allow for.
        """
        names = [self.experiment, *([self.and_also] if self.and_also else [])]
        for name in names:
            missing, every = reproduced.missing(name, self.rows, self.protocol)
            if missing:
                there = f"{every - missing:,} of {every:,} runs are there"
                option = f" --protocol {self.protocol}" if self.protocol else ""
                return Verdict(
                    "not run yet", f"`cgcl reproduce {name}{option}` decides it: {there}."
                )
        return self.look(reproduced)


def by_sign(is_so: Sequence[bool]) -> Word:
    """Return whether something is so everywhere, somewhere or nowhere."""
    if all(is_so):
        return "holds"
    return "holds in part" if any(is_so) else "does not hold"


def sign_of(difference: Difference) -> int:
    """Return 1 if a difference is above zero, -1 if below, and 0 if chance explains it.

    Where all runs differ by the same there is no p, and no chance that could explain it.

    Args:
        difference: With the p that allows for the number of comparisons.
    """
    if difference.p is None:
        is_told = difference.sd is not None and difference.sd < _NOTHING < abs(difference.mean)
    else:
        is_told = difference.adjusted_p is not None and difference.adjusted_p < LEVEL
    return (difference.mean > 0) - (difference.mean < 0) if is_told else 0


def told(differences: Sequence[Difference], above: str = "above zero", below: str = "below") -> str:
    """Return how many differences are above and below zero by more than chance explains.

    Args:
        differences: With p-values that allow for their number.
        above: What it is to be above zero.
        below: What it is to be below.
    """
    signs = [sign_of(own) for own in differences]
    return (
        f"{above} by more than chance explains in {signs.count(1) or 'none'} of {len(signs)}, "
        f"{below} in {signs.count(-1) or 'none'}"
    )


def by_test(differences: Sequence[Difference], *, everywhere: bool = False) -> Word:
    """Return whether differences are above zero, where chance does not explain them.

    Args:
        differences: With p-values that allow for their number.
        everywhere: The claim says that all are, so that one below zero refutes it.
    """
    signs = [sign_of(own) for own in differences]
    if -1 in signs and (everywhere or 1 not in signs):
        return "does not hold"
    if 1 not in signs:
        return "cannot be told"
    return "holds" if all(sign == 1 for sign in signs) else "holds in part"
