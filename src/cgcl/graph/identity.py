"""Features for a graph that has none."""

from __future__ import annotations

import torch

from cgcl.errors import FeatureError
from cgcl.graph.graph import Graph

__all__ = ["with_features_of_some_kind"]

# The first layer then has one row per node: 200,000 rows of 128 numbers are 100 MB.
_MAX_NODES = 200_000


def with_features_of_some_kind(graph: Graph) -> Graph:
    """Return the graph itself, or, if it has no features, with one feature per node.

    The feature tells the node from all others and nothing else; it is made without looking at
    any link, so it cannot leak one.

    Raises:
        FeatureError: There are no features and too many nodes to give each one its own.
    """
    if graph.x is not None:
        return graph
    if graph.num_nodes > _MAX_NODES:
        raise FeatureError(
            f"The graph '{graph.title}' has no features, and {graph.num_nodes:,} nodes are too "
            f"many to give each one its own (at most {_MAX_NODES:,}).\n"
            f"Give a table of node features: --features nodes.csv"
        )
    nodes = torch.arange(graph.num_nodes)
    identity = torch.sparse_coo_tensor(
        torch.stack([nodes, nodes]),
        torch.ones(graph.num_nodes),
        (graph.num_nodes, graph.num_nodes),
        check_invariants=False,
        is_coalesced=True,
    )
    return graph.with_features(identity, "No features given: every node has one of its own.")
