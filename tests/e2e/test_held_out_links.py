"""Links that are held out change no bit: an exact leak detector, at every way into training.

Each way is gone three times, on graphs that share their training links. Other validation links may
change no weight and nothing in the test; other test links no weight and nothing in the validation.
The epoch is looked at once, so that there is nothing to choose. The graphs have no features: those
that are made of links are the first place where a held-out link would show.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

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


class World(NamedTuple):
    graph: Graph
    split: Split


def worlds() -> list[World]:
    """Return graphs with the same links to learn from; the second has others to choose by, the
    third others to test on.
    """
    pairs = torch.combinations(torch.arange(NODES), 2)
    drawn = pairs[torch.randperm(len(pairs), generator=stream(0, "worlds"))].T
    train, val, other_val, test, other_test, *unlinked = drawn[:, :140].split(
        [60, 10, 10, 10, 10, 20, 20], dim=1
    )

    def world(val: Tensor, test: Tensor) -> World:
        links = torch.cat([train, val, test], dim=1)
        graph = Graph.from_pairs("toy", [f"n{i:02d}" for i in range(NODES)], links)
        return World(graph, Split(NODES, train, val, test, *unlinked))

    return [world(val, test), world(other_val, test), world(val, other_test)]


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
        comparison = Comparison(world.graph, specs, plan, folder, "cgcl compare toy")
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


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("cgcl.train.config.Resources.num_threads", 1)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


RANKS = {name for name, metric in METRICS.items() if metric.is_at_top}


def without_ranks(told: Any) -> Any:
    """Leave out where links stand among all pairs: validation links are known, so never in the way.

    The scores that these come from are compared by themselves.
    """
    if isinstance(told, dict):
        return {key: value for key, value in told.items() if key not in RANKS}
    if isinstance(told, list | tuple):
        return [without_ranks(own) for own in told]
    return told


def outcome(way: Strategy, world: World, folder: Path) -> SimpleNamespace:
    """Go one way; keep the weights that each trainer arrived at, and what was judged and told.

    `val` is what validation links and unlinked pairs score, and what is said about them; `test` the
    same for the test links.
    """
    found = SimpleNamespace(weights=[], val=[], test=[])
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
    plain, *others = worlds()
    expected = outcome(way, plain, folder / "plain")
    for other, (part, kept) in zip(others, (("val", "test"), ("test", "val")), strict=True):
        found = outcome(way, other, folder / part)
        assert all(map(torch.equal, expected.weights, found.weights)), "weights tell"
        assert vars(expected)[kept] == vars(found)[kept], f"{kept} tells of {part}"


@pytest.mark.parametrize("most", [50_000, 8], ids=["a feature each", "shared features"])
@pytest.mark.parametrize("name", WAYS)
def test_held_out_links_change_no_bit(name: str, most: int, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("cgcl.graph.features.MAX_FEATURES", most)
    require_no_trace(WAYS[name], tmp_path)


# Whether it barks: faults that are put in on purpose.


def features_of_all_links(patched: pytest.MonkeyPatch) -> None:
    """Make features of all links, once, as if they were given."""

    def leaking(graph: Graph, train: Tensor) -> Graph:
        x = Structure.of(graph.edges, graph.num_nodes).features(graph.edge_index)
        return graph.with_features(x, "Leaks.")

    patched.setattr(fitting, "prepare", leaking)


def features_shared_by_the_degrees_of_all_links(patched: pytest.MonkeyPatch) -> None:
    patched.setattr("cgcl.graph.features.MAX_FEATURES", 8)
    original = fitting.prepare
    patched.setattr(fitting, "prepare", lambda graph, _: original(graph, graph.edges))


def validation_links_in_what_the_test_encodes(patched: pytest.MonkeyPatch) -> None:
    seeing_more(patched, "measure", "val")
    original = Fitted.scorer

    def leaking(trained: Fitted, links: Tensor) -> Any:
        """A comparison encodes by itself."""
        edges = trained.graph.edges
        [val] = {split.val for graph, split in worlds() if torch.equal(graph.edges, edges)}
        return original(trained, torch.cat([links, val], dim=1))

    patched.setattr(Fitted, "scorer", leaking)


def links_to_test_on_in_what_the_validation_encodes(patched: pytest.MonkeyPatch) -> None:
    seeing_more(patched, "_look", "test")


def seeing_more(patched: pytest.MonkeyPatch, name: str, part: str) -> None:
    """Let a method of the trainer encode another part of the split besides the training links."""
    original = getattr(Trainer, name)

    def leaking(own: Trainer, *_: Any, **told: Any) -> Any:
        split, known = own.split, own.known
        own.known = known.with_links(torch.cat([split.train, getattr(split, part)], dim=1))
        try:
            return original(own, **told)
        finally:
            own.known = known

    patched.setattr(Trainer, name, leaking)


WITH_TEST = [name for name in WAYS if name != "tune"]
"""A search does not even get the test links."""
FAULTS = [
    (features_of_all_links, "weights tell", WAYS),
    (features_shared_by_the_degrees_of_all_links, "weights tell", WAYS),
    (validation_links_in_what_the_test_encodes, "test tells of val", WITH_TEST),
    (links_to_test_on_in_what_the_validation_encodes, "val tells of test", WITH_TEST),
]


@pytest.mark.parametrize(
    ("fault", "words", "name"),
    [(fault, words, name) for fault, words, ways in FAULTS for name in ways],
)
def test_it_barks_at(fault, words: str, name: str, tmp_path: Path, monkeypatch) -> None:
    fault(monkeypatch)
    with pytest.raises(AssertionError, match=words):
        require_no_trace(WAYS[name], tmp_path)
