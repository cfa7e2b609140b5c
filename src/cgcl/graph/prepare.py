"""Features that a network can learn from, made without looking at any link that is held back."""

from __future__ import annotations

import torch
from torch import Tensor

from cgcl.errors import FeatureError
from cgcl.graph.graph import Graph
from cgcl.graph.structure import (
    Structure,
    has_structural_features,
    with_structural_features,
    without_structural_features,
)

__all__ = ["features_of", "prepare"]

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
        # In an earlier fit other links were counted, which may be held back now.
        return with_structural_features(without_structural_features(graph), train)
    largest = _largest_magnitudes(graph.x)
    large = largest > _LARGE
    count = int(large.sum())
    if count == 0:
        return graph
    scale = torch.where(large, 1 / largest, torch.ones_like(largest))
    what = "1 feature" if count == 1 else f"{count:,} features"
    note = f"{what} with values beyond {_LARGE:g} scaled: divided by the largest magnitude."
    return graph.with_features(_scaled(graph.x, scale), note, graph.feature_names, scale)


def features_of(graph: Graph) -> Tensor | Structure:
    """Return the features of a graph that must have some, or how they are made of links.

    Raises:
        FeatureError: It has none.
    """
    found = graph.x if graph.structure is None else graph.structure
    if found is None:
        raise FeatureError(f"The graph '{graph.title}' has no features.")
    return found


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
