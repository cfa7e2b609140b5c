"""Where there is nothing to learn, nothing may be learned: a better result would be a leak."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from cgcl.graph import Graph
from cgcl.predict import LinkPredictor
from cgcl.seeds import stream
from cgcl.split import random_split
from cgcl.train.config import ModelConfig, TrainConfig
from cgcl.train.loop import train
from cgcl.train.scoring import measure_test_links
from cgcl.train.trainer import Trainer


def random_graph(seed: int) -> Graph:
    """Links by pure chance, features by pure chance: 1,500 nodes, 9,000 links."""
    generator = stream(seed, "random graph")
    pairs = torch.randint(1500, (2, 9100), generator=generator)
    x = torch.rand(1500, 32, generator=generator)
    return Graph.from_pairs("noise", [str(i) for i in range(1500)], pairs, x)


@pytest.mark.parametrize("views", ["disjoint", "shared", "directed", "one"])
def test_a_random_graph_cannot_be_predicted(views) -> None:
    """With 900 test links the standard error of the AUC is 0.014."""
    predictor = LinkPredictor(hidden=32, epochs=60, views=views, threads=2).fit(random_graph(0))
    assert predictor.test_ is not None
    assert 0.45 <= predictor.test_["auc"] <= 0.55


def test_the_detector_can_bark() -> None:
    """A split that leaves the held-out links among the training links is found out."""
    graph, config = random_graph(0), TrainConfig(epochs=60)
    assert graph.x is not None
    leaking = replace(random_split(graph), train=graph.edges)
    trainer = Trainer(graph.x, leaking, ModelConfig(hidden=32), config, torch.device("cpu"))
    train(trainer, config)
    trainer.model.load_state_dict(trainer.best_weights)
    leaked = measure_test_links(trainer.model, graph.x, leaking)
    assert leaked is not None
    assert leaked["auc"] > 0.57
