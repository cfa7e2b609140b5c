"""A run beside simple methods, with numbers worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import combinations

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from cgcl.graph import Graph
from cgcl.methods.adamic_adar import AdamicAdar
from cgcl.methods.common_neighbours import CommonNeighbours
from cgcl.methods.shared_neighbours import SharedNeighbours
from cgcl.metrics import auc, average_precision
from cgcl.predict import LinkPredictor, beside
from cgcl.predict.beside import Compared, set_beside
from cgcl.predict.saved import Fitted, read_fitted
from cgcl.search.query import Query
from cgcl.search.search import find
from cgcl.search.two_hop import TwoHopCandidates
from cgcl.split import Split
from cgcl.train.config import Resources
from cgcl.train.once import known_of

SETTINGS = {"hidden": 4, "epochs": 4, "threads": 1, "device": "cpu"}
NAMES = [f"n{number:02d}" for number in range(30)]

# 0 to 9 is a clique. Of its 45 links six are hidden for the test and two choose the epoch; the
# other nodes hang on a path, so that they share no neighbour with more than two others.
CLIQUE = list(combinations(range(10), 2))
PATH = [(node, node + 1) for node in range(9, 29)]
TEST = [(0, 1), (2, 3), (4, 5), (6, 7), (0, 2), (1, 3)]
VAL = [(0, 3), (5, 6)]


def tensor(pairs: list[tuple[int, int]]) -> torch.Tensor:
    return torch.tensor(sorted(pairs)).T.contiguous()


def make_split() -> Split:
    train = [pair for pair in CLIQUE + PATH if pair not in TEST + VAL]
    unlinked = [(a, b) for a, b in combinations(range(12, 30), 2) if b - a > 3]
    return Split(
        num_nodes=30,
        train=tensor(train),
        val=tensor(VAL),
        test=tensor(TEST),
        val_negatives=tensor(unlinked[:2]),
        test_negatives=tensor(unlinked[2:8]),
    )


def make_graph(x: torch.Tensor | None) -> Graph:
    return Graph.from_pairs("clique and path", NAMES, tensor(CLIQUE + PATH), x)


def fit(folder, x: torch.Tensor | None, **settings) -> Fitted:
    LinkPredictor(**{**SETTINGS, **settings}).fit(make_graph(x), make_split()).save(folder)
    return read_fitted(folder)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory) -> Fitted:
    return fit(tmp_path_factory.mktemp("run"), torch.eye(30))


def compare(fitted: Fitted, *, thorough: bool = False) -> Compared | None:
    return set_beside(fitted, Resources(threads=1, device="cpu"), thorough=thorough)


def by_method(compared) -> dict[str, dict[str, float]]:
    return {result["method"]: result["metrics"] for result in compared.results}


def test_common_neighbours_are_precise_as_counted_by_hand(fitted: Fitted) -> None:
    """Only the clique's pairs share many neighbours, and of its unknown pairs six are hidden.

    Pairs that are no link to learn from and none for validation: the six test links, with five or
    more shared neighbours each; every other pair shares at most one. So the best hundred hold all
    six: precision 6/100.
    """
    compared = compare(fitted)
    assert compared is not None
    found = by_method(compared)
    for method in ("Common neighbours", "Adamic-Adar"):
        assert found[method]["precision@100"] == pytest.approx(0.06)
        assert found[method]["auc"] == 1.0
        assert found[method]["ap"] == 1.0
    unknown = 30 * 29 // 2 - (45 + 20 - 6)
    assert f"there are {unknown}." in compared.protocol
    assert f"the same {45 + 20 - 8} links" in compared.protocol
    assert "6 held-out links against as many unlinked pairs" in compared.protocol


def test_precision_counts_test_links_among_the_best_only(fitted: Fitted, monkeypatch) -> None:
    """Of the best four by common neighbours all are test links."""
    monkeypatch.setattr("cgcl.predict.beside._BEST", 4)
    found = by_method(compare(fitted))
    assert found["Common neighbours"]["precision@4"] == 1.0
    monkeypatch.setattr("cgcl.predict.beside._BEST", 8)
    assert by_method(compare(fitted))["Common neighbours"]["precision@8"] == pytest.approx(6 / 8)


def test_the_run_itself_is_measured_on_its_own_test(fitted: Fitted) -> None:
    found = by_method(compare(fitted))
    assert list(found) == ["CGCL", "Common neighbours", "Adamic-Adar", "Features only (MLP)"]
    assert fitted.test is not None
    assert found["CGCL"]["auc"] == pytest.approx(fitted.test["auc"], abs=1e-9)
    split, learner = fitted.split, fitted.learner
    scorer = learner.scorer(known_of(fitted.graph, split.train, learner))
    links, others = scorer.logits(split.test), scorer.logits(split.test_negatives)
    assert found["CGCL"]["auc"] == pytest.approx(auc(links, others))
    assert found["CGCL"]["ap"] == pytest.approx(average_precision(links, others))


def test_the_features_only_network_has_the_settings_of_the_run(tmp_path, monkeypatch) -> None:
    """Where both have a setting of that name, and the width, rate and length above all."""
    told = {"hidden": 6, "epochs": 3, "lr": 0.02, "decoder_dropout": 0.1, "seed": 5}
    fitted = fit(tmp_path, torch.eye(30), **told)
    seen = []
    original = beside.train_once

    def spy(graph, split, recipe, resources, **kwargs):
        seen.append((recipe.name, recipe.to_json()))
        assert kwargs == {"measure_test": False}
        return original(graph, split, recipe, resources, **kwargs)

    monkeypatch.setattr(beside, "train_once", spy)
    compare(fitted)
    assert [name for name, _ in seen] == ["common-neighbours", "adamic-adar", "mlp"]
    assert told.items() <= seen[-1][1].items()


@pytest.mark.parametrize("method", ["mlp", "adamic-adar"])
def test_a_run_of_a_simple_method_is_not_set_beside_itself(tmp_path, method: str) -> None:
    settings = {"hidden": 4, "epochs": 4} if method == "mlp" else {}
    predictor = LinkPredictor(method, threads=1, **settings)
    predictor.fit(make_graph(torch.eye(30)), make_split()).save(tmp_path)
    fitted = read_fitted(tmp_path)
    found = by_method(compare(fitted))
    titles = {"mlp": "Features only (MLP)", "adamic-adar": "Adamic-Adar"}
    others = [t for t in ("Common neighbours", *titles.values()) if t != titles[method]]
    assert next(iter(found)) == titles[method]
    assert set(found) == {titles[method], *others}
    assert fitted.test is not None
    assert found[titles[method]]["auc"] == pytest.approx(fitted.test["auc"], abs=1e-9)


def test_a_method_that_is_dear_is_not_searched_with_unless_asked(fitted, monkeypatch) -> None:
    monkeypatch.setattr("cgcl.predict.beside._CHEAP_COST", 0.0)
    found = by_method(compare(fitted))
    assert "Features only (MLP)" in found
    assert all(set(metrics) == {"auc", "ap"} for metrics in found.values())
    assert all("precision@100" in m for m in by_method(compare(fitted, thorough=True)).values())


def test_no_method_looks_at_links_that_were_held_out(sbm, tmp_path, monkeypatch) -> None:
    """Whether the graph holds them or not, all numbers are the same."""
    graph = sbm(0)
    LinkPredictor(**SETTINGS, test=0.3).fit(graph).save(tmp_path)
    fitted = read_fitted(tmp_path)
    without = Graph.from_pairs(graph.title, graph.names, fitted.split.train, fitted.graph.x)
    found = by_method(compare(fitted))
    monkeypatch.setattr(Split, "require_parts_of", lambda *_: None)
    assert found == by_method(compare(replace(fitted, graph=without)))
    assert all(0 < metrics["auc"] < 1 for metrics in found.values())


def test_features_that_were_made_from_links_are_no_features_to_compare_with(tmp_path) -> None:
    found = by_method(compare(fit(tmp_path, None)))
    assert list(found) == ["CGCL", "Common neighbours", "Adamic-Adar"]


def test_a_large_graph_is_not_searched_unless_asked(fitted: Fitted, monkeypatch) -> None:
    monkeypatch.setattr("cgcl.predict.beside.CHEAP_PAIRS", 0)
    compared = compare(fitted)
    assert compared is not None
    found = by_method(compared)
    assert list(found) == ["CGCL", "Common neighbours", "Adamic-Adar"]
    assert all(set(metrics) == {"auc", "ap"} for metrics in found.values())
    assert "Precision" not in compared.protocol
    thorough = by_method(compare(fitted, thorough=True))
    assert "precision@100" in thorough["CGCL"]
    assert "Features only (MLP)" in thorough


def test_without_test_links_there_is_nothing_to_compare(tmp_path) -> None:
    LinkPredictor(**SETTINGS, test=0.0).fit(make_graph(torch.eye(30))).save(tmp_path)
    assert compare(read_fitted(tmp_path)) is None


def test_sides_bar_pairs_within_them(tmp_path) -> None:
    """A complete bipartite graph of 3 and 4 nodes: the only unknown pairs are the test links."""
    pairs = torch.cartesian_prod(torch.arange(3), torch.arange(3, 7)).T
    graph = Graph.from_pairs("sides", NAMES[:7], pairs[:, :11], torch.eye(7))
    graph = replace(graph, sides=torch.arange(7) >= 3)
    parts = {"test": graph.edges[:, :5], "val": graph.edges[:, :0], "train": graph.edges[:, 5:]}
    split = Split(
        num_nodes=7, **parts, val_negatives=graph.edges[:, :0],
        test_negatives=pairs[:, 11:], sides=graph.sides,
    )  # fmt: skip
    LinkPredictor(**SETTINGS).fit(graph, split).save(tmp_path)
    compared = compare(read_fitted(tmp_path))
    assert compared is not None
    # Six pairs across are unknown, five of them test links.
    assert by_method(compared)["CGCL"]["precision@100"] == pytest.approx(5 / 6)
    assert "there are 6." in compared.protocol


FORMULAS = pytest.mark.parametrize("formula", [CommonNeighbours, AdamicAdar])


@FORMULAS
@given(
    links=st.sets(
        st.tuples(st.integers(0, 11), st.integers(0, 11)).filter(lambda pair: pair[0] < pair[1]),
        min_size=2,
    ),
    known=st.floats(0.3, 1.0),
    count=st.integers(1, 30),
)
def test_formulas_find_the_pairs_that_scoring_every_pair_finds(
    formula: type[SharedNeighbours], links: set[tuple[int, int]], known: float, count: int
) -> None:
    """Ties, their order, and pairs without a shared neighbour where there are too few others."""
    pairs = tensor(list(links))
    seen = Graph.from_pairs("some", NAMES[:12], pairs)
    learned = pairs[:, : max(1, int(known * pairs.shape[1]))]
    scorer = formula(learned, 12)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(beside, "_BEST", count)
        best = beside._best(scorer, seen)
    expected = find(scorer, seen, Query(count=count), "exact").pairs
    assume(expected.numel())
    assert torch.equal(best, expected)


@FORMULAS
def test_formulas_score_every_pair_only_where_they_must(
    formula: type[SharedNeighbours], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The six test links share neighbours, a hundred pairs do not."""
    split = make_split()
    seen = Graph.from_pairs("seen", NAMES, torch.cat([split.train, split.val], dim=1))
    scorer = formula(split.train, 30)
    scored: list[int] = []
    logits = SharedNeighbours.logits

    def spy(self: SharedNeighbours, pairs: torch.Tensor) -> torch.Tensor:
        scored.append(pairs.shape[1])
        return logits(self, pairs)

    def count(best: int) -> int:
        monkeypatch.setattr(beside, "_BEST", best)
        scored.clear()
        assert beside._best(scorer, seen).shape == (2, best)
        return sum(scored)

    monkeypatch.setattr(SharedNeighbours, "logits", spy)
    every = 30 * 29 // 2 - seen.num_edges
    assert count(6) < every / 4
    assert count(100) >= every
    # A hub that was not walked through may hide pairs that share it.
    monkeypatch.setattr(beside, "TwoHopCandidates", partial(TwoHopCandidates, most_steps=200))
    assert count(6) >= every
