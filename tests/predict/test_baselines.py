"""A run beside simple methods, with numbers worked out by hand."""

import re
from dataclasses import replace
from itertools import combinations

import pytest
import torch

from cgcl.graph import Graph
from cgcl.methods.heuristics import AdamicAdar
from cgcl.metrics import auc, average_precision
from cgcl.predict import LinkPredictor, baselines
from cgcl.predict.baselines import Compared, compare_with_baselines
from cgcl.predict.saved import Fitted, read_fitted
from cgcl.split import Split
from cgcl.train.config import Resources
from cgcl.train.top_of_list import ranking_metrics

SETTINGS = {"hidden": 4, "epochs": 4, "threads": 1, "device": "cpu"}
ONE = Resources(threads=1, device="cpu")
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


GRAPH = Graph.from_pairs("clique and path", NAMES, tensor(CLIQUE + PATH), torch.eye(30))


@pytest.fixture(scope="module")
def fitted(tmp_path_factory) -> Fitted:
    folder = tmp_path_factory.mktemp("run")
    LinkPredictor(**SETTINGS).fit(GRAPH, make_split()).save(folder)
    return read_fitted(folder)


def compare(fitted: Fitted, *, thorough: bool = False) -> Compared:
    compared = compare_with_baselines(fitted, ONE, thorough=thorough)
    assert compared is not None
    return compared


def by_method(compared: Compared) -> dict[str, dict[str, float]]:
    return {result["method"]: result["metrics"] for result in compared.results}


FORMULAS = ["Common neighbours", "Adamic-Adar", "Resource allocation"]


def test_common_neighbours_rank_as_counted_by_hand(fitted: Fitted) -> None:
    """Only the clique's pairs share many neighbours, and of its unknown pairs six are hidden.

    Seen from any end of a test link, the other end shares five neighbours or more, a node outside
    the clique one at most, and the other unknown nodes of the clique are test links themselves. So
    every rank is 1.
    """
    compared = compare(fitted)
    found = by_method(compared)
    for method in FORMULAS:
        assert found[method] == {"node_mrr": 1.0, "auc": 1.0, "ap": 1.0}  # 376 pairs are too few
    assert f"the same {45 + 20 - 8} links" in compared.protocol
    assert "Node MRR: 6 held-out links" in compared.protocol
    assert "6 held-out links against as many unlinked pairs" in compared.protocol
    assert "Precision" not in compared.protocol


def test_the_best_pairs_are_counted_where_there_are_enough(sbm, tmp_path) -> None:
    LinkPredictor(**SETTINGS).fit(sbm(0)).save(tmp_path)
    fitted = read_fitted(tmp_path)
    compared = compare(fitted)
    split = fitted.split
    exact = ranking_metrics(AdamicAdar(split.train, 120), split).metrics
    found = by_method(compared)
    assert found["Adamic-Adar"]["precision@100"] == exact["precision@100"]
    assert list(found["CGCL-rank"]) == ["node_mrr", "precision@100", "auc", "ap"]
    unknown = 120 * 119 // 2 - split.train.shape[1] - split.val.shape[1]
    assert f"there are {unknown:,}." in compared.protocol


def test_a_run_that_looked_at_some_links_is_set_beside_formulas_on_the_same(sbm, tmp_path) -> None:
    LinkPredictor(**SETTINGS, seed=3).fit(sbm(0)).save(tmp_path)
    fitted = read_fitted(tmp_path)
    sampled = {"links": 20, "se": {"node_mrr": 0.0123, "node_hits@10": 0.1}}
    compared = compare(replace(fitted, test_sampled=sampled))
    scorer = AdamicAdar(fitted.split.train, 120)
    same = ranking_metrics(scorer, fitted.split, most_links=20, seed=3)
    assert by_method(compared)["Adamic-Adar"]["node_mrr"] == same.metrics["node_mrr"]
    assert {result["sampled"]["links"] for result in compared.results[:4]} == {20}
    said = "For CGCL-rank on 20 of them, drawn at random: the standard error is 0.0123."
    assert said in compared.protocol


def test_a_run_from_before_is_measured_now(fitted: Fitted) -> None:
    assert fitted.test is not None
    old = {name: fitted.test[name] for name in ("auc", "ap", "mrr")}
    assert compare(replace(fitted, test=old)) == compare(fitted)


def test_the_run_itself_is_measured_on_its_own_test(fitted: Fitted) -> None:
    found, split = by_method(compare(fitted)), fitted.split
    assert list(found) == ["CGCL-rank", *FORMULAS, "Features only (MLP)"]
    scorer = fitted.scorer(split.train)
    links, others = scorer.logits(split.test), scorer.logits(split.test_negatives)
    plain = {"auc": auc(links, others), "ap": average_precision(links, others)}
    assert found["CGCL-rank"] == pytest.approx(found["CGCL-rank"] | plain, abs=1e-9)


def test_the_features_only_network_has_settings_of_its_own(fitted, monkeypatch) -> None:
    """And the seed of the run, whose learning rate would be a poor one for it."""
    seen, told = [], []
    original = baselines.fit

    def spy(graph, split, recipe, resources, **kwargs):
        seen.append(recipe)
        assert not kwargs["measure_test"]
        return original(graph, split, recipe, resources, **kwargs)

    monkeypatch.setattr(baselines, "fit", spy)
    recipe = replace(fitted.recipe, split=replace(fitted.recipe.split, seed=5))
    compare_with_baselines(
        replace(fitted, recipe=recipe), ONE, progress=lambda *step: told.append(step)
    )
    assert [one.name for one in seen] == [
        "common-neighbours", "adamic-adar", "resource-allocation", "mlp",
    ]  # fmt: skip
    own = seen[-1].to_json()
    assert (own["hidden"], own["lr"], own["epochs"], own["seed"]) == (64, 0.015, 100, 5)
    names = list(dict.fromkeys(name for name, _, _ in told))
    assert names == [f"Comparing with {title}" for title in (*FORMULAS, "Features only (MLP)")]
    assert all(0 <= done <= total for _, done, total in told)


@pytest.mark.parametrize(
    ("method", "title"), [("mlp", "Features only (MLP)"), ("adamic-adar", "Adamic-Adar")]
)
def test_a_run_of_a_simple_method_is_not_set_beside_itself(tmp_path, method, title) -> None:
    settings = {"hidden": 4, "epochs": 4} if method == "mlp" else {}
    predictor = LinkPredictor(method, threads=1, **settings)
    predictor.fit(GRAPH, make_split()).save(tmp_path)
    compared = compare(read_fitted(tmp_path))
    methods = [one["method"] for one in compared.results]
    assert methods[0] == title
    assert sorted(methods) == sorted([*FORMULAS, "Features only (MLP)"])
    assert by_method(compared)[title]["auc"] == pytest.approx(predictor.test_["auc"], abs=1e-9)


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


def test_a_large_graph_is_set_beside_formulas_and_nothing_is_trained_unasked(
    fitted: Fitted, monkeypatch
) -> None:
    """As if it were so large that formulas could only look at some links."""
    monkeypatch.setattr(baselines, "BUDGET", 6e5)
    monkeypatch.setattr("cgcl.train.top_of_list._FEWEST_LINKS", 2)
    compared = compare(fitted)
    found = by_method(compared)
    assert list(found) == ["CGCL-rank", *FORMULAS]
    assert all("node_mrr" in metrics for metrics in found.values())
    assert re.search(r"For Adamic-Adar on [2-5] of them, drawn", compared.protocol)
    assert "Features only (MLP) is left out: it would take more than 6e+05" in compared.protocol
    monkeypatch.setattr(baselines, "_THOROUGH", 1e5)
    assert "Features only (MLP)" in by_method(compare(fitted, thorough=True))


ACROSS = ["Preferential attachment", "Item cosine", "Three-step paths"]


def two_tastes(folder) -> Fitted:
    """Fit five people and ten films of each of two tastes; everyone misses two films of theirs.

    In the graph are 8 of every 10 links within a taste, and the first two people of each taste
    have one of theirs hidden for the test.
    """
    people, films = range(10), range(10, 30)
    liked = [(p, f) for p in people for f in films if (p < 5) == (f < 20)]
    missed = {(p, 10 * (1 + p // 5) + (2 * (p % 5) + k) % 10) for p in people for k in (0, 1)}
    links = tensor([pair for pair in liked if pair not in missed])
    test = [(0, 15), (1, 16), (5, 25), (6, 26)]
    sides = torch.arange(30) >= 10
    train = tensor([pair for pair in links.T.tolist() if tuple(pair) not in test])
    unlinked = tensor([(0, 25), (1, 26), (5, 15), (6, 16)])
    graph = Graph.from_pairs("tastes", NAMES, links, sides=sides)
    none = train[:, :0]
    split = Split(30, train, none, tensor(test), none, unlinked, sides)
    LinkPredictor(**SETTINGS).fit(graph, split).save(folder)
    return read_fitted(folder)


def test_a_run_across_two_sides_is_set_beside_formulas_that_cross_them(tmp_path) -> None:
    """Of a taste's ten films a person misses two and the hidden one, a film is missed by one more.

    Three-step paths: those films are the three best of that person, the hidden one with the fewest
    links last; of its two people the hidden link's has fewer links, so the ranks are 3 and 2. Item
    cosine makes up for few links of items, so it ranks no lower. Preferential attachment: above the
    hidden film are ten of 13, at it are two; above the person four of seven, at it two: 12 and 6.
    """
    compared = compare(two_tastes(tmp_path))
    found = by_method(compared)
    assert list(found) == ["CGCL-rank", *ACROSS]
    popular, cosine, paths = (found[method] for method in ACROSS)
    assert paths == pytest.approx({"node_mrr": (1 / 3 + 1 / 2) / 2, "auc": 1.0, "ap": 1.0})
    assert cosine == pytest.approx({"node_mrr": cosine["node_mrr"], "auc": 1.0, "ap": 1.0})
    assert cosine["node_mrr"] >= paths["node_mrr"]
    assert (popular["node_mrr"], popular["auc"]) == (pytest.approx((1 / 12 + 1 / 6) / 2), 0.5)
    assert all(one["sampled"] is None for one in compared.results)
