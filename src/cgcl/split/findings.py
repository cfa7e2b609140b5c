"""What an audit of a split has to say: findings, for people and for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from torch import Tensor

from cgcl.errors import SplitError
from cgcl.graph.wording import shown

__all__ = ["Audit", "Finding", "Kind", "Severity"]

Severity = Literal["leak", "warning", "note"]
"""A leak makes every figure doubtful, a warning some of them; a note is good to know."""

Kind = Literal[
    "held-out link in training",
    "reverse of a held-out link in training",
    "validation link in the test",
    "counter-example is a link",
    "counter-example in two parts",
    "counter-example within one side",
    "repeated pair",
    "both directions",
    "self-link",
    "node outside the graph",
    "isolated by the split",
]

_WORDS = {"train": "to learn from", "val": "for validation", "test": "for the test"}


@dataclass(frozen=True, eq=False)
class Finding:
    """One thing that an audit found, with all the pairs it concerns."""

    kind: Kind
    severity: Severity
    part: str
    """Where it was found: train, val, test, val_negatives or test_negatives."""
    count: int
    sentence: str
    pairs: Tensor
    """The node numbers of the pairs, int64 [2, any], each pair once."""
    names: Sequence[str] = field(default=(), repr=False)
    """The name of every node; empty if they have none but their numbers."""

    @cached_property
    def named_pairs(self) -> tuple[tuple[str, str], ...]:
        """All pairs by the names of their nodes."""
        return self._first(self.pairs.shape[1])

    def shown_pairs(self, limit: int = 5) -> str:
        """Return up to `limit` pairs on one line, and how many more there are."""
        first = self._first(limit)
        more = self.pairs.shape[1] - len(first)
        words = ", ".join(f"'{shown(a)}' - '{shown(b)}'" for a, b in first)
        return words + (f" and {more:,} more" if more else "")

    def to_json(self) -> dict[str, Any]:
        """Return the finding as JSON can hold it, with all its pairs."""
        return {
            "kind": self.kind,
            "severity": self.severity,
            "part": self.part,
            "count": self.count,
            "sentence": self.sentence,
            "pairs": list(map(list, self.named_pairs)),
        }

    def _first(self, count: int) -> tuple[tuple[str, str], ...]:
        sources, targets = (map(self._name, row) for row in self.pairs[:, :count].tolist())
        return tuple(zip(sources, targets, strict=True))

    def _name(self, node: int) -> str:
        return self.names[node] if 0 <= node < len(self.names) else str(node)


@dataclass(frozen=True, eq=False)
class Audit:
    """Everything that an audit found, the worst first."""

    findings: tuple[Finding, ...]
    sizes: Mapping[str, int]
    """How many pairs each part lists."""

    @property
    def leaks(self) -> tuple[Finding, ...]:
        """The findings that make every figure doubtful."""
        return tuple(finding for finding in self.findings if finding.severity == "leak")

    @property
    def is_clean(self) -> bool:
        """Whether nothing leaks; there may still be warnings and notes."""
        return not self.leaks

    def raise_for_leaks(self) -> None:
        """Refuse to go on with a split that leaks.

        Raises:
            SplitError: There is a leak; the message has the first one, with its pairs.
        """
        if self.is_clean:
            return
        first, *others = self.leaks
        more = f"\nThere {_are(len(others), 'other leak')}." if others else ""
        raise SplitError(f"The split leaks. {first.sentence}\n  {first.shown_pairs()}{more}")

    def to_json(self) -> dict[str, Any]:
        """Return the audit as JSON can hold it, with all pairs."""
        return {
            "is_clean": self.is_clean,
            "sizes": dict(self.sizes),
            "findings": [finding.to_json() for finding in self.findings],
        }

    def text(self, limit: int = 5) -> str:
        """Return the audit for people, with up to `limit` pairs for each finding."""
        links = ", ".join(f"{self.sizes[part]:,} {words}" for part, words in _WORDS.items())
        against = self.sizes["val_negatives"] + self.sizes["test_negatives"]
        lines = [f"Links: {links}; {against:,} counter-example{'' if against == 1 else 's'}."]
        for finding in self.findings:
            lines.append(f"  {finding.severity:<9} {finding.sentence}")
            if limit > 0:
                lines.append(f"{'':<12}{finding.shown_pairs(limit)}")
        lines.append(self._verdict())
        return "\n".join(lines)

    def _verdict(self) -> str:
        if not self.is_clean:
            leaks = len(self.leaks)
            return (
                f"{leaks} leak{'' if leaks == 1 else 's'} found: figures measured on this split "
                f"cannot be trusted."
            )
        warnings = sum(finding.severity == "warning" for finding in self.findings)
        if warnings:
            return f"No leak found, but there {_are(warnings, 'warning')}."
        return "No leak found."


def _are(count: int, what: str) -> str:
    return f"is 1 {what}" if count == 1 else f"are {count} {what}s"
