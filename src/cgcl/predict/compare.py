"""A run beside simple methods: the same links to learn from, the same held-out links."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from cgcl.errors import ResourceError
from cgcl.graph import Graph
from cgcl.graph.prepare import features_of
from cgcl.graph.structure import has_structural_features
from cgcl.methods import METHODS, Known
from cgcl.metrics import auc, average_precision
from cgcl.model import symmetric
from cgcl.predict.saved import Fitted
from cgcl.search.query import Query
from cgcl.search.scorer import CGCLScorer, Scorer
from cgcl.search.search import find
from cgcl.split import Split, UnlinkedPairs
from cgcl.train.config import ModelConfig, TrainConfig, pick
from cgcl.train.scoring import embed

__all__ = ["CHEAP_PAIRS", "Compared", "compare"]

OURS = "CGCL"
_NAMES = {
    "common-neighbours": "Common neighbours",
    "adamic-adar": "Adamic-Adar",
    "features-mlp": "Features only (MLP)",
}
CHEAP_PAIRS = 20_000_000
"""Up to so many unknown pairs a comparison takes seconds and is made without being asked for."""
_BEST = 100


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


def compare(fitted: Fitted, *, thorough: bool = False) -> Compared | None:
    """Measure a fitted predictor and simple methods on its test links; None if it has none.

    All methods look at the links to learn from and at nothing else. Precision is the share of test
    links among the best 100 of all pairs that are neither training nor validation links. The
    features-only network needs features of the user's; it has the width, the rate and the number
    of epochs of the run.

    Args:
        fitted: The predictor; its network's device computes.
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
        {"method": name, "metrics": _measured(scorer, split, seen, is_full)}
        for name, scorer in _scorers(fitted, is_full)
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


def _scorers(fitted: Fitted, is_full: bool) -> list[tuple[str, Scorer]]:
    graph, split, model = fitted.graph, fitted.split, fitted.model
    device = model.encode.weight.device
    x = features_of(graph).to(device)
    z = embed(model, x, symmetric(split.train.to(device)))
    scorers: list[tuple[str, Scorer]] = [(OURS, CGCLScorer(model, z))]
    model_config = pick(ModelConfig, fitted.settings)
    settings = {**asdict(model_config), **asdict(pick(TrainConfig, fitted.settings))}
    for name, method in METHODS.items():
        if method.needs_features and (not is_full or has_structural_features(graph)):
            continue
        if not method.needs_features and graph.sides is not None:
            continue  # nobody shares a neighbour with someone on the other side
        seen = Known(graph.num_nodes, split.train, x if method.needs_features else None)
        scorer = method.scorer(seen, method.learn(seen, split, settings))
        scorers.append((_NAMES.get(name, name), scorer))
    return scorers


def _measured(scorer: Scorer, split: Split, seen: Graph, is_full: bool) -> dict[str, float]:
    positive, negative = scorer.logits(split.test), scorer.logits(split.test_negatives)
    metrics = {"auc": auc(positive, negative), "ap": average_precision(positive, negative)}
    if is_full:
        try:
            best = find(scorer, seen, Query(count=_BEST), "exact").pairs
        except ResourceError:  # all pairs of this graph would take hours: AUC and AP remain
            return metrics
        low, high = best.amin(dim=0), best.amax(dim=0)
        test = split.test[0] * split.num_nodes + split.test[1]
        hits = torch.isin(low * split.num_nodes + high, test)
        metrics[f"precision@{_BEST}"] = float(hits.double().mean()) if hits.numel() else 0.0
    return metrics
