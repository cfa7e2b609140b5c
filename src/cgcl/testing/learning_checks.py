"""Promises about what is learned: what is there, and nothing that is not."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor

from cgcl.graph import Graph
from cgcl.metrics import auc
from cgcl.seeds import stream
from cgcl.split import Split, UnlinkedPairs
from cgcl.testing.graphs import groups, noise, planted_partition
from cgcl.testing.predictor import Make, expect

__all__ = [
    "check_held_out_links_change_nothing",
    "check_learns_nothing_from_noise",
    "check_learns_planted_partition",
]

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


def check_held_out_links_change_nothing(make: Make) -> None:
    """Other links to test on change no bit of what the test says about the rest.

    Asked of predictors whose `fit` takes a split and that have `test_scores`.
    """
    predictor: Any = make()
    takes_splits = "split" in inspect.signature(predictor.fit).parameters
    if not takes_splits or not hasattr(predictor, "test_scores"):
        return
    graph = groups()
    for what, x in (("features", graph.x), ("no features", None)):
        first, second = (
            _scores_of_the_rest(make(), Graph(graph.title, graph.names, graph.edges, x), world)
            for world in (0, 1)
        )
        same = all(map(torch.equal, first, second))
        expect(same, f"the same test scores on a graph with {what} beside other links", "others")


def _scores_of_the_rest(predictor: Any, graph: Graph, world: int) -> tuple[Tensor, Tensor]:  # noqa: ANN401
    """Return the test scores of links and pairs that are the same in both worlds.

    A tenth of the links is tested in both; another tenth is in the one world only, and another in
    the other. No link chooses an epoch: what is chosen would depend on it, and rightly so.
    """
    tenth = graph.num_edges // 10
    order = torch.randperm(graph.num_edges, generator=stream(0, "contract worlds"))
    rest, *own, train = (
        graph.edges.index_select(1, part.sort().values)
        for part in order.split([tenth, tenth, tenth, graph.num_edges - 3 * tenth])
    )
    pairs = UnlinkedPairs(graph.edges, graph.num_nodes)
    others = pairs.draw_distinct(2 * tenth, stream(0, "contract unlinked"))
    test, none = torch.cat([rest, own[world]], dim=1), train.new_empty(2, 0)
    split = Split(graph.num_nodes, train, none, test, none, others)
    here = Graph.from_pairs(graph.title, graph.names, torch.cat([train, test], dim=1), graph.x)
    positive, negative = predictor.fit(here, split).test_scores()
    return positive[:tenth], negative
