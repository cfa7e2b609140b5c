"""A run beside simple methods: the same links to learn from, the same held-out links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from cgcl.graph.features import has_structural_features
from cgcl.methods.method import PairScorer
from cgcl.methods.table import method_named
from cgcl.metrics import auc, average_precision
from cgcl.predict.saved import Fitted
from cgcl.split import NegativeSampler
from cgcl.train.config import Resources, RunConfig
from cgcl.train.fit import fit
from cgcl.train.top_of_list import BUDGET, Progress, ranking_metrics, scored_once, silent

_FORMULAS = ("common-neighbours", "adamic-adar", "resource-allocation")
# Nodes on different sides share no neighbour.
_ACROSS_SIDES = ("preferential-attachment", "item-cosine", "three-step-paths")
_NETWORK = "mlp"
# Half the width and half the epochs of its defaults: it is there within two seconds on a small
# graph, and reaches the same within half a point of AUC.
_SETTINGS = {"hidden": 64, "epochs": 100, "lr": 0.015, "decoder_dropout": 0.0}
_SHOWN = ("node_mrr", "precision@100", "precision@1000", "auc", "ap")
# A pair in training: the products there and twice as many back, and fetching two embeddings.
_PER_PAIR = 10.0
# Who asks for it gives minutes instead of seconds.
_THOROUGH = 30.0


@dataclass(frozen=True)
class Compared:
    """What each method reached on the same held-out links."""

    results: Sequence[Mapping[str, Any]]
    """Of each method, ours first: its name as `method`, its `metrics`, None where one was not
    measured, and, if those come from some of the test links only, how many were `sampled` and the
    standard errors."""
    protocol: str = ""
    """Which links were held out and what was ranked, a sentence or two."""

    @property
    def ours(self) -> str:
        """The name of the method of this run."""
        return self.results[0]["method"]


def compare_with_baselines(
    fitted: Fitted, resources: Resources, *, thorough: bool = False, progress: Progress = silent
) -> Compared | None:
    """Measure a fitted predictor and simple methods on its test links; None if it has none.

    All methods look at the links to learn from and at nothing else. Each formula has half of
    `BUDGET` operations and looks at sampled test links where all would take more. The features-only
    network has settings of its own and needs features of the user's; it is left out where training
    it and ranking all pairs would take more than `BUDGET`.

    Args:
        fitted: The predictor; its device computes.
        resources: Where the features-only network is trained.
        thorough: Thirty times these budgets, and the predictor itself is measured once more.
        progress: Told about each method; it may raise to end the comparison.

    Raises:
        TrainingError: The features-only network gave no finite scores.
    """
    if fitted.split.test.shape[1] == 0:
        return None
    budget = BUDGET * (_THOROUGH if thorough else 1.0)
    results = [_ours(fitted, budget, thorough)]
    sampled = results[0]["sampled"]
    most_links = sampled["links"] if sampled else None
    names, left_out = _affordable(fitted, budget)
    for name in names:
        scorer = _trained(fitted, name, resources, progress)
        own = budget if name == _NETWORK else budget / 2
        results.append(
            {"method": method_named(name).title, **_measured(scorer, fitted, own, most_links)}
        )
    return Compared(results, " ".join([*_protocol(results, fitted), *left_out]))


def _affordable(fitted: Fitted, budget: float) -> tuple[list[str], list[str]]:
    """Return the baselines that this run can be set beside, and why others cannot."""
    graph, own = fitted.graph, fitted.recipe.name
    names, told = list(_FORMULAS if graph.sides is None else _ACROSS_SIDES), list[str]()
    # To train the network and to rank all pairs.
    hidden = _SETTINGS["hidden"]
    per_pair = hidden * (hidden + _PER_PAIR)
    step = 2 * fitted.split.train.shape[1] * 3 * per_pair + 6 * graph.num_nonzeros * hidden
    cost = _SETTINGS["epochs"] * step + graph.num_nodes**2 * per_pair
    if graph.x is not None and not has_structural_features(graph):
        if cost <= budget:
            names.append(_NETWORK)
        elif own != _NETWORK:
            title = method_named(_NETWORK).title
            told.append(f"{title} is left out: it would take more than {budget:.0e} operations.")
    return [name for name in names if name != own], told


def _trained(fitted: Fitted, name: str, resources: Resources, progress: Progress) -> PairScorer:
    recipe = RunConfig.of(name, _SETTINGS if name == _NETWORK else {})
    recipe = replace(recipe, split=fitted.recipe.split)
    step = f"Comparing with {recipe.method.title}"
    progress(step, 0, max(recipe.epochs, 1))
    trained = fit(
        fitted.graph,
        fitted.split,
        recipe,
        resources,
        measure_test=False,
        on_epoch=lambda record: progress(step, record.epoch, recipe.epochs),
    )
    return trained.scorer(fitted.split.train)


def _ours(fitted: Fitted, budget: float, thorough: bool) -> dict[str, Any]:
    """Return what the run itself reached: as it was measured, if it was."""
    test = fitted.test or {}
    if "node_mrr" in test and not thorough:
        found = {"metrics": _shown(test), "sampled": fitted.test_sampled}
    else:
        found = _measured(fitted.scorer(fitted.split.train), fitted, budget, None)
    return {"method": fitted.recipe.method.title, **found}


def _measured(
    scorer: PairScorer, fitted: Fitted, budget: float, most_links: int | None
) -> dict[str, Any]:
    """Return metrics, and how many links they come from if not from all.

    The same links are drawn for every method, those of the run's own test.
    """
    split, seed = fitted.split, fitted.recipe.split.seed
    top = ranking_metrics(
        scored_once(scorer), split, budget=budget, most_links=most_links, seed=seed
    )
    positive, negative = scorer.logits(split.test), scorer.logits(split.test_negatives)
    plain = {"auc": auc(positive, negative), "ap": average_precision(positive, negative)}
    return {"metrics": _shown(top.metrics | plain), "sampled": top.sampling}


def _shown(metrics: dict[str, float]) -> dict[str, float]:
    return {name: metrics[name] for name in _SHOWN if name in metrics}


def _protocol(results: list[dict[str, Any]], fitted: Fitted) -> list[str]:
    """Say which links were held out and what was ranked."""
    split = fitted.split
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
        known = torch.cat([split.train, split.val], dim=1)
        unknown = NegativeSampler(known, split.num_nodes, split.sides).count
        told.append(
            f"Precision: the share of held-out links among the best 100, or 1,000, of all pairs "
            f"that are no known link; there are {unknown:,}."
        )
    told.append(f"AUC and AP: {links:,} held-out links against as many unlinked pairs.")
    return told
