"""Test links against harder negatives: hand-worked figures and what is said about them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

import cgcl
from cgcl.errors import SplitError
from cgcl.graph import Graph
from cgcl.metrics import ON_REQUEST, auc, own_ranks
from cgcl.predict import evaluate_against
from cgcl.split import Split, random_split
from cgcl.train import harder
from cgcl.train.harder import HardNegatives, heart_metrics, metrics_against


@dataclass
class Sums:
    """Scores a pair by the sum of its nodes' numbers."""

    num_nodes: int
    cost_per_pair: float = 1.0
    cost_per_node: float = 0.0

    def logits(self, pairs: Tensor) -> Tensor:
        return pairs.sum(dim=0).float()

    def factors(self) -> None:
        return None


def test_each_link_is_ranked_among_its_own_negatives() -> None:
    """Link 0 (score 5) has 6, 5, 5 and 1 beside it: rank 1 + 1 + 2 / 2; link 1 has nothing."""
    ranks = own_ranks([5.0, 2.0, 0.0], [6, 5, 5, 1, 3], np.array([0, 0, 0, 0, 2]))
    assert ranks.tolist() == [3.0, 1.0, 2.0]


def test_heart_metrics_are_worked_out_by_hand() -> None:
    links = torch.tensor([[1, 0], [9, 2]])  # scores 10 and 2
    mine = torch.tensor([[1, 1], [10, 11]])  # 11 and 12: rank 3
    theirs = torch.stack([torch.zeros(20).long(), torch.arange(20) + 2])  # 2 ties, 19 above
    owner = torch.tensor([0, 0] + [1] * 20)
    found = heart_metrics(Sums(30), links, HardNegatives(torch.cat([mine, theirs], 1), owner, ()))
    assert found["heart_mrr"].tolist() == pytest.approx([1 / 3, 1 / 20.5])
    assert found["heart_hits@10"].tolist() == [1.0, 0.0]


def small(n: int = 30, features: bool = True, sides: Tensor | None = None) -> tuple[Graph, Split]:
    pairs = [(u, v) for u in range(n) for v in (u + 1, u + 3) if v < n]
    x = torch.eye(n) + torch.ones(n, n) / 10 if features else None
    graph = Graph(
        "small",
        tuple(str(i) for i in range(n)),
        torch.tensor(pairs).T,
        x,
        sides=sides,
    )
    return graph, random_split(graph, 0.1, 0.2, 0)


@pytest.mark.parametrize("name", ["heart", "heart-released"])
def test_too_small_a_graph_gives_what_it_has_and_says_so(name: harder.Against) -> None:
    graph, split = small()
    found = metrics_against(Sums(30), split, graph, name)
    assert list(found.metrics) == [name for name in ON_REQUEST if name.startswith("heart")]
    low, high = found.per_link
    assert 40 <= low <= high <= 56
    assert (
        f"{low} to {high} hard negatives of its own (the graph has no 500 for each)" in found.words
    )
    assert ("released generator" in found.words) == (name == "heart-released")


def test_a_graph_without_features_or_on_two_sides_is_asked_too() -> None:
    sides = (torch.arange(30) % 2).bool()
    graph, split = small(features=False, sides=sides)
    found = metrics_against(Sums(30), split, graph, "heart")
    assert found.formulas == ("resource allocation", "rooted PageRank")
    assert found.words.endswith("for the graph brings no features")
    assert found.per_link[1] <= 28


def test_degree_metrics_are_those_of_the_drawn_pairs() -> None:
    graph, split = small()
    found = metrics_against(Sums(30), split, graph, "degree", seed=4)
    pairs = cgcl.split.degree_negatives(split, 4)
    assert found.metrics["degree_auc"] == auc(split.test.sum(dim=0), pairs.sum(dim=0))
    assert found.to_json()["against"]["negatives_per_link"] == [1, 1]


def test_beyond_the_budget_links_are_sampled_with_their_errors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph, split = small(120)
    every = metrics_against(Sums(120), split, graph, "heart")
    assert every.links is None
    assert "sampled" not in every.to_json()
    monkeypatch.setattr(harder, "_BUDGET", 1.0)
    some = metrics_against(Sums(120), split, graph, "heart")
    assert some.links == 10 < split.test.shape[1]
    assert some.errors.keys() == some.metrics.keys()
    difference = abs(some.metrics["heart_mrr"] - every.metrics["heart_mrr"])
    assert difference < 5 * some.errors["heart_mrr"]
    assert some.to_json()["sampled"]["links"] == 10


def test_a_link_without_any_negative_has_passed_no_test() -> None:
    """Node 0 and node 1 are linked to all; of the link (2, 3) either end may go to node 4."""
    links = torch.tensor([[0, 0, 0, 0, 1, 1, 1, 2], [1, 2, 3, 4, 2, 3, 4, 3]])
    none, is_test = links[:, :0], torch.tensor([1, 0, 0, 0, 0, 0, 0, 1]).bool()
    split = Split(5, links[:, ~is_test], none, links[:, is_test], none, none)
    graph = Graph("dense", edges=links, names=tuple("abcde"))
    found = metrics_against(Sums(5), split, graph, "heart")
    # The link scores 5, its negatives (2, 4) and (4, 3) 6 and 7.
    assert found.metrics["heart_mrr"] == pytest.approx(1 / 3)
    assert "1 without any are left out" in found.words


def test_an_almost_complete_graph_has_no_such_negatives() -> None:
    links = torch.combinations(torch.arange(6)).T
    none = links[:, :0]
    split = Split(6, links[:, 5:], none, links[:, :5], none, none)
    graph = Graph("full", edges=links, names=tuple("abcdef"))
    with pytest.raises(SplitError, match="almost complete"):
        metrics_against(Sums(6), split, graph, "heart")


@pytest.mark.parametrize("name", ["heart", "heart-released", "degree"])
def test_without_test_links_there_is_nothing_to_measure(name: harder.Against) -> None:
    graph, _ = small()
    with pytest.raises(SplitError, match="no test links"):
        metrics_against(Sums(30), random_split(graph, 0.1, 0.0, 0), graph, name)


@pytest.mark.parametrize("method", ["adamic-adar", "cgcl-rank"])
def test_a_predictor_is_asked_as_it_stands(method: str) -> None:
    graph, split = small(60, features=False)
    epochs = {} if method == "adamic-adar" else {"epochs": 2, "hidden": 4}
    predictor = cgcl.LinkPredictor(method, threads=1, **epochs).fit(graph, split)
    first, again = (evaluate_against(predictor, "heart") for _ in range(2))
    assert first == again
    # Features that are made of links are none of the graph's.
    assert len(first.formulas) == 2
