"""Enclosing subgraphs: the surroundings of many pairs of nodes, cut out of a graph at once.

All of it is row operations on compressed rows (CSR); nothing loops over nodes or pairs. Pairs are
worked on in blocks, so that memory beyond the answer stays bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cgcl.graph.adjacency import Adjacency, Numbers, blocks_of
from cgcl.graph.pairs import canonical
from cgcl.methods.method import Known

# A block's table says where each node lies in each subgraph: 2^22 places take 16 MB. Larger ones
# are slower, because they leave the processor's cache. The same holds for what is looked at
# together: 2^17 neighbours take about 6 MB with what is computed of them.
_TABLE_PLACES = 2**22
_BLOCK_PAIRS = 2**12
_LOOKED_AT = 2**17
# Where features are made of links, at most this share of the links are examples.
_MOST_OF_STRUCTURE = 0.5


@dataclass(frozen=True)
class Surroundings:
    """How much of a pair's surroundings is looked at."""

    hops: int
    """How far from the nearer end of a pair a node may lie."""
    nodes_per_hop: int
    """How many nodes a hop adds at most; 0 for no limit."""

    def caps(self, also: str, share: float) -> str:
        """Return what is left out to stay affordable, for tables.

        Args:
            also: What else is.
            share: Share of the training links that serve as examples.
        """
        parts = [_counted(self.hops, "hop"), also]
        if self.nodes_per_hop:
            parts.append(f"at most {_counted(self.nodes_per_hop, 'node')} a hop")
        if share < 1:
            parts.append(f"{100 * share:g} % of the training links")
        return ", ".join(parts)


def _counted(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


@dataclass(frozen=True, eq=False)
class Subgraphs:
    """The surroundings of p pairs, one after the other; links join nodes of one subgraph only."""

    nodes: Tensor
    """Node numbers, int64 [t]: in each subgraph the source, the target, then hop by hop."""
    owner: Tensor
    """Which pair each of them belongs to, int64 [t]; it never falls."""
    hop: Tensor
    """Links between each of them and the nearer end, int64 [t]; 0 for the two ends."""
    edge_index: Tensor
    """Links in both directions as places in `nodes`, int64 [2, e], sorted by their first end.

    A link between source and target is never among them.
    """
    start: Tensor
    """Where each subgraph begins in `nodes`, int64 [p + 1]: its source, and next its target."""

    @property
    def num_pairs(self) -> int:
        """Number of subgraphs, p."""
        return self.start.numel() - 1

    @cached_property
    def edge_start(self) -> Tensor:
        """Where the links of each subgraph begin in `edge_index`, int64 [p + 1]."""
        return torch.searchsorted(self.edge_index[0].contiguous(), self.start)


def extract(adjacency: Adjacency, pairs: Tensor, surroundings: Surroundings) -> Subgraphs:
    """Return what lies within some hops of either end of each pair, and the links in between.

    The end with the smaller number is the source, so (u, v) and (v, u) give the same subgraph.
    Which nodes a full hop keeps follows from the pair and the node alone: a subgraph does not
    depend on the pairs that are asked with it, and a loaded model finds the same.

    Args:
        adjacency: The links to go along; one between a pair's own ends is not seen.
        pairs: Node numbers, int64 [2, p]; the two of a pair differ.
        surroundings: How far to go, and how many nodes a hop adds at most.
    """
    source, target = canonical(pairs.cpu()).numpy()
    size = max(1, min(_BLOCK_PAIRS, _TABLE_PLACES // max(adjacency.num_rows, 1)))
    table = np.full(min(size, max(source.size, 1)) * adjacency.num_rows, -1, dtype=np.int32)
    blocks = [
        _extract_block(
            adjacency, source[at : at + size], target[at : at + size], table, surroundings
        )
        for at in range(0, source.size, size)
    ]
    return _joined(blocks)


@dataclass(frozen=True, eq=False)
class _Block:
    """The subgraphs of a few pairs, as arrays."""

    nodes: Numbers
    owner: Numbers
    hop: Numbers
    edges: Numbers
    size: Numbers


def _extract_block(
    adjacency: Adjacency,
    source: Numbers,
    target: Numbers,
    table: npt.NDArray[np.int32],
    surroundings: Surroundings,
) -> _Block:
    """Return the subgraphs of some pairs; `table` holds -1 everywhere, before and after.

    A node's place in the table is `owner * n + node`.
    """
    n = adjacency.num_rows
    ring = _Ring(np.repeat(np.arange(source.size), 2), np.stack([source, target], 1).reshape(-1))
    table[ring.owner * n + ring.nodes] = 0
    rings, left_out = [ring], [np.empty(0, dtype=np.int64)]
    for _ in range(surroundings.hops):
        met = _next_ring(adjacency, ring, table)
        stays = _stay(met, source, target, surroundings)
        ring = _Ring(met.owner[stays], met.nodes[stays])
        rings.append(ring)
        left_out.append(met.owner[~stays] * n + met.nodes[~stays])
    # Only now: what one hop leaves out must not come back at the next, further away than it is.
    table[np.concatenate(left_out)] = -1
    # Stable: within an owner the source stays before the target, and each hop before the next.
    owner = np.concatenate([ring.owner for ring in rings])
    order = np.argsort(owner, kind="stable")
    owner, nodes = owner[order], np.concatenate([ring.nodes for ring in rings])[order]
    hop = np.repeat(np.arange(len(rings)), [ring.nodes.size for ring in rings])[order]
    row = owner * n
    table[row + nodes] = np.arange(nodes.size)
    size = np.bincount(owner, minlength=source.size)
    edges = _links_within(adjacency, row, nodes, table, (np.cumsum(size) - size)[owner])
    table[row + nodes] = -1
    return _Block(nodes, owner, hop, edges, size)


@dataclass(frozen=True, eq=False)
class _Ring:
    """The nodes that one hop adds to some subgraphs, owner after owner."""

    owner: Numbers
    nodes: Numbers


def _neighbours(adjacency: Adjacency, nodes: Numbers) -> Iterator[tuple[Numbers, Numbers]]:
    """Yield the neighbours of nodes, piece by piece: each one's place in `nodes`, and who."""
    for block in blocks_of(adjacency.degree.numpy()[nodes], _LOOKED_AT):
        which, neighbours = adjacency.take(nodes[block])
        yield which + block.start, neighbours


def _next_ring(adjacency: Adjacency, ring: _Ring, table: npt.NDArray[np.int32]) -> _Ring:
    """Return the neighbours that are in no ring yet, each once, as they are met; mark them."""
    n, none = adjacency.num_rows, np.empty(0, dtype=np.int64)
    owners, found = [none], [none]
    for which, neighbours in _neighbours(adjacency, ring.nodes):
        owner = ring.owner[which]
        places = owner * n + neighbours
        new = (table[places] < 0).nonzero()[0]
        # Of several that write their number into one place, the last one written stays: that is
        # the first one met, so that a ring does not depend on where a block ends.
        table[places[new[::-1]]] = new[::-1]
        new = new[table[places[new]] == new]
        owners.append(owner[new])
        found.append(neighbours[new])
    return _Ring(np.concatenate(owners), np.concatenate(found))


def _stay(
    ring: _Ring, source: Numbers, target: Numbers, surroundings: Surroundings
) -> npt.NDArray[np.bool_]:
    """Return which nodes of a ring stay, so that no owner has more than a hop may add."""
    owner, nodes = ring.owner, ring.nodes
    stays = np.ones(nodes.size, dtype=np.bool_)
    count = np.bincount(owner, minlength=source.size)
    is_over = count > (surroundings.nodes_per_hop or nodes.size)
    if not is_over.any():
        return stays
    crowd = is_over[owner].nonzero()[0]
    whose = owner[crowd]
    # One number orders them by owner, then by chance: 13 bits for one of 2^13 owners at most.
    draw = (whose << 51).astype(np.uint64) | (
        _hashed(source[whose], target[whose], nodes[crowd]) >> np.uint64(13)
    )
    size = count[is_over]
    first_out = np.cumsum(size) - size + surroundings.nodes_per_hop
    stays[crowd] = draw < np.repeat(np.sort(draw)[first_out], size)
    return stays


def _links_within(
    adjacency: Adjacency,
    row: Numbers,
    nodes: Numbers,
    table: npt.NDArray[np.int32],
    first: Numbers,
) -> Numbers:
    """Return the links between nodes of the same subgraph but for the pair's own, [2, e].

    Args:
        adjacency: All links.
        row: Where the row of each node's subgraph begins in the table.
        nodes: All nodes of all subgraphs.
        table: The number of each node among them, and -1.
        first: The number of the first node of each node's subgraph.
    """
    pieces = [np.empty((2, 0), dtype=np.int64)]
    for which, neighbours in _neighbours(adjacency, nodes):
        place = table[row[which] + neighbours]
        inside = (place >= 0).nonzero()[0]
        links = np.stack([which[inside], place[inside].astype(np.int64)])
        # Source and target are the first two of a subgraph.
        pieces.append(links[:, (links >= first[links[0]] + 2).any(axis=0)])
    return np.concatenate(pieces, axis=1)


def _joined(blocks: list[_Block]) -> Subgraphs:
    """Put blocks one after the other."""
    none = np.empty(0, dtype=np.int64)
    size = np.concatenate([none, *(block.size for block in blocks)])
    offsets = np.cumsum([0, *(block.nodes.size for block in blocks)])
    edges = [block.edges + at for block, at in zip(blocks, offsets, strict=False)]
    edge_index = np.concatenate([np.empty((2, 0), dtype=np.int64), *edges], axis=1)
    return Subgraphs(
        nodes=torch.from_numpy(np.concatenate([none, *(block.nodes for block in blocks)])),
        owner=torch.from_numpy(np.repeat(np.arange(size.size), size)),
        hop=torch.from_numpy(np.concatenate([none, *(block.hop for block in blocks)])),
        edge_index=torch.from_numpy(edge_index),
        start=torch.from_numpy(np.concatenate([[0], np.cumsum(size)])),
    )


def _hashed(*numbers: Numbers) -> npt.NDArray[np.uint64]:
    """Return a number for each row of `numbers` that looks drawn by chance (splitmix64)."""
    state = np.zeros(numbers[0].size, dtype=np.uint64)
    for number in (np.array(0), *numbers):
        state = (state ^ number.astype(np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        state ^= state >> np.uint64(31)
    return state


def example_count(known: Known, share: float) -> int:
    """Return how many links are examples: some are left where features must be made of them.

    Args:
        known: The links to learn from.
        share: Share of them that is asked for.
    """
    if known.structure is not None:
        share = min(share, _MOST_OF_STRUCTURE)
    return max(1, round(share * known.links.shape[1]))


def features_without(known: Known, examples: Tensor) -> Tensor:
    """Return the features; if they are made of links, then of those that are no examples.

    Args:
        known: The links to learn from.
        examples: The numbers of some of them, int64 [any].
    """
    is_left = torch.ones(known.links.shape[1], dtype=torch.bool)
    is_left[examples] = False
    return known.with_links(known.links[:, is_left.to(known.device)]).features
