"""What a score of CGCL that ranks rests on, against encoding the whole graph again."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cgcl.evidence import messages
from cgcl.evidence.messages import rests_on, without_each_link
from cgcl.graph import Graph
from cgcl.graph.features import Structure
from cgcl.methods.cgcl_rank import RankingLearner
from cgcl.methods.settings import RankSettings
from cgcl.predict import LinkPredictor
from cgcl.seeds import seeded, stream
from cgcl.testing.graphs import groups
from cgcl.train.once import known_of


def a_learner(num_features: int, seed: int, **told) -> RankingLearner:
    """Random weights, and other random averages: it must be those that count."""
    with seeded(seed, "weights"):
        learner = RankingLearner(num_features, RankSettings(hidden=6, **told))
        for weights in learner.state_dict().values():
            weights.normal_()
    return learner


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Up to nine nodes with features, or with links for features: of some nodes none speaks."""
    num_nodes = draw(st.integers(2, 9))
    node = st.integers(0, num_nodes - 1)
    links = draw(st.lists(st.tuples(node, node), max_size=14))
    pairs = torch.tensor(links, dtype=torch.int64).reshape(-1, 2).T
    names = [f"n{i}" for i in range(num_nodes)]
    if draw(st.booleans()):
        x = torch.randn(num_nodes, 3, generator=stream(draw(st.integers(0, 99)), "x"))
        return Graph.from_pairs("toy", names, pairs, x)
    bare = Graph.from_pairs("toy", names, pairs)
    feature = torch.arange(num_nodes) % 4 - 1
    return replace(bare, structure=Structure(feature, 3, 2 * bare.num_edges))


def encoded_again(
    learner: RankingLearner, graph: Graph, pair: list[int], gone: set[int] | None
) -> float:
    links = [link for link in graph.edges.T.tolist() if set(link) != gone]
    assert len(links) == graph.num_edges - (gone is not None)
    left = torch.tensor(links, dtype=torch.int64).reshape(-1, 2).T
    scorer = learner.scorer(known_of(graph, left, learner))
    return float(scorer.logits(torch.tensor(pair).reshape(2, 1)))


told = st.fixed_dictionaries(
    {
        "layers": st.integers(1, 3),
        "self_term": st.booleans(),
        "signatures": st.sampled_from([0, 5]),
        "average": st.sampled_from([0.0, 0.9]),
    }
)


@given(graphs(), st.integers(0, 99), told)
@settings(max_examples=60, deadline=None)
def test_each_removal_equals_encoding_the_graph_again_without_the_link(
    graph: Graph, seed: int, told: dict
) -> None:
    learner = a_learner(3, seed, **told)
    nodes = torch.arange(graph.num_nodes)
    pairs = torch.cartesian_prod(nodes, nodes).T.contiguous()  # with itself, too
    linked = [set(link) for link in graph.edges.T.tolist()]
    for block in without_each_link(learner, graph, pairs):
        for number, pair in enumerate(pairs[:, block.pairs].T.tolist()):
            again = encoded_again(learner, graph, pair, None)
            assert math.isclose(block.logits[number], again, rel_tol=1e-4, abs_tol=1e-4)
            mine = (block.pair == number).nonzero()[0]
            gone = [{int(block.end[at]), int(block.neighbour[at])} for at in mine]
            assert sorted(map(sorted, gone)) == sorted(
                sorted(link) for link in linked if link & set(pair)
            )
            for at, link in zip(mine, gone, strict=True):
                again = encoded_again(learner, graph, pair, link)
                assert math.isclose(block.logits_without[at], again, rel_tol=1e-4, abs_tol=1e-4)


def test_reasons_are_the_links_whose_loss_costs_most() -> None:
    graph = groups()
    learner = a_learner(graph.num_features, 1)
    pairs = torch.tensor([[0, 3], [7, 20]])
    for pair, answer in zip(pairs.T.tolist(), rests_on(learner, graph, pairs, 3), strict=True):
        whole = encoded_again(learner, graph, pair, None)
        links = [link for link in graph.edges.T.tolist() if set(link) & set(pair)]
        drops = [whole - encoded_again(learner, graph, pair, set(link)) for link in links]
        drops = sorted(drop for drop in drops if drop > 0)[::-1]
        assert answer.tried == answer.links == len(links)
        assert [reason.drop for reason in answer.reasons] == pytest.approx(drops[:3], abs=1e-4)
        for reason in answer.reasons:
            link = {graph.node_of[reason.end], graph.node_of[reason.neighbour]}
            logit = encoded_again(learner, graph, pair, link)
            assert reason.score_without == pytest.approx(1 / (1 + math.exp(-logit)), abs=1e-4)


def test_what_plays_no_part_is_no_reason_not_even_by_rounding() -> None:
    chain = torch.stack([torch.arange(9), torch.arange(1, 10)])
    x = torch.randn(10, 3, generator=stream(0, "x"))
    graph = Graph.from_pairs("chain", [f"n{i}" for i in range(10)], chain, x)
    learner = a_learner(3, 0, norm=False, popularity=False)
    with torch.no_grad():
        learner.get_buffer("average_decode_scale").zero_()  # every score is 0
        learner.offset.zero_()
    (answer,) = rests_on(learner, graph, torch.tensor([[0], [5]]))
    assert (answer.score, answer.reasons, answer.tried) == (0.5, (), 3)


def test_a_hub_is_capped_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    leaves = torch.arange(1, 8)
    x = torch.randn(9, 3, generator=stream(0, "x"))
    hub = Graph.from_pairs("hub", [f"n{i}" for i in range(9)], torch.stack([leaves * 0, leaves]), x)
    monkeypatch.setattr(messages, "MOST_TRIED_AROUND", 4)
    (answer,) = rests_on(a_learner(3, 0), hub, torch.tensor([[0], [8]]))
    assert (answer.tried, answer.links) == (4, 7)


def test_nothing_is_left_changed() -> None:
    graph = groups()
    learner = a_learner(graph.num_features, 1).train()
    before = {name: value.clone() for name, value in learner.state_dict().items()}
    rests_on(learner, graph, torch.tensor([[0], [7]]))
    assert learner.training
    for name, value in learner.state_dict().items():
        assert torch.equal(value, before[name])


@pytest.mark.parametrize("has_features", [True, False])
def test_a_predictor_says_what_its_suggestions_rest_on(has_features: bool) -> None:
    graph = groups()
    graph = graph if has_features else Graph(graph.title, graph.names, graph.edges)
    predictor = LinkPredictor("cgcl-rank", hidden=8, epochs=5, threads=1, device="cpu").fit(graph)
    for sentence in predictor.top(3, explain=True).evidence["because"]:
        assert "The score rests" in sentence
    some = graph.names[0]
    joined = predictor.with_new_nodes(
        ["new"], [("new", some)], None if graph.x is None else graph.x[:1]
    )
    (sentence,) = joined.links_of("new", 1, explain=True).evidence["because"]
    assert "new and " in sentence
    assert "The score rests" in sentence
