"""From a question in names to an answer in names: scores, probabilities, evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cgcl.errors import ConfigError, GraphContentError, ModelFileError
from cgcl.evidence.evidence import evidence_of
from cgcl.evidence.explain import explained
from cgcl.evidence.messages import Explainable, rests_on
from cgcl.evidence.sorted_lists import SortedLists, neighbour_lists
from cgcl.graph import Graph
from cgcl.methods.method import PairScorer
from cgcl.metrics.calibration import Calibration
from cgcl.predict.links import Links
from cgcl.search.query import Query
from cgcl.search.search import Search, find
from cgcl.search.way import Asked

__all__ = ["Answers", "Ask", "Pairs", "checked_pairs"]

Pairs = Sequence[tuple[str, str]]


@dataclass(frozen=True, kw_only=True)
class Ask:
    """A question in the user's names."""

    count: int | None = None
    """How many links at most; None for all."""
    sources: Sequence[str] | None = None
    """Only links with one end here; that end comes first."""
    targets: Sequence[str] | None = None
    """Only links whose other end is here."""
    exclude: Pairs = ()
    """Pairs never to suggest, either way round; names that are not in the graph do no harm."""
    min_probability: float | None = None
    """Nothing less probable than this."""
    prior: float | None = None
    """The share of unknown pairs that are links; None for the calibration's own."""
    candidates: Asked = "auto"
    """Which pairs to score: `exact`, `linear`, `two-hop`, or `auto`."""
    explain: bool = False
    """Whether to say in words what speaks for each link."""


class Answers:
    """Answers questions about one graph with one fitted method."""

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
        linked = self._neighbours.contains(nodes[0].numpy(), nodes[1].numpy())
        evidence: dict[str, list[Any]] = {"known": linked.tolist()}
        if explain:
            evidence |= self._evidence(nodes, explain=True)
        return self._links(nodes, logits, prior, evidence)

    def find(self, ask: Ask) -> Links:
        """Return the best new links, best first, equal scores in the order of names.

        Raises:
            GraphContentError: A name is not in the graph.
            ConfigError: A number is out of range, or there are no probabilities to go by.
            ResourceError: The search would take hours.
        """
        found = find(self._scorer, self._graph, self._query(ask), ask.candidates)
        evidence = self._evidence(found.pairs, explain=ask.explain)
        return self._links(found.pairs, found.logits, ask.prior, evidence, found.sentence)

    def stream(self, ask: Ask, tell: Callable[[str], None] = lambda _: None) -> Iterator[Links]:
        """Yield every new link that the question admits, block by block, in the order of nodes.

        Memory stays bounded however many there are. `count` plays no part, and evidence is only
        given if the question asks to explain.

        Args:
            ask: The question.
            tell: Told after the last block which pairs were scored, in a sentence.

        Raises:
            GraphContentError: A name is not in the graph.
            ConfigError: A number is out of range, or there are no probabilities to go by.
            ResourceError: The search would take hours.
        """
        query = replace(self._query(ask), count=None)
        search = Search(self._scorer, self._graph, query, ask.candidates)
        for pairs, logits in search.blocks():
            evidence = self._evidence(pairs, explain=True) if ask.explain else {}
            yield self._links(pairs, logits, ask.prior, evidence)
        tell(search.account().sentence)

    def _query(self, ask: Ask) -> Query:
        graph = self._graph
        exclude = checked_pairs(ask.exclude)
        known = [p for p in exclude if p[0] in graph.node_of and p[1] in graph.node_of]
        excluded = [graph.nodes_named([pair[end] for pair in known]) for end in (0, 1)]
        return Query(
            count=ask.count,
            sources=None if ask.sources is None else graph.nodes_named(ask.sources),
            targets=None if ask.targets is None else graph.nodes_named(ask.targets),
            excluded=torch.stack(excluded) if known else None,
            min_logit=self._min_logit(ask),
        )

    def _min_logit(self, ask: Ask) -> float | None:
        if ask.min_probability is None:
            return None
        if self._calibration is None:
            raise ConfigError(
                "A lowest probability was asked for, but this predictor has none: it was trained "
                "without validation links.\nTrain with `val=0.05`, or ask without."
            )
        logit = self._calibration.logit_for(ask.min_probability, ask.prior)
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
        evidence = evidence_of(self._graph, pairs, neighbours=self._neighbours)
        columns = evidence.columns()
        if not explain:
            return columns
        names = self._graph.names
        rests = (
            [None] * pairs.shape[1]
            if self._model is None
            else rests_on(self._model, self._graph, pairs, neighbours=self._neighbours)
        )
        columns["because"] = [
            explained((names[one], names[other]), evidence, number, rests[number])
            for number, (one, other) in enumerate(pairs.T.tolist())
        ]
        return columns

    @cached_property
    def _neighbours(self) -> SortedLists:
        return neighbour_lists(self._graph)


def checked_pairs(pairs: Any) -> list[tuple[str, str]]:  # noqa: ANN401
    """Return what should be pairs of names as a list.

    Raises:
        GraphContentError: Something is not a pair of names.
    """
    found: list[tuple[str, str]] = []
    for pair in pairs if isinstance(pairs, Iterable) else [pairs]:
        if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
            raise GraphContentError(
                "Give a list of pairs of names, such as [('Anna', 'Bob'), ('Anna', 'Eve')]."
            )
        found.append((pair[0], pair[1]))
    return found


def _to_scores(logits: Tensor) -> npt.NDArray[np.float32]:
    if not torch.isfinite(logits).all():
        raise ModelFileError(
            "The model gives scores that are not finite numbers.\n"
            "Train again with a lower `lr`, and look for very large feature values."
        )
    # In float32 the last bit of a score depends on how many others are computed beside it.
    return torch.sigmoid(logits.double()).float().numpy()
