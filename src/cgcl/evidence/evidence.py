"""What a person can check about a pair: shared neighbours, common features, distance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cgcl.evidence.sorted_lists import Numbers, SortedLists, blocks_of, neighbour_lists
from cgcl.graph import Graph
from cgcl.graph.features import has_structural_features

__all__ = ["Evidence", "evidence_of"]

# Items compared at once: a few arrays of this length are alive at the same time.
_BUDGET = 2**20
_ROWS = 2**14


@dataclass(frozen=True, eq=False)
class Evidence:
    """What the graph says about each of some pairs, in their order."""

    linked: npt.NDArray[np.bool_]
    """Whether the two are linked already, [p]."""
    shared_neighbours: Numbers
    """How many nodes are linked to both, [p]."""
    common_features: Numbers | None
    """How many features both have, [p]; None if the graph's features are no matter of having."""
    distance: tuple[int | None, ...]
    """Links on the shortest way from one to the other, their own link not counted; None if there
    is no way."""
    neighbours: tuple[tuple[str, ...], ...]
    """Names of shared neighbours, those with the fewest links first."""
    features: tuple[tuple[str, ...], ...]
    """Names of common features, the rarest first."""

    def __len__(self) -> int:
        return len(self.linked)

    def columns(self) -> dict[str, list[Any]]:
        """Return what fits into a table, by column; common features only where there are any."""
        columns: dict[str, list[Any]] = {"shared_neighbours": self.shared_neighbours.tolist()}
        if self.common_features is not None:
            columns["common_features"] = self.common_features.tolist()
        columns["distance"] = list(self.distance)
        return columns


def evidence_of(
    graph: Graph,
    pairs: Tensor,
    *,
    names: int = 5,
    neighbours: SortedLists | None = None,
) -> Evidence:
    """Return what speaks for each pair, whatever a model says about it.

    A feature is common if both nodes have it. That has a meaning for words, categories and marks,
    and none for measurements, so these count: every feature of a sparse matrix, and of a dense one
    the columns that hold zero and one other value. Features made by the package never count.

    Args:
        graph: The known links, names and features.
        pairs: Node numbers, int64 [2, p].
        names: How many neighbours and features to name for a pair.
        neighbours: The lists of `neighbour_lists(graph)`, if the caller has them already.

    Example:
        >>> toy = Graph.from_pairs("toy", "abc", torch.tensor([[0, 1], [1, 2]]))
        >>> found = evidence_of(toy, torch.tensor([[0, 0], [1, 2]]))
        >>> found.columns()
        {'shared_neighbours': [0, 1], 'distance': [None, 2]}
        >>> found.neighbours
        ((), ('b',))
    """
    ends = pairs.numpy()
    lists = neighbour_lists(graph) if neighbours is None else neighbours
    shared, telling = _in_common(lists, ends, lists.sizes, names)
    common, kept, labels = _common_features(graph, ends, names)
    return Evidence(
        linked=lists.contains(ends[0], ends[1]),
        shared_neighbours=shared,
        common_features=common,
        distance=_distances(lists, ends, shared),
        neighbours=tuple(tuple(graph.names[node] for node in nodes) for nodes in telling),
        features=tuple(tuple(_feature_name(graph, labels[k]) for k in ks) for ks in kept),
    )


def _in_common(
    lists: SortedLists, ends: Numbers, rarity: Numbers, most: int
) -> tuple[Numbers, list[list[int]]]:
    """Return how many items the two lists of each pair share, and the `most` rarest of them."""
    counts = np.zeros(ends.shape[1], dtype=np.int64)
    rarest: list[list[int]] = []
    sizes = lists.sizes[ends]
    is_first_short = sizes[0] <= sizes[1]
    short, long = np.where(is_first_short, ends, ends[::-1])
    for block in blocks_of(sizes.min(axis=0), _BUDGET):
        which, items = lists.take(short[block])
        is_shared = lists.contains(long[block][which], items)
        which, items = which[is_shared], items[is_shared]
        found = np.bincount(which, minlength=block.stop - block.start)
        counts[block] = found
        items = items[np.lexsort((items, rarity[items], which))]
        starts = np.cumsum(found) - found
        rarest += [
            items[start : start + min(count, most)].tolist()
            for start, count in zip(starts.tolist(), found.tolist(), strict=True)
        ]
    return counts, rarest


def _common_features(
    graph: Graph, ends: Numbers, most: int
) -> tuple[Numbers | None, list[list[int]], Numbers]:
    """Return counts, the rarest columns of each pair, and what those columns are in the graph."""
    none: list[list[int]] = [[] for _ in range(ends.shape[1])]
    nothing = np.empty(0, dtype=np.int64)
    if graph.x is None or has_structural_features(graph):
        return None, none, nothing
    nodes, places = np.unique(ends, return_inverse=True)
    if graph.x.is_sparse:
        rows, columns, rarity = _sparse_entries(graph.x, nodes)
        labels = np.arange(graph.num_features)
    else:
        labels, rarity = _marks(graph.x)
        if len(labels) == 0:
            return None, none, nothing
        chosen = graph.x.index_select(0, torch.from_numpy(nodes))
        rows, columns = chosen[:, torch.from_numpy(labels)].nonzero().T.numpy()
    lists = SortedLists.from_entries(rows, columns, len(nodes), len(labels))
    counts, rarest = _in_common(lists, places.reshape(ends.shape), rarity, most)
    return counts, rarest, labels


def _sparse_entries(x: Tensor, nodes: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Return row and column of the entries of `nodes`, and how many nodes have each feature."""
    indices = x.indices().numpy()
    present = x.values().numpy() != 0
    rarity = np.bincount(indices[1][present], minlength=x.shape[1])
    place = np.full(x.shape[0], -1)
    place[nodes] = np.arange(len(nodes))
    rows = place[indices[0]]
    kept = present & (rows >= 0)
    return rows[kept], indices[1][kept], rarity


def _marks(x: Tensor) -> tuple[Numbers, Numbers]:
    """Return the dense columns that hold zero and one other value, and how many nodes have each."""
    if x.shape[0] == 0:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    high, low = x.amax(dim=0), x.amin(dim=0)
    value = torch.where(high > 0, high, low)
    others = torch.zeros(x.shape[1], dtype=torch.int64)
    rarity = torch.zeros(x.shape[1], dtype=torch.int64)
    for rows in x.split(_ROWS):
        others += ((rows != 0) & (rows != value)).sum(dim=0)
        rarity += (rows != 0).sum(dim=0)
    # A column in which every node has the mark tells nobody from anybody.
    labels = ((others == 0) & (rarity > 0) & (rarity < x.shape[0])).nonzero().squeeze(1)
    return labels.numpy(), rarity[labels].numpy()


def _feature_name(graph: Graph, feature: int) -> str:
    return graph.feature_names[feature] if graph.feature_names else f"feature {feature}"


def _distances(lists: SortedLists, ends: Numbers, shared: Numbers) -> tuple[int | None, ...]:
    """Return the length of the shortest way between the ends of each pair but their own link."""
    search = _Search(lists)
    part = lists.components if (shared == 0).any() else np.empty(0, dtype=np.int32)
    distances: list[int | None] = []
    for number, (one, other) in enumerate(ends.T.tolist()):
        if one == other:
            distances.append(0)
        elif shared[number]:
            distances.append(2)
        elif part[one] != part[other]:
            distances.append(None)
        else:
            distances.append(search.distance(one, other, number))
    return tuple(distances)


class _Search:
    """Breadth first from both ends; each step grows the end that has fewer links to follow."""

    def __init__(self, lists: SortedLists) -> None:
        self._lists = lists
        # The last pair whose search reached the node from its first end, and from its second.
        self._reached = np.full((2, len(lists.sizes)), -1, dtype=np.int64)
        self._place = np.empty(len(lists.sizes), dtype=np.int64)

    def distance(self, one: int, other: int, number: int) -> int | None:
        """Return the distance of two different nodes without their own link.

        Args:
            one: A node.
            other: Another node.
            number: A number that no earlier search had.
        """
        ends = np.array([one, other])
        fronts = [ends[:1], ends[1:]]
        efforts = self._lists.sizes[ends].tolist()
        depths = [0, 0]
        self._reached[[0, 1], ends] = number
        while True:
            side = int(efforts[1] < efforts[0])
            mine, theirs = self._reached[side], self._reached[1 - side]
            found = self._lists.take(fronts[side])[1]
            if depths[side] == 0:
                found = found[found != ends[1 - side]]
            depths[side] += 1
            if (theirs[found] == number).any():
                return sum(depths)
            found = self._distinct(found[mine[found] != number])
            if len(found) == 0:
                return None
            mine[found] = number
            fronts[side] = found
            efforts[side] = int(self._lists.sizes[found].sum())

    def _distinct(self, nodes: Numbers) -> Numbers:
        """Return each node once, in less time than sorting them takes."""
        places = np.arange(len(nodes))
        self._place[nodes] = places
        return nodes[self._place[nodes] == places]
