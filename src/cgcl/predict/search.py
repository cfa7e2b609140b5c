"""The search for the best new links: exact while that is cheap, else among candidates."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from cgcl.errors import ModelFileError
from cgcl.graph import Graph
from cgcl.methods.method import PairScorer
from cgcl.predict.candidates import LinearCandidates, TwoHopCandidates
from cgcl.predict.pair_space import PairSpace, Tile
from cgcl.predict.query import Query, Strategy
from cgcl.predict.strategy import SAMPLED_NODES, ProductScorer, Task, by_products, in_words
from cgcl.seeds import stream
from cgcl.workers import workers

# Pairs listed at once by exact scoring; the scorer may cut them up further.
_BLOCK = 2**18
# How many of a node's best partners the candidates are measured on.
_RECALL_AT = 100
# How many pairs may wait before the best of them are chosen; 2^18 take 6 MB.
_WAITING = 2**18
# Products held at once: 2^20 take 4 MB, about what a CPU caches. So many rows go together
# that fetching the columns takes less time than multiplying them.
_CELLS_CPU, _CELLS_GPU = 2**20, 2**24
_HEIGHT_CPU, _HEIGHT_GPU = 256, 2048

_CANDIDATES = {
    "linear": "Candidates by a linearised decoder",
    "two-hop": "Candidates two steps apart",
}


@dataclass(frozen=True, eq=False, kw_only=True)
class SearchStats:
    """How a search looked for the best pairs."""

    way: Strategy
    """`exact`, `linear` or `two-hop`."""
    pairs_scored: int
    """How many pairs the method scored to find the answer."""
    pairs_possible: int
    """How many pairs could have been the answer."""
    recall: float | None
    """The share of the exact best 100 of sampled nodes that the candidates held, or None."""
    nodes_sampled: int = 0
    """On how many nodes that was measured."""
    hubs_left_out: int = 0
    """How many nodes had too many links to look for pairs through them."""

    @property
    def sentence(self) -> str:
        """The same as a sentence for people."""
        if self.way == "exact":
            if self.pairs_scored == 1:
                return "Exact: the only unlinked pair was scored."
            return f"Exact: all {self.pairs_scored:,} unlinked pairs were scored."
        text = (
            f"{_CANDIDATES[self.way]}, rescored exactly: {in_words(self.pairs_scored)} of "
            f"{in_words(self.pairs_possible)} pairs"
        )
        if self.recall is not None:
            # Rounded down: 100 % is said only where nothing was missed.
            percent = math.floor(1000 * self.recall) / 10
            nodes = "node" if self.nodes_sampled == 1 else "nodes"
            text += (
                f"; on {self.nodes_sampled:,} sampled {nodes} they held {percent:.1f} % of the "
                f"exact best {_RECALL_AT}"
            )
        many = self.hubs_left_out
        hubs = "largest hub was" if many == 1 else f"{many:,} largest hubs were"
        return f"{text}. The {hubs} not walked through." if many else f"{text}."


@dataclass(frozen=True, eq=False, kw_only=True)
class Found(SearchStats):
    """The best pairs, and how they were looked for."""

    pairs: Tensor
    """int64 [2, k], best first, equal logits in the order of names."""
    logits: Tensor
    """float [k]"""


def find(scorer: PairScorer, graph: Graph, query: Query, min_logit: float | None = None) -> Found:
    """Return the best pairs that answer a query, best first, and how they were looked for.

    Equal logits are put in the order of names, by code points, first ends first.

    Args:
        scorer: The method.
        graph: Gives the links that are never suggested, the sides and the names.
        query: What is asked for.
        min_logit: What the query's lowest probability comes to; None for no limit.

    Raises:
        ConfigError: The method or the graph does not allow that way.
        GraphContentError: A name is not in the graph.
        ModelFileError: A score is not a finite number.
        ResourceError: It would take longer than an hour.
    """
    search = Search(scorer, graph, query, min_logit)
    best = Best(query.count, graph.names)
    for pairs, logits in search.blocks(best):
        best.add(pairs, logits)
    pairs, logits = best.sorted()
    return Found(**vars(search.account()), pairs=pairs, logits=logits)


class Search:
    """One query on its way: yields what it finds block by block, then says how it looked."""

    def __init__(
        self, scorer: PairScorer, graph: Graph, query: Query, min_logit: float | None = None
    ) -> None:
        """Choose the way; nothing is scored yet.

        The arguments are those of `find`, and so are the errors.
        """
        self._scorer, self._min_logit = scorer, min_logit
        self._space = PairSpace(graph, query)
        lists_all = query.count is None and min_logit is None
        self._products = by_products(scorer, lists_all=lists_all)
        self.way = Task(scorer, graph, self._space, self._products).choose(query.candidates)
        self._candidates: LinearCandidates | TwoHopCandidates | None = None
        if self.way == "two-hop":
            self._candidates = TwoHopCandidates(graph, self._space)
        elif self.way == "linear" and (factors := scorer.factors()) is not None:
            require_finite(*factors)
            self._candidates = LinearCandidates(self._space, factors)
        self._pairs_scored = 0

    def blocks(self, best: Best | None = None) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield all pairs not below `min_logit`, in the order of first end.

        Each block is pairs, int64 [2, p], and logits, float [p]; memory stays bounded. The
        query's `count` plays no part.

        Args:
            best: What the caller adds every block to before it asks for the next: what cannot be
                among the best may then be left out, and any order will do.

        Raises:
            ModelFileError: A score is not a finite number.
        """
        self._pairs_scored = 0
        for pairs in self._pairs(best):
            logits = self._logits(pairs)
            self._pairs_scored += pairs.shape[1]
            if self._min_logit is not None:
                kept = logits >= self._min_logit
                pairs, logits = pairs[:, kept], logits[kept]
            if logits.numel():
                yield pairs, logits

    def _pairs(self, best: Best | None) -> Iterator[Tensor]:
        """Yield the pairs to be scored, int64 [2, p] at once."""
        if self._candidates is not None:
            yield from self._candidates.blocks()
            return
        if self._products is None:
            yield from self._space.blocks(_BLOCK)
            return
        lowest = -math.inf if self._min_logit is None else self._min_logit
        for pairs in near_pairs(self._products, self._space, lowest, best):
            yield from pairs.split(_BLOCK, dim=1) if pairs.shape[1] else ()
        self._pairs_scored = self._space.size  # all of them were, by a product

    def account(self) -> SearchStats:
        """Say how the pairs were looked for; `pairs_scored` counts the last walk of `blocks`."""
        recall, nodes = self._recall()
        return SearchStats(
            way=self.way,
            pairs_scored=self._pairs_scored,
            pairs_possible=self._space.size,
            recall=recall,
            nodes_sampled=nodes,
            hubs_left_out=getattr(self._candidates, "hubs_left_out", 0),
        )

    def _recall(self) -> tuple[float | None, int]:
        """Measure the candidates on some of the first ends: the share of their exact best 100."""
        if self._candidates is None:
            return None, 0
        shuffled = torch.randperm(self._space.rows.numel(), generator=stream(0, "candidates"))
        shares = []
        for row in shuffled[:SAMPLED_NODES].sort().values.tolist():
            tile = slice(row, row + 1), slice(0, self._space.columns.numel())
            allowed = self._space.allowed(tile, once=False)
            logits = self._logits(self._space.pairs(tile, allowed))
            if logits.numel():
                held = self._candidates.holds(tile)[allowed]
                shares.append(share_held(logits, held, _RECALL_AT))
        return (sum(shares) / len(shares), len(shares)) if shares else (None, 0)

    def _logits(self, pairs: Tensor) -> Tensor:
        logits = self._scorer.logits(pairs)
        require_finite(logits)
        return logits


def share_held(logits: Tensor, held: Tensor, count: int) -> float:
    """Return the share of the `count` best that is held; of those tied at the edge any will do."""
    count = min(count, logits.numel())
    edge = logits.topk(count).values[-1]
    above = logits > edge
    tied = min(int((held & (logits == edge)).sum()), count - int(above.sum()))
    return (int((held & above).sum()) + tied) / count


def require_finite(*tensors: Tensor, what: str = "scores") -> None:
    """Refuse what is not a number: it would be passed over, or come first, without a word."""
    if not all(bool(torch.isfinite(tensor).all()) for tensor in tensors):
        raise ModelFileError(
            f"The model gives {what} that are not finite numbers.\n"
            "Train again with a lower `lr`, and look for very large feature values."
        )


class Best:
    """Keeps the pairs with the highest logits; of equal ones those first by name (code points)."""

    def __init__(self, count: int | None, names: Sequence[str]) -> None:
        """Start with nothing.

        Args:
            count: How many to keep; None for all.
            names: The name of every node, for ties.
        """
        self.count = count
        self._names = names
        self._pairs, self._logits = [torch.empty(2, 0, dtype=torch.int64)], [torch.empty(0)]
        self._size = 0
        self._edge = -torch.inf
        self._next_cut = count or 0

    def edge(self) -> float:
        """Return a logit below which nothing is taken any more; minus infinity for none."""
        if self._size >= self._next_cut:  # to choose among many for each pair costs more
            self._cut()
        return self._edge

    def add(self, pairs: Tensor, logits: Tensor) -> None:
        """Take the best of some more pairs, int64 [2, p] and float [p]; no pair may come twice."""
        near = logits >= self._edge
        self._pairs.append(pairs[:, near])
        self._logits.append(logits[near])
        self._size += self._pairs[-1].shape[1]
        if self._size > 2 * (self.count or 0) + _WAITING:
            self._cut()

    def sorted(self) -> tuple[Tensor, Tensor]:
        """Return pairs [2, k] and logits [k], highest first, equal ones in the order of names."""
        self._cut()
        pairs, logits = torch.cat(self._pairs, dim=1), torch.cat(self._logits)
        by_name = self._by_name(pairs)
        order = by_name[logits[by_name].argsort(descending=True, stable=True)]
        return pairs[:, order], logits[order]

    def _cut(self) -> None:
        """Forget all but the best `count`, if there are as many."""
        count = self.count
        if count is None or self._size < count:
            return
        pairs, logits = torch.cat(self._pairs, dim=1), torch.cat(self._logits)
        self._edge = float(logits.topk(count).values[-1])
        above = (logits > self._edge).nonzero().squeeze(1)
        tied = (logits == self._edge).nonzero().squeeze(1)
        if above.numel() + tied.numel() > count:  # only then do names matter
            tied = tied[self._by_name(pairs[:, tied])][: count - above.numel()]
        kept = torch.cat([above, tied])
        self._pairs, self._logits, self._size = [pairs[:, kept]], [logits[kept]], count
        self._next_cut = count + count // 8 + 1

    def _by_name(self, pairs: Tensor) -> Tensor:
        """Return the permutation that sorts pairs by the names of their ends, first ends first."""
        present, place = torch.unique(pairs, return_inverse=True)
        if 4 * present.numel() > len(self._names):
            rank = self._rank[present]
        else:  # only the names that occur are compared
            rank = _rank([self._names[node] for node in present.tolist()])
        first, second = rank[place]
        return (first * len(self._names) + second).argsort()

    @cached_property
    def _rank(self) -> Tensor:
        return _rank(self._names)


def _rank(names: Sequence[str]) -> Tensor:
    """Return the place of each name when they are sorted."""
    order = sorted(range(len(names)), key=names.__getitem__)
    return torch.tensor(order, dtype=torch.int64).argsort()


def near_pairs(
    scorer: ProductScorer, space: PairSpace, lowest: float, best: Best | None = None
) -> Iterator[Tensor]:
    """Yield every pair that may be an answer, and hardly any other, int64 [2, p] at once.

    Args:
        scorer: The method.
        space: The pairs in question.
        lowest: Nothing below this logit is an answer.
        best: Where answers are collected while this goes on; if only some are wanted, the more it
            holds, the fewer pairs are yielded. Without, pairs come in the order of first end,
            second end.
    """
    if not space.rows.numel() or not space.columns.numel():
        return
    on_cpu = scorer.rows(space.rows[:1], space.columns[:1]).device.type == "cpu"
    cells, height = (_CELLS_CPU, _HEIGHT_CPU) if on_cpu else (_CELLS_GPU, _HEIGHT_GPU)
    count = None if best is None else best.count

    def near(tile: Tile, lowest: float) -> Tensor:
        pairs, products = _above(scorer, space, tile, lowest - scorer.rounding)
        if count is None or products.numel() <= count:
            return pairs
        # So many are no more than `rounding` below this, and the others must be, too.
        last = float(products.topk(count).values[-1]) - scorer.rounding
        return pairs[:, products >= last - scorer.rounding]

    def edge() -> float:
        return lowest if best is None else max(lowest, best.edge())

    tiles = space.tiles(cells, 1 if best is None else min(height, cells))
    waiting: deque[Future[Tensor]] = deque()
    # How precisely a GPU multiplies is one setting for all threads: never two at a time.
    number = torch.get_num_threads() if on_cpu else 0
    with workers() as pool:
        for tile in tiles:
            waiting.append(pool.submit(near, tile, edge()))
            if len(waiting) > number:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _above(
    scorer: ProductScorer, space: PairSpace, tile: Tile, edge: float
) -> tuple[Tensor, Tensor]:
    """Return the pairs of a rectangle that are allowed and not below `edge`, and their products."""
    rows, columns = space.rows[tile[0]], space.columns[tile[1]]
    products = scorer.rows(rows, columns).flatten()
    if products.is_cpu:  # several times faster than torch where nearly all are below
        place = torch.from_numpy(np.flatnonzero(products.numpy() >= edge))
    else:
        place = (products >= edge).nonzero().squeeze(1)
    products, place = products[place].cpu(), place.cpu()
    pairs = torch.stack([rows[place // columns.numel()], columns[place % columns.numel()]])
    held = space.holds(pairs)
    return pairs[:, held], products[held]
