"""What is asked for: one object from the command line to the search, checked once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from cgcl.errors import ConfigError, GraphContentError

Pairs: TypeAlias = Sequence[tuple[str, str]]
Strategy: TypeAlias = Literal["exact", "linear", "two-hop"]
Asked: TypeAlias = Literal["auto", "exact", "linear", "two-hop"]
WAYS: tuple[Asked, ...] = ("auto", "exact", "linear", "two-hop")


@dataclass(frozen=True, kw_only=True)
class Query:
    """A question to the graph in the user's names: the best new links, of all nodes or of some.

    Known links, self-pairs and excluded pairs are never an answer, and no pair is an answer twice.
    In a graph with two sides only pairs across them are.

    Example:
        >>> best_of_one_node = Query(count=10, sources=["Anna"])
    """

    count: int | None = None
    """How many links at most; None for all of them."""
    sources: Sequence[str] | None = None
    """Only links with one end here; that end comes first."""
    targets: Sequence[str] | None = None
    """Only links whose other end is here."""
    exclude: Pairs = ()
    """Pairs never to suggest, either way round; names that are not in the graph do no harm."""
    min_probability: float | None = None
    """Nothing less probable than this."""
    prior: float | None = None
    """The share of unknown pairs that are links; None for the calibration's own."""
    candidates: Asked = "auto"
    """Which pairs to score: `exact`, `linear`, `two-hop`, or `auto`."""
    explain: bool = False
    """Whether to say in words what speaks for each link."""

    def __post_init__(self) -> None:
        """Check what can be checked without a graph and without a calibration.

        Raises:
            ConfigError: `count` is not a positive number, or there is no such way to search.
            GraphContentError: What is excluded is not a pair of names.
        """
        count = self.count
        if count is not None and (isinstance(count, bool) or not isinstance(count, int)):
            raise ConfigError(f"You asked for {count!r} links; ask for a whole number.")
        if count is not None and count < 1:
            raise ConfigError(f"You asked for the best {count} links; ask for at least 1.")
        if self.candidates not in WAYS:
            raise ConfigError(
                f"There is no way {self.candidates!r} to search. Known: {', '.join(WAYS)}."
            )
        object.__setattr__(self, "exclude", checked_pairs(self.exclude))


def checked_pairs(pairs: Any) -> list[tuple[str, str]]:  # noqa: ANN401
    """Return what should be pairs of names as a list.

    Raises:
        GraphContentError: Something is not a pair of names.
    """
    found: list[tuple[str, str]] = []
    for pair in pairs if isinstance(pairs, Iterable) else [pairs]:
        if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
            raise GraphContentError(
                "Give a list of pairs of names, such as [('Anna', 'Bob'), ('Anna', 'Eve')]."
            )
        found.append((pair[0], pair[1]))
    return found
