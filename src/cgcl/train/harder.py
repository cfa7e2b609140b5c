"""Harder questions: test links against negatives that are not told apart by looks alone.

Hard negatives are those of HeaRT: Li and others, "Evaluating Graph Neural Networks for Link
Prediction: Current Pitfalls and New Benchmarking", NeurIPS 2023.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from scipy.stats import rankdata
from torch import Tensor

from cgcl.counter_rng import base_key, words
from cgcl.errors import SplitError
from cgcl.graph import Graph
from cgcl.graph.adjacency import Adjacency
from cgcl.graph.features import has_structural_features
from cgcl.methods.heuristics import Neighbourhoods, Numbers, PageRank, PageRankSettings
from cgcl.methods.method import PairScorer
from cgcl.metrics import ON_REQUEST, Ranked, own_ranks
from cgcl.seeds import stream
from cgcl.split import Split, degree_negatives
from cgcl.train.top_of_list import Part

Against: TypeAlias = Literal["heart", "heart-released", "degree"]
"""HeaRT's hard negatives; the same with the flaws of the released generator; pairs whose ends have
as many links as those of links do."""

# In operations of which two CPU cores do 4e10 a second: about ten minutes, then links are sampled.
_BUDGET = 2.4e13
# Ranking a node by three formulas.
_PER_CANDIDATE = 2e4
_FEWEST_LINKS = 10


@dataclass(frozen=True)
class Harder:
    """What test links are worth against such negatives."""

    metrics: dict[str, float]
    """Fractions by name, as `cgcl.metrics.ON_REQUEST` has them."""
    words: str
    """What the links were set against."""
    per_link: tuple[int, int]
    """The fewest and the most negatives that a link was set against."""
    formulas: tuple[str, ...] = ()
    """By what hard negatives were chosen."""
    links: int | None = None
    """How many links were sampled; None if all were asked about."""
    errors: dict[str, float] = field(default_factory=dict)
    """The standard error that sampling leaves in each metric; empty without sampling."""

    def to_json(self) -> dict[str, Any]:
        """Return all of it as JSON has it."""
        told = {
            "words": self.words,
            "negatives_per_link": list(self.per_link),
            "formulas": list(self.formulas),
        }
        sampled = {"sampled": {"links": self.links, "se": self.errors}} if self.links else {}
        return {**self.metrics, "against": told, **sampled}


def metrics_against(
    scorer: PairScorer, split: Split, graph: Graph, against: Against, *, seed: int = 0
) -> Harder:
    """Measure test links against harder negatives than random pairs are.

    Args:
        scorer: The method; it may look at the training links only.
        split: Known and hidden links.
        graph: Whose features make hard negatives; those that are made of links do not count.
        against: Which negatives.
        seed: Decides what is drawn.

    Raises:
        SplitError: There are no test links, or too few unlinked pairs.
    """
    if split.test.shape[1] == 0:
        raise SplitError(
            "There are no test links, so there is nothing to set against anything.\n"
            "Train again with a share of links to test on, such as `test=0.1`."
        )
    if against == "degree":
        pairs = degree_negatives(split, seed)
        ranked = Ranked(scorer.logits(split.test), scorer.logits(pairs))
        found = {n: m.function(ranked) for n, m in ON_REQUEST.items() if m.over == "links"}
        words = "as many unlinked pairs, their ends drawn from the ends of links"
        return Harder(found, words, (1, 1))
    x = None if graph.x is None or has_structural_features(graph) else graph.x
    which = _affordable(scorer, split, seed)
    choose = released_negatives if against == "heart-released" else hard_negatives
    chosen = choose(split, x, which=which, seed=seed)
    links, m = split.test[:, which], split.test.shape[1]
    if chosen.link.numel() == 0:
        raise SplitError(
            f"No end of the {links.shape[1]:,} test links has another node to link to, so there "
            f"are no negatives.\nThe graph is almost complete. Use a sparser graph."
        )
    counts = torch.bincount(chosen.link, minlength=links.shape[1])
    has_any = counts > 0
    by_link = {
        name: values[has_any.numpy()]  # a link that stands against nothing has passed no test
        for name, values in heart_metrics(scorer, links, chosen).items()
    }
    per_link, left_out = (int(counts[has_any].min()), int(counts.max())), int((~has_any).sum())
    found = {name: float(values.mean()) for name, values in by_link.items()}
    words = _words(per_link, chosen.formulas, left_out)
    words += ", as HeaRT's released generator does" if against == "heart-released" else ""
    if which.numel() == m:
        return Harder(found, words, per_link, chosen.formulas)
    errors = _errors(by_link, m)
    return Harder(found, words, per_link, chosen.formulas, which.numel(), errors)


def heart_metrics(
    scorer: PairScorer, links: Tensor, negatives: HardNegatives
) -> dict[str, npt.NDArray[np.float64]]:
    """Return what each link adds to `heart_mrr` and `heart_hits@10`, float64 [m].

    Args:
        scorer: The method; it may look at the training links only.
        links: The links, int64 [2, m].
        negatives: What each of them is set against.
    """
    owner = negatives.link.numpy()
    ranks = own_ranks(scorer.logits(links), scorer.logits(negatives.pairs), owner)
    return {
        name: np.asarray(metric.function(ranks), dtype=np.float64)
        for name, metric in ON_REQUEST.items()
        if metric.over == "nodes"
    }


def _words(per_link: tuple[int, int], formulas: tuple[str, ...], left_out: int) -> str:
    fewest, most = per_link
    count = f"{most:,}" if fewest == most else f"{fewest:,} to {most:,}"
    short = "" if fewest >= PER_LINK else f" (the graph has no {PER_LINK} for each)"
    by = f"by {', '.join(formulas[:-1])} and {formulas[-1]}"
    without = ", for the graph brings no features" if len(formulas) < 3 else ""
    left = f"; {left_out:,} without any are left out" if left_out else ""
    return f"{count} hard negatives of its own{short}, chosen {by}{without}{left}"


def _affordable(scorer: PairScorer, split: Split, seed: int) -> Tensor:
    """Return which test links to ask about, ascending."""
    walker = PageRank(split.train, split.num_nodes, PageRankSettings())
    of_end = walker.cost_per_node + split.num_nodes * _PER_CANDIDATE
    each = 2 * (of_end + scorer.cost_per_node) + PER_LINK * scorer.cost_per_pair
    m = split.test.shape[1]
    count = max(int(_BUDGET / each), _FEWEST_LINKS)
    return torch.randperm(m, generator=stream(seed, "sampled links"))[:count].sort().values


def _errors(by_link: dict[str, npt.NDArray[np.float64]], m: int) -> dict[str, float]:
    """Return the standard errors of means over links that were drawn from `m` of them."""
    # The links are drawn without replacement: if all are, no error is left.
    return {
        name: float(values.std(ddof=1)) * math.sqrt((1 - values.size / m) / values.size)
        for name, values in by_link.items()
    }


PER_LINK = 500
"""How many negatives a link is set against: half of them keep one end, half the other."""

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
    links = getattr(split, part) if which is None else getattr(split, part)[:, which]
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
        self._adjacency = Adjacency.from_pairs(links, split.num_nodes)
        self._sides = None if split.sides is None else split.sides.numpy()

    def allowed(self, node: int, partner: int | None = None) -> Mask:
        """Return for each node whether a pair with it can be a negative, bool [n]."""
        free = np.ones(self._adjacency.num_rows, dtype=np.bool_)
        if self._sides is not None:
            free = self._sides != self._sides[node]
        free[self._adjacency.take(np.array([node]))[1]] = False
        free[[node, node if partner is None else partner]] = False
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
    pairs: list[npt.NDArray[np.int64]] = [np.empty((2, 0), dtype=np.int64)]
    for (one, other), (of_one, of_other) in zip(links.T.tolist(), chosen, strict=True):
        pairs += [np.stack([np.full_like(of_one, one), of_one])]
        pairs += [np.stack([of_other, np.full_like(of_other, other)])]
    counts = torch.tensor([a.size + b.size for a, b in chosen], dtype=torch.int64)
    link = torch.arange(links.shape[1]).repeat_interleave(counts)
    return HardNegatives(torch.from_numpy(np.concatenate(pairs, axis=1)), link, formulas)
