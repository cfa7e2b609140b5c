"""What a person can check about a pair: shared neighbours, common features, distance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cgcl.graph import Graph
from cgcl.graph.adjacency import Adjacency, Numbers
from cgcl.graph.features import has_structural_features
from cgcl.graph.pairs import encode_ordered
from cgcl.predict.edge_importance import Reason, RestsOn
from cgcl.wording import counted, shown

# Rows of features looked at together.
_ROWS = 2**14
_NAME_LENGTH = 40
# How many neighbours and features are named for a pair.
_NAMED = 5


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

    def columns(self) -> dict[str, list[Any]]:
        """Return what fits into a table, by column; common features only where there are any."""
        columns: dict[str, list[Any]] = {"shared_neighbours": self.shared_neighbours.tolist()}
        if self.common_features is not None:
            columns["common_features"] = self.common_features.tolist()
        columns["distance"] = list(self.distance)
        return columns


def evidence_of(graph: Graph, pairs: Tensor, adjacency: Adjacency | None = None) -> Evidence:
    """Return what speaks for each pair, whatever a model says about it.

    A feature is common if both nodes have it. That has a meaning for words, categories and marks,
    and none for measurements, so these count: every feature of a sparse matrix, and of a dense one
    the columns that hold zero and one other value. Features made by the package never count.

    Args:
        graph: The known links, names and features.
        pairs: Node numbers, int64 [2, p].
        adjacency: The neighbours of every node, if the caller has them already.

    Example:
        >>> toy = Graph.from_pairs("toy", "abc", torch.tensor([[0, 1], [1, 2]]))
        >>> found = evidence_of(toy, torch.tensor([[0, 0], [1, 2]]))
        >>> found.columns()
        {'shared_neighbours': [0, 1], 'distance': [None, 2]}
        >>> found.neighbours
        ((), ('b',))
    """
    links = adjacency or Adjacency.from_pairs(graph.edges, graph.num_nodes)
    shared, telling = _in_common(links, pairs, links.degree.numpy())
    common, kept, labels = _common_features(graph, pairs)
    return Evidence(
        linked=links.contains(*pairs).numpy(),
        shared_neighbours=shared,
        common_features=common,
        distance=_distances(links, pairs, shared),
        neighbours=tuple(tuple(graph.names[node] for node in nodes) for nodes in telling),
        features=tuple(tuple(_feature_name(graph, labels[k]) for k in ks) for ks in kept),
    )


def _in_common(lists: Adjacency, pairs: Tensor, rarity: Numbers) -> tuple[Numbers, list[list[int]]]:
    """Return how many items the two lists of each pair share, and the rarest few of them."""
    which, items = (found.numpy() for found in lists.common_neighbours(pairs))
    counts = np.bincount(which, minlength=pairs.shape[1])
    items = items[np.lexsort((items, rarity[items], which))]
    rarest = [some[:_NAMED].tolist() for some in np.split(items, np.cumsum(counts)[:-1])]
    return counts, rarest[: pairs.shape[1]]


def _common_features(
    graph: Graph, pairs: Tensor
) -> tuple[Numbers | None, list[list[int]], Numbers]:
    """Return counts, the rarest columns of each pair, and what those columns are in the graph."""
    labels, rarity = _marks(graph)
    if graph.x is None or len(labels) == 0:
        return None, [[] for _ in range(pairs.shape[1])], labels
    nodes, places = pairs.unique(return_inverse=True)
    x = graph.x.index_select(0, nodes)
    x = x.coalesce() if x.is_sparse else x[:, labels].to_sparse_coo()
    rows, columns = _columns(x)
    codes = encode_ordered(rows, columns, len(labels))
    lists = Adjacency.from_codes(codes, len(nodes), len(labels))
    counts, rarest = _in_common(lists, places, rarity)
    return counts, rarest, labels


def _columns(x: Tensor) -> Tensor:
    """Return row and column of what is not zero, int64 [2, any]."""
    return x.indices()[:, x.values() != 0]


def _marks(graph: Graph) -> tuple[Numbers, Numbers]:
    """Return the features that a node has or has not, and how many nodes have each.

    These are all columns of a sparse matrix; of a dense one those with zero and one other value.
    """
    x = graph.x
    if x is None or x.shape[0] == 0 or has_structural_features(graph):
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    if x.is_sparse:
        rarity = _columns(x)[1].bincount(minlength=x.shape[1])
        return np.arange(x.shape[1]), rarity.numpy()
    high, low = x.amax(dim=0), x.amin(dim=0)
    value = torch.where(high > 0, high, low)
    blocks = x.split(_ROWS)
    others = sum(((rows != 0) & (rows != value)).sum(dim=0) for rows in blocks)
    rarity = x.count_nonzero(dim=0)
    # A column in which every node has the mark tells nobody from anybody.
    labels = ((others == 0) & (rarity > 0) & (rarity < x.shape[0])).nonzero().squeeze(1)
    return labels.numpy(), rarity[labels].numpy()


def _feature_name(graph: Graph, feature: int) -> str:
    return graph.feature_names[feature] if graph.feature_names else f"feature {feature}"


def _distances(links: Adjacency, pairs: Tensor, shared: Numbers) -> tuple[int | None, ...]:
    """Return the length of the shortest way between the ends of each pair but their own link."""
    # The last pair whose search reached a node from its first end, and from its second.
    reached = np.full((2, links.num_rows), -1)
    return tuple(
        2 if shared[number] and one != other else _distance(links, reached, [one, other], number)
        for number, (one, other) in enumerate(pairs.T.tolist())
    )


def _distance(links: Adjacency, reached: Numbers, ends: list[int], number: int) -> int | None:
    """Return the distance of two nodes without their own link.

    Breadth first from both ends; each step grows the end that has fewer links to follow. So where
    no way joins the two, little more than the smaller of their pieces is searched.

    Args:
        links: The neighbours of every node.
        reached: What earlier searches have reached, [2, n].
        ends: The two nodes.
        number: A number that no earlier search had.
    """
    if ends[0] == ends[1]:
        return 0
    degree = links.degree.numpy()
    fronts, depths = [np.array([end]) for end in ends], [0, 0]
    reached[[0, 1], ends] = number
    while True:
        efforts = [degree[front].sum() for front in fronts]
        side = int(efforts[1] < efforts[0])
        mine, theirs = reached[side], reached[1 - side]
        found = links.take(fronts[side])[1]
        if depths[side] == 0:
            found = found[found != ends[1 - side]]
        depths[side] += 1
        if (theirs[found] == number).any():
            return sum(depths)
        fronts[side] = np.unique(found[mine[found] != number])
        if fronts[side].size == 0:
            return None
        mine[fronts[side]] = number


def explained(
    pair: tuple[str, str], evidence: Evidence, number: int, rests: RestsOn | None = None
) -> str:
    """Return what speaks for a pair, and what its score rests on, in one to three sentences.

    Args:
        pair: The names of the two nodes.
        evidence: What the graph says about several pairs.
        number: The place of this pair among them.
        rests: What the score of this pair rests on, if that is known.
    """
    one, other = (_short(name) for name in pair)
    both = [("neighbour", evidence.shared_neighbours, evidence.neighbours)]
    if evidence.common_features is not None:
        both.append(("feature", evidence.common_features, evidence.features))
    shared = " and ".join(_things(int(c[number]), what, names[number]) for what, c, names in both)
    way = _way(evidence.distance[number], bool(evidence.linked[number]))
    support = [] if rests is None else _support(rests)
    return " ".join([f"{one} and {other} share {shared}; {way}.", *support])


def _short(name: str) -> str:
    return shown(name, _NAME_LENGTH)


def _things(count: int, what: str, names: Sequence[str]) -> str:
    """Return a count with names: `3 neighbours (Bob, Carl and 1 more)`."""
    if count == 0:
        return f"no {what}"
    more = f" and {count - len(names):,} more" if count > len(names) else ""
    named = f" ({', '.join(map(_short, names))}{more})" if names else ""
    return f"{counted(count, what)}{named}"


def _way(distance: int | None, is_linked: bool) -> str:
    if distance is None:
        return f"no path joins them{' but their own link' if is_linked else ''}"
    return f"distance {distance}{' without their own link' if is_linked else ''}"


def _support(rests: RestsOn) -> list[str]:
    if rests.links == 0:
        return ["Neither has a known link, so the score rests on their features alone."]
    parts = [
        f"{_short(reason.end)}-{_short(reason.neighbour)} "
        f"({_fall(rests.score, reason)}{'' if place else ' without it'})"
        for place, reason in enumerate(rests.reasons)
    ]
    listed = " and ".join(part for part in (", ".join(parts[:-1]), *parts[-1:]) if part)
    told = [f"The score rests {f'most on {listed}' if parts else 'on no single link'}."]
    if rests.tried < rests.links:
        told.append(f"Of their {rests.links:,} links {rests.tried:,} were tried.")
    return told


def _fall(score: float, reason: Reason) -> str:
    """Return two scores with as many decimals as it takes to tell them apart.

    Scores next to 0 or 1 look alike whatever happens; there the logit says it.

    Example:
        >>> _fall(0.97, Reason("a", "b", 3.0, 0.61))
        '0.97 -> 0.61'
        >>> _fall(0.999999, Reason("a", "b", 0.25, 0.999998))
        'logit down by 0.25'
    """
    for decimals in (2, 3, 4):
        before, after = (f"{value:.{decimals}f}" for value in (score, reason.score_without))
        if before != after:
            return f"{before} -> {after}"
    return f"logit down by {reason.drop:.2g}"
