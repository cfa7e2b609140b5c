"""Every metric by name, in the order in which people read them. Nothing heavy is imported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Metric:
    """A metric: a line of `METRICS` is all that it takes. A higher value is better for all."""

    title: str
    """What people call it."""
    meaning: str
    """What it says, one sentence."""
    function: Callable[[Any], Any]
    """Of what `over` says: it returns the metric, None where it says nothing, and over `nodes` what
    each link adds to the mean."""
    over: Literal["links", "nodes", "pairs"] = "links"
    """What it is measured on: `links` on `cgcl.metrics.Ranked`, test links against the split's
    unlinked pairs; the others at the top of a list of everything: `nodes` on the ranks of each
    link's ends among all nodes, float64 [2, m], `pairs` on `cgcl.train.top_of_list.PairCounts`."""
    least_links: int = 1
    """With fewer test links than this it says nothing."""
    is_told: bool = True
    """Whether the terminal tells it, too; the report tells all."""

    @property
    def is_at_top(self) -> bool:
        """Whether it asks for the top of a list of everything."""
        return self.over != "links"


def _hits(k: int, is_told: bool = False) -> Metric:
    meaning = f"Links that score above the {k}th highest unlinked pair."
    return Metric(
        f"Hits@{k}", meaning, lambda ranked: ranked.hits_at(k), least_links=k, is_told=is_told
    )


def _precision(k: int) -> Metric:
    meaning = f"Test links among the best {k:,} of all pairs that are no known link."
    return Metric(f"precision@{k}", meaning, lambda counts: counts.precision_at(k), over="pairs")


def _of_ranks(title: str, meaning: str, best: int | None = None) -> Metric:
    """Return the mean of 1/rank, or how often a rank is among the best."""
    if best is None:
        return Metric(title, meaning, lambda ranks: 1 / ranks, over="nodes")
    return Metric(title, meaning, lambda ranks: ranks <= best, over="nodes")


METRICS: dict[str, Metric] = {
    "node_mrr": _of_ranks(
        "node MRR",
        "Mean of 1/rank of a link's other end, among all nodes that the one end may link to.",
    ),
    "node_hits@10": _of_ranks(
        "node Hits@10", "How often the other end is among the best 10 of those nodes.", 10
    ),
    "precision@100": _precision(100),
    "precision@1000": _precision(1000),
    "pair_ap": Metric(
        "AP of all pairs",
        "Precision averaged over all recall levels, in the list of all those pairs.",
        lambda counts: counts.average_precision(),
        over="pairs",
        is_told=False,
    ),
    "auc": Metric(
        "AUC",
        "The chance that a link scores above an unlinked pair; guessing gives one half.",
        lambda ranked: ranked.auc(),
    ),
    "ap": Metric(
        "AP",
        "Precision averaged over all recall levels; mistakes at the top weigh most.",
        lambda ranked: ranked.average_precision(),
    ),
    "hits@10": _hits(10),
    "hits@50": _hits(50),
    "hits@100": _hits(100, is_told=True),
    "mrr": Metric(
        "MRR",
        "Mean of 1/rank, each link ranked against all unlinked pairs.",
        lambda ranked: ranked.mean_reciprocal_rank(),
    ),
}
"""What a run records: first those that ask what people read, the top of a list, then the others."""

ON_REQUEST: dict[str, Metric] = {
    "heart_mrr": _of_ranks(
        "HeaRT MRR", "Mean of 1/rank, each link ranked against hard negatives of its own."
    ),
    "heart_hits@10": _of_ranks(
        "HeaRT Hits@10", "How often a link is among the best 10 with its own hard negatives.", 10
    ),
    "degree_auc": Metric(
        "degree-corrected AUC",
        "AUC against unlinked pairs whose ends have as many links as those of links do.",
        lambda ranked: ranked.auc(),
    ),
    "degree_ap": Metric(
        "degree-corrected AP",
        "AP against the same pairs.",
        lambda ranked: ranked.average_precision(),
    ),
}
"""What `cgcl evaluate --against` measures, and no run records."""


def metric_title(name: str) -> str:
    """Return what people call a metric.

    Example:
        >>> metric_title("node_mrr"), metric_title("auc")
        ('node MRR', 'AUC')
    """
    known = METRICS | ON_REQUEST
    return known[name].title if name in known else name


def in_order(found: dict[str, float]) -> dict[str, float]:
    """Return metrics in the order in which people read them.

    Example:
        >>> in_order({"auc": 0.9, "node_mrr": 0.2})
        {'node_mrr': 0.2, 'auc': 0.9}
    """
    return {name: found[name] for name in METRICS if name in found}
