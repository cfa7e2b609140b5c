"""Features: given ones in the form that takes less room, and structural ones made of links.

Structural features say which nodes a node is linked to, one feature per node. They follow from
whatever links are looked at, so they are never stored: a link that is hidden for a while is in no
feature either. docs/decisions/0014-structural-features.md has what was measured.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from cgcl.errors import FeatureError
from cgcl.wording import counted

if TYPE_CHECKING:
    from cgcl.graph.graph import Graph


SPARSE_UP_TO = 0.25
"""Features are kept sparse when at most this share of their entries is not zero."""

# A GPU multiplies dense features faster than it sorts the entries of sparse ones for every
# gradient, if there is room for them.
_DENSE_BYTES = 2 * 2**30


def placed(x: Tensor, device: torch.device) -> Tensor:
    """Return the features on a device, in the form that is fast there.

    Args:
        x: Features, dense or coalesced sparse COO, float32 [n, d].
        device: Where to compute; anything but a CPU gets dense features, up to 2 GiB of them.

    Example:
        >>> placed(torch.eye(8).to_sparse_coo(), torch.device("cpu")).is_sparse
        True
    """
    if device.type == "cpu" or not x.is_sparse:
        return x.to(device)
    moved = x.to(device)
    return moved.to_dense() if x.shape[0] * x.shape[1] * 4 <= _DENSE_BYTES else moved


def compact(x: Tensor) -> Tensor:
    """Return the features as coalesced sparse COO if few are not zero, dense otherwise.

    Args:
        x: Features, dense or sparse, float32 [n, d].

    Example:
        >>> compact(torch.eye(8)).is_sparse
        True
        >>> compact(torch.eye(2)).is_sparse
        False
    """
    if x.is_sparse:
        x = x.coalesce()
        kept = x.values() != 0  # an entry may be listed and still be zero
        places, values = x.indices()[:, kept], x.values()[kept]
        x = coalesced(places, values, tuple(x.shape))
    nonzeros = x.values().numel() if x.is_sparse else int(torch.count_nonzero(x))
    if nonzeros <= SPARSE_UP_TO * x.shape[0] * x.shape[1]:
        return x if x.is_sparse else x.to_sparse_coo()
    return x.to_dense() if x.is_sparse else x


def coalesced(places: Tensor, values: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return the sparse COO tensor with these entries, each listed once and in order."""
    return torch.sparse_coo_tensor(places, values, shape, is_coalesced=True, check_invariants=True)


def extremes(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the smallest and the largest value of each feature over all nodes, [d] each.

    Args:
        x: Features, dense or coalesced sparse COO, float32 [n, d].
    """
    nodes, count = x.shape
    if not nodes:
        return torch.zeros(count), torch.zeros(count)
    if not x.is_sparse:
        return x.amin(dim=0), x.amax(dim=0)
    columns, values = x.indices()[1], x.values()
    # A feature that is not listed everywhere is zero elsewhere.
    is_elsewhere = torch.bincount(columns, minlength=count) < nodes
    low, high = (
        torch.where(is_elsewhere, 0.0, bound).scatter_reduce(0, columns, values, kind)
        for bound, kind in ((torch.inf, "amin"), (-torch.inf, "amax"))
    )
    return low, high


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
        feature, nonzeros = torch.arange(num_nodes), 2 * links.shape[1]
        if num_nodes <= max_features:
            return cls(feature, num_nodes, nonzeros)
        degrees = torch.bincount(links.flatten(), minlength=num_nodes)
        rank = torch.empty(num_nodes, dtype=torch.int64)
        # Stable, so that equal degrees are in the order of the nodes on every machine.
        rank[degrees.argsort(descending=True, stable=True)] = feature
        own = max_features // 2
        feature = torch.where(rank < own, rank, own + rank % (max_features - own))
        return cls(feature, max_features, nonzeros)

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
        graph: A graph without features, or with structural ones, which are made anew.
        links: The links to learn from, each once, int64 [2, m].
    """
    structure = Structure.of(links, graph.num_nodes, MAX_FEATURES)
    made = counted(structure.num_features, "structural feature was", "structural features were")
    note = f"{_NOTE}{made} made from the links to learn from: who is linked to whom."
    # In an earlier fit other links were counted, which may be held back now.
    notes = (*(old for old in graph.notes if not old.startswith(_NOTE)), note)
    return replace(
        graph, x=None, structure=structure, notes=notes, feature_names=(), feature_scale=None
    )


def has_structural_features(graph: Graph) -> bool:
    """Return whether the features are not the user's but made from links.

    Earlier versions stored them with the graph like given ones: there only the note tells.
    """
    return any(note.startswith(_NOTE) for note in graph.notes)


# Words, shares and standardised numbers stay below this; incomes and years do not, and drown
# every other feature.
_LARGE = 10.0


def prepare(graph: Graph, train: Tensor) -> Graph:
    """Return the graph with features fit for training, and notes of what was done to them.

    - Without features, structural ones are made: which nodes each node is linked to. What is kept
      is how; they are made anew of whatever links may be looked at, in training of those that a
      step sees, and those of a node that joins later of its links to the others.
    - Features with large values are divided by their largest magnitude; `feature_scale` keeps by
      what, for nodes that join later.

    Neither depends on a link that is held back to choose by or to test on.

    Args:
        graph: The graph as it was read.
        train: The links to learn from, each once, int64 [2, m].
    """
    if graph.x is None or has_structural_features(graph):
        return with_structural_features(graph, train)
    low, high = extremes(graph.x)
    largest = torch.maximum(low.abs(), high.abs())
    large = largest > _LARGE
    count = int(large.sum())
    if count == 0:
        return graph
    scale = torch.where(large, 1 / largest, torch.ones_like(largest))
    what = f"{counted(count, 'feature')} with values beyond {_LARGE:g}"
    note = f"{what} scaled: divided by the largest magnitude."
    return graph.with_features(scaled(graph.x, scale), note, graph.feature_names, scale)


def features_of(graph: Graph) -> Tensor | Structure:
    """Return the features of a graph that must have some, or how they are made of links.

    Raises:
        FeatureError: It has none.
    """
    found = graph.x if graph.structure is None else graph.structure
    if found is None:
        raise FeatureError(f"The graph '{graph.title}' has no features.")
    return found


def scaled(x: Tensor, scale: Tensor) -> Tensor:
    """Return features, dense or coalesced sparse COO, each column times a number of its own."""
    if not x.is_sparse:
        return x * scale
    return coalesced(x.indices(), x.values() * scale[x.indices()[1]], tuple(x.shape))
