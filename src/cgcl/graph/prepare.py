"""Features that a network can learn from, made without looking at any link."""

from __future__ import annotations

import torch
from torch import Tensor

from cgcl.errors import FeatureError
from cgcl.graph.graph import Graph

__all__ = ["features_of", "prepare"]

# The first layer then has one row per node: 200,000 rows of 128 numbers are 100 MB.
_MAX_NODES = 200_000
# Words, shares and standardised numbers stay below this; incomes and years do not, and drown
# every other feature.
_LARGE = 10.0


def prepare(graph: Graph) -> Graph:
    """Return the graph with features fit for training, and notes of what was done to them.

    - Without features every node gets one of its own, which tells it from all others.
    - Features with large values are divided by their largest magnitude.

    Both follow from the nodes alone, so they cannot leak a link.

    Raises:
        FeatureError: There are no features and too many nodes to give each one its own.
    """
    if graph.x is None:
        return _with_identity(graph)
    largest = _largest_magnitudes(graph.x)
    large = largest > _LARGE
    count = int(large.sum())
    if count == 0:
        return graph
    scale = torch.where(large, 1 / largest, torch.ones_like(largest))
    what = "1 feature" if count == 1 else f"{count:,} features"
    note = f"{what} with values beyond {_LARGE:g} scaled: divided by the largest magnitude."
    return graph.with_features(_scaled(graph.x, scale), note, graph.feature_names, scale)


def features_of(graph: Graph) -> Tensor:
    """Return the features of a graph that must have some.

    Raises:
        FeatureError: It has none.
    """
    if graph.x is None:
        raise FeatureError(f"The graph '{graph.title}' has no features.")
    return graph.x


def _with_identity(graph: Graph) -> Graph:
    if graph.num_nodes > _MAX_NODES:
        raise FeatureError(
            f"The graph '{graph.title}' has no features, and {graph.num_nodes:,} nodes are too "
            f"many to give each one its own (at most {_MAX_NODES:,}).\n"
            f"Give a table of node features: --features nodes.csv"
        )
    nodes = torch.arange(graph.num_nodes)
    identity = _sparse(
        torch.stack([nodes, nodes]), torch.ones(len(nodes)), (len(nodes), len(nodes))
    )
    return graph.with_features(identity, "No features given: every node has one of its own.")


def _largest_magnitudes(x: Tensor) -> Tensor:
    """Return the largest magnitude of each feature, [d]."""
    if not x.is_sparse:
        return x.abs().amax(dim=0) if x.shape[0] else torch.zeros(x.shape[1])
    zeros = torch.zeros(x.shape[1])
    return zeros.scatter_reduce(0, x.indices()[1], x.values().abs(), "amax")


def _scaled(x: Tensor, scale: Tensor) -> Tensor:
    if not x.is_sparse:
        return x * scale
    return _sparse(x.indices(), x.values() * scale[x.indices()[1]], x.shape)


def _sparse(indices: Tensor, values: Tensor, shape: tuple[int, ...]) -> Tensor:
    return torch.sparse_coo_tensor(
        indices, values, shape, check_invariants=False, is_coalesced=True
    )
