"""What the page of a run shows beyond the run, from the folder of a small one."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from dataclasses import replace
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from cgcl.cli.main import main
from cgcl.predict import LinkPredictor
from cgcl.report import AuditFinding, gather
from cgcl.report.write import write_report

NAMES = [f"<n{number:02d}>" for number in range(24)]


def write_files(folder: Path) -> None:
    rng = np.random.default_rng(0)
    group = np.arange(24) % 3
    chance = np.where(group[:, None] == group[None, :], 0.7, 0.08)
    links = np.argwhere(np.triu(rng.random((24, 24)) < chance, 1))
    rows = "".join(f"{NAMES[a]},{NAMES[b]}\n" for a, b in links)
    (folder / "people.csv").write_text(f"source,target\n{rows}")
    rows = "".join(f"{name},{int(i % 3 == 0)},{int(i % 3 == 1)}\n" for i, name in enumerate(NAMES))
    (folder / "nodes.csv").write_text(f"name,a,b\n{rows}")


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    write_files(folder)
    common = ["--hidden", "4", "--epochs", "10", "--threads", "1", "--quiet", "--device", "cpu"]
    features = ["--features", "nodes.csv"]
    for out, more in (
        ("one", [*features, "--val", "0.1", "--no-compare"]),
        ("two", [*features, "--val", "0.1", "--seed", "1", "--no-compare"]),
        ("bare", ["--val", "0", "--test", "0", "--no-compare"]),
    ):
        with contextlib.chdir(folder), pytest.raises(SystemExit) as stopped:
            main(["train", "people.csv", *common, *more, "--out", out])
        assert not stopped.value.code
    heuristic = ["--method", "adamic-adar", *common[4:], *features, "--val", "0.1", "--no-compare"]
    with contextlib.chdir(folder), pytest.raises(SystemExit) as stopped:
        main(["train", "people.csv", *heuristic, "--out", "counted"])
    assert not stopped.value.code
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained / "one" / "people-1", tmp_path / "run"))


@pytest.fixture
def bare(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained / "bare" / "people-1", tmp_path / "bare"))


@pytest.fixture
def untrained(trained: Path, tmp_path: Path) -> Path:
    """The run of a method that has nothing to train."""
    return Path(shutil.copytree(trained / "counted" / "people-1", tmp_path / "untrained"))


@pytest.fixture
def counted(monkeypatch) -> list[bool]:
    """How often, and how thoroughly, methods were compared."""
    calls: list[bool] = []
    original = gather.set_beside

    def set_beside(fitted, resources, *, thorough: bool):
        calls.append(thorough)
        return original(fitted, resources, thorough=thorough)

    monkeypatch.setattr(gather, "set_beside", set_beside)
    return calls


def test_a_comparison_is_computed_once_and_kept(run: Path, counted) -> None:
    first = gather.comparison(run)
    stored = (run / gather.COMPARISON).read_bytes()
    second = gather.comparison(run)
    assert counted == [False]
    assert first == second
    assert first is not None
    assert [result.method for result in first.results][:2] == ["CGCL-rank", "Common neighbours"]
    assert first.ours == "CGCL-rank"
    assert (run / gather.COMPARISON).read_bytes() == stored


def test_another_model_is_compared_anew(run: Path, trained: Path, counted) -> None:
    first = gather.comparison(run)
    other = trained / "two" / "people-1"
    for name in ("model.safetensors", "split.safetensors", "graph.safetensors"):
        shutil.copy(other / name, run / name)
    second = gather.comparison(run)
    assert counted == [False, False]
    assert first != second
    assert gather.comparison(run) == second
    assert counted == [False, False]


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\xff\xfe", b"[]", b"null", b'"text"', b"{}", b'{"model": 3}', b"[" * 9999],
)
def test_a_damaged_comparison_is_made_again(run: Path, counted, content: bytes) -> None:
    first = gather.comparison(run)
    (run / gather.COMPARISON).write_bytes(content)
    assert gather.comparison(run) == first
    assert counted == [False, False]
    assert json.loads((run / gather.COMPARISON).read_text())["results"]


@pytest.mark.parametrize(
    "change",
    [
        {"results": None},
        {"results": [{"method": "CGCL"}]},
        {"results": ["CGCL"]},
        {"results": [{"method": "CGCL", "metrics": {"auc": "high"}}]},
        {"results": [{"method": 3, "metrics": []}]},
        {"protocol": 7},
        {"results": []},
        {"thorough": True},
    ],
)
def test_a_comparison_with_the_right_model_and_wrong_insides_is_made_again(
    run: Path, counted, change: dict
) -> None:
    first = gather.comparison(run)
    found = json.loads((run / gather.COMPARISON).read_text()) | change
    (run / gather.COMPARISON).write_text(json.dumps(found))
    assert gather.comparison(run) == first
    assert counted == [False, False]


def test_asking_makes_a_quick_comparison_thorough_and_only_once(
    run: Path, counted, monkeypatch
) -> None:
    monkeypatch.setattr("cgcl.predict.beside.CHEAP_PAIRS", 0)
    quick = gather.comparison(run)
    thorough = gather.comparison(run, ask=True)
    assert quick is not None
    assert thorough is not None
    assert "Features only (MLP)" not in [result.method for result in quick.results]
    assert "Features only (MLP)" in [result.method for result in thorough.results]
    assert gather.comparison(run, ask=True) == thorough
    assert gather.comparison(run) == thorough
    assert counted == [False, True]


def test_without_a_test_nothing_is_compared_and_nothing_written(bare: Path) -> None:
    assert gather.comparison(bare) is None
    assert not (bare / gather.COMPARISON).exists()


def test_suggestions_are_the_best_hundred_with_evidence(run: Path) -> None:
    predictor = LinkPredictor.load(run, device="cpu").set_params(threads=1)
    found = gather.suggestions(predictor)
    top = predictor.top(100, explain=True)
    assert found is not None
    assert found.how_found == top.found
    assert len(found.links) == 100
    for shown, link in zip(found.links, top, strict=True):
        assert (shown.source, shown.target) == (link.source, link.target)
        assert (shown.probability, shown.score) == (link.probability, link.score)
        assert shown.interval == link.interval
        assert shown.interval is not None
        assert shown.because == link.evidence["because"]
        assert shown.shared_neighbours == link.evidence["shared_neighbours"]
        assert shown.common_features == link.evidence["common_features"]
        assert shown.distance == link.evidence["distance"]


def test_a_graph_too_large_to_search_has_no_suggestions(run: Path, monkeypatch) -> None:
    predictor = LinkPredictor.load(run, device="cpu").set_params(threads=1)
    monkeypatch.setattr(LinkPredictor, "top", lambda *_, **__: pytest.fail("it was searched"))
    monkeypatch.setattr(gather, "_SEARCHED_PAIRS", 24 * 23 // 2 - 1)
    assert gather.suggestions(predictor) is None


def test_a_method_too_dear_to_search_with_has_no_suggestions(run: Path, monkeypatch) -> None:
    predictor = LinkPredictor.load(run, device="cpu").set_params(threads=1)
    cost = predictor.scorer().cost_per_pair
    monkeypatch.setattr(gather, "_DEAR", cost)
    assert gather.suggestions(predictor) is not None
    monkeypatch.setattr(LinkPredictor, "top", lambda *_, **__: pytest.fail("it was searched"))
    monkeypatch.setattr(gather, "_DEAR", cost - 1)
    assert gather.suggestions(predictor) is None


def test_a_run_of_another_method_is_set_beside_the_others(untrained: Path) -> None:
    found = gather.comparison(untrained)
    assert found is not None
    methods = [result.method for result in found.results]
    others = ["Common neighbours", "Resource allocation", "Features only (MLP)"]
    assert methods == ["Adamic-Adar", *others]
    assert found.ours == "Adamic-Adar"
    assert gather.comparison(untrained) == found
    test = json.loads((untrained / "run.json").read_text())["test"]
    assert found.results[0].metrics["auc"] == pytest.approx(test["auc"], abs=1e-9)


def test_a_search_that_is_refused_leaves_the_page_without_suggestions(run, monkeypatch) -> None:
    monkeypatch.setattr("cgcl.search.way._NEVER_REFUSED", 0)
    monkeypatch.setattr("cgcl.search.way._MAX_SECONDS", 0.0)
    predictor = LinkPredictor.load(run, device="cpu").set_params(threads=1)
    assert gather.suggestions(predictor) is None


def test_probabilities_are_shown_at_even_odds_on_the_test_pairs(run: Path) -> None:
    predictor = LinkPredictor.load(run, device="cpu").set_params(threads=1)
    found = gather.probabilities(predictor)
    calibration = predictor.calibration_
    assert found is not None
    assert calibration is not None
    links, others = predictor.test_scores()
    assert np.array_equal(found.test_links, calibration.probability(links, 0.5))
    assert np.array_equal(found.test_others, calibration.probability(others, 0.5))
    assert len(found.test_links) == predictor.split_.test.shape[1]
    assert (found.method, found.base_rate) == (calibration.method, calibration.prior)
    assert (found.shift, found.notes) == (calibration.shift, calibration.notes)
    assert found.losses == calibration.losses


def test_a_run_without_validation_or_test_links_has_less_to_show(bare: Path) -> None:
    predictor = LinkPredictor.load(bare, device="cpu").set_params(threads=1)
    assert gather.probabilities(predictor) is None
    found = gather.suggestions(predictor)
    assert found is not None
    assert {link.probability for link in found.links} == {None}
    assert {link.common_features for link in found.links} == {None}


def test_the_audit_of_a_split_of_ours_finds_no_leak_and_a_doctored_one_is_caught(run) -> None:
    predictor = LinkPredictor.load(run, device="cpu").set_params(threads=1)
    assert "leak" not in {finding.severity for finding in gather.audit_findings(predictor)}
    split = predictor.split_
    predictor.split_ = replace(split, test_negatives=split.train[:, : split.test.shape[1]])
    leaks = [found for found in gather.audit_findings(predictor) if found.severity == "leak"]
    assert leaks
    assert all(len(finding.examples) <= 5 for finding in leaks)
    names = {name for finding in leaks for pair in finding.examples for name in pair}
    assert names
    assert names <= set(NAMES)
    assert leaks[0].count == split.test.shape[1]


def text_of(page: Path) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page.read_text())).split())


def test_the_page_holds_suggestions_probabilities_audit_and_comparison(run: Path) -> None:
    page = write_report(run)
    assert page == run / "report.html"
    text, markup = text_of(page), page.read_text()
    for heading in ("Suggested links", "Probabilities", "Split audit:", "Beside simple methods"):
        assert heading in text
    assert "no leaks found" in text
    best = LinkPredictor.load(run, device="cpu").set_params(threads=1).top(1, explain=True)[0]
    assert f"{best.source} {best.target}" in text
    assert best.evidence["because"] in text
    assert "<n00>" not in markup
    assert write_report(run).read_text() == markup


def test_the_page_of_a_method_without_training_says_which_it_is(untrained: Path) -> None:
    text = text_of(write_report(untrained))
    for words in ("Link prediction report, Adamic-Adar", "Suggested links", "Probabilities"):
        assert words in text
    assert "Beside simple methods" in text
    best = LinkPredictor.load(untrained, device="cpu").set_params(threads=1).top(1, explain=True)[0]
    assert f"{best.source} {best.target}" in text
    assert "epoch 0" not in text
    assert "nan" not in text.lower().split()


def test_the_page_says_what_the_audit_found(run: Path, monkeypatch) -> None:
    finding = AuditFinding("7 test links are learned from.", "leak", [("<n00>", "<n01>")], 7)
    monkeypatch.setattr(gather, "audit_findings", lambda _: [finding])
    text = text_of(write_report(run, compare=False))
    assert "Leak 7 test links are learned from. <n00> and <n01> and 6 more pairs" in text
    assert "no leaks found" not in text


def test_the_page_leaves_out_what_is_not_wanted_or_not_there(
    run: Path, bare: Path, monkeypatch
) -> None:
    assert "Beside simple methods" not in text_of(write_report(run, compare=False))
    assert not (run / gather.COMPARISON).exists()
    text = text_of(write_report(bare, compare=True))
    assert "Beside simple methods" not in text
    assert "without probabilities: how many of them are real is not known" in text
    monkeypatch.setattr(gather, "_SEARCHED_PAIRS", 0)
    assert "New links, best first" not in text_of(write_report(run, compare=False))
