"""Which known links a score rests on: the score again without each of them in turn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from cgcl.graph import Graph
from cgcl.graph.adjacency import Adjacency, Numbers, blocks_of
from cgcl.graph.pairs import decode, encode_ordered
from cgcl.methods.cgcl_rank import RankingLearner
from cgcl.methods.scoring import decode_pairs, evaluating
from cgcl.model import CGCL
from cgcl.model.ops import spmm
from cgcl.model.ranker import signatures
from cgcl.train.fit import known_of
from cgcl.workers import workers

Explainable = CGCL | RankingLearner
"""Networks that can say which links a score rests on."""

MOST_TRIED = 1_000
"""How many links of one end are tried; of a hub those whose messages weigh most."""
MOST_TRIED_IN_LAYERS = 50
"""The same for CGCL that ranks, whose layers hand every change on to more nodes."""

# How many links are named for a pair.
_NAMED = 3
# Links tried at once, and rows that change with them: 8 MB an array at d_v = 128.
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


@dataclass(frozen=True, eq=False)
class Removals:
    """The logits of some pairs, and again without each link of their ends."""

    pairs: slice
    """Which of the pairs asked for these are."""
    logits: npt.NDArray[np.float32]
    """With all known links, [p]."""
    pair: Numbers
    """For each removal the pair, from 0 in this block, [r]."""
    end: Numbers
    """The node whose link was removed, [r]."""
    neighbour: Numbers
    """The node that the link joined it to, [r]."""
    logits_without: npt.NDArray[np.float32]
    """The pair's logit without the link, [r]."""


class LinkRemover:
    r"""Scores pairs again without one known link, as encoding the whole graph again would.

    With $s = \tilde d^{-1/2}$, a layer of either encoder makes its $z_i$ of $s_i \sum_j s_j z_j$,
    summed over i and its neighbours. Without the link (a, k) few terms of few sums are others:
    $s_a$ and $s_k$ grow, a and k do not hear each other and, where features are made of links,
    lose those that spoke of each other. What is another after a layer is sent on to the next, to
    nodes that the pair can hear; all other sums stay. Many removals go through a layer at once:
    each has rows of its own in one product with a sparse matrix.
    """

    def __init__(
        self, model: Explainable, graph: Graph, adjacency: Adjacency | None = None
    ) -> None:
        """Encode the graph with all links.

        Args:
            model: The trained network; its device computes.
            graph: All known links, and the features as the network saw them.
            adjacency: The neighbours of every node, if the caller has them already.
        """
        self._model, self._names, self._n = model, graph.names, graph.num_nodes
        self._links = adjacency or Adjacency.from_pairs(graph.edges, self._n)
        is_ranking = isinstance(model, RankingLearner)
        self._most = MOST_TRIED_IN_LAYERS if is_ranking else MOST_TRIED
        self._num_layers = 1 + len(model.encode.deeper) if is_ranking else 1
        width = model.encode.bias.shape[0]
        with self._evaluating():
            inputs, self._added = self._read(graph)
            # What each layer receives, and what it adds its own part of.
            self._layers, self._before = [inputs[:, :width]], [inputs[:, width:]]
            self._sums: list[Tensor] = []
            looped = Adjacency.from_pairs(graph.edges, self._n, self_loops=True)
            adjacent = looped.to_torch(torch.ones(looped.indices.numel())).to(inputs.device)
            scale = self._links.degree.to(inputs).add(1).rsqrt().unsqueeze(1)
            for number in range(self._num_layers):
                self._sums.append(adjacent @ (scale * self._layers[-1]))
                z = self._layer(number, scale * self._sums[-1], self._before[-1])
                self._layers.append(z)
                self._before.append(z)

    def edge_importance(self, pairs: Tensor) -> list[RestsOn]:
        """Return for each pair, int64 [2, p], the known links that its score rests on most."""
        degree = self._links.degree[pairs]
        # A node with itself has its own links, and the link of a pair is one of both ends.
        is_same, is_linked = pairs[0] == pairs[1], self._links.contains(*pairs)
        links = degree[0].where(is_same, degree.sum(dim=0) - is_linked.long()).tolist()
        answers: list[RestsOn] = []
        for block in self.without_each_link(pairs):
            drops = block.logits[block.pair] - block.logits_without
            # By pair, then the greatest fall, then the order of nodes.
            order = np.lexsort((block.neighbour, block.end, -drops, block.pair))
            starts = np.searchsorted(block.pair[order], np.arange(1, len(block.logits)))
            scores, without = _to_scores(block.logits), _to_scores(block.logits_without)
            for score, mine in zip(scores.tolist(), np.split(order, starts), strict=True):
                reasons = tuple(
                    Reason(
                        self._names[block.end[place]],
                        self._names[block.neighbour[place]],
                        float(drops[place]),
                        float(without[place]),
                    )
                    for place in mine[:_NAMED].tolist()
                    if drops[place] > 0
                )
                answers.append(RestsOn(score, reasons, len(mine), links[len(answers)]))
        return answers

    def without_each_link(self, pairs: Tensor) -> Iterator[Removals]:
        """Yield, block by block, the logits of pairs without each link of their ends in turn."""
        tried = self._links.degree[pairs].clamp(max=self._most).sum(dim=0)
        for block in blocks_of(tried.numpy() + 1, _BUDGET):
            pair, end, neighbour = self._links_to_try(pairs[:, block].numpy())
            some, gone = pairs[:, block], torch.from_numpy(np.stack([end, neighbour]))
            # A layer sends what has changed to all neighbours of both ends.
            changed = self._links.degree[gone].sum(dim=0).numpy()
            costs = changed if self._num_layers > 1 else np.ones_like(pair)
            asked = some[:, pair]
            with self._evaluating(), workers() as pool:
                logits = self._logits(some, self._layers[-1][some.flatten()], None)
                parts = [torch.stack([gone[:, p], asked[:, p]]) for p in blocks_of(costs, _BUDGET)]
                found = pool.map(self._without, parts)
                without = torch.cat([torch.empty(0), *found])
            yield Removals(block, logits.numpy(), pair, end, neighbour, without.numpy())

    def _links_to_try(self, ends: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """Return pair, end and neighbour of each link to remove, the pair's own link once."""
        nodes, sizes = ends.ravel(), self._links.degree.numpy()  # all first ends come first
        row, neighbour = self._links.take(nodes)
        if (sizes[nodes] > self._most).any():
            # A message's weight falls with its sender's links: the fewest first.
            order = np.lexsort((neighbour, sizes[neighbour], row))
            row, neighbour = row[order], neighbour[order]
            kept = np.arange(len(row)) - np.searchsorted(row, row) < self._most
            row, neighbour = row[kept], neighbour[kept]
        pair, end = row % ends.shape[1], nodes[row]
        first = ends[0][pair]
        is_new = (row < ends.shape[1]) | ((neighbour != first) & (end != first))
        return pair[is_new], end[is_new], neighbour[is_new]

    @torch.no_grad()  # a worker does not know of it
    def _without(self, gone_and_ends: Tensor) -> Tensor:
        """Return the logits of pairs without a link, [r]; see below for what these two are."""
        gone, ends = gone_and_ends
        return self._logits(ends, self._encode_without(gone, ends), gone)

    def _encode_without(self, gone: Tensor, ends: Tensor) -> Tensor:
        """Return embeddings of all first ends, then of all second ends, [2 r, d_v].

        Args:
            gone: The two ends of each removed link, int64 [2, r].
            ends: The pair that is asked about, int64 [2, r].
        """
        # What is another without a link, "this removal at that node", is one rising number.
        codes, order = self._codes(gone).sort()
        one, other = gone.flatten()[order], gone.flip(0).flatten()[order]
        z = self._layers[0][one] - self._added[other, : self._layers[0].shape[1]]
        before = self._before[0][one] - self._added[other, self._layers[0].shape[1] :]
        for number, sums in enumerate(self._sums):
            sent = self._scale(codes, gone) * z
            more = sent - self._scale(codes, None) * self._layers[number][codes % self._n]
            source, reached = self._sent_on(codes, ends, self._num_layers - 1 - number)
            rows, at = reached.unique(return_inverse=True)
            found = sums[rows % self._n] + _summed(more, source, at, len(rows))
            # The two ends of the removed link do not hear each other any more.
            place, is_there = _places(self._codes(gone), rows)
            silent, _ = _places(self._codes(gone.flip(0)), codes)
            found[place[is_there]] -= sent[silent[is_there]]
            before = self._overlaid(self._before[number], rows, codes, before)
            z = self._layer(number, self._scale(rows, gone) * found, before)
            codes, before = rows, z
        return self._overlaid(self._layers[-1], self._codes(ends), codes, z)

    def _sent_on(self, codes: Tensor, ends: Tensor, hops: int) -> tuple[Tensor, Tensor]:
        """Return which changes arrive where: places in `codes`, and codes of removal and node.

        Args:
            codes: What has changed.
            ends: The pair of each removal.
            hops: How many links from the pair a node may be to play a part.
        """
        removal, node = decode(codes, self._n)
        everyone = torch.arange(len(codes))
        if hops == 0:
            source, hearer = everyone.repeat(2), ends[:, removal].flatten()
            hears = self._is_near(hearer, node[source])
            hears[len(codes) :] &= (ends[0] != ends[1])[removal]  # a node with itself is one
        else:
            source, hearer = self._links.neighbours(node)
            source, hearer = torch.cat([source, everyone]), torch.cat([hearer, node])
            first, second = ends[:, removal[source]]
            hears = self._is_near(first, hearer) | self._is_near(second, hearer) | (hops > 1)
        return source[hears], encode_ordered(removal[source], hearer, self._n)[hears]

    def _is_near(self, one: Tensor, other: Tensor) -> Tensor:
        return (one == other) | self._links.contains(one, other)

    def _codes(self, nodes: Tensor) -> Tensor:
        """Return removal and node as one number, first of all first nodes, int64 [2 r]."""
        return encode_ordered(torch.arange(nodes.shape[1]), nodes, self._n).flatten()

    def _degree(self, removal: Tensor, node: Tensor, gone: Tensor | None) -> Tensor:
        """Return the number of links of nodes, without the removed ones if there are any."""
        degree = self._links.degree[node]
        return degree if gone is None else degree - (gone[:, removal] == node).sum(dim=0)

    def _scale(self, codes: Tensor, gone: Tensor | None) -> Tensor:
        removal, node = decode(codes, self._n)
        degree = self._degree(removal, node, gone).to(self._layers[0])
        return (degree + 1).rsqrt().unsqueeze(1)

    def _overlaid(self, whole: Tensor, wanted: Tensor, codes: Tensor, changed: Tensor) -> Tensor:
        """Return rows of a matrix with a row per node, some of which have changed."""
        place, is_there = _places(wanted, codes)
        found = whole[wanted % self._n]
        found[is_there] = changed[place[is_there]]
        return found

    def _logits(self, ends: Tensor, z: Tensor, gone: Tensor | None) -> Tensor:
        """Return logits from embeddings, and from degrees if signatures count, [r] on the CPU."""
        count = ends.shape[1]
        if isinstance(self._model, CGCL):
            return decode_pairs(self._model, z, torch.arange(2 * count).view(2, count))
        signed, width = None, self._model.num_signatures
        if width:
            row, near = self._links.neighbours(ends.flatten())
            removal = row % max(count, 1)
            weight = self._degree(removal, near, gone).to(z).clamp(min=1).rsqrt()
            if gone is not None:
                link = torch.stack([ends.flatten()[row], near])
                weight[(link.sort(dim=0).values == gone.sort(dim=0).values[:, removal]).all(0)] = 0
            nodes, place = near.unique(return_inverse=True)
            starts = torch.searchsorted(row, torch.arange(2 * count + 1))
            counted = Adjacency(starts, place, len(nodes)).to_torch(weight.cpu()).to(z.device)
            signed = signatures(counted, width, nodes.to(z.device))
        left, right, p = self._model.decode(z, signed)
        products = (left[:count] * right[count:]).sum(dim=1)
        return (products + (p[:count] + p[count:]) - self._model.offset).cpu()

    def _evaluating(self) -> AbstractContextManager[None]:
        model = self._model
        return evaluating(model) if isinstance(model, CGCL) else model.finished()

    def _read(self, graph: Graph) -> tuple[Tensor, Tensor]:
        """Return the inputs of all nodes, and what a link to each adds to its other end's."""
        known = known_of(graph, graph.edges, self._model)
        if isinstance(self._model, RankingLearner):
            return self._model.inputs(known)
        weight = self._model.encode.weight
        inputs = spmm(known.features, weight)
        if known.structure is None:
            return inputs, torch.zeros_like(inputs)
        # No feature speaks of a node that joined after training.
        speaking = known.structure.feature_of_node
        return inputs, weight[speaking] * (speaking >= 0).unsqueeze(1)

    def _layer(self, number: int, messages: Tensor, before: Tensor) -> Tensor:
        if isinstance(self._model, RankingLearner):
            return self._model.encode.layer(number, messages, before)
        return functional.elu(messages + self._model.encode.bias)


def _summed(rows: Tensor, source: Tensor, target: Tensor, count: int) -> Tensor:
    """Return at each of `count` targets the sum of the rows that arrive there."""
    entries = encode_ordered(target, source, len(rows)).sort().values
    ones = torch.ones(len(entries))
    return Adjacency.from_codes(entries, count, len(rows)).to_torch(ones).to(rows.device) @ rows


def _places(wanted: Tensor, codes: Tensor) -> tuple[Tensor, Tensor]:
    """Return where numbers stand in a rising list, and whether they are there."""
    place = torch.searchsorted(codes, wanted).clamp(max=len(codes) - 1)
    return place, codes[place] == wanted


def _to_scores(logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    return torch.from_numpy(logits).sigmoid().numpy()
