"""What holds for every method that is trained, one by one of its settings."""

from dataclasses import fields, replace
from typing import Any

import pytest
import torch

from cgcl.errors import FeatureError
from cgcl.methods.method import Epoch, Learner, TrainingGraph
from cgcl.methods.settings import TrainedSettings
from cgcl.methods.table import METHODS, method_named
from cgcl.seeds import seeded, stream

TRAINED = [name for name in METHODS if issubclass(method_named(name).settings, TrainedSettings)]
SMALL = {"hidden": 8, "batch": 40, "nodes_per_hop": 8, "hops": 2, "embedding": 4}
# To what each setting is changed, whatever it was.
CHANGES: dict[str, Any] = {
    **{"hidden": 12, "layers": 3, "batch": 64, "mask": 0.3, "hops": 1, "nodes_per_hop": 3},
    **{"decoder_layers": 3, "head_layers": 2, "decoder_hidden": 7, "embedding": 5, "powers": 1},
    **{"row_normalised": True, "visible_targets": True, "use_features": False, "share": 0.3},
    **{"input_dropout": 0.3, "dropout": 0.3, "decoder_dropout": 0.6, "hidden_dropout": 0.1},
    **{"encoder_dropout": 0.5, "embedding_dropout": 0.5, "neighbour_dropout": 0.5},
    **{"product": "inner", "last_layer": "relu", "targets": "sigmoid", "views": "shared"},
    **{"seen": 0.3, "negatives": "view", "degree_weight": 0.5, "self_term": False, "norm": False},
    **{"negative_share": 0.9, "signatures": 4, "row_share": 0.9, "target_share": 0.2},
    **{"sampled": 7, "encoder": "sage"},
}
# How they are trained, and what shows after a step or in another test: tests of the trainer.
ELSEWHERE = {own.name for own in fields(TrainedSettings)} | {"preset", "popularity", "average"}
# Where a setting would be changed to what it is, or shows between two layers only.
NEEDS = {"seal": {"layers": 1}, "graphsage": {"layers": 2}, "ncn": {"input_dropout": 0.1}}


def a_graph(num_features: int = 6) -> TrainingGraph:
    generator = stream(0, "graph")
    pairs = torch.combinations(torch.arange(30)).T
    links = pairs[:, torch.rand(pairs.shape[1], generator=generator) < 0.2]
    x = torch.rand(30, num_features, generator=generator)
    return TrainingGraph(30, links, x * (x > 0.4))


def build(name: str, known: TrainingGraph, **told: Any) -> Learner:
    method = method_named(name)
    # Whose batch is 0 takes whole views.
    values = {key: value for key, value in SMALL.items() if getattr(method.settings, key, 0)}
    with seeded(0, "weights"):
        return method.build(known.num_features, method.settings(**(values | told)))


def losses(learner: Learner, known: TrainingGraph) -> list[float]:
    learner.train()
    with seeded(0, "epoch", 1):
        return [loss.item() for loss in learner.steps(known, Epoch(1, 0))]


def own_settings(name: str) -> list[str]:
    kind = method_named(name).settings
    return [own.name for own in fields(kind) if own.name not in ELSEWHERE]


@pytest.mark.parametrize("name", TRAINED)
def test_every_setting_changes_what_is_learned(name: str) -> None:
    known = a_graph()
    base: dict[str, Any] = NEEDS.get(name, {})
    plain = losses(build(name, known, **base), known)
    assert losses(build(name, known, **base), known) == plain
    for setting in own_settings(name):
        changed = losses(build(name, known, **(base | {setting: CHANGES[setting]})), known)
        assert changed != plain, setting


@pytest.mark.parametrize("name", TRAINED)
def test_sparse_features_give_what_dense_ones_give(name: str) -> None:
    known = a_graph()
    sparse = replace(known, x=known.features.to_sparse_coo().coalesce())
    still = {own: 0.0 for own in own_settings(name) if own.endswith("dropout")}
    found, wanted = (losses(build(name, given, **still), given) for given in (sparse, known))
    assert found == pytest.approx(wanted, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("name", TRAINED)
def test_scoring_takes_nodes_that_joined_later_and_leaves_the_learner_alone(name: str) -> None:
    known, pairs = a_graph(), torch.tensor([[0, 31, 5], [30, 32, 9]])
    learner = build(name, known)
    losses(learner, known)
    before = {key: value.clone() for key, value in learner.state_dict().items()}
    more = TrainingGraph(33, known.links, torch.cat([known.features, torch.rand(3, 6)]))
    first, again = (learner.scorer(more).logits(pairs) for _ in range(2))
    assert (first.dtype, first.requires_grad) == (torch.float32, False)
    assert torch.isfinite(first).all()
    assert torch.equal(first, again)  # no dropout
    assert learner.training
    assert all(torch.equal(value, before[key]) for key, value in learner.state_dict().items())
    nothing = known.with_links(known.links[:, :0])
    assert learner.scorer(nothing).logits(pairs[:, 2:]).isfinite().all()
    assert learner.scorer(known).logits(pairs[:, :0]).shape == (0,)


@pytest.mark.parametrize("name", TRAINED)
def test_features_are_asked_for(name: str) -> None:
    known = a_graph()
    learner = build(name, known)
    with pytest.raises(FeatureError, match="needs features"):
        learner.scorer(replace(known, x=None)).logits(known.links)
