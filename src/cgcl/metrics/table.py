"""Every metric by name, in the order in which people read them. Nothing heavy is imported."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["METRICS", "ON_REQUEST", "Metric", "in_order", "metric_title"]


@dataclass(frozen=True)
class Metric:
    """What people are told about a metric; a higher value is better for all of them."""

    title: str
    """What people call it."""
    meaning: str
    """What it says, one sentence."""
    is_at_top: bool = False
    """Whether it asks for the top of a list of everything; the others set the test links against
    the split's unlinked pairs."""
    least_links: int = 1
    """With fewer test links than this it says nothing."""


METRICS: dict[str, Metric] = {
    "node_mrr": Metric(
        "node MRR",
        "Mean of 1/rank of a link's other end, among all nodes that the one end may link to.",
        is_at_top=True,
    ),
    "node_hits@10": Metric(
        "node Hits@10",
        "How often the other end is among the best 10 of those nodes.",
        is_at_top=True,
    ),
    "precision@100": Metric(
        "precision@100",
        "Test links among the best 100 of all pairs that are no known link.",
        is_at_top=True,
    ),
    "precision@1000": Metric(
        "precision@1000",
        "Test links among the best 1,000 of all pairs that are no known link.",
        is_at_top=True,
    ),
    "pair_ap": Metric(
        "AP of all pairs",
        "Precision averaged over all recall levels, in the list of all those pairs.",
        is_at_top=True,
    ),
    "auc": Metric(
        "AUC", "The chance that a link scores above an unlinked pair; guessing gives one half."
    ),
    "ap": Metric(
        "AP", "Precision averaged over all recall levels; mistakes at the top weigh most."
    ),
    "hits@10": Metric(
        "Hits@10", "Links that score above the 10th highest unlinked pair.", least_links=10
    ),
    "hits@50": Metric(
        "Hits@50", "Links that score above the 50th highest unlinked pair.", least_links=50
    ),
    "hits@100": Metric(
        "Hits@100", "Links that score above the 100th highest unlinked pair.", least_links=100
    ),
    "mrr": Metric("MRR", "Mean of 1/rank, each link ranked against all unlinked pairs."),
}
"""What a run records: first those that ask what people read, the top of a list, then the others."""

ON_REQUEST: dict[str, Metric] = {
    "heart_mrr": Metric(
        "HeaRT MRR", "Mean of 1/rank, each link ranked against hard negatives of its own."
    ),
    "heart_hits@10": Metric(
        "HeaRT Hits@10", "How often a link is among the best 10 with its own hard negatives."
    ),
    "degree_auc": Metric(
        "degree-corrected AUC",
        "AUC against unlinked pairs whose ends have as many links as those of links do.",
    ),
    "degree_ap": Metric("degree-corrected AP", "AP against the same pairs."),
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
