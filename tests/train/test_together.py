"""Many runs at once, through Triton's interpreter where there is no GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from cgcl.graph import Graph
from cgcl.split import Split, random_split
from cgcl.train import together
from cgcl.train.config import Resources
from cgcl.train.engines.fused import FusedEngine, FusedRuns
from cgcl.train.engines.plain import PlainEngine
from cgcl.train.engines.recorded import RankingSteps, RecordedEngine
from cgcl.train.once import train_once
from cgcl.train.recipe import Recipe
from cgcl.train.together import Ahead, fit_together, train_together

Build = Callable[[int], Graph]
HERE = Resources(device="auto", threads=1, precision="fp32")


def a_graph() -> Graph:
    source = torch.Generator().manual_seed(0)
    group = torch.arange(16) % 2
    chance = torch.where(group[:, None] == group[None, :], 0.6, 0.1)
    links = (torch.rand(16, 16, generator=source) < chance).triu(1).nonzero().T
    x = torch.nn.functional.one_hot(group, 2).float() + torch.rand(16, 2, generator=source)
    return Graph.from_pairs("small", [f"n{i:02d}" for i in range(16)], links, x)


def recipe(seed: int, **settings) -> Recipe:
    small = {"hidden": 4, "epochs": 3, "evaluate_every": 2, "val": 0.1, "test": 0.2}
    return Recipe.of("cgcl", {**small, "seed": seed, **settings})


def split_of(graph: Graph, own: Recipe) -> Split:
    return random_split(graph, own.split.val, own.split.test, own.split.seed)


@pytest.fixture
def fused(monkeypatch) -> None:
    """Let a machine without a GPU do as if it had one."""
    from cgcl.train.engines.fused import supports

    monkeypatch.setattr(together, "can_fuse", lambda known, settings, _: supports(known, settings))
    monkeypatch.setattr(together, "_TOGETHER_ON", "cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize(("choose_by", "with_features"), [("auc", True), ("node_mrr", False)])
def test_runs_trained_together_are_what_each_is_alone(
    fused: None, monkeypatch, choose_by: str, with_features: bool
) -> None:
    graph = a_graph() if with_features else replace(a_graph(), x=None)
    recipes = [
        recipe(0, choose_by=choose_by),
        recipe(1, lr=0.03, weight_decay=0.1, choose_by=choose_by),
    ]
    splits = [split_of(graph, own) for own in recipes]
    found = train_together(graph, splits, recipes, HERE)

    def fused_alone(learner, known, own, resources):
        runs = FusedRuns([learner], [known], [own.settings], [own.split.seed], "fp32")
        return FusedEngine(runs)

    monkeypatch.setattr("cgcl.train.trainer.engine_for", fused_alone)
    for trained, split, own in zip(found, splits, recipes, strict=True):
        alone = train_once(graph, split, own, HERE)
        assert trained.best_epoch == alone.best_epoch
        assert trained.val == pytest.approx(alone.val)
        assert ("node_mrr" in trained.val) == (choose_by == "node_mrr")
        assert trained.test == pytest.approx(alone.test)
        assert trained.parameters == alone.parameters
        assert [line["epoch"] for line in trained.history] == [1, 2, 3]
        for one, other in zip(trained.history, alone.history, strict=True):
            assert one["losses"] == pytest.approx(other["losses"], rel=1e-4)
            assert ("val" in one) == ("val" in other)
        for name, weight in trained.learner.state_dict().items():
            expected = alone.learner.state_dict()[name]
            torch.testing.assert_close(weight, expected, atol=1e-5, rtol=1e-4)
    assert found[0].test != found[1].test


def test_what_fits_together(fused: None) -> None:
    graph = a_graph()

    def fit(*recipes: Recipe, resources: Resources = HERE) -> bool:
        return fit_together([split_of(graph, own) for own in recipes], recipes, resources)

    assert fit(recipe(0), recipe(1, lr=0.1, weight_decay=0.5))
    assert not fit(recipe(0))
    assert not fit(recipe(0), recipe(1, hidden=8))
    assert not fit(recipe(0), recipe(1, views="shared"))
    assert not fit(recipe(0), recipe(1, test=0.3))
    assert not fit(recipe(0), Recipe.of("mlp", {"val": 0.1, "test": 0.2}))
    assert not fit(recipe(0), recipe(1), resources=Resources(time_limit="1h"))
    assert not fit(recipe(0), recipe(1), resources=Resources(track_consistency=True))


def test_without_a_gpu_runs_are_trained_one_after_the_other() -> None:
    graph, recipes = a_graph(), [recipe(0), recipe(1)]
    splits = [split_of(graph, own) for own in recipes]
    resources = Resources(device="cpu", threads=1)
    found = train_together(graph, splits, recipes, resources)
    for trained, split, own in zip(found, splits, recipes, strict=True):
        alone = train_once(graph, split, own, resources)
        assert trained.test == alone.test
        assert trained.history == alone.history


def test_a_stop_ends_all_runs(fused: None) -> None:
    graph, recipes = a_graph(), [recipe(seed, epochs=50) for seed in range(2)]
    splits = [split_of(graph, own) for own in recipes]
    found = train_together(graph, splits, recipes, HERE, should_stop=lambda: True)
    for trained in found:
        assert trained.stopped is not None
        assert (trained.stopped.reason, trained.stopped.epoch) == ("signal", 2)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's, from within the interpreter
def test_a_run_that_breaks_down_leaves_the_others_alone(fused: None) -> None:
    """An absurd learning rate; its neighbour goes on as if it were not there."""
    graph = a_graph()
    recipes = [recipe(0), recipe(1, lr=10.0, weight_decay=10.0)]
    splits = [split_of(graph, own) for own in recipes]
    sound = train_together(graph, splits, [recipes[0], recipe(1)], HERE)[0]
    beside = train_together(graph, splits, recipes, HERE)[0]
    assert beside.stopped is None
    assert beside.test == pytest.approx(sound.test)


def test_runs_that_are_asked_for_one_by_one_are_trained_at_once(fused: None, monkeypatch) -> None:
    graph, calls = a_graph(), []
    recipes = [recipe(seed) for seed in range(3)] + [
        Recipe.of("adamic-adar", {"val": 0.1, "test": 0.2})
    ]
    expected = {own: train_once(graph, split_of(graph, own), own, HERE) for own in recipes[3:]}

    def counted(graph, splits, group, resources, **more):
        calls.append(len(group))
        return train_together(graph, splits, group, resources, **more)

    monkeypatch.setattr(together, "train_together", counted)
    ahead = Ahead(recipes[:3], lambda own: split_of(graph, own), train_once)
    found = [ahead(graph, split_of(graph, own), own, HERE, measure_test=True) for own in recipes]
    assert calls == [3]
    assert found[3].test == expected[recipes[3]].test
    splits = [split_of(graph, own) for own in recipes[:3]]
    for one, other in zip(found, train_together(graph, splits, recipes[:3], HERE), strict=False):
        assert one.test == pytest.approx(other.test)


class Queued(PlainEngine):
    """The plain engine, but it computes when it is asked for the result, as a GPU may."""

    started = 0

    def start(self, first: int, count: int) -> None:
        Queued.started += 1
        self._asked = first, count

    def finish(self) -> list[list[float]]:
        Queued.started -= 1
        return self.run(*self._asked)


def queued(learner, known, own, _):
    return Queued(learner, known, own.settings, own.split.seed)


def recorded(learner, known, own, _):
    return RecordedEngine(RankingSteps(learner, known, own.settings, own.split.seed, torch.float32))


def rank_recipes(graph: Graph, *epochs: int) -> list[Recipe]:
    told = {"hidden": 4, "evaluate_every": 2, "val": 0.1, "test": 0.2, "layers": 1}
    return [
        Recipe.for_graph("cgcl-rank", {**told, "epochs": count, "seed": seed}, graph)
        for seed, count in enumerate(epochs)
    ]


@pytest.mark.parametrize(
    ("engine", "epochs", "is_stopped"),
    [(None, (5, 3, 4), True), (queued, (5, 3, 4), False), (recorded, (2, 2), False)],
)
def test_runs_of_cgcl_rank_in_turns_are_what_each_is_alone(
    fused: None, monkeypatch, engine, epochs: tuple[int, ...], is_stopped: bool
) -> None:
    """They may differ in everything; one that ends earlier does not hold up the others."""
    if engine is not None:
        monkeypatch.setattr("cgcl.train.trainer.engine_for", engine)
    graph, here = a_graph(), replace(HERE, precision="tf32")
    recipes = rank_recipes(graph, *epochs)
    splits = [split_of(graph, own) for own in recipes]
    assert fit_together(splits, recipes, here)
    for other in (replace(here, time_limit="1h"), replace(here, precision="fp32")):
        assert not fit_together(splits, recipes, other)
    found = train_together(graph, splits, recipes, here, should_stop=lambda: is_stopped)
    for trained, split, own in zip(found, splits, recipes, strict=True):
        alone = train_once(graph, split, own, here, should_stop=lambda: is_stopped)
        assert (trained.stopped is not None) == is_stopped
        assert (trained.best_epoch, trained.val) == (alone.best_epoch, pytest.approx(alone.val))
        assert trained.test == pytest.approx(alone.test)
        for one, other in zip(trained.history, alone.history, strict=not is_stopped):
            assert one["losses"] == pytest.approx(other["losses"], rel=1e-3)
        assert trained.history[-1]["epoch"] <= own.epochs


def test_where_one_of_several_runs_fails_nobody_is_left_at_work(fused: None, monkeypatch) -> None:
    monkeypatch.setattr("cgcl.train.trainer.engine_for", queued)
    monkeypatch.setattr(Queued, "started", 0)
    graph, recipes = a_graph(), rank_recipes(a_graph(), 5, 5, 5)
    splits = [split_of(graph, own) for own in recipes]

    def fails() -> bool:
        raise RuntimeError("out of something")

    with pytest.raises(RuntimeError, match="out of something"):
        train_together(graph, splits, recipes, replace(HERE, precision="tf32"), should_stop=fails)
    # The first had finished when it failed, and is waited for once more.
    assert Queued.started <= 0
