"""The search for the best pairs, against brute force."""

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from cgcl.errors import ConfigError, GraphContentError, ModelFileError, ResourceError
from cgcl.graph import Graph
from cgcl.methods.scoring import InnerProductScorer
from cgcl.predict import Query, search
from cgcl.predict.search import Best, Found, Search, find


@dataclass
class TableScorer:
    """Looks logits up in a symmetric table; counts what it is asked."""

    table: Tensor
    linear: tuple[Tensor, Tensor] | None = None
    cost_per_pair: float = 1.0
    cost_per_node: float = 0.0
    asked: int = 0

    @property
    def num_nodes(self) -> int:
        return self.table.shape[0]

    def logits(self, pairs: Tensor) -> Tensor:
        self.asked += pairs.shape[1]
        return self.table[pairs[0], pairs[1]]

    def factors(self) -> tuple[Tensor, Tensor] | None:
        return self.linear


@dataclass
class RoundedScorer(TableScorer):
    """Gives whole rectangles of the table at once, off by at most `rounding`."""

    rounding: float = 0.0
    cost_in_rows: float = 1.0

    def rows(self, nodes: Tensor, partners: Tensor) -> Tensor:
        noise = torch.rand(self.table.shape, generator=torch.Generator().manual_seed(1))
        return (self.table + self.rounding * (2 * noise - 1))[nodes][:, partners]


@dataclass
class Case:
    graph: Graph
    query: Query
    scorer: TableScorer
    min_logit: float | None = None

    def find(self, **changes: Any) -> Found:
        """Return what the search finds, by another query if it is told one."""
        query = replace(self.query, **changes)
        return find(self.scorer, self.graph, query, self.min_logit)

    def blocks(self, way: str = "auto") -> list[tuple[Tensor, Tensor]]:
        """Return what is streamed, all of it."""
        query = replace(self.query, candidates=way)
        return list(Search(self.scorer, self.graph, query, self.min_logit).blocks())

    def brute_force(self) -> list[tuple[float, str, str]]:
        """All answers, by the words of the definition."""
        graph, query, n, names = self.graph, self.query, self.graph.num_nodes, self.graph.names
        never = {frozenset((names[a], names[b])) for a, b in graph.edges.T.tolist()}
        never |= {frozenset(pair) for pair in query.exclude}
        sources = names if query.sources is None else query.sources
        targets = names if query.targets is None else query.targets
        sides = None if graph.sides is None else graph.sides.tolist()
        found = []
        for a, b in product(range(n), range(n)):  # smaller numbers come first
            ends = frozenset((names[a], names[b]))
            if a == b or ends in never or names[a] not in sources or names[b] not in targets:
                continue
            anywhere = query.sources is None and query.targets is None
            if sides is not None and (sides[a] == sides[b] or (anywhere and sides[a])):
                continue
            never.add(ends)
            logit = float(self.scorer.table[a, b])
            if self.min_logit is None or logit >= self.min_logit:
                found.append((-logit, names[a], names[b]))
        return [(-low, a, b) for low, a, b in sorted(found)][: query.count]

    def answers(self, pairs: Tensor, logits: Tensor) -> list[tuple[float, str, str]]:
        first, second = ([self.graph.names[node] for node in ends] for ends in pairs.tolist())
        return list(zip(logits.tolist(), first, second, strict=True))


@st.composite
def cases(draw: st.DrawFn, *, bipartite: bool | None = None, low: int = 0) -> Case:
    n = draw(st.integers(low, 9))
    nodes = st.integers(0, max(n - 1, 0))
    pairs = st.lists(st.tuples(nodes, nodes), max_size=12 if n else 0)
    two_sides = draw(st.booleans()) if bipartite is None else bipartite
    sides = None
    links = torch.tensor(draw(pairs), dtype=torch.int64).reshape(-1, 2).T
    if two_sides:
        sides = torch.tensor(draw(st.lists(st.booleans(), min_size=n, max_size=n)), dtype=bool)
        links = links[:, sides[links[0]] != sides[links[1]]]
    names = draw(st.permutations([f"n{number}" for number in range(n)]))
    # Few different values: ties everywhere.
    values = draw(st.lists(st.integers(-2, 2), min_size=n * n, max_size=n * n))
    table = torch.tensor(values, dtype=torch.float32).reshape(n, n)
    table = table.triu() + table.triu(1).T

    named = st.sampled_from([*names, "nobody"])
    some = st.none() | st.lists(st.sampled_from(names or ["nobody"]), max_size=12 if n else 0)
    query = Query(
        count=draw(st.none() | st.integers(1, 50)),
        sources=draw(some),
        targets=draw(some),
        exclude=draw(st.lists(st.tuples(named, named), max_size=12)),
    )
    graph = Graph.from_pairs("toy", names, links, sides=sides)
    min_logit = draw(st.none() | st.sampled_from([-1.0, 0.5, 2.0]))
    return Case(graph, query, TableScorer(table, (table, torch.eye(n))), min_logit)


@given(cases())
@settings(max_examples=150)
def test_exact_search_equals_brute_force(case: Case) -> None:
    found = case.find(candidates="exact")
    assert case.answers(found.pairs, found.logits) == case.brute_force()
    assert found.pairs_scored == case.scorer.asked == found.pairs_possible


@given(cases(), st.integers(1, 30), st.integers(0, 5))
def test_the_size_of_blocks_never_matters(case: Case, block: int, waiting: int) -> None:
    whole = case.find(candidates="exact")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "_BLOCK", block)
        patch.setattr(search, "_WAITING", waiting)
        pieces = case.find(candidates="exact")
    assert torch.equal(whole.pairs, pieces.pairs)
    assert torch.equal(whole.logits, pieces.logits)
    assert whole.pairs_scored == pieces.pairs_scored


def joined(blocks: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    pairs = torch.cat([torch.empty(2, 0).long(), *(some for some, _ in blocks)], dim=1)
    return pairs, torch.cat([torch.empty(0), *(some for _, some in blocks)])


@given(cases(), st.integers(1, 30), st.integers(1, 5), st.sampled_from([0.0, 0.4, 3.0]))
@settings(max_examples=200)
def test_search_by_products_equals_brute_force_however_they_are_rounded(
    case: Case, cells: int, height: int, rounding: float
) -> None:
    case.scorer = RoundedScorer(case.scorer.table, rounding=rounding)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "_CELLS_CPU", cells)
        patch.setattr(search, "_HEIGHT_CPU", height)
        patch.setattr(search, "_WAITING", 0)
        found, blocks = case.find(), case.blocks()
    assert case.answers(found.pairs, found.logits) == case.brute_force()
    assert (found.way, found.pairs_scored) == ("exact", found.pairs_possible)
    # The stream holds all of them in the order of nodes.
    pairs, logits = joined(blocks)
    assert pairs.T.tolist() == sorted(pairs.T.tolist())
    case.query = replace(case.query, count=None)
    assert sorted(case.answers(pairs, logits)) == sorted(case.brute_force())


def test_only_what_may_be_among_the_best_is_scored_pair_by_pair() -> None:
    table = torch.rand(200, 200, generator=torch.Generator().manual_seed(0))
    table = table.triu() + table.triu(1).T
    scorer = RoundedScorer(table, rounding=1e-6)
    whole, found = (find(s, line(200), Query(count=20)) for s in (TableScorer(table), scorer))
    assert torch.equal(found.pairs, whole.pairs)
    assert torch.equal(found.logits, whole.logits)
    assert scorer.asked == 20
    assert found.sentence == "Exact: all 19,701 unlinked pairs were scored."


def test_inner_products_find_what_pair_by_pair_finds_to_the_bit() -> None:
    right = torch.randn(60, 7, generator=torch.Generator().manual_seed(0))
    right[30:] = right[:30]  # ties
    scorer = InnerProductScorer(right * torch.linspace(-1, 2, 7), right, right.sum(dim=1))
    table = scorer.logits(torch.cartesian_prod(*[torch.arange(60)] * 2).T).view(60, 60)
    for query in (
        Query(count=9),
        Query(count=300, sources=[f"n{node}" for node in range(20, 50)]),
        Query(count=5, sources=["n59"], targets=[f"n{node}" for node in range(0, 60, 3)]),
        Query(),
    ):
        lowest = None if query.count else float(table[3, 40])
        found = find(scorer, line(60), query, lowest)
        expected = find(TableScorer(table), line(60), query, lowest)
        assert torch.equal(found.pairs, expected.pairs)
        assert torch.equal(found.logits, expected.logits)


def test_what_is_too_large_for_a_product_is_scored_pair_by_pair() -> None:
    huge = torch.full((6, 2), 1e30)
    scorer = InnerProductScorer(huge, huge, torch.zeros(6))
    assert scorer.rounding == torch.inf
    with pytest.raises(ModelFileError, match="not finite numbers"):
        find(scorer, line(), Query(count=1))
    nobody = InnerProductScorer(huge[:0], huge[:0], torch.zeros(0))
    graph = Graph.from_pairs("nobody", [], torch.empty(2, 0, dtype=torch.int64))
    assert find(nobody, graph, Query(count=1)).logits.numel() == 0


@given(cases(), st.integers(1, 20), st.sampled_from(["exact", "linear"]))
def test_the_stream_holds_the_same_pairs_in_order_of_first_end(case: Case, block: int, way) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "_BLOCK", block)
        patch.setattr("cgcl.predict.candidates._CELLS", block)
        blocks = case.blocks(way)
    whole = case.find(count=None, candidates="exact")
    pairs, logits = joined(blocks)
    expected = case.answers(whole.pairs, whole.logits)
    assert sorted(case.answers(pairs, logits)) == sorted(expected)
    assert pairs.T.tolist() == sorted(pairs.T.tolist())
    for some, _ in blocks:
        assert 0 < some.shape[1] <= max(block, 1) if way == "exact" else some.shape[1] > 0


@given(cases(), st.integers(1, 30))
def test_lists_that_hold_everybody_find_what_exact_search_finds(case: Case, cells: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cgcl.predict.candidates._CELLS", cells)
        found = case.find(candidates="linear")
    assert case.answers(found.pairs, found.logits) == case.brute_force()
    assert found.recall in (None, 1.0)


@given(cases(bipartite=False), st.integers(1, 12))
def test_two_hop_search_equals_brute_force(case: Case, steps: int) -> None:
    friends = {node: set[int]() for node in range(case.graph.num_nodes)}
    for a, b in case.graph.edges.T.tolist():
        friends[a].add(b)
        friends[b].add(a)
    node_of = case.graph.node_of
    everything = replace(case, query=replace(case.query, count=None))
    expected = [
        answer
        for answer in everything.brute_force()
        if friends[node_of[answer[1]]] & friends[node_of[answer[2]]]
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cgcl.predict.candidates._STEPS_AT_ONCE", steps)
        found = case.find(candidates="two-hop")
    assert case.answers(found.pairs, found.logits) == expected[: case.query.count]
    assert found.hubs_left_out == 0


def line(n: int = 6, **more) -> Graph:
    pairs = torch.stack([torch.arange(n - 1), torch.arange(1, n)])
    return Graph.from_pairs("line", [f"n{i}" for i in range(n)], pairs, **more)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("way", ["exact", "two-hop", "linear"])
def test_scores_that_are_not_finite_are_not_passed_over(bad: float, way) -> None:
    table = torch.ones(6, 6)
    table[0, 2] = table[2, 0] = bad
    scorer = TableScorer(table, (torch.ones(6, 1), torch.ones(6, 1)))
    with pytest.raises(ModelFileError, match="not finite numbers"):
        find(scorer, line(), Query(count=1, candidates=way), 0.0)
    blind = TableScorer(torch.ones(6, 6), (torch.full((6, 1), bad), torch.ones(6, 1)))
    with pytest.raises(ModelFileError, match="not finite numbers"):
        find(blind, line(), Query(count=1, candidates="linear"))


def test_the_search_says_what_it_did() -> None:
    found = find(TableScorer(torch.zeros(6, 6)), line(), Query(count=2))
    assert found.sentence == "Exact: all 10 unlinked pairs were scored."
    assert (found.way, found.recall, found.nodes_sampled) == ("exact", None, 0)
    one = find(TableScorer(torch.zeros(3, 3)), line(3), Query())
    assert one.sentence == "Exact: the only unlinked pair was scored."
    walked = find(TableScorer(torch.zeros(6, 6)), line(), Query(count=2, candidates="two-hop"))
    # Of the 4, 3, 3, 3, 3, 4 partners of the six nodes 1, 1, 2, 2, 1, 1 are two steps away; all
    # logits are equal, so any of them would do.
    assert walked.recall == pytest.approx((1 / 4 + 1 / 3 + 2 / 3 + 2 / 3 + 1 / 3 + 1 / 4) / 6)
    assert walked.sentence == (
        "Candidates two steps apart, rescored exactly: 4 of 10 pairs; "
        "on 6 sampled nodes they held 41.6 % of the exact best 100."
    )


def test_the_way_follows_from_the_work(monkeypatch) -> None:
    table = torch.zeros(6, 6)
    linear = (torch.ones(6, 1), torch.ones(6, 1))
    across = replace(line(), sides=torch.arange(6) % 2 == 1)
    monkeypatch.setattr("cgcl.predict.strategy._CHEAP", 10 * 7.0)
    for scorer, graph, query, way in (
        (TableScorer(table, linear, 7.0), line(), Query(), "exact"),
        (TableScorer(table, linear, 7.1), line(), Query(), "linear"),
        (TableScorer(table, linear, 7.1), line(), Query(sources=["n3"]), "exact"),
        # Without a linear form two steps apart is next best, except where no two steps go across.
        (TableScorer(table, None, 7.0), line(), Query(), "exact"),
        (TableScorer(table, None, 7.1), line(), Query(), "two-hop"),
        (TableScorer(table, None, 20.0), across, Query(), "exact"),
        # Products that give the scores are never more than those that give candidates.
        (RoundedScorer(table, linear, 7.1), line(), Query(count=3), "exact"),
        (RoundedScorer(table, linear, 7.1), line(), Query(), "linear"),
        # Six rows and ten pairs: what a row takes counts, too.
        (TableScorer(table, linear, 1.0, 10.0), line(), Query(), "exact"),
        (TableScorer(table, linear, 1.0, 10.1), line(), Query(), "linear"),
    ):
        assert find(scorer, graph, query).way == way


def test_what_takes_hours_is_refused_with_an_estimate_and_ways_out(monkeypatch) -> None:
    table = torch.zeros(60, 60)
    scorer = TableScorer(table, (torch.ones(60, 1), torch.ones(60, 1)), 1e6)
    monkeypatch.setattr("cgcl.predict.strategy._NEVER_REFUSED", 1000 * 1e6)
    monkeypatch.setattr("cgcl.predict.strategy._seconds_per_operation", lambda _: 10 / 1e6)
    exact = Query(candidates="exact")
    with pytest.raises(ResourceError) as refused:
        find(scorer, line(60), exact)
    assert str(refused.value) == (
        "Scoring all pairs of 60 nodes means 1,711 pairs, about 5 hours.\n"
        "Ask for less: `node=NAME`, `sources=FILE` or `pairs=FILE`."
    )
    monkeypatch.setattr("cgcl.predict.strategy.SAMPLED_NODES", 1)
    with pytest.raises(ResourceError, match=r"or `candidates=two-hop` \(about 30 minutes\)\.$"):
        find(scorer, line(60), exact)
    monkeypatch.setattr("cgcl.predict.strategy._CHEAP", 0.0)
    with pytest.raises(ResourceError, match=r"hours; candidates \(linear\) would take about"):
        find(scorer, line(60), Query())
    names = line(60).names
    few = Query(sources=names[:40], targets=names[20:], candidates="exact")
    with pytest.raises(ResourceError, match="Scoring 40 nodes with 40 means"):
        find(scorer, line(60), few)
    without = TableScorer(table, None, 1e6)
    monkeypatch.setattr("cgcl.predict.strategy._MAX_SECONDS", 17_000.0)
    monkeypatch.setattr("cgcl.predict.strategy.list_size", lambda _: 20)
    with pytest.raises(ResourceError, match=r"`pairs=FILE`, `candidates=linear` \(about 4 hours\)"):
        find(scorer, line(60), exact)
    with pytest.raises(ResourceError, match=r"`pairs=FILE` or `candidates=two-hop`"):
        find(without, line(60), exact)
    monkeypatch.setattr("cgcl.predict.strategy._MAX_SECONDS", 20_000.0)  # a faster machine
    assert find(scorer, line(60), exact).pairs_scored == 1711


def test_ways_that_do_not_fit_are_refused() -> None:
    scorer = TableScorer(torch.zeros(6, 6))
    with pytest.raises(ConfigError, match="no linear form"):
        find(scorer, line(), Query(candidates="linear"))
    with pytest.raises(ConfigError, match="There is no way 'best' to search"):
        Query(candidates="best")
    sides = torch.tensor([False, True] * 3)
    with pytest.raises(ConfigError, match="share a neighbour are on the same side"):
        find(scorer, line(sides=sides), Query(candidates="two-hop"))


@pytest.mark.parametrize(
    ("ask", "error", "text"),
    [
        ({"count": 0}, ConfigError, "ask for at least 1"),
        ({"count": 2.0}, ConfigError, "asked for 2.0 links; ask for a whole number"),
        ({"count": True}, ConfigError, "asked for True links; ask for a whole number"),
        ({"exclude": ["ab"]}, GraphContentError, "Give a list of pairs of names"),
        ({"sources": ["Eve"]}, GraphContentError, "No node is called 'Eve'"),
        ({"targets": [7]}, GraphContentError, "Names are text, found 7"),
    ],
)
def test_a_query_that_makes_no_sense_is_refused(ask, error, text) -> None:
    with pytest.raises(error, match=text):
        find(TableScorer(torch.zeros(6, 6)), line(), Query(**ask))


def test_few_pairs_of_many_nodes_are_in_the_order_of_names_too() -> None:
    names = [f"n{number:03d}" for number in reversed(range(100))]
    pairs = torch.tensor([[5, 7, 7, 90], [6, 6, 80, 1]])
    everybody = torch.stack([torch.arange(100), torch.arange(100).flip(0)])
    for some in (pairs, everybody):
        best = Best(None, names)
        best.add(some, torch.zeros(some.shape[1]))
        assert torch.equal(best.sorted()[0], some.flip(1))


def test_memory_is_bounded_by_what_is_kept(monkeypatch) -> None:
    monkeypatch.setattr(search, "_WAITING", 10)
    best = Best(5, [f"n{number}" for number in range(50)])
    for low in range(49):
        pairs = torch.stack([torch.full((49 - low,), low), torch.arange(low + 1, 50)])
        best.add(pairs, pairs.sum(dim=0).float())
        assert sum(part.shape[1] for part in best._pairs) <= 2 * 5 + 10
    assert best.sorted()[1].tolist() == [97.0, 96.0, 95.0, 95.0, 94.0]
