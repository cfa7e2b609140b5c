"""What a page can show beyond the run itself: plain data, each part absent where there is none.

Names are given as they were read. The page shows them as text, whatever they hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy.typing as npt

__all__ = [
    "AuditFinding",
    "Comparison",
    "MethodResult",
    "Probabilities",
    "SuggestedLink",
    "Suggestions",
]


@dataclass(frozen=True)
class SuggestedLink:
    """A new link and the evidence for it.

    Attributes:
        source: The first node's name.
        target: The second node's name.
        probability: The calibrated probability, None in a run without calibration.
        score: The raw score, by which the list is ordered.
        shared_neighbours: Nodes that are linked to both.
        common_features: Features that both have, None in a graph without features.
        distance: Steps from one to the other over known links, None without a path.
        because: The evidence in words.
        interval: The 95 % interval of the probability, None if the calibration knows none.
    """

    source: str
    target: str
    probability: float | None
    score: float
    shared_neighbours: int
    common_features: int | None
    distance: int | None
    because: str
    interval: Sequence[float] | None = None


@dataclass(frozen=True)
class Suggestions:
    """The list of new links, best first; the page shows a hundred of them.

    Attributes:
        links: The links, best first.
        how_found: One sentence: every pair was scored, or candidates with a measured recall.
    """

    links: Sequence[SuggestedLink]
    how_found: str


@dataclass(frozen=True)
class Probabilities:
    """How scores became probabilities, and how far to trust them.

    Attributes:
        method: The calibrator that was kept: "temperature", "platt" or "bent"; "isotonic" in
            models of earlier versions.
        losses: By calibrator, on held-out folds: log-loss at "even_odds" and at the "base_rate",
            and the share of uncertainty that is left "unexplained" on average.
        base_rate: The share of links among unknown pairs that the probabilities assume.
        base_rate_from: Where it comes from: "held-out links over unknown pairs", "--prior".
        test_links: Probabilities at 1:1 of the test links, None without a test.
        test_others: Probabilities at 1:1 of the unlinked test pairs, None without a test.
        shift: "expected" and "observed" numbers of links where more links are encoded, the same
            of the best pairs under "top" with their number "pairs", and a "warning" if they
            differ too much; None if nobody checked.
        notes: What else there is to say about them.
    """

    method: str
    losses: Mapping[str, Mapping[str, float]]
    base_rate: float
    base_rate_from: str
    test_links: npt.ArrayLike | None = None
    test_others: npt.ArrayLike | None = None
    shift: Mapping[str, Any] | None = None
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class MethodResult:
    """What one method reached.

    Attributes:
        method: Its name on the page.
        metrics: Fractions by name: "auc", "ap", "precision@100"; more is better.
    """

    method: str
    metrics: Mapping[str, float | None]


@dataclass(frozen=True)
class Comparison:
    """Methods on the same held-out links.

    Attributes:
        results: One entry per method.
        protocol: One sentence about which links were held out and what was ranked.
        ours: The method of this run, by its name in `results`.
    """

    results: Sequence[MethodResult]
    protocol: str = ""
    ours: str = "CGCL"


@dataclass(frozen=True)
class AuditFinding:
    """One thing that the split audit found.

    Attributes:
        sentence: What is wrong, with its count.
        severity: A "leak" makes the test numbers too good, a "warning" makes them doubtful,
            a "note" is good to know.
        examples: Pairs that it concerns; the page shows five.
        count: How many pairs it concerns, None if all are in `examples`.
    """

    sentence: str
    severity: Literal["leak", "warning", "note"]
    examples: Sequence[tuple[str, str]] = ()
    count: int | None = None
