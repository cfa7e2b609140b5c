"""The top of the list against hand-worked numbers and brute force."""

import math
from dataclasses import dataclass, replace
from itertools import combinations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from cgcl.graph import Graph
from cgcl.methods.heuristics import AdamicAdar
from cgcl.metrics import METRICS, average_precision
from cgcl.seeds import stream
from cgcl.split import Split, random_split
from cgcl.train import top_of_list
from cgcl.train.top_of_list import ranking_metrics, scored_once


@dataclass
class Table:
    """Scores pairs by a symmetric table."""

    scores: Tensor
    cost_per_pair: float = 1.0
    cost_per_node: float = 0.0

    @property
    def num_nodes(self) -> int:
        return self.scores.shape[0]

    def logits(self, pairs: Tensor) -> Tensor:
        assert bool((pairs[0] != pairs[1]).all())
        return self.scores[pairs[0], pairs[1]]

    def factors(self) -> None:
        return None


class Rows(Table):
    """The same, but in whole rows."""

    cost_in_rows = 1.0

    def rows(self, nodes: Tensor) -> Tensor:
        return self.scores[nodes].clone()


def as_split(n, train, val, test, sides=None) -> Split:
    def pairs(links) -> Tensor:
        return torch.tensor(links, dtype=torch.int64).reshape(-1, 2).T

    none = pairs([])
    return Split(n, pairs(train), pairs(val), pairs(test), none, none, sides)


def table(n: int, scores: dict[tuple[int, int], float]) -> Tensor:
    found = torch.zeros(n, n)
    for (u, v), score in scores.items():
        found[u, v] = found[v, u] = score
    return found


def brute(scores: Tensor, split: Split, part: str, best: int) -> dict[str, float]:
    """Every rank and every pair by hand, a pair at a time."""
    n = split.num_nodes

    def listed(pairs: Tensor) -> set[tuple[int, int]]:
        return {(int(u), int(v)) for u, v in pairs.T}

    known = listed(split.train) | (listed(split.val) if part == "test" else set())
    hidden = listed(split.test if part == "test" else split.val)
    across = [
        (u, v)
        for u, v in combinations(range(n), 2)
        if split.sides is None or split.sides[u] != split.sides[v]
    ]
    free = [pair for pair in across if pair not in known]
    ranks = []
    for link in hidden:
        for u in link:
            own = float(scores[link])
            others = [float(scores[p]) for p in free if u in p and p not in hidden]
            ranks.append(1 + sum(o > own for o in others) + sum(o == own for o in others) / 2)
    values = sorted({float(scores[p]) for p in free}, reverse=True)
    expected, room = 0.0, best
    for value in values:
        tied = [p for p in free if float(scores[p]) == value]
        taken = min(room, len(tied))
        expected += taken * sum(p in hidden for p in tied) / len(tied)
        room -= taken
    others = [float(scores[p]) for p in free if p not in hidden]
    found = {
        "node_mrr": sum(1 / rank for rank in ranks) / len(ranks),
        "node_hits@10": sum(rank <= 10 for rank in ranks) / len(ranks),
        "pair_ap": average_precision([float(scores[p]) for p in hidden], others) if others else 1.0,
    }
    if len(free) >= 10 * best:
        found[f"precision@{best}"] = expected / best
    return found


CASES = st.tuples(
    st.integers(4, 16),  # nodes
    st.integers(0, 2**31),  # seed
    st.integers(1, 40),  # different scores
    st.sampled_from(["test", "val"]),
    st.booleans(),  # two sides
    st.sampled_from([Table, Rows]),
)


@settings(deadline=None, max_examples=120)
@given(CASES)
def test_it_is_what_a_brute_force_counts(case) -> None:
    n, seed, values, part, two_sided, kind = case
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randint(values, (n, n), generator=generator).float().triu(1)
    scores = scores + scores.T
    sides = torch.arange(n) % 2 == 1 if two_sided else None
    pairs = [p for p in combinations(range(n), 2) if not two_sided or (p[1] - p[0]) % 2]
    order = torch.randperm(len(pairs), generator=generator).tolist()
    shuffled = [pairs[place] for place in order]
    split = as_split(n, shuffled[3:6], shuffled[1:3], shuffled[:1] + shuffled[6:9], sides)
    expected = brute(scores, split, part, best=2)
    with pytest.MonkeyPatch.context() as patch:
        at_two = replace(METRICS["precision@100"], function=lambda c: c.precision_at(2))
        patch.setitem(METRICS, "precision@2", at_two)
        for name in ("_CELLS_CPU", "_PAIRS"):  # several blocks, the last one smaller
            patch.setattr(top_of_list, name, 3 * n)
        found = ranking_metrics(kind(scores), split, part).metrics
    assert found == pytest.approx(expected)


def planted() -> tuple[Table, Split]:
    generator = torch.Generator().manual_seed(0)
    links = (torch.rand(300, 300, generator=generator) < 0.02).triu(1).nonzero().T
    graph = Graph.from_pairs("random", [f"{i:03d}" for i in range(300)], links)
    scores = torch.rand(300, 300, generator=generator).triu(1)
    scores[links[0], links[1]] += 0.5
    return Table(scores + scores.T), random_split(graph, test=0.2)


def test_beyond_the_budget_links_are_sampled_and_the_error_said() -> None:
    scorer, split = planted()
    m = split.test.shape[1]
    exact = ranking_metrics(scorer, split)
    assert exact.links is None
    assert exact.errors == {}
    assert exact.sampling is None
    whole = top_of_list._Sweep(scorer, split, "test", top_of_list.silent)
    assert whole.cost(300, 2) > whole.cost(300, 1)
    all_links = ranking_metrics(scorer, split, budget=whole.cost(split.test.unique().numel(), m))
    assert all_links.links is None  # the ends of all links, but not all pairs
    assert all_links.metrics == {k: exact.metrics[k] for k in ("node_mrr", "node_hits@10")}
    some = ranking_metrics(scorer, split, budget=whole.cost(80, 40))
    assert some.links == 40
    assert some == ranking_metrics(scorer, split, budget=whole.cost(80, 40))
    assert some != ranking_metrics(scorer, split, budget=whole.cost(80, 40), seed=1)
    for name, error in some.errors.items():
        assert 0 < error < 0.1
        assert abs(some.metrics[name] - exact.metrics[name]) < 4 * error
    assert some.sampling == {"links": 40, "se": some.errors}
    few = ranking_metrics(scorer, split, budget=whole.cost(12, 6))
    assert few.links == 10  # a handful is worth twice the budget
    assert ranking_metrics(scorer, split, budget=whole.cost(2, 1)).metrics == {}


def test_the_error_is_that_of_a_mean_over_links_drawn_without_replacement() -> None:
    scorer, split = planted()
    found = ranking_metrics(scorer, split, most_links=30)
    order = torch.randperm(split.test.shape[1], generator=stream(0, "sampled links"))[:30]
    alone = []
    for link in split.test[:, order].T.tolist():
        others = [p for p in split.test.T.tolist() if p != link]
        known = [*split.val.T.tolist(), *others]  # the other test links are left out, too
        one = as_split(300, split.train.T.tolist(), known, [link])
        alone.append(ranking_metrics(scorer, one).metrics["node_mrr"])
    values = torch.tensor(alone, dtype=torch.float64)
    assert found.metrics["node_mrr"] == pytest.approx(float(values.mean()))
    left = math.sqrt(1 - 30 / split.test.shape[1])
    assert found.errors["node_mrr"] == pytest.approx(float(values.std()) / math.sqrt(30) * left)


def test_scores_are_kept_only_where_they_come_in_rows_and_are_few(monkeypatch) -> None:
    scores = torch.rand(4, 4)
    pairs, rows = Table(scores), Rows(scores)
    kept = scored_once(rows)
    assert torch.equal(kept.rows(torch.arange(4)), scores)
    assert scored_once(kept) is kept
    assert scored_once(pairs) is pairs
    monkeypatch.setattr(top_of_list, "_TABLE", 15)
    assert scored_once(rows) is rows


def test_a_formula_in_rows_is_the_formula_in_pairs(sbm) -> None:
    """Rows and pairs give the same bits, so ties stay ties."""
    split = random_split(sbm(0))
    scorer = AdamicAdar(split.train, split.num_nodes)

    class InPairs:
        num_nodes, cost_per_pair, cost_per_node = scorer.num_nodes, 1.0, 0.0
        logits, factors = scorer.logits, scorer.factors

    found = ranking_metrics(scorer, split)
    assert found == ranking_metrics(InPairs(), split)
    assert list(found.metrics) == [name for name in METRICS if name in found.metrics]
