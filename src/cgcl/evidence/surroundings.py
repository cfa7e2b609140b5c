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
from cgcl.model.ranker import signatures
from cgcl.train.once import known_of

__all__ = ["MOST_TRIED_AROUND", "Surroundings"]

MOST_TRIED_AROUND = 100
"""How many links of one end are tried: each takes a millisecond or more."""


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
    ends: tuple[int, int]
    """The places of the pair, in the order of nodes."""

    def matrix(self, weight: Tensor, hops: int) -> Tensor:
        """Return the rows of nodes up to so many links away, sparse CSR."""
        rows, columns = self.within[hops], self.within[hops + 1]
        last = int(self.begin[rows])
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sparse CSR")
            return torch.sparse_csr_tensor(
                self.begin[: rows + 1],
                self.column[:last],
                weight[:last],
                (rows, columns),
                check_invariants=False,
            )


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
                logits[number] = self._logit(around, None)
                for mine in (pair == number).nonzero()[0]:
                    without[mine] = self._logit(around, (int(end[mine]), int(neighbour[mine])))
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
        row, column = row[order], column[order]
        begin = np.searchsorted(row, np.arange(len(inner) + 1))
        self._place[nodes] = -1
        row_on, column_on, begin_on = (self._on(array) for array in (row, column, begin))
        ends = (0, within[0] - 1)  # of a node with itself there is one
        return _Around(self._on(nodes), within, row_on, column_on, begin_on, ends)

    def _logit(self, around: _Around, gone: tuple[int, int] | None) -> float:
        """Return the pair's logit without a link between two of the nodes, or with all links."""
        learner, layers = self._learner, len(around.within) - 1
        inputs = self._inputs.index_select(0, around.nodes)
        degree = self._degree.index_select(0, around.nodes)
        counts = torch.ones(around.row.numel(), device=inputs.device)
        if gone is not None:
            one, other = ((around.nodes == node).nonzero().squeeze(1) for node in gone)
            degree[one] -= 1
            degree[other] -= 1
            inputs[one] -= self._added[gone[1]]
            inputs[other] -= self._added[gone[0]]
            counts[(around.row == one) & (around.column == other)] = 0
            counts[(around.row == other) & (around.column == one)] = 0
        scale = (degree + 1).rsqrt()  # with the node itself
        weight = counts * scale[around.row] * scale[around.column]
        hops = range(layers - 1, -1, -1)
        z = learner.encode.deepen(inputs, [around.matrix(weight, hop) for hop in hops])
        left, right, p = learner.decode(z, self._signed(around, degree, counts))
        one, other = around.ends
        return float((left[one] * right[other]).sum() + (p[one] + p[other]))

    def _signed(self, around: _Around, degree: Tensor, counts: Tensor) -> Tensor | None:
        """Return the signatures of the pair, if they count."""
        count = self._learner.num_signatures
        if not count:
            return None
        weight = counts * (around.row != around.column)
        weight *= degree.clamp(min=1).rsqrt()[around.column]
        near = around.nodes[: around.within[1]]
        return signatures(around.matrix(weight, 0), count, near)

    def _on(self, array: npt.NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self._learner.encode.bias.device)
