"""The rule that chooses CGCL-rank's settings: by properties of a graph, never by its name."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
import torch

from cgcl import LinkPredictor
from cgcl.graph import Graph
from cgcl.methods.cgcl_rank_settings import RULED, RankSettings, chosen_for
from cgcl.train.recipe import Recipe


def a_graph(nodes: int = 60, links: int = 150, density: float | None = 0.5) -> Graph:
    source = torch.Generator().manual_seed(0)
    pairs = torch.combinations(torch.arange(nodes), 2).T
    chosen = torch.randperm(pairs.shape[1], generator=source)[:links]
    x = None
    if density is not None:
        x = (torch.rand(nodes, 100, generator=source) < density).float()
    return Graph.from_pairs("a graph", [str(node) for node in range(nodes)], pairs[:, chosen], x)


@pytest.mark.parametrize("preset", ["quick", "best"])
@pytest.mark.parametrize("density", [None, 0.02, 0.5])
def test_it_chooses_what_it_says_it_does(density: float | None, preset: str) -> None:
    graph = a_graph(density=density)
    chosen = chosen_for(graph, preset)
    assert chosen.keys() == RULED
    assert {field.name for field in fields(RankSettings)} >= RULED
    assert chosen == chosen_for(replace(graph, title="cora"), preset)


def test_it_goes_by_features_links_and_nodes() -> None:
    words, rich = chosen_for(a_graph(density=0.02), "best"), chosen_for(a_graph(), "best")
    assert words["input_dropout"] > rich["input_dropout"]
    assert chosen_for(a_graph(links=80, density=0.02), "best")["layers"] == 1
    assert chosen_for(a_graph(links=80, density=None), "best")["layers"] > 1
    quick = chosen_for(a_graph(), "quick")
    assert quick["sampled"] == 0
    assert chosen_for(a_graph(density=0.02), "quick")["lr"] < quick["lr"]
    many = chosen_for(a_graph(nodes=1200, links=2400, density=None), "quick")
    assert 0 < many["sampled"] < 1200


def test_what_is_given_stands_and_the_rest_is_chosen() -> None:
    graph = a_graph()
    told = {"hidden": 8, "lr": None, "preset": "best", "epochs": 3}
    found = Recipe.for_graph("cgcl-rank", told, graph).settings
    assert isinstance(found, RankSettings)
    assert (found.hidden, found.epochs) == (8, 3)
    assert found.lr == chosen_for(graph, "best")["lr"]


def test_a_predictor_leaves_to_the_rule_what_nobody_gives() -> None:
    predictor = LinkPredictor("cgcl-rank", epochs=2)
    assert predictor.get_params()["hidden"] is None
    assert predictor.get_params()["epochs"] == 2
    graph = a_graph()
    predictor.fit(graph)
    assert predictor.settings_["hidden"] == chosen_for(graph, "quick")["hidden"]
    assert predictor.settings_["epochs"] == 2
    # What was chosen is not taken for given when it is fitted again.
    assert predictor.get_params()["hidden"] is None
