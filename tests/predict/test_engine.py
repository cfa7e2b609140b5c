"""From names to scores, probabilities and lists: what holds for every answer."""

import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import torch

from cgcl.errors import ConfigError, NotFittedError
from cgcl.graph import Graph
from cgcl.methods.method import PairScorer
from cgcl.methods.scoring import DecoderScorer
from cgcl.predict import LinkPredictor, Links, Query
from cgcl.predict.engine import QueryEngine
from cgcl.seeds import stream
from cgcl.testing.graphs import groups

SETTINGS = {"hidden": 8, "epochs": 20, "evaluate_every": 5, "threads": 1, "lr": 0.05}


@pytest.fixture(scope="module")
def graph() -> Graph:
    return groups([f"n{i:02d}" for i in range(36)])


@pytest.fixture(scope="module")
def fitted(graph: Graph) -> LinkPredictor:
    return LinkPredictor("cgcl", **SETTINGS, val=0.15).fit(graph)


@pytest.fixture(scope="module")
def bare(graph: Graph) -> LinkPredictor:
    """Without features and without validation links."""
    return LinkPredictor("cgcl", **SETTINGS, val=0.0).fit(replace(graph, x=None))


@pytest.fixture(scope="module")
def pairs(graph: Graph) -> list[tuple[str, str]]:
    return list(combinations(graph.names, 2))


def rows(links: Links) -> list[tuple[str, str, float]]:
    return [(link.source, link.target, link.score) for link in links]


def test_probabilities_are_what_the_calibration_makes_of_the_logits(
    fitted: LinkPredictor, graph: Graph, pairs
) -> None:
    scorer = DecoderScorer(fitted.model_.decode, torch.from_numpy(fitted.embeddings()))
    logits = scorer.logits(torch.combinations(torch.arange(graph.num_nodes)).T)
    assert fitted.calibration_ is not None
    for prior in (None, 0.2):
        expected = fitted.calibration_.probability(logits, prior)
        np.testing.assert_allclose(fitted.probability(pairs, prior), expected, rtol=1e-9)
    np.testing.assert_allclose(fitted.score(pairs), 1 / (1 + np.exp(-logits.numpy())), rtol=1e-6)
    usual = fitted.score_pairs(pairs[:2])
    assert usual.prior == fitted.calibration_.prior
    assert fitted.score_pairs(pairs[:2], prior=0.2).prior == 0.2


@pytest.mark.parametrize("prior", [0, 1, -0.1, 1.5, math.nan, math.inf, True])
def test_a_base_rate_that_is_no_share_is_refused_everywhere(fitted, pairs, prior) -> None:
    for ask in (
        lambda: fitted.probability(pairs[:1], prior),
        lambda: fitted.top(3, prior=prior),
        lambda: fitted.top(3, prior=prior, min_probability=0.1),
        lambda: list(fitted.stream(Query(prior=prior))),
    ):
        with pytest.raises(ConfigError, match="must be above 0 and below 1"):
            ask()


@pytest.mark.parametrize(
    "options",
    [
        {"sources": ["n03", "n04"], "targets": ["n04", "n03", "n11"]},
        {"min_probability": 0.2, "prior": 0.2},
        {"candidates": "two-hop"},
        {"prior": 0.3, "candidates": "linear"},
    ],
)
def test_the_stream_holds_what_top_holds_in_the_order_of_nodes(
    fitted: LinkPredictor, monkeypatch, options
) -> None:
    everything = {(a.source, a.target): a.probability for a in fitted.top(10**6, **options)}
    monkeypatch.setattr("cgcl.predict.search._BLOCK", 50)
    blocks = list(fitted.stream(Query(**options)))
    streamed = [((a.source, a.target), a.probability) for block in blocks for a in block]
    assert len(streamed) == len(everything) > 2
    assert dict(streamed) == pytest.approx(everything, rel=1e-5)
    sources = [source for (source, _), _ in streamed]
    assert sources == sorted(sources)
    assert all(not block.evidence for block in blocks)


def test_the_links_of_a_node_are_top_with_that_source_and_a_stream_explains_alike(fitted) -> None:
    mine, same = fitted.links_of("n17", 7, explain=True), fitted.top(7, sources=["n17"])
    assert rows(mine) == rows(same)
    assert (mine.found, len(mine)) == (same.found, 7)
    block = next(iter(fitted.stream(Query(explain=True, sources=["n17"]))))
    assert set(block.evidence) == {"shared_neighbours", "distance", "because"}
    assert set(mine.evidence["because"]) <= set(block.evidence["because"])


def test_nothing_below_the_lowest_probability_and_nothing_left_out(fitted: LinkPredictor) -> None:
    """Also where the limit falls on a link, or a hair above it."""
    everything = fitted.top(10**6, prior=0.2)
    chances = everything.probabilities
    assert chances is not None
    for place in (0, 3, 50, len(chances) - 1):
        at = float(chances[place])
        for limit in (at, float(np.nextafter(at, 1)), float(np.nextafter(at, 0))):
            kept = fitted.top(10**6, prior=0.2, min_probability=limit)
            assert rows(kept) == rows(everything)[: int((chances >= limit).sum())], limit


class Fixed(PairScorer):
    """Gives every pair a logit of its own, whatever stands beside it."""

    cost_per_pair = 1.0

    def logits(self, pairs: torch.Tensor) -> torch.Tensor:
        return torch.randn(36, 36, generator=stream(0, "table"))[pairs[0], pairs[1]]


def test_scores_keep_every_bit_whatever_stands_beside_them(graph: Graph, pairs) -> None:
    answers = QueryEngine(graph, Fixed())
    together = answers.score(pairs).scores
    alone = [answers.score([pair]).scores[0] for pair in pairs]
    assert np.array_equal(together, alone)
    everything = rows(answers.answer(Query(count=10**6)))
    for count in (1, 3, 10, 17):
        assert rows(answers.answer(Query(count=count))) == everything[:count]


def test_without_validation_links_there_are_scores_but_no_probabilities(
    bare: LinkPredictor, pairs
) -> None:
    assert bare.calibration_ is bare.val_ is None
    assert bare.score(pairs).shape == (len(pairs),)
    with pytest.raises(NotFittedError, match="has no probabilities: it was fitted without"):
        bare.probability(pairs)
    top = bare.top(3)
    assert (top.probabilities, top.prior, top.expected) == (None, None, None)
    assert [link.probability for link in top] == [None] * 3
    for ask in (bare.answer, lambda query: list(bare.stream(query))):
        with pytest.raises(ConfigError, match="A lowest probability was asked for"):
            ask(Query(min_probability=0.1))
    assert bare.top(3, prior=0.2).to_csv() == top.to_csv()
