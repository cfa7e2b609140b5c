"""Every metric by name, in the order in which people read them. Nothing heavy is imported."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["METRICS", "Metric", "in_order", "metric_title"]


@dataclass(frozen=True)
class Metric:
    """What people are told about a metric; a higher value is better for all of them."""

    title: str
    """What people call it."""
    meaning: str
    """What it says, one sentence."""
    least_links: int = 1
    """With fewer test links than this it says nothing."""
    is_against_unlinked: bool = False
    """Whether it ranks links among the split's own unlinked pairs, so that their number matters."""


METRICS: dict[str, Metric] = {
    "node_mrr": Metric(
        "node MRR",
        "Mean of 1/rank of a link's other end, among all nodes that one end may link to.",
    ),
    "node_hits@10": Metric(
        "node Hits@10",
        "Links whose other end is among the best 10 of all nodes that one end may link to.",
    ),
    "precision@100": Metric(
        "precision@100", "Held-out links among the best 100 of all pairs that are no known link."
    ),
    "precision@1000": Metric(
        "precision@1000", "Held-out links among the best 1,000 of all pairs that are no known link."
    ),
    "pair_ap": Metric(
        "AP of all pairs",
        "Mean precision of the list of all pairs that are no known link, down to each link.",
    ),
    "auc": Metric("AUC", "Chance that a link scores above an unlinked pair. 0.5 is guessing."),
    "ap": Metric("AP", "Mean precision of the ranked list, down to each link.", 1, True),
    "hits@10": Metric("Hits@10", "Links above the 10th highest unlinked pair.", 10, True),
    "hits@50": Metric("Hits@50", "Links above the 50th highest unlinked pair.", 50, True),
    "hits@100": Metric("Hits@100", "Links above the 100th highest unlinked pair.", 100, True),
    "mrr": Metric("MRR", "Mean of 1/rank, each link ranked against the unlinked pairs.", 1, True),
}
"""All metrics: first those that ask what people read, the top of a list, then the others."""


def metric_title(name: str) -> str:
    """Return what people call a metric.

    Example:
        >>> metric_title("node_mrr"), metric_title("auc")
        ('node MRR', 'AUC')
    """
    return METRICS[name].title if name in METRICS else name


def in_order(found: dict[str, float]) -> dict[str, float]:
    """Return metrics in the order in which people read them.

    Example:
        >>> in_order({"auc": 0.9, "node_mrr": 0.2})
        {'node_mrr': 0.2, 'auc': 0.9}
    """
    return {name: found[name] for name in METRICS if name in found}
