"""Links that are held out change no bit: an exact leak detector, at every way into training.

Each way is gone three times, on graphs that share their training links. Other validation links may
change no weight and nothing in the test; other test links no weight and nothing in the validation.
The epoch is looked at once, so that there is nothing to choose. The graphs have no features: those
that are made of links are the first place where a held-out link would show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from cgcl import LinkPredictor
from cgcl.experiments import Plan
from cgcl.experiments import comparison as cell
from cgcl.experiments.comparison import Comparison, resolve_methods
from cgcl.experiments.reproduction import Records, run_jobs
from cgcl.experiments.search import tune
from cgcl.experiments.study import Job
from cgcl.graph import Graph
from cgcl.graph.features import Structure
from cgcl.metrics import auc, link_metrics
from cgcl.metrics.table import METRICS
from cgcl.seeds import stream
from cgcl.split import Split
from cgcl.train import fit as fitting
from cgcl.train import trainer
from cgcl.train.config import Resources, RunConfig
from cgcl.train.engines.fused import supports
from cgcl.train.fit import Fitted, fit, fit_many
from cgcl.train.run import start_run
from cgcl.train.trainer import Trainer

NODES = 20
HERE = Resources(device="cpu", threads=1, precision="fp32")
SMALL = {"hidden": 8, "epochs": 2, "evaluate_every": 2}


@dataclass(frozen=True, eq=False)
class World:
    """A graph and its split."""

    graph: Graph
    split: Split


def worlds() -> dict[str, World]:
    """Return graphs with the same links to learn from, and others to choose by or to test on."""
    pairs = torch.combinations(torch.arange(NODES), 2)
    drawn = pairs[torch.randperm(len(pairs), generator=stream(0, "worlds"))].T
    train, val, other_val, test, other_test, *unlinked = drawn[:, :140].split(
        [60, 10, 10, 10, 10, 20, 20], dim=1
    )

    def world(val: Tensor, test: Tensor) -> World:
        links = torch.cat([train, val, test], dim=1)
        graph = Graph.from_pairs("toy", [f"n{i:02d}" for i in range(NODES)], links)
        return World(graph, Split(NODES, train, val, test, *unlinked))

    return {
        "plain": world(val, test),
        "other validation links": world(other_val, test),
        "other test links": world(val, other_test),
    }


@dataclass
class Outcome:
    """What came out of one way into training."""

    weights: list[Tensor] = field(default_factory=list)
    """Those of each trainer, one after the other."""
    val: list[Any] = field(default_factory=list)
    """What validation links and unlinked pairs score, and what is said about them."""
    test: list[Any] = field(default_factory=list)
    """The same for the test links."""


def recipe(**told: Any) -> RunConfig:
    return RunConfig.of("cgcl", SMALL | told)


def by_train(world: World, folder: Path) -> tuple[Any, Any]:
    """As `cgcl train` does."""
    run = start_run(world.graph, recipe(), HERE, folder, "cgcl train toy", world.split)
    with run.folder:
        run.train()
    return run.about["val"], run.about["test"]


def by_predictor(world: World, folder: Path) -> tuple[Any, Any]:
    predictor = LinkPredictor(device="cpu", threads=1, **SMALL).fit(world.graph, world.split)
    scores = [part.tolist() for part in predictor.test_scores()]
    return predictor.val_, (predictor.test_, scores)


def by_fit(world: World, folder: Path, **resources: Any) -> tuple[Any, Any]:
    here = Resources(device="cpu", threads=1, **resources)
    trained = fit(world.graph, world.split, recipe(), here)
    return trained.val, trained.test


def by_fit_many(world: World, folder: Path) -> tuple[Any, Any]:
    """Side by side, with the GPU's kernels; where there is none, each step takes seconds."""
    both = [recipe(seed=seed, epochs=1, views="one") for seed in (0, 1)]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(fitting, "can_fuse", lambda known, own, _: supports(known, own))
        found = fit_many(world.graph, [world.split] * 2, both, HERE)
    return [own.val for own in found], [own.test for own in found]


def by_compare(world: World, folder: Path) -> tuple[Any, Any]:
    def small(graph: Graph, split: Split, _: RunConfig, *more: Any, **told: Any) -> Fitted:
        return fit(graph, split, recipe(), *more, **told)

    plan = Plan(runs=1)
    specs, _ = resolve_methods(world.graph, ["cgcl"], plan)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("cgcl.experiments.comparison.random_split", lambda *_: world.split)
        comparison = Comparison.open(world.graph, specs, plan, folder, "cgcl compare toy")
        with comparison.folder:
            comparison.run(HERE, train=small)
            [result] = comparison.folder.results
    assert result.failure is None
    return result.val, (result.test, result.by_degree)


def by_tune(world: World, folder: Path) -> tuple[Any, Any]:
    tuned = tune(world.graph, world.split, "cgcl", 1, resources=HERE, fixed=SMALL)
    return (tuned.best.auc, tuned.best.ap), None


def by_reproduce(world: World, folder: Path) -> tuple[Any, Any]:
    job = Job("toy", 10, recipe(val=0.1, test=0.1), 0)
    with pytest.MonkeyPatch.context() as patched, Records(folder) as records:
        patched.setattr("cgcl.experiments.reproduction.random_split", lambda *_: world.split)
        assert run_jobs([job], records, lambda _: world.graph, HERE)
        [record] = records.found.values()
    return record.val, record.metrics


Strategy = Callable[[World, Path], tuple[Any, Any]]
WAYS: dict[str, Strategy] = {
    "cgcl train": by_train,
    "LinkPredictor": by_predictor,
    "fit": by_fit,
    "fit, plain": partial(by_fit, engine="plain"),
    "fit_many": by_fit_many,
    "compare": by_compare,
    "tune": by_tune,
    "reproduce": by_reproduce,
}
WITH_TEST = [name for name in WAYS if name != "tune"]
"""A search does not even get the test links."""


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("cgcl.train.config.Resources.num_threads", 1)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def without_ranks(told: Any) -> Any:
    """Leave out where links stand among all pairs: validation links are known, so never in the way.

    The scores that these come from are compared by themselves.
    """
    if isinstance(told, dict):
        return {key: value for key, value in told.items() if not _is_rank(key)}
    if isinstance(told, list | tuple):
        return [without_ranks(own) for own in told]
    return told


def _is_rank(key: str) -> bool:
    return key in METRICS and METRICS[key].is_at_top


def outcome(way: Strategy, world: World, folder: Path) -> Outcome:
    """Go one way, and keep the weights that it arrived at and all scores that were judged."""
    found = Outcome()
    original = Trainer.keep_best

    def noted(own: Trainer) -> None:
        original(own)
        found.weights += [weight.clone() for weight in own.learner.state_dict().values()]

    def judged(scores: list[Any], judge: Callable[..., Any]) -> Callable[..., Any]:
        def note(positive: Tensor, negative: Tensor) -> Any:
            scores.append((list(map(float, positive)), list(map(float, negative))))
            return judge(positive, negative)

        return note

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Trainer, "keep_best", noted)
        patched.setattr(trainer, "auc", judged(found.val, auc))
        for place in (trainer, cell):
            patched.setattr(place, "link_metrics", judged(found.test, link_metrics))
        told = way(world, folder)
    assert found.weights
    assert found.val
    found.val.append(told[0])
    found.test.append(without_ranks(told[1]))
    return found


def require_no_trace(way: Strategy, folder: Path) -> None:
    """Assert that held-out links leave none where they are not asked about."""
    found = {name: outcome(way, own, folder / name) for name, own in worlds().items()}
    plain = found["plain"]
    for other in (found["other validation links"], found["other test links"]):
        assert all(map(torch.equal, plain.weights, other.weights)), "weights tell"
    assert plain.test == found["other validation links"].test, "the test tells of validation links"
    assert plain.val == found["other test links"].val, "the validation tells of test links"


@pytest.mark.parametrize("most", [50_000, 8], ids=["a feature each", "shared features"])
@pytest.mark.parametrize("name", WAYS)
def test_held_out_links_change_no_bit(name: str, most: int, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("cgcl.graph.features.MAX_FEATURES", most)
    require_no_trace(WAYS[name], tmp_path)


# Whether it barks: faults that are put in on purpose.


def of_all_links(graph: Graph, train: Tensor) -> Graph:
    """Make features of all links, once, as if they were given."""
    x = Structure.of(graph.edges, graph.num_nodes).features(graph.edge_index)
    return graph.with_features(x, "Leaks.")


@pytest.mark.parametrize("name", WAYS)
def test_it_barks_at_features_made_of_all_links(name: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(fitting, "prepare", of_all_links)
    with pytest.raises(AssertionError, match="weights tell"):
        require_no_trace(WAYS[name], tmp_path)


@pytest.mark.parametrize("name", [name for name in WAYS if name != "train_together"])
def test_it_barks_at_features_shared_by_the_degrees_of_all_links(
    name: str, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr("cgcl.graph.features.MAX_FEATURES", 8)
    original = fitting.prepare
    monkeypatch.setattr(fitting, "prepare", lambda graph, _: original(graph, graph.edges))
    with pytest.raises(AssertionError, match="weights tell"):
        require_no_trace(WAYS[name], tmp_path)


@pytest.mark.parametrize("name", WITH_TEST)
def test_it_barks_at_validation_links_in_what_the_test_encodes(
    name: str, tmp_path: Path, monkeypatch
) -> None:
    seeing_more(monkeypatch, "measure", "val")
    original = Fitted.scorer

    def leaking(trained: Fitted, links: Tensor) -> Any:
        """A comparison encodes by itself."""
        edges = trained.graph.edges
        [val] = {own.split.val for own in worlds().values() if torch.equal(own.graph.edges, edges)}
        return original(trained, torch.cat([links, val], dim=1))

    monkeypatch.setattr(Fitted, "scorer", leaking)
    with pytest.raises(AssertionError, match="the test tells"):
        require_no_trace(WAYS[name], tmp_path)


def seeing_more(monkeypatch: pytest.MonkeyPatch, name: str, part: str) -> None:
    """Let a method of the trainer encode another part of the split besides the training links."""
    original = getattr(Trainer, name)

    def leaking(own: Trainer, *_: Any, **told: Any) -> Any:
        split, known = own.split, own.known
        own.known = known.with_links(torch.cat([split.train, getattr(split, part)], dim=1))
        try:
            return original(own, **told)
        finally:
            own.known = known

    monkeypatch.setattr(Trainer, name, leaking)


@pytest.mark.parametrize("name", WITH_TEST)
def test_it_barks_at_test_links_in_what_the_validation_encodes(
    name: str, tmp_path: Path, monkeypatch
) -> None:
    seeing_more(monkeypatch, "_look", "test")
    with pytest.raises(AssertionError, match="the validation tells"):
        require_no_trace(WAYS[name], tmp_path)
