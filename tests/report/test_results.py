"""What the page of a run shows beyond the run, from the folder of a small one."""

import contextlib
import hashlib
import json
import re
import shutil
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from cgcl.cli.main import main
from cgcl.predict import LinkPredictor, baselines
from cgcl.predict.saved import read_fitted
from cgcl.report import results
from cgcl.report.page import write_report
from cgcl.report.results import COMPARISON, SUGGESTIONS, read_results, reliability

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
    """Runs: two that differ in their seed, one without held-out links, one without training."""
    folder = tmp_path_factory.mktemp("trained")
    write_files(folder)
    features, network = ["--features", "nodes.csv"], ["--hidden", "4", "--epochs", "4"]
    common = ["--threads", "1", "--quiet", "--device", "cpu", "--no-compare"]
    for out, options in (
        ("run", [*network, *features, "--val", "0.1"]),
        ("two", [*network, *features, "--val", "0.1", "--seed", "1"]),
        ("bare", [*network, "--val", "0", "--test", "0"]),
        ("untrained", ["--method", "adamic-adar", *features, "--val", "0.1"]),
    ):
        with contextlib.chdir(folder), pytest.raises(SystemExit) as stopped:
            main(["train", "people.csv", *common, *options, "--out", out])
        assert not stopped.value.code
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained / "run" / "people-1", tmp_path / "run"))


@pytest.fixture
def bare(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained / "bare" / "people-1", tmp_path / "bare"))


@pytest.fixture(autouse=True)
def short_comparison(monkeypatch) -> None:
    monkeypatch.setitem(baselines._SETTINGS, "epochs", 3)


@pytest.fixture
def worked(monkeypatch) -> list[str]:
    """What was computed: a comparison, by how thorough it was, or a search."""
    calls: list[str] = []
    compare, search = results.compare_with_baselines, results._search

    def compared(fitted, resources, *, thorough: bool, progress):
        calls.append("thorough" if thorough else "quick")
        return compare(fitted, resources, thorough=thorough, progress=progress)

    def searched(predictor, fitted):
        calls.append("search")
        return search(predictor, fitted)

    monkeypatch.setattr(results, "compare_with_baselines", compared)
    monkeypatch.setattr(results, "_search", searched)
    return calls


def loaded(folder: Path) -> LinkPredictor:
    return LinkPredictor.load(folder, device="cpu").set_params(threads=1)


def test_steps_are_done_once_and_kept_whatever_is_drawn_later(
    run: Path, worked, monkeypatch
) -> None:
    """What training has left, or a report, is read; each file of the run is opened once."""
    for name in (COMPARISON, SUGGESTIONS):  # as in a run of before
        (run / name).unlink(missing_ok=True)
    first = read_results(run)
    stored = [(run / name).read_bytes() for name in (COMPARISON, SUGGESTIONS)]
    opened: list[str] = []
    monkeypatch.setattr(
        results, "read_fitted", lambda folder: opened.append(folder.name) or read_fitted(folder)
    )
    monkeypatch.setattr(LinkPredictor, "top", lambda *_, **__: pytest.fail("it was searched"))
    second = read_results(run)
    assert (worked, opened) == (["quick", "search"], ["run"])
    assert (first.comparison, first.suggestions) == (second.comparison, second.suggestions)
    assert first.comparison is not None
    methods = [result["method"] for result in first.comparison.results]
    assert methods[:2] == ["CGCL-rank", "Common neighbours"]
    assert first.comparison.ours == "CGCL-rank"
    assert [(run / name).read_bytes() for name in (COMPARISON, SUGGESTIONS)] == stored


@pytest.mark.parametrize(
    "damage",
    [
        *(None, b"\xff\xfe", b'{"model": 3}', {"results": ["CGCL"]}, {"thorough": True}),
        *(
            {"digest": "right", "results": [], "links": 3},
            {"digest": "right", "protocol": 0, "links": [{}]},
        ),
    ],
)
def test_what_is_damaged_or_of_another_model_is_made_again(
    run: Path, trained: Path, worked, damage: bytes | dict | None
) -> None:
    """Also a result with the right model and wrong insides."""
    first = read_results(run)
    worked.clear()
    if damage is None:
        for name in ("model.safetensors", "split.safetensors", "graph.safetensors", "run.json"):
            shutil.copy(trained / "two" / "people-1" / name, run / name)
    for name in (COMPARISON, SUGGESTIONS) if damage is not None else ():
        whole = json.loads((run / name).read_text())
        changed = damage if isinstance(damage, bytes) else json.dumps(whole | damage).encode()
        if b'"right"' in changed:
            wrong = {name: own for name, own in (whole | damage).items() if name != "digest"}
            digest = hashlib.sha256(json.dumps(wrong, sort_keys=True).encode()).hexdigest()
            changed = json.dumps(wrong | {"digest": digest}).encode()
        (run / name).write_bytes(changed)
    second = read_results(run)
    assert worked == ["quick", "search"]
    assert (first.comparison == second.comparison) == (damage is not None)
    assert (first.suggestions == second.suggestions) == (damage is not None)


def test_asking_makes_a_quick_comparison_thorough_and_only_once(run: Path, worked) -> None:
    read_results(run)
    worked.clear()
    thorough = read_results(run, compare=True).comparison
    assert thorough is not None
    assert read_results(run, compare=True).comparison == thorough
    assert read_results(run).comparison == thorough
    assert worked == ["thorough"]


def test_suggestions_are_the_best_hundred_with_evidence(run: Path) -> None:
    results, top = read_results(run), loaded(run).top(100, explain=True)
    assert results.suggestions is not None
    assert results.suggestions.how_found == top.found
    for shown, link in zip(results.suggestions.links, top, strict=True):
        assert shown["interval"] == list(link.interval)
        for name in ("source", "target", "probability", "score"):
            assert shown[name] == getattr(link, name)
        for name in ("because", "shared_neighbours", "common_features", "distance"):
            assert shown[name] == link.evidence[name]
    page = write_report(run, results)
    assert page == run / "report.html"
    told = ["Suggested links", "Probabilities", "Split audit: no leaks", "Beside simple methods"]
    told += [f"{top[0].source} {top[0].target}", top[0].evidence["because"]]
    assert [words for words in told if words not in text_of(page)] == []
    assert "<n00>" not in page.read_text()


def test_a_dear_method_scores_what_a_formula_proposes(run: Path, monkeypatch) -> None:
    every = loaded(run).top(1000)
    cost = loaded(run).scorer().cost_per_pair
    (run / SUGGESTIONS).unlink(missing_ok=True)
    monkeypatch.setattr(results, "DEAR", cost - 1)
    monkeypatch.setattr(results, "_DEAR_BUDGET", cost * 120)
    found = read_results(run, compare=False).suggestions
    assert found is not None
    assert found.how_found == "The best 120 new pairs by resource allocation were scored."
    scores = [link["score"] for link in found.links]
    assert scores == sorted(scores, reverse=True)
    assert len(scores) == 100
    known = {frozenset((link.source, link.target)): link.score for link in every}
    shown = {frozenset((link["source"], link["target"])): link["score"] for link in found.links}
    assert shown.items() <= known.items()


SEARCHED = ("cgcl.report.results._SEARCHED_PAIRS", "cgcl.report.results._SEARCHED_BY_PRODUCTS")


@pytest.mark.parametrize(
    "limits",
    [
        {"cgcl.report.results.DEAR": 0.0, "cgcl.report.results._DEAR_BUDGET": 0.0},
        dict.fromkeys(SEARCHED, 24 * 23 // 2 - 1),
        {"cgcl.predict.strategy._NEVER_REFUSED": 0, "cgcl.predict.strategy._MAX_SECONDS": 0.0},
    ],
)
def test_what_is_too_large_or_dear_or_refused_is_not_searched(run, monkeypatch, limits) -> None:
    (run / SUGGESTIONS).unlink(missing_ok=True)
    for name, limit in limits.items():
        monkeypatch.setattr(name, limit)
    found = read_results(run, compare=False)
    assert found.suggestions is not None
    page = text_of(write_report(run, found))
    assert "New links, best first" not in page
    assert f"{found.suggestions.why_none} Ask for the best ones" in page


def test_the_test_pairs_are_set_against_probabilities_at_even_odds(run: Path) -> None:
    found, predictor = read_results(run, compare=False).reliability, loaded(run)
    assert found is not None
    assert predictor.calibration_ is not None
    links, others = (predictor.calibration_.probability(s, 0.5) for s in predictor.test_scores())
    assert np.array_equal(found.links, links)
    assert np.array_equal(found.others, others)


def test_reliability_in_two_bins_by_hand():
    """Two pairs are two bins: off by 0.25 and by 0.5."""
    result = reliability([0.75], [0.5])
    assert [(part.predicted, part.observed) for part in result.bins] == [(0.5, 0.0), (0.75, 1.0)]
    assert result.error == pytest.approx((0.25 + 0.5) / 2)
    # (sqrt(0.5 / pi) + sqrt(0.375 / pi)) / 2 = (0.398942 + 0.345494) / 2
    assert result.error_by_chance == pytest.approx(0.372218, abs=1e-6)
    assert reliability([], []) is None


def test_a_perfect_model_shows_about_the_error_by_chance():
    generator = np.random.default_rng(0)
    errors, foretold = [], []
    for _ in range(50):
        predicted = generator.uniform(0, 1, 1000)
        is_link = generator.uniform(0, 1, 1000) < predicted
        result = reliability(predicted[is_link], predicted[~is_link])
        errors.append(result.error)
        foretold.append(result.error_by_chance)
    assert np.mean(errors) == pytest.approx(np.mean(foretold), rel=0.1)


def test_a_run_without_validation_or_test_links_has_less_to_show(bare: Path) -> None:
    found = read_results(bare, compare=True)
    assert (found.calibration, found.reliability, found.comparison) == (None, None, None)
    assert not (bare / COMPARISON).exists()
    assert found.suggestions is not None
    assert {link["probability"] for link in found.suggestions.links} == {None}
    assert {link["common_features"] for link in found.suggestions.links} == {None}
    text = text_of(write_report(bare, found))
    assert "Beside simple methods" not in text
    assert "without probabilities: how many of them are real is not known" in text


def text_of(page: Path) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page.read_text())).split())


def page_of(folder: Path, **options) -> Path:
    return write_report(folder, read_results(folder, **options))


def test_the_page_of_a_method_without_training_says_which_it_is(trained: Path) -> None:
    text = text_of(page_of(trained / "untrained" / "people-1"))
    for words in ("Link prediction report, Adamic-Adar", "Suggested links", "Probabilities"):
        assert words in text
    assert "Beside simple methods" in text
    assert "epoch 0" not in text
    assert "nan" not in text.lower().split()
