"""CGCL as a method of the table: its network is tested in tests/model."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from cgcl.graph import Graph
from cgcl.methods.cgcl import METHOD, CrossViewLearner
from cgcl.methods.cgcl_settings import PRESETS, CGCLSettings
from cgcl.methods.draws import draw
from cgcl.methods.method import Epoch, Known
from cgcl.methods.scoring import DecoderScorer
from cgcl.model import CGCL, symmetric
from cgcl.seeds import seeded, stream
from cgcl.split import random_split
from cgcl.train.recipe import Recipe
from cgcl.train.trainer import build_learner

Build = Callable[[int], Graph]


def learner_of(num_features: int, seed: int = 0, **settings) -> CrossViewLearner:
    recipe = Recipe.of("cgcl", {"hidden": 8, "seed": seed, **settings})
    learner = build_learner(num_features, recipe)
    assert isinstance(learner, CrossViewLearner)
    return learner


def known_of(graph: Graph) -> Known:
    return Known(graph.num_nodes, random_split(graph).train, graph.x)


def test_first_weights_are_those_of_the_stream_of_weights() -> None:
    """Results on record were made with these weights."""
    for seed in (0, 7):
        plain = CGCL(5, 8)
        plain.reset_parameters(stream(seed, "weights"))
        found = learner_of(5, seed).state_dict()
        assert found.keys() == plain.state_dict().keys()
        for name, value in plain.state_dict().items():
            assert torch.equal(value, found[name])


def test_steps_are_the_losses_of_algorithm_1(sbm: Build) -> None:
    known = known_of(sbm(0))
    for number in (1, 5):
        learner = learner_of(4).train()
        drawn = draw(known, Epoch(number, 3), CGCLSettings(hidden=8))
        coins = stream(3, "dropout", number)
        expected = [
            loss.item()
            for loss in learner.losses(known.features, drawn.views, drawn.negatives, coins)
        ]
        found = [loss.item() for loss in learner.steps(known, Epoch(number, 3))]
        assert found == expected
        assert len(found) == 2


def test_steps_take_nothing_from_the_global_generator(sbm: Build) -> None:
    known = known_of(sbm(0))
    with seeded(0, "anything"):
        state = torch.get_rng_state()
        list(learner_of(4).train().steps(known, Epoch(1, 0)))
        assert torch.equal(torch.get_rng_state(), state)


def test_a_score_is_the_network_on_all_the_links_given(sbm: Build) -> None:
    graph = sbm(0)
    learner = learner_of(4).train()
    pairs = torch.tensor([[0, 5, 9], [1, 70, 100]])
    for links in (graph.edges, graph.edges[:, ::2]):
        scorer = learner.scorer(Known(graph.num_nodes, links, graph.x))
        assert isinstance(scorer, DecoderScorer)
        assert learner.training
        with torch.no_grad():
            expected = learner.eval()(graph.x, symmetric(links), pairs)
        learner.train()
        assert torch.equal(scorer.logits(pairs), expected)


@pytest.mark.parametrize(
    ("name", "value"), [("product", "inner"), ("last_layer", "relu"), ("targets", "sigmoid")]
)
def test_the_settings_of_the_network_reach_it(sbm: Build, name: str, value: str) -> None:
    known = known_of(sbm(0))
    plain, changed = learner_of(4), learner_of(4, **{name: value})
    losses = [
        [loss.item() for loss in learner.train().steps(known, Epoch(1, 0))]
        for learner in (plain, changed)
    ]
    assert losses[0] != losses[1]


def test_its_authors_settings_are_the_paper_preset() -> None:
    assert METHOD.authors_settings("cora") == PRESETS["paper"]
    assert METHOD.authors_settings("a graph of somebody's") == PRESETS["paper"]
