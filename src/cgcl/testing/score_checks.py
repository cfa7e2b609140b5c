"""Promises about scores: what they are, and what they do not depend on."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from cgcl.errors import CGCLError
from cgcl.testing.graphs import groups, unlinked_pairs
from cgcl.testing.predictor import Make, expect

__all__ = [
    "check_probabilities_follow_scores",
    "check_scores_are_finite_float32",
    "check_scores_are_independent_of_company",
    "check_scores_are_symmetric",
    "check_scores_lie_in_0_1",
    "check_unknown_names_are_refused",
]

_CLOSE = 1e-6
# More pairs than anyone scores in one block.
_MANY = 300_000


def check_scores_are_finite_float32(make: Make) -> None:
    """Every pair has a score, a finite float32, in the order asked; no pairs have no scores."""
    graph = groups()
    predictor = make().fit(graph)
    pairs = list(combinations(graph.names, 2))
    scores: Any = predictor.score(pairs)
    found = getattr(scores, "dtype", type(scores)), getattr(scores, "shape", None)
    expect(
        found == (np.float32, (len(pairs),)),
        f"a float32 array of shape ({len(pairs)},)",
        f"{found[0]} {found[1]}",
    )
    broken = int((~np.isfinite(scores)).sum())
    expect(broken == 0, "finite scores", f"{broken} that are not")
    empty = predictor.score([]).shape
    expect(empty == (0,), "no scores for no pairs", f"shape {empty}")


def check_scores_lie_in_0_1(make: Make) -> None:
    """Scores lie between 0 and 1."""
    graph = groups()
    scores = make().fit(graph).score(list(combinations(graph.names, 2)))
    inside = bool(((scores >= 0) & (scores <= 1)).all())
    expect(inside, "scores between 0 and 1", f"{scores.min():.6g} to {scores.max():.6g}")


def check_scores_are_symmetric(make: Make) -> None:
    """The order of a pair does not matter: (a, b) and (b, a) have the same bits."""
    graph = groups()
    predictor = make().fit(graph)
    pairs = list(combinations(graph.names, 2))
    there, back = predictor.score(pairs), predictor.score([(b, a) for a, b in pairs])
    differ = int((there != back).sum())
    expect(differ == 0, "the same bits for (a, b) and (b, a)", f"{differ} pairs that differ")


def check_scores_are_independent_of_company(make: Make) -> None:
    """A pair's score does not depend on which other pairs are asked, their order or number."""
    graph = groups()
    predictor = make().fit(graph)
    pairs = list(combinations(graph.names, 2))
    scores = predictor.score(pairs)
    order = np.random.default_rng(0).permutation(len(pairs))
    times = _MANY // len(pairs)
    for what, found, wanted in (
        ("in another order", predictor.score([pairs[i] for i in order]), scores[order]),
        (
            "as a part of the list",
            predictor.score([pairs[i] for i in order[:9]]),
            scores[order[:9]],
        ),
        ("alone", predictor.score([pairs[order[0]]]), scores[order[:1]]),
        ("in a very long list", predictor.score(pairs * times), np.tile(scores, times)),
        ("again", predictor.score(pairs), scores),
    ):
        gap = float(np.abs(found - wanted).max())
        expect(gap <= _CLOSE, f"the same scores when pairs are asked {what}", f"a gap of {gap:.2g}")


def check_unknown_names_are_refused(make: Make) -> None:
    """A name that is not in the graph, or what is not a pair, is refused with a CGCLError."""
    graph = groups()
    predictor: Any = make().fit(graph)
    known = graph.names[0]
    for what, ask in (
        ("score of an unknown name", lambda: predictor.score([(known, "nobody")])),
        ("links_of an unknown name", lambda: predictor.links_of("nobody", 3)),
        ("score of one name", lambda: predictor.score([(known,)])),
        ("score of three names", lambda: predictor.score([(known, known, known)])),
    ):
        try:
            ask()
        except CGCLError:
            continue
        except Exception as error:
            expect(False, f"{what} to raise a CGCLError", repr(error))
        expect(False, f"{what} to raise a CGCLError", "no error")


def check_probabilities_follow_scores(make: Make) -> None:
    """Where there is a `probability`, it lies between 0 and 1 and never falls as scores rise."""
    graph = groups()
    predictor: Any = make().fit(graph)
    if not hasattr(predictor, "probability"):
        return
    pairs = unlinked_pairs(graph)
    scores, chances = predictor.score(pairs), np.asarray(predictor.probability(pairs))
    expect(chances.shape == scores.shape, f"{len(scores)} probabilities", chances.shape)
    inside = bool((np.isfinite(chances) & (chances >= 0) & (chances <= 1)).all())
    expect(inside, "probabilities between 0 and 1", f"{chances.min():.6g} to {chances.max():.6g}")
    fall = -float(np.diff(chances[np.argsort(scores, kind="stable")]).min())
    expect(fall <= _CLOSE, "probabilities that rise with scores", f"a fall of {fall:.2g}")
