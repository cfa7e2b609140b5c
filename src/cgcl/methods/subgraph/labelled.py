"""Labelled subgraphs of many pairs: packed small, kept on disk, handed out in batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cgcl.graph.adjacency import Adjacency, ranges
from cgcl.methods.subgraph.cache import Arrays, cached
from cgcl.methods.subgraph.subgraphs import Subgraphs, Surroundings, extract

# Unpacked subgraphs take ten times the room, so a block of them is packed before the next is cut
# out. A block has about so many nodes and links: 100 MB unpacked, with what is computed of them.
_UNPACKED = 2**20
_FIRST_BLOCK = 64
# So many of the last lists of pairs are remembered, each if its subgraphs take no more than this.
_REMEMBERED = 2
_REMEMBERED_BYTES = 2**28
LARGEST_LABEL = 999
"""Nodes that lie further away share this label; the authors' table of labels is as long."""


def drnl_labels(subgraphs: Subgraphs) -> Tensor:
    r"""Return the label of every node, int64 [t].

    $f(i) = 1 + \min(d_x, d_y) + \lfloor d/2 \rfloor (\lfloor d/2 \rfloor + d \bmod 2 - 1)$ with
    $d = d_x + d_y$ (Zhang and Chen, NeurIPS 2018, Eq. 3): $d_x$ is the distance to the source on
    ways that avoid the target, and $d_y$ the other way round. Both ends have label 1, and a node
    that does not reach both of them has label 0.

    Args:
        subgraphs: What to label.
    """
    source, target = subgraphs.start[:-1], subgraphs.start[:-1] + 1
    to_source = _distances(subgraphs, source, avoiding=target)
    to_target = _distances(subgraphs, target, avoiding=source)
    both = to_source + to_target
    half = both // 2
    label = 1 + torch.minimum(to_source, to_target) + half * (half + both % 2 - 1)
    label = label.clamp(max=LARGEST_LABEL)
    label[(to_source < 0) | (to_target < 0)] = 0
    label[source] = 1
    label[target] = 1
    return label


def _distances(subgraphs: Subgraphs, begin: Tensor, avoiding: Tensor) -> Tensor:
    """Return the links between each node and the beginning of its subgraph, -1 for no way.

    All subgraphs are searched at once, one link further in each turn.

    Args:
        subgraphs: Where to go.
        begin: One node of each subgraph, int64 [p].
        avoiding: A node of each subgraph that no way leads through, int64 [p].
    """
    # NumPy picks out entries several times as fast as torch does on one thread.
    distance = np.full(subgraphs.nodes.numel(), -1)
    distance[begin.numpy()] = 0
    is_closed = np.zeros(distance.size, dtype=np.bool_)
    is_closed[avoiding.numpy()] = True
    here, there = subgraphs.edge_index.numpy()
    ahead = np.flatnonzero(~(is_closed[here] | is_closed[there]))
    turn = 0
    while True:
        turn += 1
        here, there = here[ahead], there[ahead]
        found = there[distance[here] == turn - 1]
        distance[found] = turn
        if found.size == 0:
            return torch.from_numpy(distance)
        ahead = np.flatnonzero(distance[there] < 0)


@dataclass(frozen=True, eq=False)
class Batch:
    """The labelled subgraphs of b pairs, one after the other."""

    nodes: Tensor
    """Node numbers, int64 [t], on the CPU."""
    labels: Tensor
    """Double-radius labels, int64 [t]."""
    start: Tensor
    """Where each subgraph begins, int64 [b + 1]."""
    owner: Tensor
    """Which pair each node belongs to, int64 [t]."""
    degree: Tensor
    """Links of each node within its subgraph, int64 [t]."""
    neighbours: Tensor
    """The neighbours of each node, node after node, as places in `nodes`, int64 [e]."""

    @property
    def num_pairs(self) -> int:
        """Number of subgraphs, b."""
        return self.start.numel() - 1

    def to(self, device: torch.device) -> Batch:
        """Return the batch where it is computed on; the node numbers stay on the CPU."""
        return Batch(
            self.nodes,
            *(
                tensor.to(device)
                for tensor in (self.labels, self.start, self.owner, self.degree, self.neighbours)
            ),
        )


class LabelledSubgraphs:
    """Many labelled subgraphs in little room."""

    def __init__(self, arrays: Arrays) -> None:
        """Take the arrays that `kept` and `in_blocks` make."""
        self._arrays = arrays

    @classmethod
    def in_blocks(
        cls, adjacency: Adjacency, pairs: Tensor, rule: Surroundings
    ) -> Iterator[LabelledSubgraphs]:
        """Yield the surroundings of all pairs in order, as many at a time as are handy.

        Args:
            adjacency: The links to go along; one between a pair's own ends is not seen.
            pairs: Node numbers, int64 [2, p].
            rule: How far to go.
        """
        for arrays in _packed_blocks(adjacency, pairs, rule):
            yield cls(_with_starts(arrays))

    @classmethod
    def kept(
        cls, links: Tensor, num_nodes: int, pairs: Tensor, rule: Surroundings
    ) -> LabelledSubgraphs:
        """Cut out the surroundings of pairs, or find them on disk.

        Args:
            links: The links to go along, int64 [2, m]; one between a pair's own ends is not seen.
            num_nodes: Number of nodes.
            pairs: Node numbers, int64 [2, p], one at least.
            rule: How far to go.
        """

        def compute() -> Arrays:
            blocks = list(_packed_blocks(Adjacency.from_pairs(links.cpu(), num_nodes), pairs, rule))
            names = list(blocks[0])
            return _with_starts({n: np.concatenate([block[n] for block in blocks]) for n in names})

        parts = [links, num_nodes, pairs, rule.hops, rule.nodes_per_hop, 0]
        return cls(cached("labelled-1", parts, compute))

    @property
    def nbytes(self) -> int:
        """How much memory they take."""
        return sum(array.nbytes for array in self._arrays.values())

    @property
    def sizes(self) -> Tensor:
        """Number of nodes of each subgraph, int64 [p]."""
        return torch.from_numpy(np.diff(self._arrays["start"]))

    def batch(self, which: Tensor) -> Batch:
        """Return some of the subgraphs.

        Args:
            which: Their numbers, int64 [b].
        """
        stored, chosen = self._arrays, which.numpy()
        begin, links_begin = stored["start"][chosen], stored["links_start"][chosen]
        size = stored["start"][chosen + 1] - begin
        owner, places = ranges(begin, size)
        link_owner, link_places = ranges(
            links_begin, stored["links_start"][chosen + 1] - links_begin
        )
        start = np.concatenate([[0], np.cumsum(size)])
        return Batch(
            nodes=torch.from_numpy(stored["nodes"][places].astype(np.int64)),
            labels=torch.from_numpy(stored["labels"][places].astype(np.int64)),
            start=torch.from_numpy(start),
            owner=torch.from_numpy(owner),
            degree=torch.from_numpy(stored["degree"][places].astype(np.int64)),
            neighbours=torch.from_numpy(stored["neighbours"][link_places] + start[link_owner]),
        )

    def batches(self, num_nodes: int, fewest: int) -> Iterator[tuple[Batch, int]]:
        """Yield all subgraphs in order in batches, and how many each has.

        Args:
            num_nodes: About how many nodes a batch has.
            fewest: How many subgraphs a batch has at least. If too few are left, copies of the
                last one fill the batch; they do not count.
        """
        start, first = self._arrays["start"], 0
        while first < start.size - 1:
            full = int(np.searchsorted(start, start[first] + num_nodes, side="right")) - 1
            last = min(max(full, first + fewest), start.size - 1)
            count = last - first
            yield self.batch((first + torch.arange(max(count, fewest))).clamp(max=last - 1)), count
            first = last


class SubgraphsAround:
    """Cuts out the surroundings of pairs; those of the last two lists are remembered.

    Training asks for its validation links, and the pairs beside them, again and again.
    """

    def __init__(self, links: Tensor, num_nodes: int, rule: Surroundings) -> None:
        """Lay out the links.

        Args:
            links: The links to go along, int64 [2, m]; one between a pair's own ends is not seen.
            num_nodes: Number of nodes.
            rule: How far to go.
        """
        self.num_nodes = num_nodes
        self._adjacency = Adjacency.from_pairs(links.cpu(), num_nodes)
        self._rule = rule
        self._remembered: list[tuple[Tensor, list[LabelledSubgraphs]]] = []

    def blocks(self, pairs: Tensor) -> Iterator[LabelledSubgraphs]:
        """Yield the surroundings of all pairs in order, as many at a time as are handy.

        Args:
            pairs: Node numbers, int64 [2, p].
        """
        pairs = pairs.cpu()
        for asked, found in self._remembered:
            if torch.equal(asked, pairs):
                yield from found
                return
        kept: list[LabelledSubgraphs] = []
        room = _REMEMBERED_BYTES
        for block in LabelledSubgraphs.in_blocks(self._adjacency, pairs, self._rule):
            room -= block.nbytes
            kept = [*kept, block] if room >= 0 else []
            yield block
        if room >= 0:
            # A copy: what the caller does with its pairs later is its own business.
            self._remembered = [*self._remembered, (pairs.clone(), kept)][-_REMEMBERED:]


def _packed_blocks(adjacency: Adjacency, pairs: Tensor, rule: Surroundings) -> Iterator[Arrays]:
    """Yield the subgraphs of all pairs in order, packed block by block."""
    first, size = 0, _FIRST_BLOCK
    while first < pairs.shape[1]:
        block = pairs[:, first : first + size].cpu()
        arrays = _packed(adjacency, block, rule)
        yield arrays
        first += block.shape[1]
        # The next block has the size that would have been right for this one.
        numbers = (arrays["nodes"].size + arrays["neighbours"].size) / block.shape[1]
        size = max(1, min(2 * size, int(_UNPACKED / numbers)))


def _packed(adjacency: Adjacency, pairs: Tensor, rule: Surroundings) -> Arrays:
    """Return subgraphs as arrays of small numbers; a neighbour is its place in the subgraph."""
    subgraphs = extract(adjacency, pairs, rule)
    here, there = subgraphs.edge_index.numpy()
    begin = subgraphs.start[:-1].numpy()[subgraphs.owner.numpy()]  # of each node's subgraph
    size = np.diff(subgraphs.start.numpy())
    small = np.int16 if size.max() <= np.iinfo(np.int16).max else np.int32
    return {
        "nodes": subgraphs.nodes.numpy().astype(np.int32),
        "labels": drnl_labels(subgraphs).numpy().astype(np.int16),
        "degree": np.bincount(here, minlength=begin.size).astype(small),
        "neighbours": (there - begin[here]).astype(small),
        "size": size,
        "links": np.diff(subgraphs.edge_start.numpy()),
    }


def _with_starts(packed: Arrays) -> Arrays:
    """Say where each subgraph begins instead of how large it is."""
    arrays = dict(packed)
    arrays["start"] = np.concatenate([[0], np.cumsum(arrays.pop("size"))])
    arrays["links_start"] = np.concatenate([[0], np.cumsum(arrays.pop("links"))])
    return arrays
