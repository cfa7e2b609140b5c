"""What the contract in tests/testing does not cover."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

import cgcl
from cgcl.errors import (
    ConfigError,
    GraphContentError,
    ModelFileError,
    NotFittedError,
    RunFolderError,
    SplitError,
)
from cgcl.graph import Graph
from cgcl.methods import CommonNeighbours
from cgcl.metrics import link_metrics
from cgcl.predict import LinkPredictor
from cgcl.predict.baseline_predictor import BaselinePredictor
from cgcl.split import random_split

Build = Callable[[int], Graph]


@pytest.fixture(autouse=True)
def one_thread(monkeypatch) -> None:
    """Keep small computations from waiting for each other's threads."""
    monkeypatch.setattr("cgcl.train.config.Resources.num_threads", 1)


def test_the_test_sees_training_links_only_and_predictions_see_all(sbm: Build) -> None:
    graph = sbm(0)
    predictor = BaselinePredictor("common-neighbours").fit(graph)
    split = predictor.split_
    seen = CommonNeighbours(split.train, graph.num_nodes)
    assert predictor.test_ == link_metrics(
        seen.logits(split.test), seen.logits(split.test_negatives)
    )
    assert predictor.val_ == link_metrics(seen.logits(split.val), seen.logits(split.val_negatives))
    pairs = torch.combinations(torch.arange(120)).T
    named = [(graph.names[a], graph.names[b]) for a, b in pairs.T.tolist()]
    counts = CommonNeighbours(graph.edges, graph.num_nodes).values(pairs)
    shared = counts > 0
    scores = predictor.score(named)
    assert scores[shared] == pytest.approx(counts[shared] / (1 + counts[shared]), rel=1e-5)


def test_a_split_of_ones_own_is_used_and_one_of_another_graph_refused(sbm: Build) -> None:
    graph = sbm(0)
    split = random_split(graph, 0.2, 0.3, seed=5)
    predictor = BaselinePredictor().fit(graph, split)
    assert predictor.split_ is split
    seen = CommonNeighbours(split.train, graph.num_nodes)
    assert predictor.test_ == link_metrics(
        seen.logits(split.test), seen.logits(split.test_negatives)
    )
    with pytest.raises(SplitError):
        BaselinePredictor().fit(sbm(1), split)


def test_the_same_seed_hides_the_same_links_as_the_network_does(sbm: Build) -> None:
    graph = sbm(0)
    baseline = BaselinePredictor(seed=3).fit(graph)
    network = LinkPredictor(hidden=4, epochs=1, threads=1, seed=3).fit(graph)
    assert baseline.split_.fingerprint == network.split_.fingerprint


@pytest.mark.parametrize("method", ["common-neighbours", "adamic-adar", "features-mlp"])
def test_every_method_learns_what_is_there(sbm: Build, method: str) -> None:
    predictor = BaselinePredictor(method, hidden=32, epochs=60).fit(sbm(0))
    assert predictor.test_ is not None
    assert predictor.test_["auc"] > 0.8
    assert f"method={method!r}" in repr(predictor) or method == "common-neighbours"


def test_heuristics_leave_the_features_out(sbm: Build) -> None:
    graph = sbm(0)
    bare = Graph(graph.title, graph.names, graph.edges)
    with_features, without = (BaselinePredictor("adamic-adar").fit(g) for g in (graph, bare))
    assert without.graph_.x is None
    assert with_features.top(20).to_csv() == without.top(20).to_csv()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"method": "magic"}, "method is 'magic'; it must be one of common-neighbours"),
        ({"hidden": -5}, "hidden is -5"),
        ({"lr": float("nan")}, "lr is nan"),
        ({"device": "abacus"}, "device is 'abacus'"),
    ],
)
def test_settings_are_checked_by_fit(sbm: Build, wrong, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        BaselinePredictor(**wrong).fit(sbm(0))


def test_what_is_no_graph_is_refused() -> None:
    with pytest.raises(GraphContentError, match="fit needs a graph"):
        BaselinePredictor().fit("friends.csv")


def test_asking_before_fitting_says_what_to_do() -> None:
    with pytest.raises(NotFittedError, match=r"Call \.fit\(graph\) first"):
        BaselinePredictor().top()


def test_asking_for_no_links_is_refused(sbm: Build) -> None:
    with pytest.raises(ConfigError, match="ask for at least 1"):
        BaselinePredictor().fit(sbm(0)).top(0)


def test_what_is_saved_is_what_was_fitted_whatever_is_set_since(sbm: Build, tmp_path) -> None:
    predictor = BaselinePredictor("features-mlp", hidden=4, epochs=5).fit(sbm(0))
    before = predictor.top(5).to_csv()
    predictor.set_params(method="adamic-adar", hidden=16).save(tmp_path)
    assert predictor.top(5).to_csv() == before
    loaded = BaselinePredictor.load(tmp_path, device="cpu")
    assert (loaded.method, loaded.hidden, loaded.device) == ("features-mlp", 4, "cpu")
    assert loaded.top(5).to_csv() == before
    assert loaded.val_ == predictor.val_
    assert np.array_equal(loaded.score([("n000", "n001")]), predictor.score([("n000", "n001")]))


def test_files_of_two_predictors_do_not_mix(sbm: Build, tmp_path) -> None:
    for name, seed in (("a", 0), ("b", 1)):
        BaselinePredictor(seed=seed).fit(sbm(seed)).save(tmp_path / name)
    for file, what in (("graph", "graph"), ("split", "split")):
        name = f"{file}.safetensors"
        kept = (tmp_path / "a" / name).read_bytes()
        (tmp_path / "a" / name).write_bytes((tmp_path / "b" / name).read_bytes())
        with pytest.raises(ModelFileError, match=f"was made from another {what}"):
            BaselinePredictor.load(tmp_path / "a")
        (tmp_path / "a" / name).write_bytes(kept)


def test_a_folder_without_a_baseline_is_refused(sbm: Build, tmp_path) -> None:
    with pytest.raises(RunFolderError, match=r"holds no baseline\.safetensors"):
        BaselinePredictor.load(tmp_path)
    LinkPredictor(hidden=4, epochs=1).fit(sbm(0)).save(tmp_path)
    with pytest.raises(RunFolderError, match=r"holds no baseline\.safetensors"):
        BaselinePredictor.load(tmp_path)


def test_a_crash_while_saving_leaves_no_folder_that_looks_complete(
    sbm: Build, tmp_path, monkeypatch
) -> None:
    BaselinePredictor(seed=0).fit(sbm(0)).save(tmp_path)

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("cgcl.predict.baseline_predictor.write_split", crash)
    with pytest.raises(KeyboardInterrupt):
        BaselinePredictor(seed=1).fit(sbm(0)).save(tmp_path)
    with pytest.raises(RunFolderError):
        BaselinePredictor.load(tmp_path)


def test_load_gives_back_whatever_kind_was_saved(sbm: Build, tmp_path) -> None:
    graph = sbm(0)
    BaselinePredictor("adamic-adar").fit(graph).save(tmp_path / "simple")
    LinkPredictor(hidden=4, epochs=1).fit(graph).save(tmp_path / "network")
    assert isinstance(cgcl.load(tmp_path / "simple"), BaselinePredictor)
    assert isinstance(cgcl.load(str(tmp_path / "network")), LinkPredictor)
    with pytest.raises(RunFolderError, match="does not exist"):
        cgcl.load(tmp_path / "nothing")
