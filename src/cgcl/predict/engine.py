"""From a query in names to an answer in names: scores, probabilities, evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from cgcl.errors import ConfigError
from cgcl.graph import Graph
from cgcl.graph.adjacency import Adjacency
from cgcl.methods.method import PairScorer
from cgcl.metrics.calibration import Calibration
from cgcl.predict.edge_importance import Explainable, LinkRemover
from cgcl.predict.evidence import evidence_of, explained
from cgcl.predict.links import Links
from cgcl.predict.query import Pairs, Query, checked_pairs
from cgcl.predict.search import Search, find, require_finite

_Columns: TypeAlias = dict[str, list[Any]]


@dataclass(frozen=True, eq=False)
class QueryEngine:
    """Answers queries about one graph with one fitted method."""

    graph: Graph
    """All known links, and the names."""
    scorer: PairScorer
    calibration: Calibration | None = None
    """What turns logits into probabilities; None if there is nothing."""
    model: nn.Module | None = None
    """What is behind the scorer, to say which links a score rests on if it can."""

    def score(self, pairs: Pairs, prior: float | None = None, *, explain: bool = False) -> Links:
        """Return scores and probabilities of given pairs in their order, if asked with evidence.

        The column `known` says which of them are links already.

        Raises:
            GraphContentError: A name is not in the graph, or something is not a pair of names.
            ConfigError: `prior` is not between 0 and 1.
        """
        pairs = checked_pairs(pairs)
        ends = [self.graph.nodes_named([pair[end] for pair in pairs]) for end in (0, 1)]
        nodes = torch.stack(ends)
        logits = self.scorer.logits(nodes)
        evidence: _Columns = {"known": self._adjacency.contains(*nodes).tolist()}
        if explain:
            evidence |= self._evidence(nodes, explain=True)
        return self._links(nodes, logits, prior, evidence)

    def answer(self, query: Query) -> Links:
        """Return the best new links, best first, equal scores in the order of names.

        Raises:
            GraphContentError: A name is not in the graph.
            ConfigError: A probability is out of range, or there are none to go by.
            ResourceError: The search would take hours.
        """
        found = find(self.scorer, self.graph, query, self._min_logit(query))
        evidence = self._evidence(found.pairs, explain=query.explain)
        links = self._links(found.pairs, found.logits, query.prior, evidence)
        return replace(links, found=found.sentence)

    def stream(self, query: Query, tell: Callable[[str], None] = lambda _: None) -> Iterator[Links]:
        """Yield every new link that the query admits, block by block, in the order of nodes.

        Memory stays bounded however many there are. `count` plays no part, and evidence is only
        given if the query asks to explain. The errors are those of `answer`.

        Args:
            query: The query.
            tell: Told after the last block which pairs were scored, in a sentence.
        """
        query = replace(query, count=None)
        search = Search(self.scorer, self.graph, query, self._min_logit(query))
        for pairs, logits in search.blocks():
            evidence = self._evidence(pairs, explain=True) if query.explain else {}
            yield self._links(pairs, logits, query.prior, evidence)
        tell(search.account().sentence)

    def _min_logit(self, query: Query) -> float | None:
        if query.min_probability is None:
            return None
        if self.calibration is None:
            raise ConfigError(
                "A lowest probability was asked for, but this predictor has none: it was trained "
                "without validation links.\nTrain with `val=0.05`, or ask without."
            )
        logit = self.calibration.logit_for(query.min_probability, query.prior)
        # Rounded up: logits are float32, and the one just below does not reach the probability.
        near = np.float32(logit)
        return float(near if float(near) >= logit else np.nextafter(near, np.float32(np.inf)))

    def _links(
        self, pairs: Tensor, logits: Tensor, prior: float | None, evidence: _Columns
    ) -> Links:
        require_finite(logits)
        names, chances = self.graph.names, self.calibration
        sources, targets = (tuple(names[node] for node in nodes) for nodes in pairs.tolist())
        # In float32 the last bit of a score depends on how many others are computed beside it.
        scores = torch.sigmoid(logits.double()).float().numpy()
        links = Links(sources, targets, scores, evidence=evidence)
        if chances is None:
            return links
        return replace(
            links,
            probabilities=chances.probability(logits, prior),
            prior=chances.prior if prior is None else prior,
            intervals=chances.interval(logits, prior),
        )

    def _evidence(self, pairs: Tensor, *, explain: bool) -> _Columns:
        """Return what speaks for each pair as columns, if asked with a sentence."""
        evidence = evidence_of(self.graph, pairs, self._adjacency)
        columns = evidence.columns()
        if explain:
            remover, names = self._remover, self.graph.names
            rests = [None] * pairs.shape[1] if remover is None else remover.edge_importance(pairs)
            columns["because"] = [
                explained((names[one], names[other]), evidence, number, rests[number])
                for number, (one, other) in enumerate(pairs.T.tolist())
            ]
        return columns

    @cached_property
    def _adjacency(self) -> Adjacency:
        return Adjacency.from_pairs(self.graph.edges, self.graph.num_nodes)

    @cached_property
    def _remover(self) -> LinkRemover | None:
        if not isinstance(self.model, Explainable):
            return None
        return LinkRemover(self.model, self.graph, self._adjacency)
