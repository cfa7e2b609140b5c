"""Evidence in a sentence that a person can check."""

from __future__ import annotations

from collections.abc import Sequence

from cgcl.evidence.evidence import Evidence
from cgcl.evidence.messages import Reason, RestsOn
from cgcl.graph.wording import shown

__all__ = ["explained"]

_NAME_LENGTH = 40


def explained(
    pair: tuple[str, str], evidence: Evidence, number: int, rests: RestsOn | None = None
) -> str:
    """Return what speaks for a pair, and what its score rests on, in one to three sentences.

    Args:
        pair: The names of the two nodes.
        evidence: What the graph says about several pairs.
        number: The place of this pair among them.
        rests: What the score of this pair rests on, if that is known.
    """
    one, other = (_short(name) for name in pair)
    shared = _things(
        int(evidence.shared_neighbours[number]), "neighbour", evidence.neighbours[number]
    )
    if evidence.common_features is not None:
        features = _things(
            int(evidence.common_features[number]), "feature", evidence.features[number]
        )
        shared = f"{shared} and {features}"
    way = _way(evidence.distance[number], bool(evidence.linked[number]))
    sentences = [f"{one} and {other} share {shared}; {way}."]
    if rests is not None:
        sentences += _support(rests)
    return " ".join(sentences)


def _short(name: str) -> str:
    return shown(name, _NAME_LENGTH)


def _things(count: int, what: str, names: Sequence[str]) -> str:
    """Return a count with names: `3 neighbours (Bob, Carl and 1 more)`."""
    if count == 0:
        return f"no {what}"
    counted = f"{count:,} {what}{'' if count == 1 else 's'}"
    if not names:
        return counted
    more = f" and {count - len(names):,} more" if count > len(names) else ""
    return f"{counted} ({', '.join(map(_short, names))}{more})"


def _way(distance: int | None, is_linked: bool) -> str:
    if distance is None:
        return "no path joins them but their own link" if is_linked else "no path joins them"
    return f"distance {distance}{' without their own link' if is_linked else ''}"


def _support(rests: RestsOn) -> list[str]:
    if rests.links == 0:
        return ["Neither has a known link, so the score rests on their features alone."]
    limits = (
        [f"Of their {rests.links:,} links {rests.tried:,} were tried."]
        if rests.tried < rests.links
        else []
    )
    if not rests.reasons:
        return ["The score rests on no single link.", *limits]
    parts = [
        f"{_short(reason.end)}-{_short(reason.neighbour)} "
        f"({_fall(rests.score, reason)}{'' if place else ' without it'})"
        for place, reason in enumerate(rests.reasons)
    ]
    last = f" and {parts[-1]}" if len(parts) > 1 else ""
    listed = ", ".join(parts[:-1]) + last if last else parts[0]
    return [f"The score rests most on {listed}.", *limits]


def _fall(score: float, reason: Reason) -> str:
    """Return two scores with as many decimals as it takes to tell them apart.

    Scores next to 0 or 1 look alike whatever happens; there the logit says it.

    Example:
        >>> _fall(0.97, Reason("a", "b", 3.0, 0.61))
        '0.97 -> 0.61'
        >>> _fall(0.999999, Reason("a", "b", 0.25, 0.999998))
        'logit down by 0.25'
    """
    for decimals in (2, 3, 4):
        before, after = (f"{value:.{decimals}f}" for value in (score, reason.score_without))
        if before != after:
            return f"{before} -> {after}"
    return f"logit down by {reason.drop:.2g}"
