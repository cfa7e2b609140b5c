"""From a query in names to an answer in names: scores, probabilities, evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

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


class QueryEngine:
    """Answers queries about one graph with one fitted method."""

    def __init__(
        self,
        graph: Graph,
        scorer: PairScorer,
        calibration: Calibration | None = None,
        model: Explainable | None = None,
    ) -> None:
        """Take what is needed to answer; nothing is computed yet.

        Args:
            graph: All known links, and the names.
            scorer: The method.
            calibration: What turns logits into probabilities; None if there is nothing.
            model: The network behind the scorer, to say which links a score rests on; None if the
                method is another.
        """
        self._graph = graph
        self._scorer = scorer
        self._calibration = calibration
        self._model = model

    def score(self, pairs: Pairs, prior: float | None = None, *, explain: bool = False) -> Links:
        """Return scores and probabilities of given pairs in their order, if asked with evidence.

        The column `known` says which of them are links already.

        Raises:
            GraphContentError: A name is not in the graph, or something is not a pair of names.
            ConfigError: `prior` is not between 0 and 1.
        """
        pairs = checked_pairs(pairs)
        ends = [self._graph.nodes_named([pair[end] for pair in pairs]) for end in (0, 1)]
        nodes = torch.stack(ends)
        logits = self._scorer.logits(nodes)
        evidence: dict[str, list[Any]] = {"known": self._adjacency.contains(*nodes).tolist()}
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
        found = find(self._scorer, self._graph, query, self._min_logit(query))
        evidence = self._evidence(found.pairs, explain=query.explain)
        return self._links(found.pairs, found.logits, query.prior, evidence, found.sentence)

    def stream(self, query: Query, tell: Callable[[str], None] = lambda _: None) -> Iterator[Links]:
        """Yield every new link that the query admits, block by block, in the order of nodes.

        Memory stays bounded however many there are. `count` plays no part, and evidence is only
        given if the query asks to explain. The errors are those of `answer`.

        Args:
            query: The query.
            tell: Told after the last block which pairs were scored, in a sentence.
        """
        min_logit = self._min_logit(query)
        search = Search(self._scorer, self._graph, replace(query, count=None), min_logit)
        for pairs, logits in search.blocks():
            evidence = self._evidence(pairs, explain=True) if query.explain else {}
            yield self._links(pairs, logits, query.prior, evidence)
        tell(search.account().sentence)

    def _min_logit(self, query: Query) -> float | None:
        if query.min_probability is None:
            return None
        if self._calibration is None:
            raise ConfigError(
                "A lowest probability was asked for, but this predictor has none: it was trained "
                "without validation links.\nTrain with `val=0.05`, or ask without."
            )
        logit = self._calibration.logit_for(query.min_probability, query.prior)
        # Rounded up: logits are float32, and the one just below does not reach the probability.
        near = np.float32(logit)
        return float(near if float(near) >= logit else np.nextafter(near, np.float32(np.inf)))

    def _links(
        self,
        pairs: Tensor,
        logits: Tensor,
        prior: float | None,
        evidence: dict[str, list[Any]],
        found: str = "",
    ) -> Links:
        names = self._graph.names
        sources, targets = (tuple(names[node] for node in nodes) for nodes in pairs.tolist())
        probabilities = base_rate = intervals = None
        if self._calibration is not None:
            base_rate = self._calibration.prior if prior is None else prior
            probabilities = self._calibration.probability(logits, prior)
            intervals = self._calibration.interval(logits, prior)
        scores = _to_scores(logits)
        return Links(sources, targets, scores, probabilities, evidence, found, base_rate, intervals)

    def _evidence(self, pairs: Tensor, *, explain: bool) -> dict[str, list[Any]]:
        """Return what speaks for each pair as columns, if asked with a sentence."""
        evidence = evidence_of(self._graph, pairs, adjacency=self._adjacency)
        columns = evidence.columns()
        if explain:
            remover, names = self._remover, self._graph.names
            rests = [None] * pairs.shape[1] if remover is None else remover.edge_importance(pairs)
            columns["because"] = [
                explained((names[one], names[other]), evidence, number, rests[number])
                for number, (one, other) in enumerate(pairs.T.tolist())
            ]
        return columns

    @cached_property
    def _adjacency(self) -> Adjacency:
        return Adjacency.from_pairs(self._graph.edges, self._graph.num_nodes)

    @cached_property
    def _remover(self) -> LinkRemover | None:
        if self._model is None:
            return None
        return LinkRemover(self._model, self._graph, self._adjacency)


def _to_scores(logits: Tensor) -> npt.NDArray[np.float32]:
    require_finite(logits)
    # In float32 the last bit of a score depends on how many others are computed beside it.
    return torch.sigmoid(logits.double()).float().numpy()
