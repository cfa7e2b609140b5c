from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from itertools import combinations

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
)
from cgcl.graph import Graph
from cgcl.predict import LinkPredictor
from cgcl.seeds import stream

Build = Callable[[int], Graph]


@pytest.fixture(scope="module")
def graph() -> Graph:
    """Three groups of twelve, dense within: small enough to score every pair by hand."""
    generator = torch.Generator().manual_seed(0)
    group = torch.arange(36) % 3
    chance = torch.where(group[:, None] == group[None, :], 0.7, 0.02)
    links = (torch.rand(36, 36, generator=generator) < chance).triu(1).nonzero().T
    x = torch.nn.functional.one_hot(group, 3).float()
    return Graph.from_pairs("groups", [f"n{i:02d}" for i in range(36)], links, x)


@pytest.fixture(scope="module")
def fitted(graph: Graph) -> LinkPredictor:
    return LinkPredictor(hidden=8, epochs=20, evaluate_every=5, threads=1).fit(graph)


def known_pairs(graph: Graph) -> set[tuple[str, str]]:
    return {(graph.names[a], graph.names[b]) for a, b in graph.edges.T.tolist()}


def test_the_constructor_only_stores() -> None:
    predictor = LinkPredictor(hidden=-5, lr=float("nan"))
    assert predictor.get_params()["hidden"] == -5
    with pytest.raises(ConfigError, match="lr is nan"):
        predictor.fit(cgcl.read("cora"))
    with pytest.raises(ConfigError, match="hidden is -5"):
        predictor.set_params(lr=0.1).fit(cgcl.read("cora"))


def test_settings_travel_as_scikit_learn_expects() -> None:
    predictor = LinkPredictor(hidden=7, seed=3)
    copied = clone(predictor)
    assert copied is not predictor
    assert copied.get_params() == predictor.get_params()
    assert predictor.set_params(lr=0.5) is predictor
    assert predictor.get_params()["lr"] == 0.5
    assert copied.get_params()["lr"] is None  # chosen for the graph, by fit
    with pytest.raises(ConfigError, match=r"cgcl-rank has no setting hiden\. It has method,"):
        predictor.set_params(hiden=3)
    assert repr(predictor) == "LinkPredictor(seed=3, lr=0.5, hidden=7)"


@pytest.mark.parametrize(
    "ask",
    [
        lambda p: p.score([("a", "b")]),
        lambda p: p.top(),
        lambda p: p.links_of("a"),
        lambda p: p.save("nowhere"),
        lambda p: p.test_scores(),
    ],
)
def test_asking_before_fitting_says_what_to_do(ask) -> None:
    with pytest.raises(NotFittedError, match=r"Call \.fit\(graph\) first"):
        ask(LinkPredictor())


def test_fit_returns_the_predictor_and_leaves_the_world_alone(graph: Graph) -> None:
    before = torch.get_rng_state(), torch.get_num_threads(), graph.fingerprint
    predictor = LinkPredictor(hidden=4, epochs=2, threads=1)
    assert predictor.fit(graph) is predictor
    assert torch.equal(before[0], torch.get_rng_state())
    assert torch.get_num_threads() == before[1]
    assert Graph(graph.title, graph.names, graph.edges, graph.x).fingerprint == before[2]


def test_fitting_twice_gives_the_same(graph: Graph, fitted: LinkPredictor) -> None:
    again = clone(fitted).fit(graph)
    pairs = [("n00", "n05"), ("n01", "n30")]
    assert np.array_equal(again.score(pairs), fitted.score(pairs))
    assert again.history_ == fitted.history_
    assert again.test_ == fitted.test_


def test_it_learns_what_is_there_to_learn(fitted: LinkPredictor) -> None:
    assert fitted.test_ is not None
    assert fitted.test_["auc"] > 0.8
    assert [r["epoch"] for r in fitted.history_ if "val" in r] == [5, 10, 15, 20]


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


def test_no_pairs_have_no_scores(fitted: LinkPredictor) -> None:
    assert fitted.score([]).shape == (0,)


def test_an_unknown_name_is_named(fitted: LinkPredictor) -> None:
    with pytest.raises(GraphContentError, match="No node is called 'Eve'"):
        fitted.score([("n00", "Eve")])
    with pytest.raises(GraphContentError, match="No node is called 'Eve'"):
        fitted.links_of("Eve")


def test_top_is_the_sorted_list_of_all_new_pairs(fitted: LinkPredictor, graph: Graph) -> None:
    """Against the definition: score every pair, take out the known ones, sort."""
    new = [pair for pair in combinations(graph.names, 2) if pair not in known_pairs(graph)]
    scores = dict(zip(new, fitted.score(new).tolist(), strict=True))
    top = fitted.top(25)
    assert len(top) == 25
    assert [link.score for link in top] == pytest.approx(
        sorted(scores.values())[::-1][:25], abs=1e-6
    )
    for link in top:
        assert scores[link.source, link.target] == pytest.approx(link.score, abs=1e-6)
    assert len({(link.source, link.target) for link in top}) == 25


def test_asking_for_more_than_there_is_gives_all_there_is(fitted, graph: Graph) -> None:
    assert len(fitted.top(10**6)) == 36 * 35 // 2 - graph.num_edges


def test_links_of_a_node_are_its_best_new_partners(fitted: LinkPredictor, graph: Graph) -> None:
    everything = fitted.top(10**6)
    mine = [link for link in everything if "n07" in (link.source, link.target)]
    links = fitted.links_of("n07", 10**6)
    assert {link.source for link in links} == {"n07"}
    assert [link.score for link in links] == pytest.approx([link.score for link in mine], abs=1e-6)
    partners = [link.target for link in links]
    assert len(set(partners)) == len(partners)
    assert not {tuple(sorted(("n07", p))) for p in partners} & known_pairs(graph)
    assert "n07" not in partners


@pytest.mark.parametrize("ask", [lambda p: p.top(0), lambda p: p.links_of("n00", -1)])
def test_asking_for_no_links_is_refused(fitted: LinkPredictor, ask) -> None:
    with pytest.raises(ConfigError, match="ask for at least 1"):
        ask(fitted)


def test_equal_scores_are_in_the_order_of_names(graph: Graph) -> None:
    predictor = LinkPredictor("cgcl", hidden=4, epochs=1, threads=1).fit(graph)
    with torch.no_grad():
        predictor.model_.decode.layer_2.weight.zero_()
    new = [pair for pair in combinations(graph.names, 2) if pair not in known_pairs(graph)]
    assert [(link.source, link.target) for link in predictor.top(40)] == new[:40]
    partners = [link.target for link in predictor.links_of("n20", 12)]
    assert partners == sorted(partners)


def test_small_blocks_change_nothing(fitted: LinkPredictor, monkeypatch) -> None:
    whole = fitted.top(30)
    monkeypatch.setattr("cgcl.search.search._BLOCK", 50)
    monkeypatch.setattr("cgcl.methods.scoring.BLOCK_PAIRS", 7)
    pieces = fitted.top(30)
    assert pieces.sources == whole.sources
    assert pieces.targets == whole.targets
    np.testing.assert_allclose(pieces.scores, whole.scores, atol=1e-6)


def test_a_graph_too_large_to_score_all_pairs_of_is_refused_with_a_way_out(
    fitted: LinkPredictor, monkeypatch
) -> None:
    monkeypatch.setattr("cgcl.search.way._NEVER_REFUSED", 0)
    monkeypatch.setattr("cgcl.search.way._MAX_SECONDS", 0.0)
    with pytest.raises(
        cgcl.errors.ResourceError, match="Ask for less: `node=NAME`, `sources=FILE` or `pairs=FILE`"
    ):
        fitted.top(5)


def test_save_and_load_give_the_same_bits_in_this_process_and_in_another(
    fitted: LinkPredictor, tmp_path
) -> None:
    folder = tmp_path / "sub" / "groups.cgcl"
    fitted.save(folder)
    loaded = cgcl.load(folder, device="cpu")
    assert loaded.top(30).to_csv() == fitted.top(30).to_csv()
    assert loaded.test_ == fitted.test_
    assert loaded.val_ == fitted.val_
    assert loaded.history_ == fitted.history_
    assert loaded.best_epoch_ == fitted.best_epoch_
    # Where and how long to compute is nothing that was learned. What was not given was chosen.
    params, given = loaded.get_params(), fitted.get_params()
    assert given | {"device": "cpu", "threads": 0} == {
        name: None if given[name] is None else value for name, value in params.items()
    }
    assert None not in params.values()
    code = f"import cgcl; print(cgcl.load({str(folder)!r}).top(30).to_csv(), end='')"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout == fitted.top(30).to_csv()


def test_nothing_saved_is_a_pickle(fitted: LinkPredictor, tmp_path) -> None:
    fitted.save(tmp_path)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["graph.safetensors", "metrics.jsonl", "model.safetensors", "split.safetensors"]
    for path in tmp_path.iterdir():
        assert path.read_bytes()[:2] not in (b"PK", b"\x80\x02", b"\x80\x04", b"\x80\x05")


def test_files_of_two_models_do_not_mix(fitted: LinkPredictor, sbm: Build, tmp_path) -> None:
    fitted.save(tmp_path / "a")
    LinkPredictor(hidden=8, epochs=1).fit(sbm(0)).save(tmp_path / "b")
    (tmp_path / "a" / "graph.safetensors").write_bytes(
        (tmp_path / "b" / "graph.safetensors").read_bytes()
    )
    with pytest.raises(ModelFileError, match="was trained on another graph"):
        LinkPredictor.load(tmp_path / "a")


def test_a_folder_without_a_model_says_what_it_is(tmp_path) -> None:
    (tmp_path / "file").touch()
    for path, text in (
        (tmp_path, "is not a run folder: it holds neither"),
        (tmp_path / "file", "is a file, not a run folder"),
        (tmp_path / "none", "none does not exist"),
    ):
        with pytest.raises(RunFolderError, match=text):
            LinkPredictor.load(path)


def test_what_is_saved_is_what_was_fitted_whatever_is_set_since(graph: Graph, tmp_path) -> None:
    predictor = LinkPredictor("cgcl", hidden=4, epochs=2, threads=1).fit(graph)
    before = predictor.top(5).to_csv()
    predictor.set_params(hidden=16, last_layer="relu").save(tmp_path)
    loaded = LinkPredictor.load(tmp_path)
    params = loaded.get_params()
    assert (params["hidden"], params["last_layer"]) == (4, "linear")
    assert loaded.top(5).to_csv() == before


def test_saving_over_another_model_never_mixes_the_two(graph: Graph, tmp_path, monkeypatch) -> None:
    """A crash half-way leaves a folder without a model, not one with the wrong split."""
    LinkPredictor(hidden=4, epochs=1, threads=1, seed=0).fit(graph).save(tmp_path)

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("cgcl.predict.saved.write_model", crash)
    with pytest.raises(KeyboardInterrupt):
        LinkPredictor(hidden=4, epochs=1, threads=1, seed=1).fit(graph).save(tmp_path)
    with pytest.raises(RunFolderError):
        LinkPredictor.load(tmp_path)


def test_scores_that_are_not_finite_are_refused(graph: Graph) -> None:
    predictor = LinkPredictor("cgcl", hidden=4, epochs=1, threads=1).fit(graph)
    with torch.no_grad():
        predictor.model_.decode.layer_2.bias.fill_(torch.nan)
    for ask in (
        lambda: predictor.top(3),
        lambda: predictor.links_of("n00", 3),
        lambda: predictor.score([("n00", "n01")]),
    ):
        with pytest.raises(ModelFileError, match="not finite numbers"):
            ask()


def test_what_is_no_graph_and_what_is_no_pair_is_refused(fitted: LinkPredictor) -> None:
    with pytest.raises(GraphContentError, match="fit needs a graph"):
        LinkPredictor().fit("friends.csv")
    for pairs in ([("n00",)], ("n00", "n01"), [("n00", "n01", "n02")]):
        with pytest.raises(GraphContentError, match="Give a list of pairs of names"):
            fitted.score(pairs)


def test_a_name_that_is_nearly_right_is_suggested(fitted: LinkPredictor) -> None:
    with pytest.raises(GraphContentError, match=r"has 36 nodes\. Did you mean 'n07'\?"):
        fitted.links_of("N07")


def test_a_graph_without_features_is_given_some_and_says_so(graph: Graph) -> None:
    bare = Graph(graph.title, graph.names, graph.edges)
    predictor = LinkPredictor(hidden=16, epochs=60, threads=1).fit(bare)
    assert predictor.graph_.num_features == 36
    assert predictor.graph_.notes[-1].startswith("No features given: 36 structural features")
    assert predictor.test_ is not None
    assert predictor.test_["auc"] > 0.6


@pytest.mark.parametrize("held_out", [{"test": 0.0}, {"val": 0.0}, {"val": 0.0, "test": 0.0}])
def test_holding_nothing_out_is_possible(graph: Graph, held_out) -> None:
    predictor = LinkPredictor(hidden=4, epochs=3, threads=1, **held_out).fit(graph)
    assert (predictor.test_ is None) == (held_out.get("test") == 0.0)
    assert (predictor.val_ is None) == (held_out.get("val") == 0.0)
    assert len(predictor.top(3)) == 3


def test_the_time_limit_and_tracking_reach_the_trainer(graph: Graph) -> None:
    limited = LinkPredictor(hidden=4, epochs=10_000, threads=1, time_limit="0.1s").fit(graph)
    assert limited.stopped_ is not None
    assert limited.stopped_.reason == "time limit"
    told = {"hidden": 4, "epochs": 2, "threads": 1}
    tracked = LinkPredictor("cgcl", **told, track_consistency=True).fit(graph)
    assert "consistency" in tracked.history_[-1]


def test_a_gpu_that_is_not_there_is_refused_by_name(graph: Graph, monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(cgcl.errors.ResourceError, match=r"No CUDA device found.*`device=cpu`"):
        LinkPredictor(device="cuda").fit(graph)
