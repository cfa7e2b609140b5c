import itertools
import math
from collections.abc import Callable, Iterator

import pytest
import torch

from cgcl.errors import TrainingError
from cgcl.graph import Graph
from cgcl.methods.method import Epoch, Learner, TrainingGraph
from cgcl.metrics import (
    CONSISTENCY_LOWER_BOUND,
    CONSISTENCY_UPPER_BOUND,
    hits_at,
)
from cgcl.seeds import stream
from cgcl.split import random_split
from cgcl.train.config import Resources, RunConfig
from cgcl.train.engines import PlainEngine
from cgcl.train.top_of_list import ranking_metrics
from cgcl.train.trainer import EpochRecord, Trainer, train

CPU = torch.device("cpu")
Build = Callable[[int], Graph]


def trainer_for(graph: Graph, resources: Resources | None = None, **settings) -> Trainer:
    recipe = RunConfig.of("cgcl", {"hidden": 8, "epochs": 6, "evaluate_every": 2} | settings)
    split = random_split(graph, recipe.split.val, recipe.split.test, recipe.split.seed)
    return Trainer(graph.x, split, recipe, CPU, resources)


def weights_of(trainer: Trainer) -> list[torch.Tensor]:
    return [weight.detach().clone() for weight in trainer.learner.parameters()]


def weights_after(graph: Graph, epochs: int, **settings) -> list[torch.Tensor]:
    trainer = trainer_for(graph, epochs=epochs, **settings)
    for _ in range(epochs):
        trainer.run_epoch()
    return weights_of(trainer)


def looks_of(trainer: Trainer) -> dict[int, dict[str, float]]:
    """Train to the end; return what each look saw."""
    records: list[EpochRecord] = []
    train(trainer, on_epoch=records.append)
    return {record.epoch: record.val for record in records if record.val}


def same(a, b) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize(
    "changed",
    [
        {"lr": 0.02},
        {"weight_decay": 0.1},
        {"clip": 0.01},
        {"val": 0.1},
        {"test": 0.2},
        {"seed": 1},
    ],
)
def test_every_training_setting_changes_the_weights(sbm: Build, changed) -> None:
    graph = sbm(0)
    assert same(weights_after(graph, 3), weights_after(graph, 3))
    assert not same(weights_after(graph, 3), weights_after(graph, 3, **changed))


def as_set(pairs: torch.Tensor) -> set[tuple[int, int]]:
    return {tuple(sorted(pair)) for pair in pairs.T.tolist()}


def test_training_counter_examples_avoid_training_links_only(sbm: Build) -> None:
    """Of every method. Avoiding held-out links too would tell it which pairs they are."""
    trainer = trainer_for(sbm(0))
    split = trainer.split
    drawn = as_set(trainer.known.unlinked.draw(30_000, stream(0, "counter-examples")))
    assert not drawn & as_set(split.train)
    assert drawn & as_set(split.val)
    assert drawn & as_set(split.test)
    assert as_set(trainer.known.links) == as_set(split.train)


def test_there_is_nothing_best_before_the_first_look_and_the_last_epoch_is_looked_at(sbm) -> None:
    trainer = trainer_for(sbm(0), epochs=7, evaluate_every=3)
    assert (trainer.best_weights, trainer.best_val, trainer.best_epoch) == (None, None, 0)
    records = [trainer.run_epoch()]
    assert trainer.best_weights is None
    assert trainer.state()[1]["has_best"] is False
    records += [trainer.run_epoch() for _ in range(6)]
    assert [record.epoch for record in records if record.val] == [3, 6, 7]
    assert trainer.state()[1]["has_best"] is True


def test_the_best_epoch_is_kept_not_the_last(sbm: Build, monkeypatch) -> None:
    trainer = trainer_for(sbm(0), epochs=6, evaluate_every=1)
    aucs = iter([0.6, 0.9, 0.7, 0.9, 0.8, 0.5])
    monkeypatch.setattr("cgcl.train.trainer.auc", lambda *_: next(aucs))
    after = [(trainer.run_epoch(), weights_of(trainer))[1] for _ in range(6)]
    assert trainer.best_epoch == 2  # the first of equals
    trainer.keep_best()
    assert same(weights_of(trainer), after[1])
    assert not same(after[1], after[5])


def test_weights_whose_scores_are_no_numbers_are_not_tested(sbm: Build) -> None:
    trainer = trainer_for(sbm(0))
    with torch.no_grad():
        for weight in trainer.learner.parameters():
            weight.fill_(float("nan"))
    with pytest.raises(TrainingError, match="no finite numbers"):
        trainer.measure()


def test_without_validation_links_the_last_epoch_is_kept(sbm: Build) -> None:
    trainer = trainer_for(sbm(0), epochs=5, evaluate_every=2, val=0.0)
    assert train(trainer) is None
    assert (trainer.best_epoch, trainer.best_val) == (5, None)
    assert same(trainer.best_weights.values(), weights_of(trainer))
    assert trainer_for(sbm(0), test=0.0).measure() is None


def test_tracking_consistency_changes_no_result_and_stays_within_theorem_1(sbm: Build) -> None:
    graph = sbm(0)
    plain, tracked = trainer_for(graph), trainer_for(graph, Resources(track_consistency=True))
    records = [(plain.run_epoch(), tracked.run_epoch()) for _ in range(4)]
    assert same(weights_of(plain), weights_of(tracked))
    assert all(a.consistency is None for a, _ in records)
    terms = records[-1][1].consistency
    for name in ("views", "reconstructions", "view_1", "view_2"):
        assert CONSISTENCY_LOWER_BOUND <= terms[name] <= CONSISTENCY_UPPER_BOUND


class ManySteps(Learner):
    """Takes steps with known losses and gradients: L_i = i * sum(w) for i = 1, 2, ..."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(4))
        self.count = count
        self.lengths: list[float] = []
        self.weight.register_post_accumulate_grad_hook(
            lambda weight: self.lengths.append(float(weight.grad.norm()))
        )
        self.coins: list[float] = []

    def steps(self, known: TrainingGraph, epoch: Epoch) -> Iterator[torch.Tensor]:
        assert self.training
        self.coins.append(float(torch.rand(())))
        for step in range(1, self.count + 1):
            yield step * (self.weight.sum() + 1)


def stepping(graph: Graph, count: int, **settings) -> tuple[Trainer, ManySteps]:
    trainer = trainer_for(graph, evaluate_every=100, epochs=200, **settings)
    learner = ManySteps(count)
    trainer.learner = learner
    recipe = RunConfig.of("cgcl", settings)
    trainer.engine = PlainEngine(learner, trainer.known, recipe.settings, recipe.split.seed)
    trainer.engine.optimizer = torch.optim.SGD(learner.parameters(), lr=0.5)
    return trainer, learner


def test_few_losses_are_listed_and_many_are_averaged(sbm: Build) -> None:
    # A step of w <- w - 0.5 * i takes 2 i from sum(w): losses 1, 2 (1 - 2), 3 (1 - 2 - 4).
    for count, losses in ((0, []), (2, [1.0, -2.0]), (3, [(1.0 - 2.0 - 15.0) / 3])):
        assert stepping(sbm(0), count)[0].run_epoch().losses == losses


def test_long_gradients_are_shortened_if_asked(sbm: Build) -> None:
    """The gradient of step i is i in each of 4 places, 2 i long; SGD moves by lr times that."""
    trainer, learner = stepping(sbm(0), 2, clip=3.0)
    trainer.run_epoch()
    assert learner.lengths == [2.0, 4.0]
    # The first step of 2 is within the limit, the second one of 4 is shortened to 3.
    assert learner.weight.tolist() == pytest.approx([-0.5 * (1.0 + 1.5)] * 4)
    trainer, learner = stepping(sbm(0), 2)
    trainer.run_epoch()
    assert learner.weight.tolist() == pytest.approx([-0.5 * (1.0 + 2.0)] * 4)


def test_an_epoch_draws_the_same_global_numbers_whenever_it_is_run(sbm: Build) -> None:
    """Dropout of ordinary layers takes them: a resumed run must draw what a straight one did."""
    graph = sbm(0)
    straight, first = stepping(graph, 1)
    for _ in range(3):
        straight.run_epoch()
    torch.rand(5)
    late, second = stepping(graph, 1)
    late.epoch = 2
    late.run_epoch()
    assert second.coins == first.coins[2:]
    assert len(set(first.coins)) == 3
    other, third = stepping(graph, 1, seed=1)
    other.run_epoch()
    assert third.coins != first.coins[:1]


def test_the_epoch_can_be_chosen_by_where_links_stand_among_all_nodes(sbm: Build) -> None:
    """AUC picks another epoch here, and says no word about this one."""
    looks, best = {}, {}
    for choose_by in ("auc", "node_mrr"):
        trainer = trainer_for(sbm(0), epochs=60, val=0.2, choose_by=choose_by)
        looks[choose_by] = looks_of(trainer)
        trainer.keep_best()
        best[choose_by] = trainer.best_epoch
        assert trainer.best_val == looks[choose_by][trainer.best_epoch]
    by_rank = looks["node_mrr"]
    for name in ("auc", "node_mrr"):
        assert best[name] == max(by_rank, key=lambda epoch, name=name: by_rank[epoch][name])
    assert best["auc"] != best["node_mrr"]
    assert looks["auc"] == {e: {k: v[k] for k in ("auc", "ap")} for e, v in by_rank.items()}
    found = ranking_metrics(trainer.learner.scorer(trainer.known), trainer.split, "val")
    assert trainer.best_val["node_mrr"] == found.metrics["node_mrr"]


def test_training_ends_where_patience_is_lost(sbm: Build) -> None:
    """The looks are those of a training to the end, as far as there are any."""
    how = {"epochs": 200, "val": 0.2, "lr": 0.05}
    best, most, ends = 0, 0.0, 0
    for epoch, val in looks_of(trainer_for(sbm(0), **how)).items():
        best, most = (epoch, val["auc"]) if val["auc"] > most else (best, most)
        if epoch - best >= 20:
            ends = epoch
            break
    trainer = trainer_for(sbm(0), patience=20, **how)
    stopped = train(trainer)
    assert 0 < ends < 200
    assert stopped is not None
    assert (stopped.reason, stopped.epoch, trainer.best_epoch) == ("no better epoch", ends, best)
    assert train(trainer_for(sbm(0), patience=200, **how)) is None


def test_the_epoch_can_be_chosen_by_hits_and_equal_ones_by_auc(sbm: Build, monkeypatch) -> None:
    monkeypatch.setattr("cgcl.train.trainer._HITS", 5)
    trainer = trainer_for(sbm(0), epochs=60, val=0.2, choose_by="hits@100")
    ranked = {epoch: (val["hits@100"], val["auc"]) for epoch, val in looks_of(trainer).items()}
    assert trainer.best_epoch == max(ranked, key=lambda epoch: ranked[epoch])
    split, scorer = trainer.split, trainer.learner.scorer(trainer.known)
    last = hits_at(5, scorer.logits(split.val), scorer.logits(split.val_negatives))
    assert ranked[60][0] == last


def test_weights_of_any_type_go_on_from_their_checkpoint(sbm: Build) -> None:
    """Adam counts its steps in 32 bits, whatever the weights are."""
    trainer, again = trainer_for(sbm(0)), trainer_for(sbm(0))
    trainer.run_epoch()
    tensors, numbers = trainer.state()
    doubled = {k: own if k.endswith(".step") else own.double() for k, own in tensors.items()}
    again.learner.double()
    again.restore(doubled, numbers)
    assert again.epoch == 1
    assert all(torch.equal(own, doubled[k]) for k, own in again.state()[0].items())


@pytest.mark.parametrize("patience", [1, 5, 15])
def test_patience_is_lost_at_looks_alone(sbm: Build, patience: int) -> None:
    """Nor is it before the first one, and it does not matter how many epochs an engine runs."""
    trainer = trainer_for(
        sbm(0), epochs=200, val=0.2, lr=0.05, evaluate_every=10, patience=patience
    )
    stopped = train(trainer)
    assert stopped is not None
    assert stopped.epoch % 10 == 0
    assert stopped.epoch - trainer.best_epoch >= patience
    assert trainer.best_epoch > 0


@pytest.mark.parametrize("choose_by", ["hits@100", "node_mrr"])
def test_where_that_cannot_be_measured_auc_chooses(sbm: Build, monkeypatch, choose_by) -> None:
    """There are no hundred pairs, and to look among all nodes would take too long."""
    monkeypatch.setattr("cgcl.methods.scoring.EmbeddingScorer.cost_per_pair", 1e12)
    trainer = trainer_for(sbm(0), choose_by=choose_by)
    assert trainer.split.val_negatives.shape[1] < 100
    train(trainer)
    assert set(trainer.best_val) == {"auc", "ap"}


def test_a_look_asks_for_the_same_few_links_each_time(sbm: Build, monkeypatch) -> None:
    monkeypatch.setattr("cgcl.train.trainer.LOOK_LINKS", 7)
    trainer = trainer_for(sbm(0), choose_by="node_mrr")
    looks = [trainer._look() for _ in range(2)]
    assert looks[0] == looks[1]
    scorer = trainer.learner.scorer(trainer.known)
    found = ranking_metrics(scorer, trainer.split, "val", most_links=7)
    assert (found.links, found.metrics["node_mrr"]) == (7, looks[0]["node_mrr"])


def test_a_loss_that_is_not_finite_before_any_look_is_an_error(sbm: Build) -> None:
    graph = sbm(0)
    huge = Graph(graph.title, graph.names, graph.edges, graph.x * 1e30)
    with pytest.raises(TrainingError) as error:
        train(trainer_for(huge, epochs=5, evaluate_every=5))
    assert str(error.value) == (
        "The loss became NaN or infinite at epoch 1 (lr 0.01). No epoch before it was measured, "
        "so there is nothing to keep.\nLower `lr`, and look for very large feature values."
    )


def test_a_loss_that_is_not_finite_later_keeps_the_best_epoch(sbm: Build) -> None:
    trainer = trainer_for(sbm(0), epochs=9, evaluate_every=2)

    def poison(record: EpochRecord) -> None:
        if record.epoch == 5:
            with torch.no_grad():
                trainer.learner.encode.weight.fill_(math.nan)

    stopped = train(trainer, on_epoch=poison)
    assert (stopped.reason, stopped.epoch) == ("loss is not finite", 6)
    assert stopped.message == (
        "The loss became NaN or infinite at epoch 6 (lr 0.01). Training was stopped; the best "
        f"epoch, {trainer.best_epoch}, is kept. Lower `lr` to train longer."
    )
    assert all(torch.isfinite(weight).all() for weight in trainer.best_weights.values())


@pytest.mark.parametrize("weight", ["encode.weight", "decode.layer_2.bias"])
def test_weights_that_overflow_in_the_last_step_are_noticed_at_the_look(
    sbm: Build, weight: str
) -> None:
    """The loss of an epoch is computed before its last step: it may be the last finite number."""
    trainer = trainer_for(sbm(0), epochs=4, evaluate_every=1)
    step, steps = trainer.engine.optimizer.step, itertools.count(1)

    def overflow(*args, **kwargs) -> None:
        step(*args, **kwargs)
        if next(steps) == 6:  # the second of the third epoch
            with torch.no_grad():
                trainer.learner.get_parameter(weight).fill_(math.inf)

    trainer.engine.optimizer.step = overflow
    kept: list[EpochRecord] = []
    stopped = train(trainer, on_epoch=kept.append)
    assert (stopped.reason, stopped.epoch) == ("loss is not finite", 3)
    assert [record.epoch for record in kept] == [1, 2]
    assert all(torch.isfinite(weight).all() for weight in trainer.best_weights.values())


def test_a_model_that_never_was_finite_is_not_kept(sbm: Build) -> None:
    trainer = trainer_for(sbm(0), epochs=1, val=0.0, test=0.0)
    trainer.engine.optimizer.step = lambda: trainer.learner.encode.weight.data.fill_(math.nan)
    with pytest.raises(TrainingError, match="nothing to keep"):
        train(trainer)


def test_a_collapse_is_noticed_and_the_best_epoch_kept(sbm: Build) -> None:
    """Push the decoder half-way to where its ReLUs are dead, as a high learning rate does."""
    trainer = trainer_for(sbm(0), epochs=60, evaluate_every=2)

    def collapse(record: EpochRecord) -> None:
        if record.epoch == 30:
            with torch.no_grad():
                trainer.learner.decode.layer_1.bias.fill_(-1e6)

    stopped = train(trainer, on_epoch=collapse)
    assert (stopped.reason, stopped.epoch) == ("collapse", 36)  # looks at chance: 32, 34, 36
    assert "The model collapsed: validation AUC fell from 0." in stopped.message
    assert "back to chance by epoch 36 (lr 0.01)" in stopped.message
    assert "Lower `lr`" in stopped.message
    assert trainer.best_epoch <= 30
    assert trainer.best_val["auc"] > 0.65


def test_bad_luck_on_a_handful_of_validation_links_is_no_collapse(sbm: Build, monkeypatch) -> None:
    graph = sbm(0)
    few = Graph.from_pairs("few", graph.names, graph.edges[:, ::10], graph.x)
    trainer = trainer_for(few, epochs=12, evaluate_every=1, val=0.05, test=0.0)
    assert trainer.split.val.shape[1] < 6
    aucs = iter([1.0] + [0.3] * 11)
    monkeypatch.setattr("cgcl.train.trainer.auc", lambda *_: next(aucs))
    assert train(trainer) is None
    assert trainer.best_epoch == 1
