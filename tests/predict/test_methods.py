"""Predictors of any method: what the contract in tests/testing does not cover."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from sklearn.base import clone

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
from cgcl.methods.heuristics import AdamicAdar, CommonNeighbours
from cgcl.methods.scoring import DecoderScorer
from cgcl.methods.table import METHODS
from cgcl.metrics import auc, average_precision, link_metrics
from cgcl.predict import LinkPredictor
from cgcl.split import random_split
from cgcl.train.top_of_list import ranking_metrics

Build = Callable[[int], Graph]


@pytest.fixture(autouse=True)
def one_thread(monkeypatch) -> None:
    """Keep small computations from waiting for each other's threads."""
    monkeypatch.setattr("cgcl.train.config.Resources.num_threads", 1)


def test_the_test_sees_training_links_only_and_predictions_see_all(sbm: Build) -> None:
    graph = sbm(0)
    predictor = LinkPredictor("common-neighbours").fit(graph)
    split = predictor.split_
    seen = CommonNeighbours(split.train, graph.num_nodes)
    assert predictor.test_ == ranking_metrics(seen, split).metrics | link_metrics(
        seen.logits(split.test), seen.logits(split.test_negatives)
    )
    chosen_by = seen.logits(split.val), seen.logits(split.val_negatives)
    assert predictor.val_ == {"auc": auc(*chosen_by), "ap": average_precision(*chosen_by)}
    pairs = torch.combinations(torch.arange(120)).T
    named = [(graph.names[a], graph.names[b]) for a, b in pairs.T.tolist()]
    counts = CommonNeighbours(graph.edges, graph.num_nodes).values(pairs)
    shared = counts > 0
    scores = predictor.score(named)
    assert scores[shared] == pytest.approx(counts[shared] / (1 + counts[shared]), rel=1e-5)


def test_a_split_of_ones_own_is_used_and_one_of_another_graph_refused(sbm: Build) -> None:
    graph = sbm(0)
    split = random_split(graph, 0.2, 0.3, seed=5)
    predictor = LinkPredictor("common-neighbours").fit(graph, split)
    assert predictor.split_ is split
    seen = CommonNeighbours(split.train, graph.num_nodes)
    assert predictor.test_ == ranking_metrics(seen, split).metrics | link_metrics(
        seen.logits(split.test), seen.logits(split.test_negatives)
    )
    with pytest.raises(SplitError):
        LinkPredictor("common-neighbours").fit(sbm(1), split)


def test_the_same_seed_hides_the_same_links_as_the_network_does(sbm: Build) -> None:
    graph = sbm(0)
    baseline = LinkPredictor("common-neighbours", seed=3).fit(graph)
    network = LinkPredictor(hidden=4, epochs=1, threads=1, seed=3).fit(graph)
    assert baseline.split_.fingerprint == network.split_.fingerprint


@pytest.mark.parametrize("method", ["common-neighbours", "adamic-adar", "mlp"])
def test_simple_methods_learn_what_is_there(sbm: Build, method: str) -> None:
    settings = {"hidden": 32, "epochs": 60} if method == "mlp" else {}
    predictor = LinkPredictor(method, **settings).fit(sbm(0))
    assert predictor.test_ is not None
    assert predictor.test_["auc"] > 0.8
    assert f"method={method!r}" in repr(predictor)


def test_heuristics_leave_the_features_out(sbm: Build) -> None:
    graph = sbm(0)
    bare = Graph(graph.title, graph.names, graph.edges)
    with_features, without = (LinkPredictor("adamic-adar").fit(g) for g in (graph, bare))
    assert without.graph_.x is None
    assert with_features.top(20).to_csv() == without.top(20).to_csv()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"method": "magic"}, "method is 'magic'; it must be one of cgcl, cgcl-rank, graphsage"),
        ({"method": "mlp", "hidden": -5}, "hidden is -5"),
        ({"method": "mlp", "lr": float("nan")}, "lr is nan"),
        ({"method": "adamic-adar", "val": 2.0}, "val is 2.0"),
        ({"device": "abacus"}, "device is 'abacus'"),
    ],
)
def test_settings_are_checked_by_fit(sbm: Build, wrong, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        LinkPredictor(**wrong).fit(sbm(0))


def test_a_setting_that_a_method_does_not_have_is_refused_at_once() -> None:
    with pytest.raises(ConfigError) as error:
        LinkPredictor("adamic-adar", hidden=8)
    assert str(error.value) == (
        "adamic-adar has no setting hidden. It has method, val, test, seed, device, threads, "
        "engine, precision, deterministic, time_limit, track_consistency."
    )
    with pytest.raises(ConfigError, match="mlp has no setting views"):
        LinkPredictor("mlp", views="one")
    with pytest.raises(ConfigError, match="cgcl-rank has no setting hiden"):
        LinkPredictor(hiden=8)


def test_settings_travel_as_scikit_learn_expects_for_every_method() -> None:
    for method in METHODS:
        predictor = LinkPredictor(method, seed=3)
        params = predictor.get_params()
        assert (params["method"], params["seed"]) == (method, 3)
        assert clone(predictor).get_params() == params
        assert LinkPredictor(**params).get_params() == params
        assert set(params) > {"method", "val", "test", "seed", "device", "threads"}
    assert LinkPredictor("mlp").get_params()["hidden"] == 128
    assert "hidden" not in LinkPredictor("adamic-adar").get_params()
    assert repr(LinkPredictor("mlp", hidden=9)) == "LinkPredictor(method='mlp', hidden=9)"


def test_changing_the_method_changes_which_settings_there_are() -> None:
    predictor = LinkPredictor("mlp").set_params(method="adamic-adar")
    assert "hidden" not in predictor.get_params()
    with pytest.raises(ConfigError, match="adamic-adar has no setting hidden"):
        predictor.set_params(hidden=4)
    # Whatever comes first among the arguments, the method is taken first.
    assert predictor.set_params(hidden=4, method="mlp").get_params()["hidden"] == 4


def test_what_is_no_graph_is_refused() -> None:
    with pytest.raises(GraphContentError, match="fit needs a graph"):
        LinkPredictor("adamic-adar").fit("friends.csv")


def test_asking_before_fitting_says_what_to_do() -> None:
    with pytest.raises(NotFittedError, match=r"Call \.fit\(graph\) first"):
        LinkPredictor("adamic-adar").top()
    with pytest.raises(NotFittedError, match=r"Call \.fit\(graph\) first"):
        LinkPredictor("adamic-adar").scorer()


def test_asking_for_no_links_is_refused(sbm: Build) -> None:
    with pytest.raises(ConfigError, match="ask for at least 1"):
        LinkPredictor("adamic-adar").fit(sbm(0)).top(0)


def test_what_is_saved_is_what_was_fitted_whatever_is_set_since(sbm: Build, tmp_path) -> None:
    predictor = LinkPredictor("mlp", hidden=4, epochs=5).fit(sbm(0))
    before = predictor.top(5).to_csv()
    predictor.set_params(method="cgcl", hidden=16).save(tmp_path)
    assert predictor.top(5).to_csv() == before
    loaded = LinkPredictor.load(tmp_path, device="cpu")
    assert (loaded.method, loaded.device) == ("mlp", "cpu")
    assert loaded.get_params()["hidden"] == 4
    assert loaded.top(5).to_csv() == before
    assert loaded.val_ == predictor.val_
    assert np.array_equal(loaded.score([("n000", "n001")]), predictor.score([("n000", "n001")]))


def test_files_of_two_predictors_do_not_mix(sbm: Build, tmp_path) -> None:
    for name, seed in (("a", 0), ("b", 1)):
        LinkPredictor("adamic-adar", seed=seed).fit(sbm(seed)).save(tmp_path / name)
    for file, what in (("graph", "graph"), ("split", "split")):
        name = f"{file}.safetensors"
        kept = (tmp_path / "a" / name).read_bytes()
        (tmp_path / "a" / name).write_bytes((tmp_path / "b" / name).read_bytes())
        with pytest.raises(ModelFileError, match=f"was trained on another {what}"):
            LinkPredictor.load(tmp_path / "a")
        (tmp_path / "a" / name).write_bytes(kept)


def test_a_crash_while_saving_leaves_no_folder_that_looks_complete(
    sbm: Build, tmp_path, monkeypatch
) -> None:
    LinkPredictor("adamic-adar", seed=0).fit(sbm(0)).save(tmp_path)

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("cgcl.predict.saved.write_split", crash)
    with pytest.raises(KeyboardInterrupt):
        LinkPredictor("adamic-adar", seed=1).fit(sbm(0)).save(tmp_path)
    with pytest.raises(RunFolderError):
        LinkPredictor.load(tmp_path)


def test_load_gives_back_whatever_method_was_saved(sbm: Build, tmp_path) -> None:
    graph = sbm(0)
    LinkPredictor("adamic-adar").fit(graph).save(tmp_path / "simple")
    LinkPredictor("cgcl", hidden=4, epochs=1).fit(graph).save(tmp_path / "network")
    simple = cgcl.load(tmp_path / "simple")
    assert (type(simple), simple.method) == (LinkPredictor, "adamic-adar")
    assert isinstance(simple.scorer(), AdamicAdar)
    network = cgcl.load(str(tmp_path / "network"))
    assert (type(network), network.method) == (LinkPredictor, "cgcl")
    assert isinstance(network.scorer(), DecoderScorer)
    with pytest.raises(RunFolderError, match="does not exist"):
        cgcl.load(tmp_path / "nothing")


def test_the_scorer_scores_by_all_known_links_and_is_made_once(sbm: Build) -> None:
    graph = sbm(0)
    predictor = LinkPredictor("adamic-adar").fit(graph)
    scorer = predictor.scorer()
    pairs = torch.combinations(torch.arange(120)).T
    expected = AdamicAdar(graph.edges, graph.num_nodes).logits(pairs)
    assert torch.equal(scorer.logits(pairs), expected)
    assert predictor.scorer() is scorer
    predictor.fit(sbm(1))
    assert predictor.scorer() is not scorer


@pytest.mark.parametrize("method", ["adamic-adar", "katz"])
def test_a_method_that_embeds_no_node_says_so(sbm: Build, method: str) -> None:
    predictor = LinkPredictor(method).fit(sbm(0))
    with pytest.raises(ConfigError) as error:
        predictor.embeddings()
    title = {"adamic-adar": "Adamic-Adar", "katz": "Katz"}[method]
    assert str(error.value) == (
        f"{title} scores pairs as a whole and has no embedding of a node.\n"
        f"Train a method that embeds nodes, such as `method=cgcl`."
    )


def test_a_method_that_embeds_nodes_gives_their_embeddings(sbm: Build) -> None:
    predictor = LinkPredictor("mlp", hidden=4, epochs=2).fit(sbm(0))
    z = predictor.embeddings()
    assert z.shape == (120, 4)
    # Features only: links play no part.
    assert np.array_equal(z, predictor.embeddings(predictor.split_.train))


@pytest.mark.parametrize("method", ["mlp", "adamic-adar"])
def test_new_nodes_are_known_to_every_method(sbm: Build, method: str) -> None:
    graph = sbm(0)
    settings = {"hidden": 4, "epochs": 5} if method == "mlp" else {}
    predictor = LinkPredictor(method, **settings).fit(graph)
    x = graph.x[:1] if method == "mlp" else None
    if method != "mlp":
        predictor = LinkPredictor(method).fit(Graph(graph.title, graph.names, graph.edges))
    extended = predictor.with_new_nodes(["new"], [("new", "n000"), ("new", "n004")], x)
    assert extended.method == method
    found = extended.links_of("new", 5)
    assert set(found.sources) == {"new"}
    assert len(found) == 5
