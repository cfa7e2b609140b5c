"""A pair scored again without a link, from the nodes around it: for CGCL that ranks."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cgcl.evidence.removals import Removals, links_to_try
from cgcl.evidence.sorted_lists import Numbers, SortedLists
from cgcl.graph import Graph
from cgcl.methods.cgcl_rank import RankingLearner
from cgcl.model.ranker import RankingEncoder, signatures
from cgcl.train.fit import known_of

__all__ = ["MOST_TRIED_AROUND", "Surroundings"]

MOST_TRIED_AROUND = 50
"""How many links of one end are tried: each takes milliseconds, for a hub a tenth of a second."""


class Surroundings:
    """Encodes the surroundings of pairs with all links, and again without one.

    An encoder of some layers looks so many links far: the first layer is needed at all nodes but
    the farthest, the last one at the pair alone. Inputs and degrees are those of the whole graph,
    so that the scores are those of encoding all of it again.
    """

    def __init__(self, learner: RankingLearner, graph: Graph, lists: SortedLists) -> None:
        """Compute the inputs of all nodes.

        Args:
            learner: The trained network; its device computes.
            graph: All known links, and the features as the network saw them.
            lists: The neighbours of every node.
        """
        self._learner, self._lists = learner, lists
        known = known_of(graph, graph.edges, learner)
        with learner.finished():
            self._inputs, self._added = learner.inputs(known)
        self._degree = self._on(lists.sizes).to(self._inputs.dtype)
        self._place = np.full(graph.num_nodes, -1)

    def removals(self, block: slice, ends: Numbers, most: int) -> Removals:
        """Return the logits of the pairs `ends`, [2, p], with and without each link."""
        pair, end, neighbour = links_to_try(self._lists, ends, most)
        logits = np.zeros(ends.shape[1], dtype=np.float32)
        without = np.zeros(len(pair), dtype=np.float32)
        with self._learner.finished():
            for number in range(ends.shape[1]):
                around = self._around(ends[:, number])
                encoded = _Encoded(self._learner.encode, around, self._inputs, self._degree)
                logits[number] = self._logit(around, encoded.last, encoded.degree)
                for mine in (pair == number).nonzero()[0]:
                    nodes = int(end[mine]), int(neighbour[mine])
                    gone = around.place_of(nodes[0]), around.place_of(nodes[1])
                    added = self._added[list(nodes[::-1])]
                    last, degree = encoded.without(gone, added)
                    without[mine] = self._logit(around, last, degree, gone)
        return Removals(block, logits, pair, end, neighbour, without)

    def _around(self, pair: Numbers) -> _Around:
        nodes = np.unique(pair)
        within, farthest = [len(nodes)], nodes
        self._place[nodes] = np.arange(len(nodes))
        for _ in range(1 + len(self._learner.encode.deeper)):
            found = np.unique(self._lists.take(farthest)[1])
            farthest = found[self._place[found] < 0]
            self._place[farthest] = len(nodes) + np.arange(len(farthest))
            nodes = np.concatenate([nodes, farthest])
            within.append(len(nodes))
        inner = np.arange(within[-2])
        which, neighbours = self._lists.take(nodes[inner])
        row = np.concatenate([which, inner])
        column = np.concatenate([self._place[neighbours], inner])
        order = np.lexsort((column, row))
        begin = np.searchsorted(row[order], np.arange(len(inner) + 1))
        self._place[nodes] = -1
        entries = (self._on(array) for array in (row[order], column[order], begin))
        return _Around(self._on(nodes), within, *entries)

    def _logit(
        self, around: _Around, z: Tensor, degree: Tensor, gone: tuple[int, int] | None = None
    ) -> float:
        """Return the pair's logit from its embeddings, and from degrees if signatures count."""
        signed, count = None, self._learner.num_signatures
        if count:
            weight = (around.row != around.column) * degree.clamp(min=1).rsqrt()[around.column]
            for one, other in (gone, gone[::-1]) if gone else ():
                weight[(around.row == one) & (around.column == other)] = 0
            near = around.nodes[: around.within[1]]
            signed = signatures(around.matrix(weight, 0), count, near)
        left, right, p = self._learner.decode(z, signed)
        # The smaller node comes first; of a node with itself there is one.
        return float((left[0] * right[-1]).sum() + (p[0] + p[-1]) - self._learner.offset)

    def _on(self, array: npt.NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self._learner.encode.bias.device)


@dataclass(frozen=True, eq=False)
class _Around:
    """The nodes around a pair, numbered by how many links they are away, and their links."""

    nodes: Tensor
    """The pair, then its neighbours, then theirs, as far as the encoder looks, int64 [r]."""
    within: list[int]
    """How many of them are at most 0, 1, ... links away."""
    row: Tensor
    """Each link of all but the farthest nodes, and each node with itself, by row, int64 [e]."""
    column: Tensor
    begin: Tensor
    """Where each row's entries begin, and the end."""

    def place_of(self, node: int) -> int:
        """Return where a node stands."""
        return int((self.nodes == node).nonzero())

    def entries(self, hops: int) -> slice:
        """Return the entries of nodes up to so many links away."""
        return slice(int(self.begin[self.within[hops]]))

    def matrix(self, weight: Tensor, hops: int) -> Tensor:
        """Return the rows of nodes up to so many links away, sparse CSR."""
        rows, entries = self.within[hops], self.entries(hops)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sparse CSR")
            return torch.sparse_csr_tensor(
                self.begin[: rows + 1],
                self.column[entries],
                weight[entries],
                (rows, self.within[hops + 1]),
                check_invariants=False,
            )


class _Encoded:
    r"""Every layer around a pair: what arrives at a node, and what the layer makes of it.

    With $s = \tilde d^{-1/2}$, layer l takes $s_i \sum_j s_j z_j$. Without a link few of the terms
    are others, and the sums that hold none of these stay.
    """

    def __init__(
        self, encode: RankingEncoder, around: _Around, inputs: Tensor, degree: Tensor
    ) -> None:
        self._encode, self._around = encode, around
        self.degree = degree.index_select(0, around.nodes)
        self._own, width = inputs.index_select(0, around.nodes), encode.bias.shape[0]
        self._scale = (self.degree + 1).rsqrt().unsqueeze(1)  # with the node itself
        self._layers, self._sums = [self._own[:, :width]], list[Tensor]()
        ones, before = torch.ones_like(around.row, dtype=inputs.dtype), self._own[:, width:]
        for number in range(len(around.within) - 1):
            hops = len(around.within) - 2 - number
            rows, z = around.within[hops], self._layers[-1]
            self._sums.append(around.matrix(ones, hops) @ (self._scale[: len(z)] * z))
            messages = self._scale[:rows] * self._sums[-1]
            before = encode.layer(number, messages, before[:rows])
            self._layers.append(before)

    @property
    def last(self) -> Tensor:
        """The embeddings of the pair, [2, d_v]."""
        return self._layers[-1]

    def without(self, gone: tuple[int, int], added: Tensor) -> tuple[Tensor, Tensor]:
        """Return the embeddings of the pair without a link, and all degrees.

        Args:
            gone: The places of the link's ends.
            added: What the link has added to the inputs of either, [2, any].
        """
        width = self._encode.bias.shape[0]
        changed = torch.tensor(gone, device=added.device)
        degree = self.degree.index_add(0, changed, -torch.ones_like(added[:, 0]))
        scale = (degree + 1).rsqrt().unsqueeze(1)
        own = self._own[changed] - added
        z, before, last = own[:, :width], own[:, width:], self._own[:, width:]
        for number in range(len(self._sums)):
            rows, sums = self._sums_without(number, gone, changed, z, scale)
            z = self._encode.layer(number, scale[rows] * sums, _at(last, rows, changed, before))
            changed, before, last = rows, z, self._layers[number + 1]
        return self.last.index_copy(0, changed, z), degree

    def _sums_without(
        self,
        number: int,
        gone: tuple[int, int],
        changed: Tensor,
        z: Tensor,
        scale: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Return which sums of a layer are others, and these.

        Args:
            number: 0 for the first layer.
            gone: The places of the removed link's ends; each is in `changed` if it is here at all.
            changed: At which places the layer before is another, and `z`, what it is there.
            z: See there.
            scale: s without the link.
        """
        around, sums = self._around, self._sums[number]
        part = around.entries(len(self._sums) - 1 - number)
        place = torch.full_like(around.nodes, -1)
        place[changed] = torch.arange(len(changed), device=place.device)
        which = place[around.column[part]]
        is_other = which >= 0
        rows, at = around.row[part][is_other].unique(return_inverse=True)
        sent = scale[changed] * z
        more = sent - self._scale[changed] * self._layers[number][changed]
        found = sums[rows].index_add(0, at, more[which[is_other]])
        for one, other in (gone, gone[::-1]):
            if one < len(sums):
                found[rows == one] -= sent[place[other]]
        return rows, found


def _at(whole: Tensor, places: Tensor, changed: Tensor, rows: Tensor) -> Tensor:
    """Return rows of a matrix some of whose rows have changed."""
    where = torch.full((len(whole),), -1, device=places.device)
    where[changed] = torch.arange(len(changed), device=places.device)
    found = where[places]
    return whole[places].where((found < 0).unsqueeze(1), rows[found.clamp(min=0)])
