"""Which known links a score rests on: the score again without each of them in turn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from cgcl.evidence.removals import Removals, links_to_try
from cgcl.evidence.sorted_lists import Numbers, SortedLists, blocks_of, neighbour_lists
from cgcl.evidence.surroundings import MOST_TRIED_AROUND, Surroundings
from cgcl.graph import Graph
from cgcl.methods.cgcl_rank import RankingLearner
from cgcl.methods.scoring import decode_pairs, evaluating
from cgcl.model import CGCL
from cgcl.model.ops import product
from cgcl.train.fit import known_of

__all__ = ["MOST_TRIED", "Explainable", "Reason", "RestsOn", "rests_on", "without_each_link"]

Explainable = CGCL | RankingLearner
"""Networks that can say which links a score rests on."""

MOST_TRIED = 1_000
"""How many links of one end are tried; of a hub those whose messages weigh most."""

# Links tried at once: six arrays of this many rows and d_v columns, 50 MB at 128.
_BUDGET = 2**14


@dataclass(frozen=True)
class Reason:
    """A known link that a score rests on."""

    end: str
    """The end of the pair that the link belongs to."""
    neighbour: str
    """The link's other end."""
    drop: float
    """How far the logit falls without the link."""
    score_without: float
    """The score without the link, between 0 and 1."""


@dataclass(frozen=True)
class RestsOn:
    """What the score of one pair rests on."""

    score: float
    """The score with all known links, between 0 and 1."""
    reasons: tuple[Reason, ...]
    """The links whose removal lowers the score, the greatest fall first."""
    tried: int
    """How many links were removed in turn."""
    links: int
    """How many links the two ends have; more than `tried` if one is a hub."""


def rests_on(
    model: Explainable,
    graph: Graph,
    pairs: Tensor,
    count: int = 3,
    *,
    neighbours: SortedLists | None = None,
) -> list[RestsOn]:
    """Return for each pair the known links that its score rests on most.

    Args:
        model: The trained network; its device computes.
        graph: All known links, and the features as the network saw them.
        pairs: Node numbers, int64 [2, p].
        count: How many links to name for a pair.
        neighbours: The lists of `neighbour_lists(graph)`, if the caller has them already.
    """
    lists = neighbour_lists(graph) if neighbours is None else neighbours
    answers: list[RestsOn] = []
    for block in without_each_link(model, graph, pairs, neighbours=lists):
        drops = block.logits[block.pair] - block.logits_without
        # By pair, then the greatest fall, then the order of nodes.
        order = np.lexsort((block.neighbour, block.end, -drops, block.pair))
        starts = np.searchsorted(block.pair[order], np.arange(len(block.logits) + 1))
        scores = _to_scores(block.logits)
        without = _to_scores(block.logits_without)
        for number, (one, other) in enumerate(pairs[:, block.pairs].T.tolist()):
            mine = order[starts[number] : starts[number + 1]]
            best = [place for place in mine[:count].tolist() if drops[place] > 0]
            reasons = tuple(
                Reason(
                    graph.names[block.end[place]],
                    graph.names[block.neighbour[place]],
                    float(drops[place]),
                    float(without[place]),
                )
                for place in best
            )
            links = _num_links(lists, one, other)
            answers.append(RestsOn(float(scores[number]), reasons, len(mine), links))
    return answers


def without_each_link(
    model: Explainable,
    graph: Graph,
    pairs: Tensor,
    *,
    most: int = MOST_TRIED,
    neighbours: SortedLists | None = None,
) -> Iterator[Removals]:
    r"""Yield, block by block, the logits of pairs without each link of their ends in turn.

    These are the logits that encoding the graph again without the link would give. CGCL that ranks
    encodes the surroundings of the pair again (`Surroundings`). In the paper's CGCL, one layer
    means that only the pair's own two rows matter, and with $s_u = \tilde d_u^{-1/2}$ and
    $m_u = \sum_{v \in N(u)} s_v h_v$ a row of Eq. 5 is

    $z_u = \mathrm{ELU}(s_u (m_u + s_u h_u) + b)$, $h = X W^{(1)}$.

    Without the link (a, k) of the pair (a, o), $m_a$ lacks $s_k h_k$ and $s_a$ grows to
    $s'_a$, and so does $s_k$. If a is a neighbour of o, then $m_o$ holds $s'_a h'_a$; if k is,
    $s'_k h'_k$; and if k is o, it loses what a has lost. Where features are made of links, a and
    k lose those that spoke of each other, so that $h'$ is $h$ less a row of $W^{(1)}$; given
    features stay as they are, $h' = h$.

    Args:
        model: The trained network; its device computes.
        graph: All known links, and the features as the network saw them.
        pairs: Node numbers, int64 [2, p].
        most: How many links of one end to remove in turn.
        neighbours: The lists of `neighbour_lists(graph)`, if the caller has them already.
    """
    lists = neighbour_lists(graph) if neighbours is None else neighbours
    ends = pairs.numpy()
    if isinstance(model, RankingLearner):
        most, rows = min(most, MOST_TRIED_AROUND), Surroundings(model, graph, lists)
    else:
        rows = _Rows(model, graph, lists)
    for block in blocks_of(np.minimum(lists.sizes[ends], most).sum(axis=0) + 1, _BUDGET):
        yield rows.removals(block, ends[:, block], most)


class _Rows:
    """The encoder's rows, one at a time, with and without a link."""

    def __init__(self, model: CGCL, graph: Graph, lists: SortedLists) -> None:
        weight = model.encode.weight
        known = known_of(graph, graph.edges, model)
        self._structure = known.structure
        with evaluating(model):
            self._h = product(known.features, weight)  # [n, d_v]
        self._model = model
        self._lists = lists
        degrees = torch.from_numpy(lists.sizes).to(weight.device)
        self._scale = (degrees + 1).to(weight.dtype).rsqrt()  # s, [n]
        # Nobody without a link loses one: the 1 is never used.
        self._grown = degrees.clamp(min=1).to(weight.dtype).rsqrt()  # s', [n]

    def removals(self, block: slice, ends: Numbers, most: int) -> Removals:
        """Return the logits of the pairs `ends`, [2, p], with and without each link."""
        pair, end, neighbour = links_to_try(self._lists, ends, most)
        first, second = ends[:, pair]
        other = np.where(end == first, second, first)
        with evaluating(self._model):
            nodes, places = np.unique(ends, return_inverse=True)
            m = self._messages(nodes)
            z = self._activated(m, self._h[self._on(nodes)], self._scale[self._on(nodes)])
            logits = decode_pairs(self._model, z, torch.from_numpy(places.reshape(ends.shape)))
            at_end, at_other = np.searchsorted(nodes, end), np.searchsorted(nodes, other)
            changed = self._without(
                m[self._on(at_end)], m[self._on(at_other)], end, other, neighbour
            )
            number = torch.arange(len(pair))
            without = decode_pairs(self._model, changed, torch.stack([number, number + len(pair)]))
        return Removals(block, logits.numpy(), pair, end, neighbour, without.numpy())

    def _without(
        self, m_end: Tensor, m_other: Tensor, end: Numbers, other: Numbers, neighbour: Numbers
    ) -> Tensor:
        """Return z of all ends, then of all others, without the link to `neighbour`, [2r, d_v]."""
        a, o, k = self._on(end), self._on(other), self._on(neighbour)
        is_own = self._on(neighbour == other)[:, None]
        sent_a, sent_k = self._sent(a), self._sent(k)
        left_a, left_k = self._left(a, k), self._left(k, a)
        z_end = self._activated(m_end - sent_k, left_a, self._grown[a])
        # Where k is o, nothing arrives from a any more, and nobody is a neighbour of itself.
        hears_a = self._on(self._lists.contains(other, end) & (neighbour != other))[:, None]
        hears_k = self._on(self._lists.contains(other, neighbour))[:, None]
        change_a = hears_a * self._grown[a, None] * left_a - (hears_a | is_own) * sent_a
        change_k = hears_k * (self._grown[k, None] * left_k - sent_k)
        scale = torch.where(is_own[:, 0], self._grown[o], self._scale[o])
        h_other = torch.where(is_own, left_k, self._h[o])
        z_other = self._activated(m_other + change_a + change_k, h_other, scale)
        # A node paired with itself changes as one.
        z_other = torch.where(self._on(end == other)[:, None], z_end, z_other)
        return torch.cat([z_end, z_other])

    def _sent(self, nodes: Tensor) -> Tensor:
        """Return what nodes send to each neighbour, s h, [r, d_v]."""
        return self._scale[nodes, None] * self._h[nodes]

    def _left(self, nodes: Tensor, lost: Tensor) -> Tensor:
        """Return h of nodes without their link to `lost`, [r, d_v]."""
        h = self._h[nodes]
        if self._structure is None:
            return h
        column = self._structure.feature_of_node[lost]
        # No feature speaks of a node that joined after training.
        speaks = (column >= 0)[:, None]
        return h - speaks * self._model.encode.weight[column.clamp(min=0)]

    def _messages(self, nodes: Numbers) -> Tensor:
        """Return m of `nodes`, [len(nodes), d_v]: what arrives from their neighbours."""
        which, sources = self._lists.take(nodes)
        m = self._h.new_zeros(len(nodes), self._h.shape[1])
        for start in range(0, len(which), _BUDGET):
            part = slice(start, start + _BUDGET)
            source = self._on(sources[part])
            m.index_add_(0, self._on(which[part]), self._scale[source, None] * self._h[source])
        return m

    def _activated(self, m: Tensor, h: Tensor, scale: Tensor) -> Tensor:
        return functional.elu(scale[:, None] * (m + scale[:, None] * h) + self._model.encode.bias)

    def _on(self, array: npt.NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self._h.device)


def _num_links(lists: SortedLists, one: int, other: int) -> int:
    if one == other:
        return int(lists.sizes[one])
    is_linked = bool(lists.contains(np.array([one]), np.array([other]))[0])
    return int(lists.sizes[one] + lists.sizes[other]) - is_linked


def _to_scores(logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    return torch.from_numpy(logits).sigmoid().numpy()
