"""Promises about what is learned: what is there, and nothing that is not."""

from __future__ import annotations

import torch

from cgcl.graph import Graph
from cgcl.metrics import auc
from cgcl.seeds import stream
from cgcl.split import UnlinkedPairs
from cgcl.testing.graphs import noise, planted_partition
from cgcl.testing.predictor import Make, expect

__all__ = ["check_learns_nothing_from_noise", "check_learns_planted_partition"]

_LEARNED = 0.8
# With 900 test links the standard error of an AUC by chance is 0.014.
_CHANCE = (0.45, 0.55)


def check_learns_planted_partition(make: Make) -> None:
    """Where groups are planted, links that fit never saw are told from unlinked pairs."""
    graph = planted_partition()
    order = torch.randperm(graph.num_edges, generator=stream(0, "contract hidden"))
    hidden, kept = order[: graph.num_edges // 10], order[graph.num_edges // 10 :]
    seen = graph.edges.index_select(1, kept.sort().values)
    predictor = make().fit(Graph(graph.title, graph.names, seen, graph.x))
    others = UnlinkedPairs(graph.edges, graph.num_nodes).draw_distinct(
        500, stream(0, "contract unlinked")
    )
    positive, negative = (
        predictor.score([(graph.names[a], graph.names[b]) for a, b in pairs.T.tolist()])
        for pairs in (graph.edges.index_select(1, hidden), others)
    )
    found = auc(positive, negative)
    expect(found > _LEARNED, f"an AUC above {_LEARNED} on links it never saw", f"{found:.3f}")
    said = (predictor.test_ or {}).get("auc", 0.0)
    expect(said > _LEARNED, f"an AUC above {_LEARNED} in test_", f"{said:.3f}")


def check_learns_nothing_from_noise(make: Make) -> None:
    """Where links are pure chance the test says so: a better result would be a leak."""
    graph, (low, high) = noise(), _CHANCE
    for what, given in (
        ("random features", graph),
        ("no features", Graph(graph.title, graph.names, graph.edges)),
    ):
        found = (make().fit(given).test_ or {}).get("auc", 0.0)
        expect(
            low <= found <= high,
            f"an AUC from {low} to {high} on a random graph with {what}",
            f"{found:.3f}",
        )
