"""`fit` alone, and several runs at once through Triton's interpreter where there is no GPU."""

import math
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from cgcl.errors import TrainingError
from cgcl.graph import Graph
from cgcl.methods.heuristics import CommonNeighbours
from cgcl.metrics import auc, average_precision, link_metrics
from cgcl.split import Split, random_split
from cgcl.train import fit as fitting
from cgcl.train.config import Resources, RunConfig
from cgcl.train.engines.fused import FusedEngine, FusedRuns, supports
from cgcl.train.engines.plain import PlainEngine
from cgcl.train.engines.recorded import RankingSteps, RecordedEngine
from cgcl.train.fit import BatchedTrainer, Fitted, fit, fit_many, fit_together
from cgcl.train.top_of_list import ranking_metrics
from cgcl.train.trainer import EpochRecord

Build = Callable[[int], Graph]
ONE = Resources(threads=1, device="cpu")
SMALL = RunConfig.of("cgcl", {"hidden": 8, "epochs": 6, "evaluate_every": 2})


def test_a_training_says_all_about_itself(sbm: Build) -> None:
    graph = sbm(0)
    split = random_split(graph)
    told: list[EpochRecord] = []
    fitted = fit(graph, split, SMALL, ONE, on_epoch=told.append)
    assert [record.epoch for record in told] == [1, 2, 3, 4, 5, 6]
    assert fitted.history == [record.to_json() for record in told]
    looks = {record.epoch: record.val for record in told if record.val}
    assert list(looks) == [2, 4, 6]
    assert fitted.val == looks[fitted.best_epoch]
    assert fitted.val["auc"] == max(val["auc"] for val in looks.values())
    assert fitted.parameters == 4 * 8 + 8 + 8 * 4 + 4 + 4 + 1
    assert fitted.seconds > 0
    scorer = fitted.scorer(split.train)
    against_unlinked = link_metrics(scorer.logits(split.test), scorer.logits(split.test_negatives))
    assert fitted.test == ranking_metrics(scorer, split).metrics | against_unlinked
    assert (fitted.test_sampled, fitted.calibration, fitted.stopped) == (None, None, None)
    positive, negative = scorer.logits(split.val), scorer.logits(split.val_negatives)
    expected = {"auc": auc(positive, negative), "ap": average_precision(positive, negative)}
    assert fitted.val == expected
    # The shares of a recipe play no part where there is a split.
    other = replace(SMALL, split=replace(SMALL.split, val=0.3, test=0.3))
    again = fit(graph, split, other, ONE, top_of_list=False)
    assert again.test == against_unlinked
    for one, two in zip(fitted.learner.parameters(), again.learner.parameters(), strict=True):
        assert torch.equal(one, two)


def test_the_test_links_are_not_looked_at_unless_asked(sbm: Build, monkeypatch) -> None:
    graph = sbm(0)
    split = random_split(graph)
    held_out = {tuple(pair) for pair in split.test.T.tolist()}
    values = CommonNeighbours.values

    def watched(self, pairs):
        assert not held_out & {tuple(pair) for pair in pairs.T.tolist()}
        return values(self, pairs)

    monkeypatch.setattr(CommonNeighbours, "values", watched)
    recipe = RunConfig.of("common-neighbours", {})
    assert fit(graph, split, recipe, ONE, measure_test=False).test is None
    with pytest.raises(AssertionError):
        fit(graph, split, recipe, ONE)


def test_features_are_made_only_for_a_method_that_needs_some(sbm: Build) -> None:
    graph = sbm(0)
    bare = Graph.from_pairs("bare", graph.names, graph.edges)
    split = random_split(bare)
    with_some = fit(bare, split, SMALL, ONE)
    assert with_some.graph.num_features > 0
    without = fit(bare, split, RunConfig.of("adamic-adar", {}), ONE)
    assert without.graph.x is None
    assert (without.parameters, without.history, without.best_epoch) == (0, [], 0)
    assert without.val is not None
    assert without.test is not None


def test_training_stops_when_asked_and_at_its_limit(sbm: Build) -> None:
    """Nobody waits for the test of what was asked to stop."""
    graph = sbm(0)
    split = random_split(graph)
    seen: list[int] = []
    asked = fit(
        graph,
        split,
        SMALL,
        ONE,
        on_epoch=lambda record: seen.append(record.epoch),
        should_stop=lambda: len(seen) == 3,
        on_trained=lambda _: pytest.fail("it was not trained to the end"),
    )
    assert (asked.stopped.reason, len(asked.history), asked.best_epoch) == ("signal", 3, 2)
    assert asked.test is None
    early = fit(graph, split, SMALL, ONE, should_stop=lambda: True)
    assert (early.best_epoch, early.val) == (0, None)
    limited = fit(graph, split, SMALL, Resources(threads=1, time_limit="0s"))
    assert limited.stopped.reason == "time limit"
    assert limited.test is not None


# Several at once.

HERE = Resources(device="auto", threads=1, precision="fp32")


def a_graph() -> Graph:
    source = torch.Generator().manual_seed(0)
    group = torch.arange(14) % 2
    chance = torch.where(group[:, None] == group[None, :], 0.6, 0.1)
    links = (torch.rand(14, 14, generator=source) < chance).triu(1).nonzero().T
    x = torch.nn.functional.one_hot(group, 2).float() + torch.rand(14, 2, generator=source)
    return Graph.from_pairs("small", [f"n{i:02d}" for i in range(14)], links, x)


def recipe(seed: int, **settings) -> RunConfig:
    small = {"hidden": 4, "epochs": 2, "evaluate_every": 1, "val": 0.1, "test": 0.2}
    return RunConfig.of("cgcl", {**small, "seed": seed, **settings})


def split_of(graph: Graph, own: RunConfig) -> Split:
    return random_split(graph, own.split.val, own.split.test, own.split.seed)


def many(
    graph: Graph, recipes: list[RunConfig], resources: Resources = HERE, **more
) -> list[Fitted]:
    return fit_many(graph, [split_of(graph, own) for own in recipes], recipes, resources, **more)


@pytest.fixture
def fused(monkeypatch) -> None:
    """Let a machine without a GPU do as if it had one."""
    monkeypatch.setattr(fitting, "can_fuse", lambda known, settings, _: supports(known, settings))
    monkeypatch.setattr(fitting, "_TOGETHER_ON", "cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize(("choose_by", "with_features"), [("auc", True), ("node_mrr", False)])
def test_runs_trained_together_are_what_each_is_alone(
    fused: None, monkeypatch, choose_by: str, with_features: bool
) -> None:
    graph = a_graph() if with_features else replace(a_graph(), x=None)
    recipes = [
        recipe(0, choose_by=choose_by),
        recipe(1, lr=0.03, weight_decay=0.1, choose_by=choose_by),
    ]
    found = many(graph, recipes)

    def fused_alone(learner, known, own, resources):
        runs = FusedRuns([learner], [known], [own.settings], [own.split.seed], "fp32")
        return FusedEngine(runs)

    monkeypatch.setattr("cgcl.train.trainer.engine_for", fused_alone)
    for fitted, own in zip(found, recipes, strict=True):
        alone = fit(graph, split_of(graph, own), own, HERE)
        assert (fitted.best_epoch, fitted.parameters) == (alone.best_epoch, alone.parameters)
        assert fitted.val == pytest.approx(alone.val)
        assert ("node_mrr" in fitted.val) == (choose_by == "node_mrr")
        assert fitted.test == pytest.approx(alone.test)
        assert [line["epoch"] for line in fitted.history] == [1, 2]
        for one, other in zip(fitted.history, alone.history, strict=True):
            assert one["losses"] == pytest.approx(other["losses"], rel=1e-4)
            assert ("val" in one) == ("val" in other)
        weights = [own.learner.state_dict() for own in (fitted, alone)]
        torch.testing.assert_close(*weights, atol=1e-5, rtol=1e-4)


def test_what_fits_together(fused: None) -> None:
    graph = a_graph()

    def together(*recipes: RunConfig, resources: Resources = HERE) -> bool:
        return fit_together([split_of(graph, own) for own in recipes], recipes, resources)

    assert together(recipe(0), recipe(1, lr=0.1, weight_decay=0.5))
    assert not together(recipe(0))
    for other in (recipe(1, hidden=8), recipe(1, views="shared"), recipe(1, test=0.3)):
        assert not together(recipe(0), other)
    assert not together(recipe(0), RunConfig.of("mlp", {"val": 0.1, "test": 0.2}))
    for resources in (Resources(time_limit="1h"), Resources(track_consistency=True)):
        assert not together(recipe(0), recipe(1), resources=resources)


def test_a_stop_ends_all_runs(fused: None) -> None:
    for fitted in many(a_graph(), [recipe(seed) for seed in range(2)], should_stop=lambda: True):
        assert (fitted.stopped.reason, fitted.stopped.epoch) == ("signal", 1)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's, from within the interpreter
def test_a_run_that_breaks_down_leaves_the_others_alone(fused: None) -> None:
    """An absurd learning rate; its neighbour goes on as if it were not there."""
    graph = a_graph()
    sound = many(graph, [recipe(0), recipe(1)])[0]
    beside = many(graph, [recipe(0), recipe(1, lr=10.0, weight_decay=10.0)])[0]
    assert beside.stopped is None
    assert beside.test == pytest.approx(sound.test)


def test_a_look_at_several_runs_says_of_each_whether_it_is_sound() -> None:
    logits, weights, z = torch.zeros(4, 6), torch.zeros(4, 3), torch.zeros(4, 2, 2)
    logits[1, 2], weights[2, 0], z[3, 1, 0] = math.inf, math.nan, math.nan
    runs = SimpleNamespace(
        logits=lambda _: logits,
        weights=SimpleNamespace(values=weights),
        encoder=SimpleNamespace(z=z),
    )
    seen = fitting._look(runs, torch.zeros(4, 2, 6))
    assert [own.is_finite for own in seen] == [True, False, False, False]
    assert torch.equal(seen[1].positive, logits[1, :3])


def test_runs_that_are_asked_for_one_by_one_are_trained_at_once(fused: None, monkeypatch) -> None:
    graph, calls = a_graph(), []
    recipes = [recipe(seed) for seed in range(2)]
    formula = RunConfig.of("adamic-adar", {"val": 0.1, "test": 0.2})

    def counted(graph, splits, group, resources, **more):
        calls.append(group)
        return [fit(graph, *run, ONE, **more) for run in zip(splits, group, strict=True)]

    monkeypatch.setattr(fitting, "fit_many", counted)
    ahead = BatchedTrainer(recipes, lambda own: split_of(graph, own), fit)
    for own in [*recipes, formula]:
        split = split_of(graph, own)
        assert ahead(graph, split, own, HERE).test == fit(graph, split, own, ONE).test
    assert calls == [recipes]


def test_a_run_that_fails_among_others_leaves_them_to_be_trained_alone(fused, monkeypatch) -> None:
    graph, recipes = a_graph(), [recipe(seed) for seed in range(2)]

    def failing(*_: object, **__: object) -> None:
        raise TrainingError("one of them")

    monkeypatch.setattr(fitting, "fit_many", failing)
    ahead = BatchedTrainer(recipes, lambda own: split_of(graph, own), lambda *run, **_: run[2])
    for own in recipes:
        assert ahead(graph, split_of(graph, own), own, HERE) == own


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


def rank_recipes(graph: Graph, *epochs: int) -> list[RunConfig]:
    told = {"hidden": 4, "evaluate_every": 2, "val": 0.1, "test": 0.2, "layers": 1}
    return [
        RunConfig.for_graph("cgcl-rank", {**told, "epochs": count, "seed": seed}, graph)
        for seed, count in enumerate(epochs)
    ]


@pytest.mark.parametrize(
    ("engine", "epochs", "is_stopped"),
    [(None, (5, 3, 4), True), (queued, (5, 3, 4), False), (recorded, (2, 1), False)],
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
    found = fit_many(graph, splits, recipes, here, should_stop=lambda: is_stopped)
    for fitted, split, own in zip(found, splits, recipes, strict=True):
        alone = fit(graph, split, own, here, should_stop=lambda: is_stopped)
        assert (fitted.stopped is not None) == is_stopped
        assert (fitted.best_epoch, fitted.val) == (alone.best_epoch, pytest.approx(alone.val))
        assert fitted.test == pytest.approx(alone.test)
        for one, other in zip(fitted.history, alone.history, strict=not is_stopped):
            assert one["losses"] == pytest.approx(other["losses"], rel=1e-3)
        assert fitted.history[-1]["epoch"] <= own.epochs


def test_features_of_several_runs_are_placed_once(fused: None, monkeypatch) -> None:
    monkeypatch.setattr("cgcl.train.trainer.engine_for", queued)
    graph, asked = a_graph(), []
    monkeypatch.setattr(fitting, "placed", lambda x, _: asked.append(x) or x.clone())
    recipes = rank_recipes(graph, 1, 1)
    found = many(graph, recipes, replace(HERE, precision="tf32"), should_stop=lambda: True)
    assert len(found) == 2
    assert {id(x) for x in asked} == {id(graph.x)}


def test_where_one_of_several_runs_fails_nobody_is_left_at_work(fused: None, monkeypatch) -> None:
    monkeypatch.setattr("cgcl.train.trainer.engine_for", queued)
    monkeypatch.setattr(Queued, "started", 0)
    graph = a_graph()

    def fails() -> bool:
        raise RuntimeError("out of something")

    with pytest.raises(RuntimeError, match="out of something"):
        many(
            graph, rank_recipes(graph, 5, 5, 5), replace(HERE, precision="tf32"), should_stop=fails
        )
    assert Queued.started == 0
