"""The search for the best new links: exact while that is cheap, else among candidates."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property

import torch
from torch import Tensor

from cgcl.errors import ModelFileError
from cgcl.graph import Graph
from cgcl.methods.method import PairScorer
from cgcl.search.best import Best
from cgcl.search.candidates import LinearCandidates
from cgcl.search.found import RECALL_AT, Account, Found
from cgcl.search.pair_space import PairSpace
from cgcl.search.products import by_products, near_pairs
from cgcl.search.query import Query
from cgcl.search.two_hop import TwoHopCandidates
from cgcl.search.way import SAMPLED_NODES, Asked, choose_way
from cgcl.seeds import stream

__all__ = ["Search", "find", "share_held"]

# Pairs listed at once by exact scoring; the scorer may cut them up further.
_BLOCK = 2**18


def find(
    scorer: PairScorer,
    graph: Graph,
    query: Query,
    way: Asked = "auto",
    *,
    per_node: int | None = None,
    seed: int = 0,
) -> Found:
    """Return the best pairs that answer a query, best first, and how they were looked for.

    Equal logits are put in the order of names, by code points, first ends first.

    Args:
        scorer: The method.
        graph: Gives the links that are never suggested, the sides and the names.
        query: What is asked for.
        way: `exact`, `linear`, `two-hop`, or `auto` to leave it to the amount of work.
        per_node: How many candidates each node lists; None for the usual number.
        seed: For the nodes that the candidates' recall is measured on.

    Raises:
        ConfigError: The method or the graph does not allow that way.
        GraphContentError: A node number is not in the graph.
        ModelFileError: A score is not a finite number.
        ResourceError: It would take longer than an hour.
    """
    search = Search(scorer, graph, query, way, per_node=per_node, seed=seed)
    best = Best(query.count, graph.names)
    for pairs, logits in search.blocks(best):
        best.add(pairs, logits)
    pairs, logits = best.sorted()
    return Found(**vars(search.account()), pairs=pairs, logits=logits)


class Search:
    """One query on its way: yields what it finds block by block, then says how it looked."""

    def __init__(
        self,
        scorer: PairScorer,
        graph: Graph,
        query: Query,
        way: Asked = "auto",
        *,
        per_node: int | None = None,
        seed: int = 0,
    ) -> None:
        """Choose the way; nothing is scored yet.

        The arguments are those of `find`, and so are the errors.
        """
        self._scorer = scorer
        self._query = query
        self._seed = seed
        self._space = PairSpace(graph, query)
        self.way = choose_way(scorer, graph, self._space, way, per_node)
        self._candidates: LinearCandidates | TwoHopCandidates | None = None
        if self.way == "two-hop":
            self._candidates = TwoHopCandidates(graph, self._space)
        elif self.way == "linear" and (factors := scorer.factors()) is not None:
            _require_finite(*factors)
            self._candidates = LinearCandidates(self._space, factors, per_node)
        self._pairs_scored = 0

    def blocks(self, best: Best | None = None) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield all pairs not below the query's `min_logit`, in the order of first end.

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
            if self._query.min_logit is not None:
                kept = logits >= self._query.min_logit
                pairs, logits = pairs[:, kept], logits[kept]
            if logits.numel():
                yield pairs, logits

    def _pairs(self, best: Best | None) -> Iterator[Tensor]:
        """Yield the pairs to be scored, int64 [2, p] at once."""
        if self._candidates is not None:
            yield from self._candidates.blocks()
            return
        best = None if best is None or best.count is None else best
        products, lowest = by_products(self._scorer), self._query.min_logit
        if products is None or (best is None and lowest is None):  # every pair is an answer
            yield from self._space.blocks(_BLOCK)
            return
        near = near_pairs(products, self._space, -math.inf if lowest is None else lowest, best)
        for pairs in near:
            yield from pairs.split(_BLOCK, dim=1) if pairs.shape[1] else ()
        self._pairs_scored = self._space.size  # all of them were, by a product

    def account(self) -> Account:
        """Say how the pairs were looked for; `pairs_scored` counts the last walk of `blocks`."""
        recall, nodes = self._recall
        return Account(
            way=self.way,
            pairs_scored=self._pairs_scored,
            pairs_possible=self._space.size,
            recall=recall,
            nodes_sampled=nodes,
            hubs_left_out=getattr(self._candidates, "hubs_left_out", 0),
        )

    @cached_property
    def _recall(self) -> tuple[float | None, int]:
        """Measure the candidates on some of the first ends: the share of their exact best 100."""
        if self._candidates is None:
            return None, 0
        shuffled = torch.randperm(
            self._space.rows.numel(), generator=stream(self._seed, "candidates")
        )
        shares = []
        for row in shuffled[:SAMPLED_NODES].sort().values.tolist():
            tile = slice(row, row + 1), slice(0, self._space.columns.numel())
            allowed = self._space.allowed(tile, once=False)
            logits = self._logits(self._space.pairs(tile, allowed))
            if logits.numel():
                held = self._candidates.holds(tile)[allowed]
                shares.append(share_held(logits, held, RECALL_AT))
        return (sum(shares) / len(shares), len(shares)) if shares else (None, 0)

    def _logits(self, pairs: Tensor) -> Tensor:
        logits = self._scorer.logits(pairs)
        _require_finite(logits)
        return logits


def share_held(logits: Tensor, held: Tensor, count: int) -> float:
    """Return the share of the `count` best that is held; of those tied at the edge any will do."""
    count = min(count, logits.numel())
    edge = logits.topk(count).values[-1]
    above = logits > edge
    tied = min(int((held & (logits == edge)).sum()), count - int(above.sum()))
    return (int((held & above).sum()) + tied) / count


def _require_finite(*tensors: Tensor) -> None:
    """Refuse what is not a number: it would be passed over, or come first, without a word."""
    if not all(bool(torch.isfinite(tensor).all()) for tensor in tensors):
        raise ModelFileError(
            "The model gives scores that are not finite numbers.\n"
            "Train again with a lower `lr`, and look for very large feature values."
        )
