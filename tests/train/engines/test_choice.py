"""Which engine a training takes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from cgcl.graph import Graph
from cgcl.methods.method import TrainingGraph
from cgcl.split import random_split
from cgcl.train.config import Resources, RunConfig
from cgcl.train.engines import engine_for
from cgcl.train.trainer import Trainer, build_learner

CPU = torch.device("cpu")
Build = Callable[[int], Graph]


def name_of(graph: Graph, method: str = "cgcl", **resources) -> str | None:
    recipe = RunConfig.of(method, {})
    split = random_split(graph, recipe.split.val, recipe.split.test, 0)
    learner = build_learner(4, recipe)
    known = TrainingGraph(split.num_nodes, split.train, graph.x)
    engine = engine_for(learner, known, recipe, Resources(**resources))
    return engine.name if engine else None


def test_on_a_cpu_cgcl_is_blocked_unless_asked_and_others_are_plain(sbm: Build) -> None:
    graph = sbm(0)
    assert name_of(graph) == "blocked"
    assert name_of(graph, deterministic=True) == "blocked"  # it always gives the same bits
    assert name_of(graph, engine="plain") == "plain"
    assert name_of(graph, "mlp") == "plain"
    assert name_of(graph, "adamic-adar") is None


@pytest.mark.parametrize("views", ["disjoint", "directed"])
def test_engines_agree_on_how_well_they_learn(sbm: Build, views: str) -> None:
    """Other coins for dropout, the same views and counter-examples: the same kind of model."""
    found: dict[str, list[float]] = {}
    for engine in ("auto", "plain"):
        for seed in range(3):
            graph = sbm(seed)
            recipe = RunConfig.of(
                "cgcl", {"hidden": 16, "epochs": 60, "seed": seed, "views": views, "test": 0.2}
            )
            split = random_split(graph, recipe.split.val, recipe.split.test, seed)
            resources = Resources(engine=engine)
            trainer = Trainer(graph.x, split, recipe, CPU, resources=resources)
            while trainer.epoch < trainer.epochs:
                trainer.run_epochs()
            trainer.keep_best()
            test = trainer.measure()
            assert test is not None
            found.setdefault(engine, []).append(test["auc"])
    means = [sum(values) / len(values) for values in found.values()]
    assert means[0] == pytest.approx(means[1], abs=0.02), found
    assert min(means) > 0.75, found
