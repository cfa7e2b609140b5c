"""Structural features: who is linked to whom, for graphs that bring no features.

A node's features say which nodes it is linked to, one feature per node. They follow from whatever
links are looked at, so they are never stored: a link that is hidden for a while is in no feature
either. docs/decisions/0014-structural-features.md has what was measured.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

if TYPE_CHECKING:
    from cgcl.graph.graph import Graph

__all__ = [
    "MAX_FEATURES",
    "Structure",
    "has_structural_features",
    "with_structural_features",
    "without_structural_features",
]

MAX_FEATURES = 50_000
"""The first layer has a row of weights per feature: 50,000 rows of 128 numbers are 26 MB."""
_NOTE = "No features given: "
_NO_FEATURE = -1


@dataclass(frozen=True, eq=False)
class Structure:
    """How features follow from links: which feature speaks of which node."""

    feature_of_node: Tensor
    """int64 [n]; -1 for a node that joined after training, of which no feature speaks."""
    num_features: int
    """Number of features, d."""
    num_nonzeros: int
    """How many entries the links to learn from give, for what is told about the features."""

    @classmethod
    def of(cls, links: Tensor, num_nodes: int, max_features: int = MAX_FEATURES) -> Structure:
        """Let each feature speak of a node, or of several.

        Up to `max_features` nodes, feature k speaks of node k. Beyond, the nodes with most links
        have half of the features for themselves, and all others share the other half in turn.

        Args:
            links: The links to learn from, each once, int64 [2, m].
            num_nodes: Number of nodes, n.
            max_features: The most features to make.
        """
        feature = _feature_of_each_node(links, num_nodes, max_features)
        return cls(feature, min(num_nodes, max_features), 2 * links.shape[1])

    def features(self, edge_index: Tensor) -> Tensor:
        """Return how many of a node's links come from each feature's nodes, sparse [n, d].

        Nothing but these links is looked at. A node without any has no features.

        Args:
            edge_index: Links from row 0 to row 1, int64 [2, e], on the device of the structure;
                both directions of a link for either end to know of the other.

        Example:
            >>> path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
            >>> Structure.of(path[:, ::2], 3).features(path).to_dense()
            tensor([[0., 1., 0.],
                    [1., 0., 1.],
                    [0., 1., 0.]])
        """
        column = self.feature_of_node.index_select(0, edge_index[0])
        entries = torch.stack([edge_index[1], column])[:, column != _NO_FEATURE]
        ones = torch.ones(entries.shape[1], device=entries.device)
        shape = (self.feature_of_node.numel(), self.num_features)
        return torch.sparse_coo_tensor(entries, ones, shape, check_invariants=False).coalesce()

    def with_new_nodes(self, count: int) -> Structure:
        """Return the structure with so many more nodes, of which no feature speaks."""
        return replace(
            self,
            feature_of_node=functional.pad(self.feature_of_node, (0, count), value=_NO_FEATURE),
        )

    def to(self, device: torch.device | str) -> Structure:
        """Return the structure on a device."""
        return replace(self, feature_of_node=self.feature_of_node.to(device))


def with_structural_features(graph: Graph, links: Tensor) -> Graph:
    """Return the graph with a rule that makes features of links, and a note that says so.

    Args:
        graph: The graph without features.
        links: The links to learn from, each once, int64 [2, m].
    """
    structure = Structure.of(links, graph.num_nodes, MAX_FEATURES)
    count = structure.num_features
    many = "feature was" if count == 1 else "features were"
    note = (
        f"{_NOTE}{count:,} structural {many} made from the links to learn from: "
        f"who is linked to whom."
    )
    return replace(graph, structure=structure, notes=(*graph.notes, note))


def without_structural_features(graph: Graph) -> Graph:
    """Return the graph as it was before features were made for it."""
    if not has_structural_features(graph):
        return graph
    notes = tuple(note for note in graph.notes if not note.startswith(_NOTE))
    return replace(graph, x=None, structure=None, notes=notes, feature_names=(), feature_scale=None)


def has_structural_features(graph: Graph) -> bool:
    """Return whether the features are not the user's but made from links.

    Earlier versions stored them with the graph like given ones: there only the note tells.
    """
    return any(note.startswith(_NOTE) for note in graph.notes)


def _feature_of_each_node(links: Tensor, num_nodes: int, max_features: int) -> Tensor:
    if num_nodes <= max_features:
        return torch.arange(num_nodes)
    degrees = torch.bincount(links.flatten(), minlength=num_nodes)
    rank = torch.empty(num_nodes, dtype=torch.int64)
    # Stable, so that equal degrees are in the order of the nodes on every machine.
    rank[degrees.argsort(descending=True, stable=True)] = torch.arange(num_nodes)
    own = max_features // 2
    return torch.where(rank < own, rank, own + rank % (max_features - own))
