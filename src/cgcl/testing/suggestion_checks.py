"""Promises about suggested links: new, sorted, as many as asked, under the user's names."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from cgcl.graph import Graph
from cgcl.testing.graphs import (
    AWKWARD_NAMES,
    groups,
    known_pairs,
    star,
    two_sides,
    unlinked_pairs,
)
from cgcl.testing.predictor import Make, Suggestion, expect

__all__ = [
    "check_names_come_back",
    "check_sides_are_respected",
    "check_suggestions_are_new",
    "check_ties_are_in_order_of_names",
    "check_top_has_asked_length",
    "check_top_is_sorted_and_stable",
    "expect_new",
]

_ALL = 10**6
_CLOSE = 1e-6


def check_suggestions_are_new(make: Make) -> None:
    """Known links (held-out ones too) and self-pairs are never suggested, and no pair twice."""
    graph = groups()
    predictor = make().fit(graph)
    expect_new(predictor.top(_ALL), graph, "top")
    for name in graph.names[:6]:
        links = predictor.links_of(name, _ALL)
        expect_new(links, graph, f"links_of({name!r})")
        first = {link.source for link in links}
        expect(first == {name}, f"{name!r} as the source of each of its links", sorted(first)[:5])


def check_top_is_sorted_and_stable(make: Make) -> None:
    """Lists are sorted, best first; the best are the best of all pairs; asking again repeats."""
    graph = groups()
    predictor = make().fit(graph)
    pairs = unlinked_pairs(graph)
    best = np.sort(predictor.score(pairs))[::-1]
    mine = graph.names[4]
    own = np.sort(predictor.score([pair for pair in pairs if mine in pair]))[::-1]
    for what, links, scores in (
        ("top(25)", predictor.top(25), best),
        (f"links_of({mine!r}, 10)", predictor.links_of(mine, 10), own),
    ):
        found = np.array([link.score for link in links])
        expect(bool((np.diff(found) <= 0).all()), f"{what} to be sorted, best first", found)
        wanted = scores[: len(found)]
        gap = float(np.abs(found - wanted).max())
        expect(gap <= _CLOSE, f"{what} to hold the best of all pairs", f"a gap of {gap:.2g}")
        asked = predictor.score([(link.source, link.target) for link in links])
        gap = float(np.abs(found - asked).max())
        expect(gap <= _CLOSE, f"{what} to give the scores of score()", f"a gap of {gap:.2g}")
    once, again = _names(predictor.top(25)), _names(predictor.top(25))
    expect(once == again, "the same list when asked again", "another")
    shorter = _names(predictor.top(10))
    expect(shorter == once[:10], "top(10) to be the head of top(25)", shorter)


def check_top_has_asked_length(make: Make) -> None:
    """As many links come back as were asked for, or all there are."""
    graph = groups()
    predictor = make().fit(graph)
    everything = len(unlinked_pairs(graph))
    for count, wanted in ((1, 1), (25, 25), (_ALL, everything)):
        found = len(predictor.top(count))
        expect(found == wanted, f"{wanted} links from top({count})", found)
    name = graph.names[0]
    partners = sum(name in pair for pair in unlinked_pairs(graph))
    for count, wanted in ((1, 1), (3, 3), (_ALL, partners)):
        found = len(predictor.links_of(name, count))
        expect(found == wanted, f"{wanted} links from links_of({name!r}, {count})", found)


def check_ties_are_in_order_of_names(make: Make) -> None:
    """Links with the same score are in the order of their names, not of their numbers."""
    # In a star with one constant feature all leaves are alike. Names run against numbers.
    names = ["hub", *(f"leaf {i:02d}" for i in range(15, 0, -1))]
    predictor = make(val=0.0, test=0.0).fit(star(15, names))
    for what, links in (
        ("top", predictor.top(_ALL)),
        ("links_of", predictor.links_of("leaf 07", _ALL)),
    ):
        keys = [(-link.score, link.source, link.target) for link in links]
        wrong = [after[1:] for before, after in pairwise(keys) if before > after]
        expect(not wrong, f"equal scores of {what} in the order of names", f"{wrong[:1]} too late")


def check_names_come_back(make: Make) -> None:
    """Names are kept to the last character in every answer, in files too."""
    graph = groups(AWKWARD_NAMES)
    unlinked = {frozenset(pair) for pair in unlinked_pairs(graph)}
    predictor = make().fit(graph)
    scores = predictor.score([(name, "n035") for name in AWKWARD_NAMES])
    expect(len(scores) == len(AWKWARD_NAMES), f"{len(AWKWARD_NAMES)} scores", len(scores))
    with tempfile.TemporaryDirectory() as folder:
        predictor.save(folder)
        loaded = type(predictor).load(folder)
    for what, asked in (("fitted", predictor), ("loaded", loaded)):
        found = asked.graph_.names
        expect(found == graph.names, f"the same names in graph_ of a {what} predictor", found)
        strange = {frozenset(pair) for pair in _names(asked.top(_ALL))} ^ unlinked
        shown = [sorted(pair) for pair in strange][:2]
        expect(not strange, "exactly the unlinked pairs of names from top", f"others: {shown}")
        for name in AWKWARD_NAMES:
            sources = {link.source for link in asked.links_of(name, 2)}
            expect(sources == {name}, f"links of {name!r} from links_of", sources)


def check_sides_are_respected(make: Make) -> None:
    """In a bipartite graph only pairs across the two sides are suggested."""
    graph = two_sides()
    predictor = make().fit(graph)
    left = set(graph.names[:20])
    for what, links in (
        ("top", predictor.top(_ALL)),
        ("links_of a left node", predictor.links_of(graph.names[3], _ALL)),
        ("links_of a right node", predictor.links_of(graph.names[33], _ALL)),
    ):
        expect_new(links, graph, what)
        same = [pair for pair in _names(links) if (pair[0] in left) == (pair[1] in left)]
        expect(not same, f"{what} to join the two sides", f"{len(same)} pairs such as {same[:1]}")


def expect_new(links: Sequence[Suggestion], graph: Graph, what: str) -> None:
    """Raise unless the links are new, between two nodes of the graph, and each there once.

    Raises:
        ContractError: They are not.
    """
    pairs = [frozenset(pair) for pair in _names(links)]
    loops = [sorted(pair) for pair in pairs if len(pair) == 1]
    expect(not loops, f"{what} without self-pairs", loops[:1])
    known = [sorted(pair) for pair in set(pairs) & known_pairs(graph)]
    expect(not known, f"{what} without known links", f"{len(known)}, such as {known[:1]}")
    repeats = len(pairs) - len(set(pairs))
    expect(repeats == 0, f"{what} to hold each pair once", f"{repeats} repeated")


def _names(links: Sequence[Suggestion]) -> list[tuple[str, str]]:
    return [(link.source, link.target) for link in links]
