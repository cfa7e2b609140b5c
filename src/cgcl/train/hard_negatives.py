"""HeaRT's hard questions: each hidden link among pairs that look as if they could be links.

Li and others, "Evaluating Graph Neural Networks for Link Prediction: Current Pitfalls and New
Benchmarking", NeurIPS 2023.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from scipy.stats import rankdata
from torch import Tensor

from cgcl.coins import base_key, words
from cgcl.methods.heuristics import Neighbourhoods, Numbers, PageRank, PageRankSettings
from cgcl.split import Split

__all__ = ["PER_LINK", "HardNegatives", "Part", "hard_negatives", "released_negatives"]

PER_LINK = 500
"""How many negatives a link is set against: half of them keep one end, half the other."""

Part: TypeAlias = Literal["test", "val"]
Row: TypeAlias = npt.NDArray[np.float32]
Mask: TypeAlias = npt.NDArray[np.bool_]

# How many entries of rows are held at once, for each formula.
_CELLS = 2**19
# Equal up to rounding counts as equal, on any number of threads.
_DIGITS = 5
# Where ranks by features stand among the formulas.
_FEATURES = 2


@dataclass(frozen=True, eq=False)
class HardNegatives:
    """The pairs that each link is set against."""

    pairs: Tensor
    """One end is the link's own, at its place; the other is not. Int64 [2, any]."""
    link: Tensor
    """Which link each pair belongs to, ascending, int64 [any]."""
    formulas: tuple[str, ...]
    """By what they were chosen."""


def hard_negatives(
    split: Split,
    x: Tensor | None,
    part: Part = "test",
    *,
    which: Tensor | None = None,
    per_link: int = PER_LINK,
    seed: int = 0,
) -> HardNegatives:
    """Choose the hardest negatives of each link: (u, v) among pairs (u, w) and (w, v).

    For each end, all nodes that it could link to are ranked by resource allocation, by rooted
    PageRank and by the cosine of features, each seen from that end and along training links only.
    A formula that gives a node 0 or less says nothing about it. The nodes with the best rank by any
    formula are taken, equal ones by their second and third rank, then by lot; so are the last
    ones where the formulas speak of too few. Links of any part are no negatives. Where an end has
    fewer than half of `per_link` other nodes to go to, all of them are taken.

    Args:
        split: Known and hidden links.
        x: Features of the nodes, dense or coalesced sparse COO, [n, d]; None to do without.
        part: Which links are asked about.
        which: The places of some of them; all if None.
        per_link: How many negatives a link gets, an even number.
        seed: Decides ties.
    """
    links = split.test if part == "test" else split.val
    links = links if which is None else links[:, which]
    formulas = _Formulas(split, x)
    barred = _Neighbours(torch.cat([split.train, split.val, split.test], dim=1), split)
    key = base_key(seed, "hard negatives")
    ends = links.unique().numpy()
    hardest = {
        node: _hardest(rows, barred.allowed(node), per_link // 2, _lot(key, node, split.num_nodes))
        for node, rows in formulas.rows(ends)
    }
    chosen = [(hardest[u], hardest[v]) for u, v in links.T.tolist()]
    return _gathered(links, chosen, formulas.names)


def released_negatives(
    split: Split,
    x: Tensor | None,
    part: Part = "test",
    *,
    which: Tensor | None = None,
    per_link: int = PER_LINK,
    seed: int = 0,
) -> HardNegatives:
    """Choose negatives as the generator does that made HeaRT's released files.

    It differs in four ways. What is 0 by a formula gets the rank after the last one that is not,
    so that an end with three neighbours' neighbours gives every node of the graph rank 4 or
    better, and which of them are taken depends on how torch orders what is equal. Ranks by
    features overwrite the features' cosines: when a node is an end once more, the ranks are
    ranked, which turns their order around; validation links come first. Shared neighbours are
    counted and divided by the links of the node that is ranked, not by those of the neighbours.
    And only links of earlier parts are left out: of test negatives, some are test links.

    Args:
        split: Known and hidden links, in the order in which they are looked at.
        x: Features of the nodes, dense or coalesced sparse COO, [n, d]; None to do without.
        part: Which links are asked about.
        which: The places of some of them; all if None.
        per_link: How many negatives a link gets, an even number.
        seed: Decides which nodes fill up where the formulas speak of too few.
    """
    links = split.test if part == "test" else split.val
    before = split.val if part == "test" else links[:, :0]
    formulas = _Formulas(split, x, as_released=True)
    key = base_key(seed, "hard negatives")
    early = _Neighbours(split.train, split)
    late = _Neighbours(torch.cat([split.train, before], dim=1), split)
    visits, seen = _partners(links), _partners(before)
    chosen: dict[tuple[int, int], Numbers] = {}
    asked = links if which is None else links[:, which]
    for node, rows in formulas.rows(asked.unique().numpy()):
        lot = _lot(key, node, split.num_nodes)
        past, now = ((p, early) for p in seen.get(node, ())), ((p, late) for p in visits[node])
        for partner, neighbours in chain(past, now):
            allowed = neighbours.allowed(node, partner)
            ranks = [_released_ranks(row, allowed) for row in rows]
            chosen[node, partner] = _released_best(rows, ranks, allowed, lot, per_link // 2)
            rows[_FEATURES:] = ranks[_FEATURES:]  # what is overwritten there
    pairs = [(chosen[u, v], chosen[v, u]) for u, v in asked.T.tolist()]
    return _gathered(asked, pairs, formulas.names)


class _Formulas:
    """What each formula says of a node with every node, by training links; 0 for nothing."""

    def __init__(self, split: Split, x: Tensor | None, *, as_released: bool = False) -> None:
        n = split.num_nodes
        self._neighbourhoods = Neighbourhoods(split.train, n)
        shares, ones = 1 / np.maximum(self._neighbourhoods.degree, 1), np.ones(n)
        # What a shared neighbour counts, and what a node's sum is multiplied by.
        self._weights = (ones, shares) if as_released else (shares, ones)
        self._pagerank = PageRank(split.train, n, PageRankSettings())
        self._x, self._height = x, max(1, _CELLS // max(n, 1))
        if x is not None:
            squares = (x * x).sum(dim=1)
            self._norms = (squares.to_dense() if squares.is_sparse else squares).sqrt()
        names = ("resource allocation", "rooted PageRank", "cosine of features")
        self.names = names if x is not None else names[:_FEATURES]

    def rows(self, nodes: Numbers) -> Iterator[tuple[int, list[Row]]]:
        """Yield each node and a row for each formula, float32 [n]; a block is held at once."""
        for start in range(0, nodes.size, self._height):
            block = nodes[start : start + self._height]
            tables = [self._shared(block), self._ranks(block)]
            if self._x is not None:
                tables.append(self._cosines(block, self._x))
            for place, node in enumerate(block.tolist()):
                yield node, [table[place] for table in tables]

    def _shared(self, nodes: Numbers) -> Row:
        shared, own = self._weights
        tables = np.concatenate(list(self._neighbourhoods.tables(nodes, shared)))
        return (tables * own).astype(np.float32)

    def _ranks(self, nodes: Numbers) -> Row:
        reached = self._pagerank.spread(nodes) * self._pagerank.degree[:, None]
        return np.ascontiguousarray(reached.T, dtype=np.float32)

    def _cosines(self, nodes: Numbers, x: Tensor) -> Row:
        own = x.index_select(0, torch.from_numpy(nodes))
        products = (x @ (own.to_dense() if own.is_sparse else own).T).T
        norms = self._norms[nodes][:, None] * self._norms
        # A node without features is like no other.
        cosines = (products / norms).nan_to_num(0.0, 0.0, 0.0)
        return cosines.round(decimals=_DIGITS).numpy()


class _Neighbours:
    """Which nodes a node could link to."""

    def __init__(self, links: Tensor, split: Split) -> None:
        """Take the links that are no answer."""
        ends = torch.cat([links, links.flip(0)], dim=1)
        order = ends[0].argsort(stable=True)
        self._other = ends[1, order].numpy()
        self._start = np.searchsorted(ends[0, order].numpy(), np.arange(split.num_nodes + 1))
        self._num_nodes = split.num_nodes
        self._sides = None if split.sides is None else split.sides.numpy()

    def allowed(self, node: int, partner: int | None = None) -> Mask:
        """Return for each node whether a pair with it can be a negative, bool [n]."""
        if self._sides is None:
            free = np.ones(self._num_nodes, dtype=np.bool_)
        else:
            free = self._sides != self._sides[node]
        free[self._other[self._start[node] : self._start[node + 1]]] = False
        free[node] = False
        if partner is not None:
            free[partner] = False
        return free


def _hardest(rows: list[Row], allowed: Mask, count: int, lot: Numbers) -> Numbers:
    """Return the nodes with the best rank by any formula, at most `count`, the best first."""
    candidates = np.flatnonzero(allowed)
    ranks = np.full((len(rows), candidates.size), np.inf)
    for own, row in zip(ranks, rows, strict=True):
        values = row[candidates]
        there = values > 0
        own[there] = rankdata(-values[there], method="min")
    ranks.sort(axis=0)
    if candidates.size > count:
        near = np.flatnonzero(ranks[0] <= np.partition(ranks[0], count - 1)[count - 1])
        candidates, ranks = candidates[near], ranks[:, near]
    order = np.lexsort((lot[candidates], *ranks[::-1]))
    return candidates[order[:count]]


def _released_ranks(row: Row, allowed: Mask) -> Row:
    """Return ranks, 1 for the highest; what is 0 comes one after the last, what is barred two."""
    there = allowed & (row > 0)
    ranks = np.ones_like(row)
    if there.any():
        ascending = rankdata(row[there], method="min")
        ranks[there] = ascending.max() - ascending + 1
        ranks[~there] = ranks[there].max() + 1
    ranks[~allowed] += 1
    return ranks


def _released_best(
    rows: list[Row], ranks: list[Row], allowed: Mask, lot: Numbers, count: int
) -> Numbers:
    """Return the best ranks' nodes as torch orders them, then some that no formula speaks of."""
    is_silent = allowed & np.all([row == 0 for row in rows], axis=0)
    spoken = int(allowed.sum()) - int(is_silent.sum())
    best = torch.from_numpy(-np.min(ranks, axis=0)).topk(min(count, spoken)).indices.numpy()
    # Ties can put a silent node there in place of another: in a small graph that one follows.
    rest = np.setdiff1d(np.flatnonzero(allowed), best)
    order = np.lexsort((lot[rest], ~is_silent[rest]))
    return np.concatenate([best, rest[order[: count - best.size]]])


def _lot(key: int, node: int, num_nodes: int) -> Numbers:
    """Return a number for each node that decides between equals, another one for each `node`."""
    return words(key, torch.tensor(node), torch.arange(num_nodes)).numpy()


def _partners(links: Tensor) -> dict[int, list[int]]:
    """Return the other ends of each node's links, in their order."""
    found: dict[int, list[int]] = {}
    for one, other in links.T.tolist():
        found.setdefault(one, []).append(other)
        found.setdefault(other, []).append(one)
    return found


def _gathered(
    links: Tensor, chosen: list[tuple[Numbers, Numbers]], formulas: tuple[str, ...]
) -> HardNegatives:
    """Lay out the negatives of all links; each link has those of its first and its second end."""
    firsts: list[Numbers] = []
    seconds: list[Numbers] = []
    for (one, other), (of_one, of_other) in zip(links.T.tolist(), chosen, strict=True):
        firsts += [np.full(of_one.size, one), of_other]
        seconds += [of_one, np.full(of_other.size, other)]
    counts = torch.tensor([a.size + b.size for a, b in chosen], dtype=torch.int64)
    none = np.empty(0, dtype=np.int64)
    pairs = np.stack([np.concatenate([none, *part]) for part in (firsts, seconds)])
    link = torch.arange(links.shape[1]).repeat_interleave(counts)
    return HardNegatives(torch.from_numpy(pairs), link, formulas)
