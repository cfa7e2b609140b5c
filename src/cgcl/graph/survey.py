"""What a graph is like: its size, its pieces, its hub, its sides, its features."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cgcl.graph.adjacency import connected_components, two_sides
from cgcl.graph.features import extremes
from cgcl.graph.graph import Graph


@dataclass(frozen=True)
class FeatureSurvey:
    """What the features of a graph are like."""

    count: int
    is_sparse: bool
    nonzeros: int
    constant: int
    """Features that have the same value at every node, and so say nothing."""
    nodes_without: int
    """Nodes whose features are all zero."""


@dataclass(frozen=True)
class Survey:
    """What a graph is like, in numbers."""

    nodes: int
    links: int
    isolated: int
    """Nodes without a link."""
    components: int
    """Pieces that no link joins, isolated nodes included."""
    largest_component: int
    """Nodes of the largest piece."""
    density: float
    """Links over pairs that could be links; across the sides if the graph has some."""
    mean_degree: float
    median_degree: float
    max_degree: int
    hub: str | None
    """The node with the most links, the first by order if there are several; None without links."""
    is_bipartite: bool
    """Whether the graph was read as one of two sides."""
    sides: tuple[int, int] | None
    """How many nodes with links are on either side, if all links can be taken to go across; None
    if they cannot."""
    is_sides_unique: bool
    """Whether the links allow only one such division, which is so in one piece."""
    features: FeatureSurvey | None
    has_times: bool


def survey(graph: Graph) -> Survey:
    """Return what a graph is like; takes seconds for a million nodes.

    Example:
        >>> star = Graph.from_pairs("star", "abcd", torch.tensor([[0, 0], [1, 2]]))
        >>> found = survey(star)
        >>> found.components, found.isolated, found.hub, found.sides
        (2, 1, 'a', (1, 2))
    """
    nodes, links = graph.num_nodes, graph.num_edges
    possible = nodes * (nodes - 1) // 2
    if graph.sides is not None:
        possible = math.prod(_sizes(graph.sides))
    degree = torch.bincount(graph.edges.reshape(-1), minlength=nodes)
    sizes = np.bincount(connected_components(graph.edges.numpy(), nodes))
    isolated = int((degree == 0).sum())
    sides = _two_sides(graph) if graph.sides is None else _sizes(graph.sides[degree > 0])
    return Survey(
        nodes=nodes,
        links=links,
        isolated=isolated,
        components=len(sizes),
        largest_component=int(sizes.max(initial=0)),
        density=links / max(possible, 1),
        mean_degree=2 * links / max(nodes, 1),
        median_degree=float(np.median(degree.numpy())) if nodes else 0.0,
        max_degree=int(degree.max()) if nodes else 0,
        hub=graph.names[int(degree.argmax())] if links else None,
        is_bipartite=graph.sides is not None,
        sides=sides,
        is_sides_unique=graph.sides is not None or len(sizes) - isolated == 1,
        features=None if graph.x is None else _survey_features(graph.x, graph.num_nonzeros),
        has_times=graph.times is not None,
    )


def _two_sides(graph: Graph) -> tuple[int, int] | None:
    """Return the sizes of two sides that all links go across, or None if there are none."""
    edges = graph.edges.numpy()
    _, sides, is_odd = two_sides(edges, graph.num_nodes)
    if edges.shape[1] == 0 or is_odd.any():
        return None
    return _sizes(torch.from_numpy(sides[np.unique(edges)]))


def _sizes(sides: Tensor) -> tuple[int, int]:
    there = int(sides.sum())
    return sides.numel() - there, there


def _survey_features(x: Tensor, nonzeros: int) -> FeatureSurvey:
    nodes, count = x.shape
    low, high = extremes(x)
    if x.is_sparse:
        filled = torch.bincount(x.indices()[0, x.values() != 0], minlength=nodes)
    else:
        filled = x.count_nonzero(dim=1)
    empty = int((filled == 0).sum())
    return FeatureSurvey(count, x.is_sparse, nonzeros, int((low == high).sum()), empty)
