"""A run beside simple methods: the same links to learn from, the same held-out links."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

import torch

from cgcl.graph import Graph
from cgcl.graph.structure import has_structural_features
from cgcl.methods.method import Method, PairScorer
from cgcl.methods.table import method_named
from cgcl.metrics import auc, average_precision
from cgcl.predict.saved import Fitted
from cgcl.split import Split, UnlinkedPairs
from cgcl.train.config import Resources
from cgcl.train.once import known_of, train_once
from cgcl.train.recipe import Recipe
from cgcl.train.top_of_list import BUDGET, ranking_metrics

__all__ = ["CHEAP_PAIRS", "Compared", "set_beside"]

_FORMULAS = ("common-neighbours", "adamic-adar", "resource-allocation")
_SIMPLE = (*_FORMULAS, "mlp")
_SHOWN = ("node_mrr", "precision@100", "precision@1000", "auc", "ap")
CHEAP_PAIRS = 20_000_000
"""Up to so many unknown pairs a features-only network is trained without being asked for."""
# Who asks for it gives minutes instead of seconds.
_THOROUGH = 30.0


@dataclass(frozen=True)
class Compared:
    """What each method reached."""

    results: tuple[dict[str, Any], ...]
    """By method: its name, its metrics and, if those come from some of the test links only, how
    many were `sampled` and the standard errors."""
    protocol: str
    """Which links were held out and what was ranked, a sentence or two."""

    def to_json(self) -> dict[str, Any]:
        """Return all of it as JSON can hold it."""
        return asdict(self)


def set_beside(fitted: Fitted, resources: Resources, *, thorough: bool = False) -> Compared | None:
    """Measure a fitted predictor and simple methods on its test links; None if it has none.

    All methods look at the links to learn from and at nothing else. Formulas are measured whatever
    the size of the graph, on sampled test links where all would take long. The features-only
    network needs features of the user's; it takes over the width, the rate and the number of
    epochs of the run where that has any.

    Args:
        fitted: The predictor; its device computes.
        resources: Where the features-only network is trained.
        thorough: Also measure exactly, and train the features-only network, where that may take
            minutes.

    Raises:
        TrainingError: The features-only network gave no finite scores.
    """
    graph, split = fitted.graph, fitted.split
    if split.test.shape[1] == 0:
        return None
    known = torch.cat([split.train, split.val], dim=1)
    unknown = UnlinkedPairs(known, graph.num_nodes, graph.sides).count
    results = [_ours(fitted, thorough)]
    sampled = results[0]["sampled"]
    for name, scorer in _others(fitted, resources, thorough or unknown <= CHEAP_PAIRS):
        budget = BUDGET / 2 if name in _FORMULAS else BUDGET
        found = _measured(
            scorer,
            fitted,
            budget * (_THOROUGH if thorough else 1.0),
            None if sampled is None else sampled["links"],
        )
        results.append({"method": method_named(name).title, **found})
    return Compared(tuple(results), _protocol(results, split, unknown))


def _protocol(results: list[dict[str, Any]], split: Split, unknown: int) -> str:
    """Say which links were held out and what was ranked."""
    links = split.test.shape[1]
    told = [f"Every method learned from the same {split.train.shape[1]:,} links."]
    if any("node_mrr" in one["metrics"] for one in results):
        told.append(f"Node MRR: {links:,} held-out links, each end among all nodes.")
    for one in results:
        if one["sampled"]:
            error = one["sampled"]["se"]["node_mrr"]
            told.append(
                f"For {one['method']} on {one['sampled']['links']:,} of them, drawn at random: the "
                f"standard error is {error:.4f}."
            )
    if any("precision@100" in one["metrics"] for one in results):
        told.append(
            f"Precision: the share of held-out links among the best 100, or 1,000, of all pairs "
            f"that are no known link; there are {unknown:,}."
        )
    told.append(f"AUC and AP: {links:,} held-out links against as many unlinked pairs.")
    if split.sides is not None:
        told.append(
            "Methods that count common neighbours are left out: across two sides there are none."
        )
    return " ".join(told)


def _ours(fitted: Fitted, thorough: bool) -> dict[str, Any]:
    """Return what the run itself reached: as it was measured, if it was."""
    split, learner, test = fitted.split, fitted.learner, fitted.test or {}
    if "node_mrr" in test and not thorough:
        found = {"metrics": _shown(test), "sampled": fitted.test_sampled}
    else:
        scorer = learner.scorer(known_of(fitted.graph, split.train, learner))
        found = _measured(scorer, fitted, BUDGET * (_THOROUGH if thorough else 1.0), None)
    return {"method": fitted.recipe.method.title, **found}


def _others(fitted: Fitted, resources: Resources, is_full: bool) -> list[tuple[str, PairScorer]]:
    graph, split = fitted.graph, fitted.split
    scorers = []
    for name in _SIMPLE:
        recipe = _recipe_like(fitted.recipe, name)
        if name == fitted.recipe.name or not _applies(recipe.method, graph, is_full):
            continue
        trained = train_once(graph, split, recipe, resources, measure_test=False)
        scorers.append((name, trained.scorer(split.train)))
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
    scorer: PairScorer, fitted: Fitted, budget: float, most_links: int | None
) -> dict[str, Any]:
    """Return metrics, and how many links they come from if not from all.

    The same links are drawn for every method, those of the run's own test.
    """
    split, seed = fitted.split, fitted.recipe.split.seed
    top = ranking_metrics(scorer, split, budget=budget, most_links=most_links, seed=seed)
    positive, negative = scorer.logits(split.test), scorer.logits(split.test_negatives)
    plain = {"auc": auc(positive, negative), "ap": average_precision(positive, negative)}
    return {"metrics": _shown(top.metrics | plain), "sampled": top.sampling}


def _shown(metrics: dict[str, float]) -> dict[str, float]:
    return {name: metrics[name] for name in _SHOWN if name in metrics}
