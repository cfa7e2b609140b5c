"""CGCL as a method of the table: its network is tested in tests/model."""

import math
from collections.abc import Callable

import pytest
import torch

from cgcl.counter_rng import base_key, epoch_key, words
from cgcl.graph import Graph
from cgcl.methods.cgcl import CrossViewLearner, Draw, draw
from cgcl.methods.method import Epoch, TrainingGraph
from cgcl.methods.settings import CGCLSettings
from cgcl.model import CGCL, divide, symmetric
from cgcl.seeds import stream
from cgcl.split import Split, random_split
from cgcl.train.config import RunConfig
from cgcl.train.trainer import build_learner

Build = Callable[[int], Graph]


def learner_of(num_features: int, seed: int = 0, **settings) -> CrossViewLearner:
    recipe = RunConfig.of("cgcl", {"hidden": 8, "seed": seed, **settings})
    learner = build_learner(num_features, recipe)
    assert isinstance(learner, CrossViewLearner)
    return learner


def known_of(graph: Graph) -> TrainingGraph:
    return TrainingGraph(graph.num_nodes, random_split(graph).train, graph.x)


def test_first_weights_are_those_of_the_stream_of_weights() -> None:
    """Results on record were made with these weights."""
    for seed in (0, 7):
        plain = CGCL(5, 8)
        plain.reset_parameters(stream(seed, "weights"))
        found = learner_of(5, seed).state_dict()
        assert found.keys() == plain.state_dict().keys()
        assert all(torch.equal(value, found[name]) for name, value in plain.state_dict().items())


def test_steps_are_the_losses_of_algorithm_1(sbm: Build) -> None:
    known = known_of(sbm(0))
    for number in (1, 5):
        learner = learner_of(4).train()
        drawn = draw(known, Epoch(number, 3), CGCLSettings(hidden=8))
        coins = stream(3, "dropout", number)
        expected = learner.losses(known.features, drawn.views, drawn.negatives, coins)
        for own, other in zip(learner.steps(known, Epoch(number, 3)), expected, strict=True):
            assert torch.equal(own, other)


def test_a_score_is_the_network_on_all_the_links_given(sbm: Build) -> None:
    graph, learner, pairs = sbm(0), learner_of(4), torch.tensor([[0, 5, 9], [1, 70, 100]])
    for links in (graph.edges, graph.edges[:, ::2]):
        found = learner.train().scorer(TrainingGraph(graph.num_nodes, links, graph.x)).logits(pairs)
        assert learner.training
        with torch.no_grad():
            assert torch.equal(found, learner.eval()(graph.x, symmetric(links), pairs))


def drawn(split: Split, epoch: int, seed: int = 0, **settings) -> Draw:
    known = TrainingGraph(split.num_nodes, split.train)
    return draw(known, Epoch(epoch, seed), CGCLSettings(**settings))


def as_set(pairs: torch.Tensor) -> set[tuple[int, int]]:
    return {tuple(sorted(pair)) for pair in pairs.T.tolist()}


@pytest.mark.parametrize("views", ["disjoint", "shared", "directed", "own", "one", "all"])
def test_a_draw_follows_from_its_seed_and_epoch(sbm: Build, views: str) -> None:
    split = random_split(sbm(0))
    one, again = (drawn(split, 3, views=views) for _ in range(2))
    # The coin of a direction is the top bit of a hash of both ends.
    key = epoch_key(base_key(0, "views"), 3)
    low, high = split.train
    coins = [words(key, low, high) < 2**31, words(key, high, low) < 2**31]
    expected = divide(split.train, views, *coins)
    for own in ("view_1", "view_2"):
        found = getattr(one.views, own).edge_index
        assert torch.equal(found, getattr(expected, own).edge_index)
    assert all(map(torch.equal, one.negatives, again.negatives))
    for other in (drawn(split, 4, views=views), drawn(split, 3, seed=1, views=views)):
        same_view = as_set(other.views.view_1.pairs) == as_set(one.views.view_1.pairs)
        assert same_view == (views == "all")
        assert as_set(other.negatives[0]) != as_set(one.negatives[0])


@pytest.mark.parametrize("seen", [0.1, 0.5, 0.9])
def test_so_many_links_are_in_the_first_view_and_the_others_in_the_second(
    sbm: Build, seen: float
) -> None:
    split = random_split(sbm(0))
    count = split.train.shape[1]
    views = [drawn(split, epoch, seen=seen).views for epoch in range(1, 31)]
    share = sum(own.view_1.num_pairs for own in views) / (30 * count)
    assert share == pytest.approx(seen, abs=4 / math.sqrt(4 * 30 * count))
    assert all(own.view_1.num_pairs + own.view_2.num_pairs == count for own in views)


def test_counter_examples_of_a_view_may_be_links_of_the_other(sbm: Build) -> None:
    split = random_split(sbm(0))
    seen_links = 0
    for epoch in range(1, 30):
        found = drawn(split, epoch, negatives="view")
        views = drawn(split, epoch).views  # what is avoided changes no view
        assert torch.equal(found.views.view_1.pairs, views.view_1.pairs)
        for (seen, hidden), negatives in zip(found.views.passes(), found.negatives, strict=True):
            assert not as_set(negatives) & as_set(hidden.pairs)
            seen_links += len(as_set(negatives) & as_set(seen.pairs))
    assert seen_links > 0


def test_counter_examples_of_a_bipartite_graph_go_across() -> None:
    links = torch.cartesian_prod(torch.arange(4), torch.arange(4, 9)).T[:, ::2]
    known = TrainingGraph(9, links, sides=torch.arange(9) >= 4)
    for kind in ("train", "view"):
        for epoch in range(1, 9):
            for negatives in draw(known, Epoch(epoch, 0), CGCLSettings(negatives=kind)).negatives:
                assert ((negatives[0] < 4) & (negatives[1] >= 4)).all()
