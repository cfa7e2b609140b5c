"""A run beside simple methods: the same links to learn from, the same held-out links."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cgcl.errors import ResourceError
from cgcl.graph import Graph
from cgcl.graph.structure import has_structural_features
from cgcl.methods.method import Method, PairScorer
from cgcl.methods.shared_neighbours import SharedNeighbours, as_logits
from cgcl.metrics import auc, average_precision
from cgcl.predict.saved import Fitted
from cgcl.search.best import Best
from cgcl.search.pair_space import PairSpace
from cgcl.search.query import Query
from cgcl.search.search import find
from cgcl.search.two_hop import TwoHopCandidates
from cgcl.split import Split, UnlinkedPairs
from cgcl.train.config import Resources
from cgcl.train.once import known_of, train_once
from cgcl.train.recipe import Recipe

__all__ = ["CHEAP_PAIRS", "Compared", "set_beside"]

_SIMPLE = ("common-neighbours", "adamic-adar", "mlp")
CHEAP_PAIRS = 20_000_000
"""Up to so many unknown pairs a comparison takes seconds and is made without being asked for."""
_BEST = 100
# Operations a pair: scoring every pair of a graph that is searched unasked then takes a minute.
_CHEAP_COST = 6e5


@dataclass(frozen=True)
class Compared:
    """What each method reached."""

    results: tuple[dict[str, Any], ...]
    """By method: its name, AUC, AP and, if there was time, precision among its best pairs."""
    protocol: str
    """Which links were held out and what was ranked, a sentence or two."""

    def to_json(self) -> dict[str, Any]:
        """Return all of it as JSON can hold it."""
        return asdict(self)


def set_beside(fitted: Fitted, resources: Resources, *, thorough: bool = False) -> Compared | None:
    """Measure a fitted predictor and simple methods on its test links; None if it has none.

    All methods look at the links to learn from and at nothing else. Precision is the share of test
    links among the best 100 of all pairs that are neither training nor validation links. The
    features-only network needs features of the user's; it takes over the width, the rate and the
    number of epochs of the run where that has any.

    Args:
        fitted: The predictor; its device computes.
        resources: Where the features-only network is trained.
        thorough: Also search for the best pairs, and train the features-only network, where that
            may take minutes.

    Raises:
        TrainingError: The features-only network gave no finite scores.
    """
    graph, split = fitted.graph, fitted.split
    if split.test.shape[1] == 0:
        return None
    known = torch.cat([split.train, split.val], dim=1)
    seen = replace(Graph.from_pairs(graph.title, graph.names, known), sides=graph.sides)
    unknown = UnlinkedPairs(known, graph.num_nodes, graph.sides).count
    is_full = thorough or unknown <= CHEAP_PAIRS
    results = [
        {"method": name, "metrics": _measured(scorer, split, seen, is_full, thorough)}
        for name, scorer in _scorers(fitted, resources, is_full)
    ]
    protocol = (
        f"Every method learned from the same {split.train.shape[1]:,} links. AUC and AP: "
        f"{split.test.shape[1]:,} held-out links against as many unlinked pairs."
    )
    if is_full:
        protocol += (
            f" Precision: the share of held-out links among the best {_BEST} of all pairs that "
            f"are no known link; there are {unknown:,}."
        )
    if graph.sides is not None:
        protocol += (
            " Methods that count common neighbours are left out: across two sides there are none."
        )
    return Compared(tuple(results), protocol)


def _scorers(fitted: Fitted, resources: Resources, is_full: bool) -> list[tuple[str, PairScorer]]:
    graph, split, learner = fitted.graph, fitted.split, fitted.learner
    ours = learner.scorer(known_of(graph, split.train, learner))
    scorers = [(fitted.recipe.method.title, ours)]
    for name in _SIMPLE:
        recipe = _recipe_like(fitted.recipe, name)
        if name == fitted.recipe.name or not _applies(recipe.method, graph, is_full):
            continue
        trained = train_once(graph, split, recipe, resources, measure_test=False)
        scorers.append((recipe.method.title, trained.scorer(split.train)))
    return scorers


def _applies(method: Method, graph: Graph, is_full: bool) -> bool:
    if graph.sides is not None and not method.works_across_sides:
        return False
    if not method.needs_features:
        return True
    return is_full and graph.x is not None and not has_structural_features(graph)


def _recipe_like(run: Recipe, name: str) -> Recipe:
    """Return the recipe of another method, with the run's settings where it has the same."""
    plain = Recipe.of(name, {})
    ours = run.to_json()
    shared = {field.name for field in fields(plain.settings)} & ours.keys()
    return Recipe.of(name, {key: ours[key] for key in (*shared, "val", "test", "seed")})


def _measured(
    scorer: PairScorer, split: Split, seen: Graph, is_full: bool, thorough: bool
) -> dict[str, float]:
    positive, negative = scorer.logits(split.test), scorer.logits(split.test_negatives)
    metrics = {"auc": auc(positive, negative), "ap": average_precision(positive, negative)}
    if is_full and (thorough or scorer.cost_per_pair <= _CHEAP_COST):
        try:
            best = _best(scorer, seen)
        except ResourceError:  # all pairs of this graph would take hours: AUC and AP remain
            return metrics
        low, high = best.amin(dim=0), best.amax(dim=0)
        test = split.test[0] * split.num_nodes + split.test[1]
        hits = torch.isin(low * split.num_nodes + high, test)
        metrics[f"precision@{_BEST}"] = float(hits.double().mean()) if hits.numel() else 0.0
    return metrics


def _best(scorer: PairScorer, seen: Graph) -> Tensor:
    """Return the best of all pairs that are no link of `seen`, int64 [2, 100 or fewer].

    Args:
        scorer: The method; it goes by links of `seen` and by no others.
        seen: The known links.

    Raises:
        ResourceError: It would take longer than an hour.
    """
    query = Query(count=_BEST)
    if isinstance(scorer, SharedNeighbours) and seen.sides is None:
        found = _best_of_sharing(scorer, seen, query)
        if found is not None:
            return found
    return find(scorer, seen, query, "exact").pairs


def _best_of_sharing(scorer: SharedNeighbours, seen: Graph, query: Query) -> Tensor | None:
    """Return the best pairs if all of them share a neighbour, else None.

    Pairs that share none all score the same and less than any other. They are nearly all pairs, so
    it is worth trying without them.
    """
    candidates = TwoHopCandidates(seen, PairSpace(seen, query))
    if candidates.hubs_left_out:
        return None
    best = Best(_BEST, seen.names)
    for pairs in candidates.blocks():
        best.add(pairs, scorer.logits(pairs))
    pairs, logits = best.sorted()
    sharing = int((logits > as_logits(np.zeros(1), scorer.nothing)).sum())
    return pairs if sharing == _BEST else None
