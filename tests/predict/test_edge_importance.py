"""What a score rests on, against encoding the whole graph again without a link."""

import math
from dataclasses import replace
from itertools import chain

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cgcl.graph import Graph
from cgcl.graph.features import Structure
from cgcl.methods.cgcl_rank import RankingLearner
from cgcl.methods.scoring import decode_pairs, embed
from cgcl.methods.settings import RankSettings
from cgcl.model import CGCL, symmetric
from cgcl.predict import LinkPredictor, edge_importance
from cgcl.predict.edge_importance import Explainable, LinkRemover
from cgcl.seeds import seeded, stream
from cgcl.testing.graphs import groups, links_graph
from cgcl.train.fit import known_of


def cgcl_of(num_features: int, seed: int, product: str = "hadamard") -> CGCL:
    with seeded(seed, "weights"):
        model = CGCL(num_features, 6, product=product)
        for weights in model.parameters():
            weights.detach().normal_()
    return model


def ranking_of(num_features: int, seed: int, **told) -> RankingLearner:
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
    bare = links_graph(draw(st.lists(st.tuples(node, node), max_size=16)), num_nodes, None)
    kind = draw(st.sampled_from(["dense", "sparse", "links"]))
    if kind == "links":
        feature = torch.arange(num_nodes) % 4 - 1
        return replace(bare, structure=Structure(feature, 3, 2 * bare.num_edges))
    x = torch.randn(num_nodes, 3, generator=stream(draw(st.integers(0, 99)), "x"))
    return replace(bare, x=(x * (x > 0)).to_sparse_coo().coalesce() if kind == "sparse" else x)


def encoded_again(
    model: Explainable, graph: Graph, pair: list[int], gone: set[int] | None
) -> float:
    edges = [link for link in graph.edges.T.tolist() if set(link) != gone]
    assert len(edges) == graph.num_edges - (gone is not None)
    links, asked = torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).T, torch.tensor([pair]).T
    known = known_of(graph, links, model)
    if isinstance(model, RankingLearner):
        return float(model.scorer(known).logits(asked))
    return float(decode_pairs(model, embed(model, known.features, symmetric(links)), asked))


def check(model: Explainable, graph: Graph, tolerance: float) -> None:
    nodes = torch.arange(graph.num_nodes)
    pairs = torch.cartesian_prod(nodes, nodes).T.contiguous()  # with itself, too
    blocks = list(LinkRemover(model, graph).without_each_link(pairs))
    covered = list(chain.from_iterable(range(b.pairs.start, b.pairs.stop) for b in blocks))
    assert covered == list(range(pairs.shape[1]))
    linked = [set(link) for link in graph.edges.T.tolist()]
    close = {"rel_tol": tolerance, "abs_tol": tolerance}
    for block in blocks:
        for number, pair in enumerate(pairs[:, block.pairs].T.tolist()):
            again = encoded_again(model, graph, pair, None)
            assert math.isclose(block.logits[number], again, **close)
            mine = (block.pair == number).nonzero()[0]
            gone = [{int(block.end[at]), int(block.neighbour[at])} for at in mine]
            # Every link of either end, each once.
            assert sorted(map(sorted, gone)) == sorted(
                sorted(link) for link in linked if link & set(pair)
            )
            for at, link in zip(mine, gone, strict=True):
                again = encoded_again(model, graph, pair, link)
                assert math.isclose(block.logits_without[at], again, **close)


told = st.fixed_dictionaries(
    {
        "layers": st.integers(1, 4),
        "self_term": st.booleans(),
        "signatures": st.sampled_from([0, 5]),
        "average": st.sampled_from([0.0, 0.9]),
    }
)


@given(
    graphs(),
    st.integers(0, 99),
    st.sampled_from(["hadamard", "inner"]) | told,
    st.sampled_from([3, 2**14]),
)
@settings(max_examples=80, deadline=None)
def test_each_removal_equals_encoding_the_graph_again_without_the_link(
    graph: Graph, seed: int, told: str | dict, budget: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(edge_importance, "_BUDGET", budget)
        if isinstance(told, str):
            check(cgcl_of(3, seed, told), graph, 1e-5)
        else:
            check(ranking_of(3, seed, **told), graph, 1e-4)


@pytest.mark.parametrize("build", [cgcl_of, ranking_of])
def test_reasons_are_the_links_whose_loss_costs_most(build) -> None:
    graph = groups()
    model = build(graph.num_features, 1)
    pairs = torch.tensor([[0, 7, 3], [3, 20, 3]])
    answers = LinkRemover(model, graph).edge_importance(pairs)
    for pair, answer in zip(pairs.T.tolist(), answers, strict=True):
        whole = encoded_again(model, graph, pair, None)
        links = [link for link in graph.edges.T.tolist() if set(link) & set(pair)]
        drops = [whole - encoded_again(model, graph, pair, set(link)) for link in links]
        drops = sorted(drop for drop in drops if drop > 0)[::-1]
        assert answer.score == pytest.approx(1 / (1 + math.exp(-whole)), rel=1e-4)
        assert answer.tried == answer.links == len(links)
        assert [reason.drop for reason in answer.reasons] == pytest.approx(drops[:3], abs=1e-4)
        for reason in answer.reasons:
            assert graph.node_of[reason.end] in pair
            link = {graph.node_of[reason.end], graph.node_of[reason.neighbour]}
            logit = encoded_again(model, graph, pair, link)
            assert reason.score_without == pytest.approx(1 / (1 + math.exp(-logit)), abs=1e-4)


def star(num_leaves: int) -> Graph:
    # Leaf 1 has a second link, so its message weighs less than those of the others.
    pairs = [*((0, leaf + 1) for leaf in range(num_leaves)), (1, num_leaves + 1)]
    x = torch.randn(num_leaves + 2, 3, generator=stream(0, "x"))
    return links_graph(pairs, num_leaves + 2, x)


@pytest.mark.parametrize(
    ("build", "most"), [(cgcl_of, "MOST_TRIED"), (ranking_of, "MOST_TRIED_IN_LAYERS")]
)
def test_of_a_hub_the_links_that_weigh_most_are_tried_and_that_is_said(
    monkeypatch, build, most: str
) -> None:
    graph, model, pair = star(5), build(3, 0), torch.tensor([[0], [6]])
    (whole,) = LinkRemover(model, graph).edge_importance(pair)
    assert (whole.tried, whole.links) == (6, 6)
    monkeypatch.setattr(edge_importance, most, 4)
    remover = LinkRemover(model, graph)
    (capped,) = remover.edge_importance(pair)
    assert (capped.tried, capped.links) == (5, 6)
    (block,) = remover.without_each_link(pair)
    assert sorted(block.neighbour[block.end == 0].tolist()) == [2, 3, 4, 5]


@pytest.mark.parametrize("build", [cgcl_of, ranking_of])
def test_no_pairs_and_no_links_are_answered_too(build) -> None:
    graph = links_graph([], 2, torch.eye(2))
    remover = LinkRemover(build(2, 0), graph)
    assert remover.edge_importance(torch.empty(2, 0, dtype=torch.int64)) == []
    (answer,) = remover.edge_importance(torch.tensor([[0], [1]]))
    assert (answer.reasons, answer.tried, answer.links) == ((), 0, 0)


def test_what_plays_no_part_is_no_reason_not_even_by_rounding() -> None:
    graph = star(9)
    learner = ranking_of(3, 0, norm=False, popularity=False)
    learner.get_buffer("average_decode_scale").zero_()  # every score is 0
    learner.offset.zero_()
    (answer,) = LinkRemover(learner, graph).edge_importance(torch.tensor([[0], [10]]))
    assert (answer.score, answer.reasons, answer.tried) == (0.5, (), 10)


@pytest.mark.parametrize("build", [cgcl_of, ranking_of])
def test_a_model_in_training_is_asked_without_dropout_and_left_as_it_was(build) -> None:
    graph, pair = star(4), torch.tensor([[0], [5]])
    model = build(3, 1).eval()
    quiet = LinkRemover(model, graph).edge_importance(pair)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    assert LinkRemover(model.train(), graph).edge_importance(pair) == quiet
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("has_features", [True, False])
def test_a_predictor_says_what_its_suggestions_rest_on(has_features: bool) -> None:
    graph = groups()
    graph = graph if has_features else Graph(graph.title, graph.names, graph.edges)
    predictor = LinkPredictor("cgcl-rank", hidden=8, epochs=5, threads=1, device="cpu").fit(graph)
    for sentence in predictor.top(3, explain=True).evidence["because"]:
        assert "The score rests" in sentence
    x = None if graph.x is None else graph.x[:1]
    joined = predictor.with_new_nodes(["new"], [("new", graph.names[0])], x)
    (sentence,) = joined.links_of("new", 1, explain=True).evidence["because"]
    assert "new and " in sentence
    assert "The score rests" in sentence
