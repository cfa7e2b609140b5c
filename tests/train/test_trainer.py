from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from cgcl.errors import TrainingError
from cgcl.graph import Graph
from cgcl.metrics import (
    CONSISTENCY_LOWER_BOUND,
    CONSISTENCY_UPPER_BOUND,
    auc,
    average_precision,
)
from cgcl.split import Split, random_split
from cgcl.train.config import ModelConfig, TrainConfig
from cgcl.train.draws import Drawer
from cgcl.train.loop import train
from cgcl.train.trainer import EpochRecord, Trainer, build_model, learned_nothing

CPU = torch.device("cpu")
Build = Callable[[int], Graph]


def trainer_for(
    graph: Graph, model: ModelConfig | None = None, config: TrainConfig | None = None, **kwargs
) -> Trainer:
    config = config or TrainConfig(epochs=6, evaluate_every=2)
    split = random_split(graph, config.val, config.test, config.seed)
    assert graph.x is not None
    return Trainer(graph.x, split, model or ModelConfig(hidden=8), config, CPU, **kwargs)


def weights_after(graph: Graph, epochs: int, **settings) -> list[torch.Tensor]:
    config = TrainConfig(epochs=epochs, evaluate_every=2, **settings)
    trainer = trainer_for(graph, config=config)
    for _ in range(epochs):
        trainer.run_epoch()
    return [weight.detach().clone() for weight in trainer.model.parameters()]


def same(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize(
    "changed",
    [
        {"views": "shared"},
        {"views": "directed"},
        {"views": "one"},
        {"negatives": "view"},
        {"lr": 0.02},
        {"weight_decay": 0.1},
        {"val": 0.1},
        {"test": 0.2},
        {"seed": 1},
    ],
)
def test_every_training_setting_changes_the_weights(sbm: Build, changed) -> None:
    graph = sbm(0)
    assert same(weights_after(graph, 3), weights_after(graph, 3))
    assert not same(weights_after(graph, 3), weights_after(graph, 3, **changed))


@pytest.mark.parametrize("changed", [{"input_dropout": 0.1}, {"decoder_dropout": 0.7}])
def test_every_dropout_changes_the_weights(sbm: Build, changed) -> None:
    results = []
    for settings in ({}, changed):
        trainer = trainer_for(sbm(0), ModelConfig(hidden=8, **settings))
        trainer.run_epoch()
        results.append([w.detach() for w in trainer.model.parameters()])
    assert not same(*results)


def test_the_width_is_the_width() -> None:
    """The authors' sweep over d_v set a name that nothing read."""
    for hidden in (8, 32):
        model = build_model(5, ModelConfig(hidden=hidden), seed=0)
        assert model.encode.weight.shape == (5, hidden)
        assert model.decode.layer_1.weight.shape == (hidden // 2, hidden)


def test_streams_are_independent(sbm: Build) -> None:
    """What counter-examples avoid changes neither the views nor the first weights."""
    split = random_split(sbm(0))
    draws = [
        Drawer(split.train, split.num_nodes, TrainConfig(negatives=kind)).draw(3)
        for kind in ("train", "view")
    ]
    assert torch.equal(draws[0].views.view_1.pairs, draws[1].views.view_1.pairs)
    assert not torch.equal(draws[0].negatives[0], draws[1].negatives[0])


def as_set(pairs: torch.Tensor) -> set[tuple[int, int]]:
    return {tuple(sorted(pair)) for pair in pairs.T.tolist()}


def test_training_counter_examples_avoid_training_links_only(sbm: Build) -> None:
    """Avoiding held-out links too would tell the model which pairs they are."""
    split = random_split(sbm(0))
    drawer = Drawer(split.train, split.num_nodes, TrainConfig())
    drawn: set[tuple[int, int]] = set()
    for epoch in range(1, 60):
        for negatives in drawer.draw(epoch).negatives:
            drawn |= as_set(negatives)
    assert not drawn & as_set(split.train)
    assert drawn & as_set(split.val)
    assert drawn & as_set(split.test)


def test_counter_examples_of_a_view_may_be_links_of_the_other(sbm: Build) -> None:
    split = random_split(sbm(0))
    drawer = Drawer(split.train, split.num_nodes, TrainConfig(negatives="view"))
    seen_links = 0
    for epoch in range(1, 30):
        draw = drawer.draw(epoch)
        for (seen, hidden), negatives in zip(draw.views.turns(), draw.negatives, strict=True):
            assert not as_set(negatives) & as_set(hidden.pairs)
            seen_links += len(as_set(negatives) & as_set(seen.pairs))
    assert seen_links > 0


def test_there_are_as_many_counter_examples_as_links_to_reconstruct(sbm: Build) -> None:
    split = random_split(sbm(0))
    draw = Drawer(split.train, split.num_nodes, TrainConfig()).draw(1)
    for (_, hidden), negatives in zip(draw.views.turns(), draw.negatives, strict=True):
        assert negatives.shape[1] == hidden.num_pairs


def test_training_touches_neither_the_global_generator_nor_its_inputs(sbm: Build) -> None:
    graph = sbm(0)
    before, fingerprint = torch.get_rng_state(), graph.fingerprint
    trainer_for(graph).run_epoch()
    assert torch.equal(before, torch.get_rng_state())
    assert Graph(graph.title, graph.names, graph.edges, graph.x).fingerprint == fingerprint


def test_a_restored_trainer_goes_on_with_the_same_bits(sbm: Build) -> None:
    graph = sbm(0)
    straight = trainer_for(graph)
    records = [straight.run_epoch() for _ in range(6)]
    first = trainer_for(graph)
    for _ in range(3):
        first.run_epoch()
    second = trainer_for(graph)
    second.restore(*first.state())
    assert [second.run_epoch() for _ in range(3)] == records[3:]
    assert same(list(straight.model.parameters()), list(second.model.parameters()))
    assert straight.state()[1] == second.state()[1]
    assert same(list(straight.state()[0].values()), list(second.state()[0].values()))


def test_validation_happens_when_asked_and_at_the_end(sbm: Build) -> None:
    config = TrainConfig(epochs=7, evaluate_every=3)
    trainer = trainer_for(sbm(0), config=config)
    records = [trainer.run_epoch() for _ in range(7)]
    assert [record.epoch for record in records if record.val] == [3, 6, 7]


def test_validation_sees_the_training_links_and_nothing_else(sbm: Build) -> None:
    trainer = trainer_for(sbm(0), config=TrainConfig(epochs=1))
    record = trainer.run_epoch()
    split, model = trainer._split, trainer.model.eval()
    edge_index = torch.cat([split.train, split.train.flip(0)], dim=1)
    with torch.no_grad():
        positive = model(trainer._x, edge_index, split.val)
        negative = model(trainer._x, edge_index, split.val_negatives)
    assert record.val == {
        "auc": auc(positive, negative),
        "ap": average_precision(positive, negative),
    }
    leaking = torch.cat([edge_index, split.val, split.val.flip(0)], dim=1)
    assert not torch.equal(positive, model(trainer._x, leaking, split.val))


def test_the_best_epoch_is_kept_not_the_last(sbm: Build, monkeypatch) -> None:
    trainer = trainer_for(sbm(0), config=TrainConfig(epochs=6, evaluate_every=1))
    aucs = iter([0.6, 0.9, 0.7, 0.9, 0.8, 0.5])
    monkeypatch.setattr("cgcl.train.trainer.auc", lambda *_: next(aucs))
    kept = None
    for epoch in range(1, 7):
        trainer.run_epoch()
        if epoch == 2:
            kept = [weight.detach().clone() for weight in trainer.model.parameters()]
    assert trainer.best_epoch == 2  # the first of equals
    assert same(list(trainer.best_weights.values()), kept)
    assert not same(list(trainer.best_weights.values()), list(trainer.model.parameters()))


def test_without_validation_links_the_last_epoch_is_kept(sbm: Build) -> None:
    config = TrainConfig(epochs=5, evaluate_every=2, val=0.0)
    trainer = trainer_for(sbm(0), config=config)
    assert train(trainer, config) is None
    assert (trainer.best_epoch, trainer.best_val) == (5, None)
    assert same(list(trainer.best_weights.values()), list(trainer.model.parameters()))


def test_tracking_consistency_changes_no_result_and_stays_within_theorem_1(sbm: Build) -> None:
    graph = sbm(0)
    plain, tracked = trainer_for(graph), trainer_for(graph, track_consistency=True)
    records = [(plain.run_epoch(), tracked.run_epoch()) for _ in range(4)]
    assert same(list(plain.model.parameters()), list(tracked.model.parameters()))
    assert all(a.consistency is None for a, _ in records)
    terms = records[-1][1].consistency
    assert terms is not None
    for name in ("views", "reconstructions", "view_1", "view_2"):
        assert CONSISTENCY_LOWER_BOUND <= terms[name] <= CONSISTENCY_UPPER_BOUND


def test_a_loss_that_is_not_finite_before_any_look_is_an_error(sbm: Build) -> None:
    graph = sbm(0)
    assert graph.x is not None
    huge = Graph(graph.title, graph.names, graph.edges, graph.x * 1e30)
    config = TrainConfig(epochs=5, evaluate_every=5)
    with pytest.raises(TrainingError) as error:
        train(trainer_for(huge, config=config), config)
    assert str(error.value) == (
        "The loss became NaN or infinite at epoch 1 (lr 0.01). No epoch before it was measured, "
        "so there is nothing to keep.\nLower --lr, and look for very large feature values."
    )


def test_a_loss_that_is_not_finite_later_keeps_the_best_epoch(sbm: Build) -> None:
    config = TrainConfig(epochs=9, evaluate_every=2)
    trainer = trainer_for(sbm(0), config=config)

    def poison(record: EpochRecord) -> None:
        if record.epoch == 5:
            with torch.no_grad():
                trainer.model.encode.weight.fill_(math.nan)

    stopped = train(trainer, config, on_epoch=poison)
    assert stopped is not None
    assert (stopped.reason, stopped.epoch) == ("loss is not finite", 6)
    assert stopped.message == (
        "The loss became NaN or infinite at epoch 6 (lr 0.01). Training was stopped; the best "
        f"epoch, {trainer.best_epoch}, is kept. Lower --lr to train longer."
    )
    assert all(torch.isfinite(weight).all() for weight in trainer.best_weights.values())


def test_a_collapse_is_noticed_and_the_best_epoch_kept(sbm: Build) -> None:
    """Push the decoder half-way to where its ReLUs are dead, as a high learning rate does."""
    config = TrainConfig(epochs=60, evaluate_every=2)
    trainer = trainer_for(sbm(0), config=config)

    def collapse(record: EpochRecord) -> None:
        if record.epoch == 30:
            with torch.no_grad():
                trainer.model.decode.layer_1.bias.fill_(-1e6)

    stopped = train(trainer, config, on_epoch=collapse)
    assert stopped is not None
    assert stopped.reason == "collapse"
    assert stopped.epoch == 36  # three looks at chance: 32, 34, 36
    assert "The model collapsed: validation AUC fell from 0." in stopped.message
    assert "back to chance by epoch 36 (lr 0.01)" in stopped.message
    assert "Lower --lr" in stopped.message
    assert trainer.best_epoch <= 30
    assert trainer.best_val is not None
    assert trainer.best_val["auc"] > 0.65


def test_a_time_limit_ends_after_the_next_epoch_and_keeps_something(sbm: Build) -> None:
    config = TrainConfig(epochs=50, evaluate_every=10)
    trainer = trainer_for(sbm(0), config=config)
    stopped = train(trainer, config, time_limit_s=0.0)
    assert stopped is not None
    assert (stopped.reason, stopped.epoch) == ("time limit", 1)
    assert trainer.finish() is not None
    assert trainer.best_epoch == 1


def test_a_request_to_stop_ends_after_the_current_epoch(sbm: Build) -> None:
    config = TrainConfig(epochs=50)
    trainer = trainer_for(sbm(0), config=config)
    stopped = train(trainer, config, should_stop=lambda: trainer.epoch == 4)
    assert stopped is not None
    assert (stopped.reason, stopped.epoch, stopped.message) == ("signal", 4, "Stopped at epoch 4.")


def test_two_nodes_apart_from_a_link_are_enough_to_train_without_holding_out() -> None:
    graph = Graph.from_pairs(
        "tiny", ["a", "b", "c", "d"], torch.tensor([[0, 1], [1, 2]]), torch.eye(4)
    )
    config = TrainConfig(epochs=8, val=0.0, test=0.0)
    trainer = trainer_for(graph, config=config)
    assert train(trainer, config) is None
    assert isinstance(trainer._split, Split)


def test_weights_that_overflow_in_the_last_step_are_noticed_at_the_look(sbm: Build) -> None:
    """The loss of an epoch is computed before its last step: it may be the last finite number."""
    config = TrainConfig(epochs=4, evaluate_every=1)
    trainer = trainer_for(sbm(0), config=config)
    step = trainer.optimizer.step

    def overflow(*args, **kwargs) -> None:
        step(*args, **kwargs)
        if trainer.epoch == 3:
            with torch.no_grad():
                trainer.model.encode.weight.fill_(math.inf)

    trainer.optimizer.step = overflow
    kept: list[EpochRecord] = []
    stopped = train(trainer, config, on_epoch=kept.append)
    assert stopped is not None
    assert (stopped.reason, stopped.epoch) == ("loss is not finite", 3)
    assert [record.epoch for record in kept] == [1, 2]
    assert all(torch.isfinite(weight).all() for weight in trainer.best_weights.values())


def test_a_model_that_never_was_finite_is_not_kept(sbm: Build) -> None:
    config = TrainConfig(epochs=1, val=0.0, test=0.0)
    trainer = trainer_for(sbm(0), config=config)
    trainer.optimizer.step = lambda: trainer.model.encode.weight.data.fill_(math.nan)
    with pytest.raises(TrainingError, match="nothing to keep"):
        train(trainer, config)


def test_bad_luck_on_a_handful_of_validation_links_is_no_collapse(sbm: Build, monkeypatch) -> None:
    graph = sbm(0)
    few = Graph.from_pairs("few", graph.names, graph.edges[:, ::10], graph.x)
    config = TrainConfig(epochs=12, evaluate_every=1, val=0.05, test=0.0)
    trainer = trainer_for(few, config=config)
    assert trainer._split.val.shape[1] < 6
    aucs = iter([1.0] + [0.3] * 11)
    monkeypatch.setattr("cgcl.train.trainer.auc", lambda *_: next(aucs))
    assert train(trainer, config) is None
    assert trainer.best_epoch == 1


def test_a_model_no_better_than_chance_is_warned_of() -> None:
    assert learned_nothing(None) is None
    assert learned_nothing({"auc": 0.9, "ap": 0.9}) is None
    assert "its best validation AUC, 0.510, is no better" in str(learned_nothing({"auc": 0.51}))
