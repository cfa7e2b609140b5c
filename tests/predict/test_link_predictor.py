"""The predictor itself: what the contract in tests/testing does not cover."""

from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest
import torch

import cgcl
from cgcl.errors import (
    ConfigError,
    ModelFileError,
    NotFittedError,
    RunFolderError,
    SplitError,
)
from cgcl.graph import Graph
from cgcl.methods.heuristics import CommonNeighbours
from cgcl.metrics import auc, average_precision, link_metrics
from cgcl.predict import LinkPredictor
from cgcl.seeds import stream
from cgcl.split import random_split
from cgcl.testing.graphs import groups, unlinked_pairs
from cgcl.train.top_of_list import ranking_metrics

Build = Callable[[int], Graph]


@pytest.fixture(autouse=True)
def one_thread(monkeypatch) -> None:
    """Keep small computations from waiting for each other's threads."""
    monkeypatch.setattr("cgcl.train.config.Resources.num_threads", 1)


@pytest.fixture(scope="module")
def graph() -> Graph:
    """Three groups of twelve, dense within: small enough to score every pair by hand."""
    return groups([f"n{i:02d}" for i in range(36)])


@pytest.fixture(scope="module")
def fitted(graph: Graph) -> LinkPredictor:
    return LinkPredictor(hidden=8, epochs=20, evaluate_every=5, threads=1).fit(graph)


def brief(method: str = "cgcl", **settings) -> LinkPredictor:
    return LinkPredictor(method, **{"hidden": 4, "epochs": 2, **settings})


def test_a_setting_that_a_method_does_not_have_is_refused_at_once(graph: Graph) -> None:
    with pytest.raises(ConfigError) as error:
        LinkPredictor("adamic-adar", hidden=8)
    assert str(error.value) == (
        "adamic-adar has no setting hidden. It has method, val, test, seed, device, threads, "
        "engine, precision, deterministic, time_limit, track_consistency."
    )
    with pytest.raises(ConfigError, match="cgcl-rank has no setting hiden"):
        LinkPredictor().set_params(hiden=8)
    with pytest.raises(ConfigError, match="method is 'magic'; it must be one of cgcl, cgcl-rank"):
        LinkPredictor("magic", hidden=8).fit(graph)  # stored until then
    assert LinkPredictor("magic", hidden=8).get_params()["hidden"] == 8


def test_changing_the_method_changes_which_settings_there_are() -> None:
    predictor = LinkPredictor("mlp").set_params(method="adamic-adar")
    with pytest.raises(ConfigError, match="adamic-adar has no setting hidden"):
        predictor.set_params(hidden=4)
    # Whatever comes first among the arguments, the method is taken first.
    assert predictor.set_params(hidden=4, method="mlp").get_params()["hidden"] == 4
    assert repr(predictor) == "LinkPredictor(method='mlp', hidden=4)"
    assert LinkPredictor().get_params()["lr"] is None  # chosen for the graph, by fit


def test_asking_before_fitting_says_what_to_do() -> None:
    for ask in (LinkPredictor().test_scores, LinkPredictor().scorer, LinkPredictor().embeddings):
        with pytest.raises(NotFittedError, match=r"Call \.fit\(graph\) first"):
            ask()


def test_fit_returns_the_predictor_and_leaves_the_world_alone(graph: Graph) -> None:
    before = torch.get_rng_state(), torch.get_num_threads(), graph.fingerprint
    predictor = brief()
    assert predictor.fit(graph) is predictor
    assert torch.equal(before[0], torch.get_rng_state())
    assert torch.get_num_threads() == before[1]
    assert Graph(graph.title, graph.names, graph.edges, graph.x).fingerprint == before[2]


def test_scores_are_between_0_and_1_symmetric_and_independent_of_company(
    fitted: LinkPredictor, graph: Graph
) -> None:
    pairs = list(combinations(graph.names, 2))
    scores = fitted.score(pairs)
    assert scores.dtype == np.float32
    assert ((scores >= 0) & (scores <= 1)).all()
    assert np.array_equal(scores, fitted.score([(b, a) for a, b in pairs]))
    order = torch.randperm(len(pairs), generator=stream(0, "order")).tolist()[:50]
    alone = fitted.score([pairs[i] for i in order])
    np.testing.assert_allclose(alone, scores[order], atol=1e-6)


def test_top_is_the_sorted_list_of_all_new_pairs(fitted: LinkPredictor, graph: Graph) -> None:
    """Against the definition: score every pair, take out the known ones, sort."""
    new = unlinked_pairs(graph)
    scores = dict(zip(new, fitted.score(new).tolist(), strict=True))
    found = {(link.source, link.target): link.score for link in fitted.top(25)}
    best = sorted(scores.values())[::-1][:25]
    assert list(found.values()) == pytest.approx(best, abs=1e-6)
    assert found == pytest.approx({pair: scores[pair] for pair in found}, abs=1e-6)


def test_equal_scores_are_in_the_order_of_names(graph: Graph) -> None:
    """Not of numbers, which go the other way here; whether all of them fit into the list or not."""
    graph = Graph(graph.title, graph.names[::-1], graph.edges, graph.x)
    predictor = brief(epochs=1).fit(graph)
    with torch.no_grad():
        predictor.model_.decode.layer_2.weight.zero_()
    for count in (40, 1000):
        found = [(link.source, link.target) for link in predictor.top(count)]
        assert found == sorted(unlinked_pairs(graph))[:count]
    partners = [link.target for link in predictor.links_of("n20", 12)]
    assert partners == sorted(partners)


def test_scores_and_embeddings_that_are_not_finite_are_refused(graph: Graph) -> None:
    predictor = brief(epochs=1).fit(graph)
    with torch.no_grad():
        predictor.model_.decode.layer_2.bias.fill_(torch.nan)
        predictor.model_.encode.bias[0] = torch.nan
    for ask in (predictor.top, lambda: predictor.score([("n00", "n01")]), predictor.embeddings):
        with pytest.raises(ModelFileError, match="not finite numbers"):
            ask()


def test_the_time_limit_and_tracking_reach_the_trainer(graph: Graph) -> None:
    limited = brief("cgcl-rank", epochs=10_000, time_limit="0.1s").fit(graph)
    assert limited.stopped_ is not None
    assert limited.stopped_.reason == "time limit"
    assert "consistency" in brief(track_consistency=True).fit(graph).history_[-1]


def test_the_test_sees_training_links_only_and_predictions_see_all(sbm: Build) -> None:
    """With a split of one's own; the default one hides as many links whatever the method."""
    graph = sbm(0)
    split = random_split(graph, 0.2, 0.3, seed=5)
    predictor = LinkPredictor("common-neighbours").fit(graph, split)
    assert predictor.split_.fingerprint == split.fingerprint
    seen = CommonNeighbours(split.train, graph.num_nodes)
    assert predictor.test_ == ranking_metrics(seen, split).metrics | link_metrics(
        seen.logits(split.test), seen.logits(split.test_negatives)
    )
    chosen_by = seen.logits(split.val), seen.logits(split.val_negatives)
    assert predictor.val_ == {"auc": auc(*chosen_by), "ap": average_precision(*chosen_by)}
    pairs = torch.combinations(torch.arange(120)).T
    counts = CommonNeighbours(graph.edges, graph.num_nodes).values(pairs)
    shared, scores = counts > 0, predictor.score(list(combinations(graph.names, 2)))
    assert scores[shared] == pytest.approx(counts[shared] / (1 + counts[shared]), rel=1e-5)
    formula = LinkPredictor("common-neighbours", seed=3).fit(graph)
    network = brief("cgcl-rank", epochs=1, seed=3).fit(graph)
    assert formula.split_.fingerprint == network.split_.fingerprint
    scorer = formula.scorer()  # is made once for each fit
    assert formula.scorer() is scorer
    assert formula.fit(sbm(1)).scorer() is not scorer
    with pytest.raises(SplitError, match="Split the graph that you train on"):
        brief().fit(sbm(1), split)


def test_what_is_loaded_is_what_was_fitted_whatever_is_set_since(graph: Graph, tmp_path) -> None:
    predictor = LinkPredictor("mlp", hidden=4, epochs=5).fit(graph)
    before, given = predictor.top(5), predictor.get_params()
    pairs = list(combinations(graph.names, 2))
    predictor.set_params(method="cgcl", hidden=16).save(tmp_path / "sub" / "groups.cgcl")
    assert predictor.top(5).to_csv() == before.to_csv()
    loaded = cgcl.load(tmp_path / "sub" / "groups.cgcl", device="cpu")
    assert loaded.top(5).to_csv() == before.to_csv()
    for name in ("calibration_", "val_", "test_", "history_", "best_epoch_"):
        assert getattr(loaded, name) == getattr(predictor, name), name
    for prior in (None, 0.37):
        assert np.array_equal(loaded.probability(pairs, prior), predictor.probability(pairs, prior))
    assert np.array_equal(loaded.embeddings(), predictor.embeddings())
    # Where and how long to compute is nothing that was learned. What was not given was chosen.
    params = loaded.get_params()
    assert given | {"device": "cpu", "threads": 0} == {
        name: None if given[name] is None else value for name, value in params.items()
    }
    assert None not in params.values()


@pytest.mark.parametrize("what", ["graph", "split"])
def test_files_of_two_predictors_do_not_mix(sbm: Build, tmp_path, what: str) -> None:
    for name, seed in (("a", 0), ("b", 1)):
        LinkPredictor("adamic-adar", seed=seed).fit(sbm(seed)).save(tmp_path / name)
    (tmp_path / "b" / f"{what}.safetensors").rename(tmp_path / "a" / f"{what}.safetensors")
    with pytest.raises(ModelFileError, match=f"was trained on another {what}"):
        LinkPredictor.load(tmp_path / "a")


@pytest.mark.parametrize("broken", ["write_split", "write_model"])
def test_a_crash_while_saving_leaves_no_folder_that_looks_complete(
    graph: Graph, tmp_path, monkeypatch, broken: str
) -> None:
    """Nor one that holds the model of before with another split."""
    LinkPredictor("adamic-adar", seed=0).fit(graph).save(tmp_path)

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(f"cgcl.predict.saved.{broken}", crash)
    with pytest.raises(KeyboardInterrupt):
        LinkPredictor("adamic-adar", seed=1).fit(graph).save(tmp_path)
    with pytest.raises(RunFolderError):
        LinkPredictor.load(tmp_path)
