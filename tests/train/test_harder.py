"""HeaRT's negatives, what links are worth against them, and the released files."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib import format as npy
from torch import Tensor

import cgcl
from cgcl.errors import SplitError
from cgcl.graph import Graph
from cgcl.methods.heuristics import AdamicAdar, CommonNeighbours, ResourceAllocation
from cgcl.metrics import ON_REQUEST, auc
from cgcl.predict import evaluate_against
from cgcl.seeds import stream
from cgcl.split import Split, random_split
from cgcl.split.negatives import degree_negatives
from cgcl.train import harder
from cgcl.train.harder import (
    HardNegatives,
    hard_negatives,
    heart_metrics,
    metrics_against,
    released_negatives,
)

DATA = Path(__file__).parents[3] / "shared" / "data"
FOLDER = DATA / "heart-citeseer"
needs_files = pytest.mark.skipif(
    not FOLDER.is_dir(), reason=f"HeaRT's released files are not at {FOLDER}"
)
WAYS = [hard_negatives, released_negatives]


def pairs(links) -> Tensor:
    return torch.tensor(links, dtype=torch.int64).reshape(-1, 2).T


def as_split(n, train, val, test, sides=None) -> Split:
    none = pairs([])
    return Split(n, pairs(train), pairs(val), pairs(test), none, none, sides)


def listed(chosen: HardNegatives, link: int) -> list[tuple[int, int]]:
    return [(u, v) for u, v in chosen.pairs[:, chosen.link == link].T.tolist()]


def test_the_nodes_that_any_formula_ranks_best_are_chosen() -> None:
    """A path 0 - 1 - 2 - 3, the test link 0 - 4, node 5 alone and like 0 in features.

    From 0: 2 shares the neighbour 1, so both formulas of links rank it first; 3 is reached by
    PageRank only, second; 5 is first by features. Best ranks: 2 has 1 three times less one, 5 has
    1 once, 3 has 2. From 4, which has no links: features alone speak, and only 3 is like it.
    """
    split = as_split(6, [(0, 1), (1, 2), (2, 3)], [], [(0, 4)])
    x = torch.tensor([[1, 0, 0], [0, 0, 0], [0, 0, 0], [0, 1, 0], [0, 1, 0], [1, 0, 1]]).float()
    chosen = hard_negatives(split, x, per_link=4)
    assert listed(chosen, 0)[:2] == [(0, 2), (0, 5)]
    assert listed(chosen, 0)[2] == (3, 4)
    assert chosen.formulas == ("resource allocation", "rooted PageRank", "cosine of features")
    three = listed(hard_negatives(split, x, per_link=6), 0)
    assert three[:3] == [(0, 2), (0, 5), (0, 3)]
    far = as_split(50, [(0, 1), (2, 3)], [], [(0, 2)])
    one, other = (hard_negatives(far, None, per_link=20, seed=seed).pairs for seed in (0, 1))
    assert not torch.equal(one, other)  # ties go by lot


def test_what_a_formula_says_nothing_about_gets_no_rank_from_it() -> None:
    """0 has one neighbour's neighbour, 2. By the released way, whatever shares nothing with 0 has
    rank 2 for that alone, as good as the second most similar node has; ours goes on by features.
    """
    n = 60
    split = as_split(n, [(0, 1), (1, 2)], [], [(0, 3)])
    x = torch.zeros(n, 60)
    x[0] = 1
    for node in range(4, n):
        x[node, : n - node] = 1  # 4 is the most similar one, then 5, ...
    assert [v for _, v in listed(hard_negatives(split, x, per_link=20), 0)[:10]] == [
        2, 4, 5, 6, 7, 8, 9, 10, 11, 12,
    ]  # fmt: skip
    ranks = harder._released_ranks(
        np.array([0, 0.5, 0, 0.2], np.float32), np.array([0, 1, 1, 1]) > 0
    )
    assert ranks.tolist() == [4, 1, 3, 2]


def test_a_second_visit_is_less_alike_only_as_released() -> None:
    """Node 0 is an end of two test links; its like in features are 10 to 14."""
    n = 40
    split = as_split(n, [(30, 31), (32, 33)], [], [(0, 1), (0, 2)])
    x = torch.zeros(n, 3)
    x[:, 1] = 0.1
    x[0] = x[10:15] = torch.tensor([1.0, 0.1, 0.0])
    x[1, 2] = x[2, 2] = 1.0
    alike = {(0, node) for node in range(10, 15)}
    chosen = hard_negatives(split, x, per_link=10)
    assert set(listed(chosen, 0)[:5]) == set(listed(chosen, 1)[:5]) == alike
    chosen = released_negatives(split, x, per_link=10)
    assert not alike & set(listed(chosen, 1)[:5])


def test_as_released_a_small_graph_gives_all_it_has_even_where_torch_prefers_silence() -> None:
    """From 3 many nodes tie, and torch may take 4, which no formula speaks of, before 6."""
    split = as_split(8, [(0, 5), (0, 6), (0, 7), (3, 5)], [(0, 1), (0, 2)], [(0, 3), (0, 4)])
    chosen = released_negatives(split, None, per_link=40)
    assert {u for u, v in listed(chosen, 0) if v == 3} == {1, 2, 4, 6, 7}


@st.composite
def splits(draw: st.DrawFn) -> tuple[Split, Tensor | None]:
    n = draw(st.integers(8, 30))
    two_sided = draw(st.booleans())
    sides = (torch.arange(n) % 2).bool() if two_sided else None
    every = [(u, v) for u in range(n) for v in range(u + 1, n) if not two_sided or u % 2 != v % 2]
    most = min(len(every) // 2, 60)
    links = draw(st.lists(st.sampled_from(every), min_size=8, max_size=most, unique=True))
    x = None
    if draw(st.booleans()):
        x = torch.rand(n, 4, generator=stream(draw(st.integers(0, 9)), "x")).round()
        x = x.to_sparse_coo() if draw(st.booleans()) else x
    return as_split(n, links[4:], links[:2], links[2:4], sides), x


@settings(max_examples=150, deadline=None)
@given(
    splits(), st.sampled_from(WAYS), st.sampled_from([2, 6, 40]), st.sampled_from(["test", "val"])
)
def test_negatives_are_what_they_must_be(given_split, choose, per_link, part) -> None:
    split, x = given_split
    chosen = choose(split, x, part, per_link=per_link, seed=3)
    links = split.test if part == "test" else split.val
    known = {tuple(p) for p in split.train.T.tolist()}
    if choose is hard_negatives:
        known |= {tuple(p) for p in torch.cat([split.val, split.test], dim=1).T.tolist()}
    elif part == "test":
        known |= {tuple(p) for p in split.val.T.tolist()}
    for place, (u, v) in enumerate(links.T.tolist()):
        own = listed(chosen, place)
        assert len(set(own)) == len(own)
        for kept, at, other in ((u, 0, v), (v, 1, u)):
            half = [p for p in own if p[at] == kept]
            free = [
                w
                for w in range(split.num_nodes)
                if w not in {kept, other}
                and (min(w, kept), max(w, kept)) not in known
                and (split.sides is None or split.sides[w] != split.sides[kept])
            ]
            # Exactly as many as asked for, or all there are; only pairs that may be asked about.
            assert len(half) == min(per_link // 2, len(free))
            assert {p[1 - at] for p in half} <= set(free)
    # Neither the size of blocks nor what else is asked about plays a part.
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(harder, "_CELLS", split.num_nodes)
        again = choose(split, x, part, per_link=per_link, seed=3)
    assert torch.equal(chosen.pairs, again.pairs)
    assert torch.equal(chosen.link, again.link)
    one = choose(split, x, part, which=torch.tensor([1]), per_link=per_link, seed=3)
    assert listed(one, 0) == listed(chosen, 1)
    assert len(chosen.formulas) == (2 if x is None else 3)


def read_links(name: str) -> Tensor:
    rows = [line.split() for line in (FOLDER / name).read_text().splitlines()]
    links = torch.tensor([[int(u), int(v)] for u, v in rows]).T
    return links[:, links[0] != links[1]]


def released(name: str) -> Tensor:
    with (FOLDER / name).open("rb") as file:
        return torch.from_numpy(npy.read_array(file, allow_pickle=False))


@pytest.fixture(scope="module")
def citeseer() -> tuple[Graph, Split]:
    graph = cgcl.read("citeseer", data_root=DATA)
    train, val, test = (read_links(f"{part}_pos.txt") for part in ("train", "valid", "test"))
    none = train[:, :0]
    return graph, Split(graph.num_nodes, train, val, test, none, none)


@needs_files
def test_formulas_have_their_published_mrr_on_the_released_files(citeseer) -> None:
    _, split = citeseer
    theirs = released("heart_test.npy")
    link = torch.arange(split.test.shape[1]).repeat_interleave(theirs.shape[1])
    negatives = HardNegatives(theirs.view(-1, 2).T, link, ())
    for formula, published in (
        (CommonNeighbours, 8.42),
        (AdamicAdar, 10.82),
        (ResourceAllocation, 10.84),
    ):
        found = heart_metrics(formula(split.train, split.num_nodes), split.test, negatives)
        assert 100 * float(found["heart_mrr"].mean()) == pytest.approx(published, abs=0.005)


@needs_files
def test_as_released_chooses_the_released_negatives(citeseer) -> None:
    graph, split = citeseer
    for part, file, least in (("val", "heart_valid.npy", 0.999), ("test", "heart_test.npy", 0.995)):
        theirs = released(file)
        ours = released_negatives(split, graph.x, part).pairs.T.reshape(theirs.shape)
        same = [
            len({*map(tuple, a.tolist())} & {*map(tuple, b.tolist())})
            for a, b in zip(ours, theirs, strict=True)
        ]
        assert sum(same) / theirs.shape[0] / 500 > least


# What links are worth against them.


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
    graph = Graph("small", tuple(str(i) for i in range(n)), torch.tensor(pairs).T, x, sides=sides)
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
    pairs = degree_negatives(split, 4)
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


@pytest.mark.parametrize("name", ["heart", "heart-released", "degree"])
def test_where_there_is_nothing_to_measure_it_is_said(name: harder.Against) -> None:
    graph, _ = small()
    with pytest.raises(SplitError, match="no test links"):
        metrics_against(Sums(30), random_split(graph, 0.1, 0.0, 0), graph, name)


def test_an_almost_complete_graph_has_no_such_negatives() -> None:
    links = torch.combinations(torch.arange(6)).T
    split = Split(6, links[:, 5:], links[:, :0], links[:, :5], links[:, :0], links[:, :0])
    with pytest.raises(SplitError, match="almost complete"):
        metrics_against(Sums(6), split, Graph("full", edges=links, names=tuple("abcdef")), "heart")


@pytest.mark.parametrize("method", ["adamic-adar", "cgcl-rank"])
def test_a_predictor_is_asked_as_it_stands(method: str) -> None:
    graph, split = small(60, features=False)
    epochs = {} if method == "adamic-adar" else {"epochs": 2, "hidden": 4}
    predictor = cgcl.LinkPredictor(method, threads=1, **epochs).fit(graph, split)
    first, again = (evaluate_against(predictor, "heart") for _ in range(2))
    assert first == again
    # Features that are made of links are none of the graph's.
    assert len(first.formulas) == 2
