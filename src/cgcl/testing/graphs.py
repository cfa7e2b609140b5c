"""The graphs that the contract is checked on: small, and the same every time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import torch
from torch import Tensor

from cgcl.graph import Graph
from cgcl.seeds import stream

AWKWARD_NAMES = (
    *("NA", "null", "007", "7", "1e3", "1000", "True", "nan", " a", "a", "a ", "A", "é", "e\u0301"),
    *("🦉", "<script>alert(1)</script>", "=cmd()", "../../x", "/etc", "a,b", 'a"b', "a\tb"),
    "x" * 99,
)
"""Names that many programs change, lose or run."""


def links_graph(
    pairs: Sequence[tuple[int, int]] | Tensor, names: Sequence[str] | int, x: Tensor | None
) -> Graph:
    """Build a graph from pairs of node numbers, and names or a number of nodes."""
    links = torch.as_tensor(pairs, dtype=torch.int64)
    links = links if isinstance(pairs, Tensor) else links.reshape(-1, 2).T
    named = [f"n{i:05d}" for i in range(names)] if isinstance(names, int) else names
    return Graph.from_pairs("contract", named, links, x)


def groups(names: Sequence[str] = ()) -> Graph:
    """Three groups of twelve, dense within, features that tell the group; 36 nodes.

    Args:
        names: What to call the first nodes; the others have plain names.
    """
    return _partition(36, 3, 0.7, 0.02, names)


def planted_partition() -> Graph:
    """Four groups of thirty; both links and features tell the group."""
    return _partition(120, 4, 0.4, 0.01, ())


def noise() -> Graph:
    """Links by pure chance, features by pure chance: 1,500 nodes, about 9,000 links."""
    return _random("noise", 1500, 9100, 32)


def large() -> Graph:
    """Ten thousand nodes, about twenty thousand links, sixteen features."""
    return _random("large", 10_000, 20_000, 16)


def star(leaves: int, names: Sequence[str] | None = None) -> Graph:
    """One hub and its leaves, all with the same single feature."""
    return links_graph(
        [(0, leaf) for leaf in range(1, leaves + 1)], names or leaves + 1, torch.ones(leaves + 1, 1)
    )


def two_sides() -> Graph:
    """A bipartite graph of 20 and 30 nodes in two groups, with its sides known."""
    generator = stream(0, "contract sides")
    left, right = torch.arange(20), torch.arange(20, 50)
    chance = torch.where(left[:, None] % 2 == right[None, :] % 2, 0.5, 0.05)
    links = (torch.rand(20, 30, generator=generator) < chance).nonzero().T
    links = links + torch.tensor([[0], [20]])
    x = torch.nn.functional.one_hot(torch.arange(50) % 2, 2).float()
    sides = torch.arange(50) >= 20
    names = [f"n{i:02d}" for i in range(50)]
    return Graph.from_pairs("contract", names, links, x, sides=sides)


def named_pairs(graph: Graph, pairs: Tensor) -> list[tuple[str, str]]:
    """Return the names of both ends of pairs of nodes, [2, any]."""
    return [(graph.names[a], graph.names[b]) for a, b in pairs.T.tolist()]


def known_pairs(graph: Graph) -> set[frozenset[str]]:
    """Return the links of a graph as pairs of names."""
    return {frozenset(pair) for pair in named_pairs(graph, graph.edges)}


def unlinked_pairs(graph: Graph) -> list[tuple[str, str]]:
    """Return all pairs of names that are not linked, for small graphs."""
    known = known_pairs(graph)
    return [pair for pair in combinations(graph.names, 2) if frozenset(pair) not in known]


def _random(name: str, num_nodes: int, num_pairs: int, num_features: int) -> Graph:
    generator = stream(0, f"contract {name}")
    pairs = torch.randint(num_nodes, (2, num_pairs), generator=generator)
    return links_graph(pairs, num_nodes, torch.rand(num_nodes, num_features, generator=generator))


def _partition(
    num_nodes: int, num_groups: int, within: float, between: float, names: Sequence[str]
) -> Graph:
    generator = stream(0, "contract partition")
    group = torch.arange(num_nodes) % num_groups
    chance = torch.where(group[:, None] == group[None, :], within, between)
    coins = torch.rand(num_nodes, num_nodes, generator=generator)
    links = (coins < chance).triu(1).nonzero().T
    x = torch.nn.functional.one_hot(group, num_groups).float()
    x = x + 0.5 * torch.rand(num_nodes, num_groups, generator=generator)
    plain = [f"n{i:03d}" for i in range(num_nodes)]
    return links_graph(links, [*names, *plain[len(names) :]], x)
