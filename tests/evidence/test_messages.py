from __future__ import annotations

import math
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cgcl.evidence import messages
from cgcl.evidence.messages import rests_on, without_each_link
from cgcl.graph import Graph
from cgcl.graph.features import Structure
from cgcl.methods.scoring import decode_pairs, embed
from cgcl.model import CGCL, symmetric
from cgcl.train.once import known_of


def model_of(num_features: int, seed: int, product: str = "hadamard") -> CGCL:
    model = CGCL(num_features, 6, product=product)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weights in model.parameters():
            weights.copy_(torch.randn(weights.shape, generator=generator))
    return model


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    num_nodes = draw(st.integers(2, 9))
    node = st.integers(0, num_nodes - 1)
    links = draw(st.lists(st.tuples(node, node), max_size=18))
    pairs = torch.tensor(links, dtype=torch.int64).reshape(-1, 2).T
    generator = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    x = torch.randn(num_nodes, 3, generator=generator)
    if draw(st.booleans()):
        x = (x * (x > 0)).to_sparse_coo().coalesce()
    return Graph.from_pairs("toy", [f"n{i}" for i in range(num_nodes)], pairs, x)


def without_features(graph: Graph) -> Graph:
    """The same links; three features are made of them."""
    bare = Graph(graph.title, graph.names, graph.edges)
    feature = torch.arange(graph.num_nodes) % 4 - 1  # of some nodes no feature speaks
    return replace(bare, structure=Structure(feature, 3, 2 * graph.num_edges))


def encoded_again(model: CGCL, graph: Graph, pair: list[int], gone: set[int] | None) -> float:
    edges = [link for link in graph.edges.T.tolist() if set(link) != gone]
    assert len(edges) == graph.num_edges - (gone is not None)
    links = torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).T
    z = embed(model, known_of(graph, links, model).features, symmetric(links))
    return float(decode_pairs(model, z, torch.tensor(pair).reshape(2, 1)))


@given(
    graphs() | graphs().map(without_features),
    st.integers(0, 99),
    st.sampled_from(["hadamard", "inner"]),
    st.booleans(),
)
@settings(max_examples=100, deadline=None)
def test_each_removal_equals_encoding_the_graph_again_without_the_link(
    graph: Graph, seed: int, product: str, in_small_blocks: bool
) -> None:
    model = model_of(3, seed, product)
    nodes = torch.arange(graph.num_nodes)
    pairs = torch.cartesian_prod(nodes, nodes).T.contiguous()  # with itself, too
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(messages, "_BUDGET", 3 if in_small_blocks else 2**14)
        blocks = list(without_each_link(model, graph, pairs))
    covered = list(chain.from_iterable(range(b.pairs.start, b.pairs.stop) for b in blocks))
    assert covered == list(range(pairs.shape[1]))
    linked = [set(link) for link in graph.edges.T.tolist()]
    for block in blocks:
        asked = pairs[:, block.pairs].T.tolist()
        for number, pair in enumerate(asked):
            again = encoded_again(model, graph, pair, None)
            assert math.isclose(block.logits[number], again, rel_tol=1e-5, abs_tol=1e-5)
            mine = block.pair == number
            gone = [
                {end, neighbour}
                for end, neighbour in zip(block.end[mine], block.neighbour[mine], strict=True)
            ]
            # Every link of either end, each once.
            assert sorted(map(sorted, gone)) == sorted(
                sorted(link) for link in linked if link & set(pair)
            )
            for link, logit in zip(gone, block.logits_without[mine], strict=True):
                again = encoded_again(model, graph, pair, link)
                assert math.isclose(logit, again, rel_tol=1e-5, abs_tol=1e-5)


def star(num_leaves: int) -> Graph:
    pairs = torch.stack([torch.zeros(num_leaves, dtype=torch.int64), torch.arange(num_leaves) + 1])
    # Leaf 1 has a second link, so its message weighs less than those of the others.
    pairs = torch.cat([pairs, torch.tensor([[1], [num_leaves + 1]])], dim=1)
    x = torch.randn(num_leaves + 2, 3, generator=torch.Generator().manual_seed(0))
    return Graph.from_pairs("star", [f"n{i}" for i in range(num_leaves + 2)], pairs, x)


def test_of_a_hub_the_links_that_weigh_most_are_tried() -> None:
    graph, model = star(5), model_of(3, 0)
    pair = torch.tensor([[0, 6], [6, 0]])
    (block,) = without_each_link(model, graph, pair, most=4)
    for number in (0, 1):
        mine = (block.pair == number) & (block.end == 0)
        assert sorted(block.neighbour[mine].tolist()) == [2, 3, 4, 5]
    again = encoded_again(model, graph, [0, 6], {0, 2})
    first = (block.pair == 0) & (block.neighbour == 2)
    assert block.logits_without[first][0] == pytest.approx(again, abs=1e-5)


def test_a_capped_hub_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, model = star(5), model_of(3, 0)
    (whole,) = rests_on(model, graph, torch.tensor([[0], [6]]))
    assert (whole.tried, whole.links) == (6, 6)
    defaults = {"most": 2, "neighbours": None}
    monkeypatch.setattr(messages.without_each_link, "__kwdefaults__", defaults)
    (capped,) = rests_on(model, graph, torch.tensor([[0], [6]]))
    assert (capped.tried, capped.links) == (3, 6)


@given(graphs(), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_reasons_are_the_links_whose_loss_costs_most(graph: Graph, seed: int) -> None:
    model = model_of(3, seed)
    pairs = torch.triu_indices(graph.num_nodes, graph.num_nodes, 1)
    (block,) = without_each_link(model, graph, pairs)
    answers = rests_on(model, graph, pairs, count=2)
    assert len(answers) == pairs.shape[1]
    for number, answer in enumerate(answers):
        mine = block.pair == number
        drops = block.logits[number] - block.logits_without[mine]
        best = np.sort(drops[drops > 0])[::-1][:2]
        assert [reason.drop for reason in answer.reasons] == pytest.approx(best.tolist())
        assert answer.tried == answer.links == mine.sum()
        assert answer.score == pytest.approx(1 / (1 + math.exp(-float(block.logits[number]))))
        for reason in answer.reasons:
            end, neighbour = graph.node_of[reason.end], graph.node_of[reason.neighbour]
            assert end in pairs[:, number].tolist()
            logit = encoded_again(model, graph, pairs[:, number].tolist(), {end, neighbour})
            assert reason.score_without == pytest.approx(1 / (1 + math.exp(-logit)), abs=1e-5)


def test_no_pairs_and_no_links_are_answered_too() -> None:
    graph = Graph.from_pairs("toy", "ab", torch.empty(2, 0, dtype=torch.int64), torch.eye(2))
    model = model_of(2, 0)
    assert rests_on(model, graph, torch.empty(2, 0, dtype=torch.int64)) == []
    (answer,) = rests_on(model, graph, torch.tensor([[0], [1]]))
    assert (answer.reasons, answer.tried, answer.links) == ((), 0, 0)


def test_a_model_in_training_is_asked_without_dropout_and_left_in_training() -> None:
    graph, model = star(4), model_of(3, 1)
    pair = torch.tensor([[0], [5]])
    quiet = rests_on(model.eval(), graph, pair)
    assert rests_on(model.train(), graph, pair) == quiet
    assert model.training
