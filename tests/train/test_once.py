from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from cgcl.errors import ResourceError, SplitError
from cgcl.graph import Graph
from cgcl.methods.heuristics import CommonNeighbours
from cgcl.metrics import auc, average_precision, link_metrics
from cgcl.split import random_split
from cgcl.train.config import Recipe, Resources
from cgcl.train.fit import fit, known_of
from cgcl.train.top_of_list import ranking_metrics
from cgcl.train.trainer import EpochRecord

Build = Callable[[int], Graph]
ONE = Resources(threads=1, device="cpu")
SMALL = {"hidden": 8, "epochs": 6, "evaluate_every": 2}


def test_a_training_says_all_about_itself(sbm: Build) -> None:
    graph = sbm(0)
    split = random_split(graph)
    told: list[EpochRecord] = []
    trained = fit(graph, split, Recipe.of("cgcl", SMALL), ONE, on_epoch=told.append)
    assert [record.epoch for record in told] == [1, 2, 3, 4, 5, 6]
    assert trained.history == [record.to_json() for record in told]
    looks = {record.epoch: record.val for record in told if record.val}
    assert list(looks) == [2, 4, 6]
    assert trained.val == looks[trained.best_epoch]
    assert trained.val["auc"] == max(val["auc"] for val in looks.values())
    assert trained.parameters == 4 * 8 + 8 + 8 * 4 + 4 + 4 + 1
    assert trained.stopped is None
    assert trained.seconds > 0
    scorer = trained.scorer(split.train)
    against_unlinked = link_metrics(scorer.logits(split.test), scorer.logits(split.test_negatives))
    assert trained.test == ranking_metrics(scorer, split).metrics | against_unlinked
    assert trained.test_sampled is None
    again = fit(graph, split, Recipe.of("cgcl", SMALL), ONE, top_of_list=False)
    assert again.test == against_unlinked
    positive, negative = scorer.logits(split.val), scorer.logits(split.val_negatives)
    assert trained.val == {
        "auc": auc(positive, negative),
        "ap": average_precision(positive, negative),
    }


def test_the_test_links_are_not_looked_at_unless_asked(sbm: Build, monkeypatch) -> None:
    graph = sbm(0)
    split = random_split(graph)
    held_out = {tuple(pair) for pair in split.test.T.tolist()}

    values = CommonNeighbours.values

    def watched(self, pairs):
        assert not held_out & {tuple(pair) for pair in pairs.T.tolist()}
        return values(self, pairs)

    monkeypatch.setattr(CommonNeighbours, "values", watched)
    recipe = Recipe.of("common-neighbours", {})
    assert fit(graph, split, recipe, ONE, measure_test=False).test is None
    with pytest.raises(AssertionError):
        fit(graph, split, recipe, ONE)


def test_the_same_recipe_gives_the_same_bits(sbm: Build) -> None:
    graph = sbm(0)
    split = random_split(graph)
    one, other = (fit(graph, split, Recipe.of("cgcl", SMALL), ONE).learner for _ in range(2))
    for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True):
        assert torch.equal(a, b)


def test_shares_of_the_recipe_play_no_part(sbm: Build) -> None:
    graph = sbm(0)
    split = random_split(graph)
    results = [
        fit(graph, split, Recipe.of("cgcl", {**SMALL, **shares}), ONE).test
        for shares in ({}, {"val": 0.3, "test": 0.3})
    ]
    assert results[0] == results[1]


def test_features_are_made_only_for_a_method_that_needs_some(sbm: Build) -> None:
    graph = sbm(0)
    bare = Graph.from_pairs("bare", graph.names, graph.edges)
    split = random_split(bare)
    with_some = fit(bare, split, Recipe.of("cgcl", SMALL), ONE)
    assert with_some.graph.num_features > 0
    without = fit(bare, split, Recipe.of("adamic-adar", {}), ONE)
    assert without.graph.x is None
    assert (without.parameters, without.history, without.best_epoch) == (0, [], 0)
    assert without.val is not None
    assert without.test is not None


def test_training_stops_when_asked_and_at_its_limit(sbm: Build) -> None:
    graph = sbm(0)
    split = random_split(graph)
    recipe = Recipe.of("cgcl", SMALL)
    seen: list[int] = []
    asked = fit(
        graph,
        split,
        recipe,
        ONE,
        on_epoch=lambda record: seen.append(record.epoch),
        should_stop=lambda: len(seen) == 3,
    )
    assert asked.stopped is not None
    assert (asked.stopped.reason, len(asked.history), asked.best_epoch) == ("signal", 3, 2)
    limited = fit(graph, split, recipe, Resources(threads=1, time_limit="0s"))
    assert limited.stopped is not None
    assert limited.stopped.reason == "time limit"
    assert limited.test is not None


def test_tracking_is_of_the_resources(sbm: Build) -> None:
    graph = sbm(0)
    split = random_split(graph)
    tracking = Resources(threads=1, track_consistency=True)
    found = fit(graph, split, Recipe.of("cgcl", SMALL), tracking).history
    assert ["consistency" in record for record in found] == [False, True] * 3


def test_a_split_of_another_graph_and_a_missing_device_are_refused(sbm: Build) -> None:
    graph = sbm(0)
    recipe = Recipe.of("adamic-adar", {})
    with pytest.raises(SplitError):
        fit(graph, random_split(sbm(1)), recipe, ONE)
    with pytest.raises(ResourceError):
        fit(graph, random_split(graph), recipe, Resources(device="cuda:99"))


def test_what_a_method_may_look_at_is_exactly_what_it_is_given(sbm: Build) -> None:
    graph = sbm(0)
    learner = fit(graph, random_split(graph), Recipe.of("cgcl", SMALL), ONE).learner
    known = known_of(graph, graph.edges[:, :5], learner)
    assert known.num_nodes == graph.num_nodes
    assert torch.equal(known.links, graph.edges[:, :5])
    assert torch.equal(known.features, graph.x)
    assert known.sides is None
