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

__all__ = ["Adjacency", "Numbers", "Subgraphs", "extract", "places_of"]

Numbers = npt.NDArray[np.int64]
"""An array of whole numbers."""

# A block's table says where each node lies in each subgraph: 2^22 places take 16 MB. Larger ones
# are slower, because they leave the processor's cache. The same holds for what is looked at
# together: 2^17 neighbours take about 6 MB with what is computed of them.
_TABLE_PLACES = 2**22
_BLOCK_PAIRS = 2**12
_LOOKED_AT = 2**17


class Adjacency:
    """The neighbours of every node, as compressed rows."""

    def __init__(self, links: Tensor, num_nodes: int) -> None:
        """Sort the links by their ends.

        Args:
            links: Each link once in any direction, int64 [2, m].
            num_nodes: Number of nodes, isolated ones included.
        """
        one, other = links.cpu().numpy()
        rows = np.concatenate([one, other])
        codes = np.sort(rows * max(num_nodes, 1) + np.concatenate([other, one]))
        self.num_nodes = num_nodes
        self.degree: Numbers = np.bincount(rows, minlength=num_nodes)
        self._neighbours: Numbers = codes % max(num_nodes, 1)
        self._start: Numbers = np.cumsum(self.degree) - self.degree

    def take(self, nodes: Numbers) -> tuple[Numbers, Numbers]:
        """Return the neighbours of `nodes` end to end: each one's place in `nodes`, and who."""
        which, places = places_of(self._start[nodes], self.degree[nodes])
        return which, self._neighbours[places]

    def take_in_blocks(self, nodes: Numbers) -> Iterator[tuple[Numbers, Numbers]]:
        """Yield what `take` returns, piece by piece, so that no piece is large."""
        totals, first = np.cumsum(self.degree[nodes]), 0
        while first < nodes.size:
            spent = int(totals[first - 1]) if first else 0
            last = max(int(np.searchsorted(totals, spent + _LOOKED_AT, side="right")), first + 1)
            which, neighbours = self.take(nodes[first:last])
            yield which + first, neighbours
            first = last


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

    def select(self, which: Tensor) -> Subgraphs:
        """Return some of the subgraphs, in the order asked for.

        Args:
            which: Their numbers, int64 [q]; repetition is allowed.
        """
        begin, edges_begin = self.start.numpy(), self.edge_start.numpy()
        chosen = which.cpu().numpy()
        sizes = begin[chosen + 1] - begin[chosen]
        owner, places = places_of(begin[chosen], sizes)
        edge_owner, edge_places = places_of(
            edges_begin[chosen], edges_begin[chosen + 1] - edges_begin[chosen]
        )
        start = np.concatenate([[0], np.cumsum(sizes)])
        moved = torch.from_numpy((start[:-1] - begin[chosen])[edge_owner])
        at = torch.from_numpy(places)
        return Subgraphs(
            nodes=self.nodes.index_select(0, at),
            owner=torch.from_numpy(owner),
            hop=self.hop.index_select(0, at),
            edge_index=self.edge_index.index_select(1, torch.from_numpy(edge_places)) + moved,
            start=torch.from_numpy(start),
        )


def places_of(start: Numbers, size: Numbers) -> tuple[Numbers, Numbers]:
    """Return all places of many stretches: which stretch each belongs to, and the place.

    Args:
        start: Where each stretch begins.
        size: How many places it has.

    Example:
        >>> which, places = places_of(np.array([10, 50]), np.array([2, 3]))
        >>> which.tolist(), places.tolist()
        ([0, 0, 1, 1, 1], [10, 11, 50, 51, 52])
    """
    which = np.repeat(np.arange(size.size), size)
    first = np.cumsum(size) - size
    return which, np.arange(which.size) + (start - first)[which]


def extract(
    adjacency: Adjacency, pairs: Tensor, hops: int, nodes_per_hop: int, seed: int
) -> Subgraphs:
    """Return what lies within some hops of either end of each pair, and the links in between.

    The end with the smaller number is the source, so (u, v) and (v, u) give the same subgraph.
    Which nodes a full hop keeps follows from the seed, the pair and the node alone: a subgraph
    does not depend on the pairs that are asked with it.

    Args:
        adjacency: The links to go along; one between a pair's own ends is not seen.
        pairs: Node numbers, int64 [2, p]; the two of a pair differ.
        hops: How far from the nearer end a node may lie.
        nodes_per_hop: How many nodes a hop adds at most; 0 for no limit.
        seed: Decides which nodes stay if a hop has more.
    """
    ends = pairs.cpu().numpy()
    source, target = np.minimum(*ends), np.maximum(*ends)
    size = max(1, min(_BLOCK_PAIRS, _TABLE_PLACES // max(adjacency.num_nodes, 1)))
    table = np.full(min(size, max(source.size, 1)) * adjacency.num_nodes, -1, dtype=np.int32)
    rule = _Rule(hops, nodes_per_hop, seed)
    blocks = [
        _extract_block(adjacency, source[at : at + size], target[at : at + size], table, rule)
        for at in range(0, source.size, size)
    ]
    return _joined(blocks)


@dataclass(frozen=True)
class _Rule:
    """How far a subgraph reaches and what it leaves out."""

    hops: int
    nodes_per_hop: int
    seed: int


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
    rule: _Rule,
) -> _Block:
    """Return the subgraphs of some pairs; `table` holds -1 everywhere, before and after.

    A node's place in the table is `owner * n + node`.
    """
    n = adjacency.num_nodes
    ring = _Ring(np.repeat(np.arange(source.size), 2), np.stack([source, target], 1).reshape(-1))
    table[ring.owner * n + ring.nodes] = 0
    rings, left_out = [ring], [np.empty(0, dtype=np.int64)]
    for _ in range(rule.hops):
        met = _next_ring(adjacency, ring, table)
        stays = _stay(met, source, target, rule)
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


def _next_ring(adjacency: Adjacency, ring: _Ring, table: npt.NDArray[np.int32]) -> _Ring:
    """Return the neighbours that are in no ring yet, each once, as they are met; mark them."""
    n, none = adjacency.num_nodes, np.empty(0, dtype=np.int64)
    owners, found = [none], [none]
    for which, neighbours in adjacency.take_in_blocks(ring.nodes):
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


def _stay(ring: _Ring, source: Numbers, target: Numbers, rule: _Rule) -> npt.NDArray[np.bool_]:
    """Return which nodes of a ring stay, so that no owner has more than a hop may add."""
    owner, nodes = ring.owner, ring.nodes
    stays = np.ones(nodes.size, dtype=np.bool_)
    count = np.bincount(owner, minlength=source.size)
    is_over = count > (rule.nodes_per_hop or nodes.size)
    if not is_over.any():
        return stays
    crowd = is_over[owner].nonzero()[0]
    whose = owner[crowd]
    # One number orders them by owner, then by chance: 13 bits for one of 2^13 owners at most.
    draw = (whose << 51).astype(np.uint64) | (
        _hashed(rule.seed, source[whose], target[whose], nodes[crowd]) >> np.uint64(13)
    )
    size = count[is_over]
    first_out = np.cumsum(size) - size + rule.nodes_per_hop
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
    for which, neighbours in adjacency.take_in_blocks(nodes):
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


def _hashed(seed: int, *numbers: Numbers) -> npt.NDArray[np.uint64]:
    """Return a number for each row of `numbers` that looks drawn by chance (splitmix64)."""
    state = np.zeros(numbers[0].size, dtype=np.uint64)
    for number in (np.array(seed), *numbers):
        state = (state ^ number.astype(np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        state ^= state >> np.uint64(31)
    return state
