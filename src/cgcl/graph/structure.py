"""Structural features: who is linked to whom, for graphs that bring no features.

A node's features say which nodes it is linked to, one feature per node. This is the adjacency
matrix of the links to learn from. docs/decisions/0014-structural-features.md has what was measured.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from cgcl.graph.graph import Graph

__all__ = [
    "MAX_FEATURES",
    "feature_of_each_node",
    "has_structural_features",
    "neighbour_features",
    "neighbour_names",
    "rows_of_new_nodes",
    "with_structural_features",
    "without_structural_features",
]

MAX_FEATURES = 50_000
"""The first layer has a row of weights per feature: 50,000 rows of 128 numbers are 26 MB."""
_NOTE = "No features given: "


def neighbour_features(links: Tensor, num_nodes: int, max_features: int = MAX_FEATURES) -> Tensor:
    """Return for every node how many of its links lead to each feature's nodes, sparse [n, d].

    Nothing but `links` is looked at, so a link that is held back cannot show. A node without links
    has no features. With at most `max_features` nodes every value is 0 or 1.

    Args:
        links: The links to learn from, each once, int64 [2, m].
        num_nodes: Number of nodes, n.
        max_features: The most features to make; beyond, nodes share them.

    Example:
        >>> neighbour_features(torch.tensor([[0, 1], [1, 2]]), 3).to_dense()
        tensor([[0., 1., 0.],
                [1., 0., 1.],
                [0., 1., 0.]])
    """
    feature = feature_of_each_node(links, num_nodes, max_features)
    rows = torch.cat([links[0], links[1]])
    columns = feature.index_select(0, torch.cat([links[1], links[0]]))
    return _counted(rows, columns, (num_nodes, min(num_nodes, max_features)))


def feature_of_each_node(links: Tensor, num_nodes: int, max_features: int = MAX_FEATURES) -> Tensor:
    """Return which feature speaks of each node, int64 [n].

    Up to `max_features` nodes, node k has feature k. Beyond, the nodes with most links have half of
    the features for themselves, and all others share the other half in turn.

    Args:
        links: The links to learn from, each once, int64 [2, m].
        num_nodes: Number of nodes, n.
        max_features: The most features to make.
    """
    if num_nodes <= max_features:
        return torch.arange(num_nodes)
    degrees = torch.bincount(links.flatten(), minlength=num_nodes)
    rank = torch.empty(num_nodes, dtype=torch.int64)
    # Stable, so that equal degrees are in the order of the nodes on every machine.
    rank[degrees.argsort(descending=True, stable=True)] = torch.arange(num_nodes)
    own = max_features // 2
    return torch.where(rank < own, rank, own + rank % (max_features - own))


def neighbour_names(feature: Tensor, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return what the features are called.

    Args:
        feature: The feature of each node, as `feature_of_each_node` gives it.
        names: The names of the nodes.

    Example:
        >>> neighbour_names(torch.tensor([0, 1, 1]), ("Anna", "Bob", "Eve"))
        ('linked to Anna', 'linked to one of 2 nodes (group 1)')
    """
    sizes = torch.bincount(feature).tolist()
    called = [f"linked to one of {size:,} nodes (group {k})" for k, size in enumerate(sizes)]
    for name, k in zip(names, feature.tolist(), strict=True):
        if sizes[k] == 1:
            called[k] = f"linked to {name}"
    return tuple(called)


def rows_of_new_nodes(links: Tensor, num_nodes: int, new_links: Tensor, count: int) -> Tensor:
    """Return the structural features of nodes that joined after training, sparse [count, d].

    They follow from the new nodes' links to known nodes, as those of the known nodes did from
    theirs. The features of the known nodes stay as they are.

    Args:
        links: The links that were learned from, int64 [2, m].
        num_nodes: Number of nodes at that time.
        new_links: A new node's number from 0 above the number of a known one, int64 [2, any].
        count: Number of new nodes.
    """
    feature = feature_of_each_node(links, num_nodes)
    columns = feature.index_select(0, new_links[1])
    return _counted(new_links[0], columns, (count, min(num_nodes, MAX_FEATURES)))


def with_structural_features(graph: Graph, links: Tensor) -> Graph:
    """Return the graph with features made from `links`, their names, and a note that says so."""
    x = neighbour_features(links, graph.num_nodes)
    names = neighbour_names(feature_of_each_node(links, graph.num_nodes), graph.names)
    many = "feature was" if x.shape[1] == 1 else "features were"
    note = (
        f"{_NOTE}{x.shape[1]:,} structural {many} made from the links to learn from: "
        f"who is linked to whom."
    )
    return graph.with_features(x, note, names)


def without_structural_features(graph: Graph) -> Graph:
    """Return the graph as it was before features were made for it."""
    if not has_structural_features(graph):
        return graph
    notes = tuple(note for note in graph.notes if not note.startswith(_NOTE))
    return replace(graph, x=None, notes=notes, feature_names=(), feature_scale=None)


def has_structural_features(graph: Graph) -> bool:
    """Return whether the features are not the user's but were made from links."""
    return any(note.startswith(_NOTE) for note in graph.notes)


def _counted(rows: Tensor, columns: Tensor, shape: tuple[int, int]) -> Tensor:
    entries = torch.stack([rows, columns])
    ones = torch.ones(entries.shape[1])
    return torch.sparse_coo_tensor(entries, ones, shape, check_invariants=True).coalesce()
