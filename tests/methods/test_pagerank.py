from __future__ import annotations

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cgcl.errors import ConfigError
from cgcl.methods.method import Known
from cgcl.methods.pagerank import METHOD, PageRank, PageRankSettings

# 0 - 1 - 2, and 3 alone
PATH = torch.tensor([[0, 1], [1, 2]])
PAIRS = torch.tensor([[0, 1, 0, 0, 0, 3], [1, 2, 2, 0, 3, 3]])


def test_ranks_are_as_by_hand() -> None:
    """With half of the steps going home.

    Seen from 0: p0 = 1/2 + p1 / 4, p1 = (p0 + p2) / 2, p2 = p1 / 4, so 7/12, 1/3 and 1/12.
    Seen from 1: p1 = 1/2 + (p0 + p2) / 2, p0 = p2 = p1 / 4, so 1/6, 2/3 and 1/6.
    """
    rank = PageRank(PATH, 4, PageRankSettings(alpha=0.5, tolerance=1e-12))
    expected = [1 / 3 + 1 / 6, 1 / 6 + 1 / 3, 1 / 12 + 1 / 12, 7 / 12 + 7 / 12, 0, 2]
    assert rank.values(PAIRS) == pytest.approx(expected, abs=1e-11)


def test_steps_are_as_by_hand() -> None:
    """Two steps leave a quarter of the walks: (1 - 1/2)^2.

    From 0: all at 0; then 1/2 at 0 and 1/2 at 1; then 5/8 at 0, 1/4 at 1 and 1/8 at 2.
    From 1: all at 1; then 1/4, 1/2, 1/4; then 1/8, 3/4, 1/8.
    """
    rank = PageRank(PATH, 4, PageRankSettings(alpha=0.5, tolerance=0.25))
    assert rank.steps == 2
    expected = [1 / 4 + 1 / 8, 1 / 8 + 1 / 4, 1 / 8 + 1 / 8, 5 / 8 + 5 / 8, 0, 2]
    assert rank.values(PAIRS) == pytest.approx(expected, rel=1e-12)


@settings(max_examples=30, deadline=None)
@given(
    links=st.sets(
        st.tuples(st.integers(0, 8), st.integers(0, 8)).filter(lambda p: p[0] < p[1]), max_size=25
    ),
    alpha=st.sampled_from([0.05, 0.15, 0.5, 0.9]),
)
def test_any_graph_agrees_with_networkx(links, alpha) -> None:
    graph = nx.Graph()
    graph.add_nodes_from(range(10))
    graph.add_edges_from(links)
    ranks = [
        nx.pagerank(graph, alpha=1 - alpha, personalization={u: 1}, tol=1e-13, max_iter=5000)
        for u in range(10)
    ]
    pairs = torch.cartesian_prod(torch.arange(10), torch.arange(10)).T
    expected = [ranks[u][v] + ranks[v][u] for u, v in pairs.T.tolist()]
    edges = torch.tensor(sorted(links), dtype=torch.int64).reshape(-1, 2).T
    rank = PageRank(edges, 10, PageRankSettings(alpha=alpha, tolerance=1e-12))
    assert rank.values(pairs) == pytest.approx(expected, abs=1e-10)
    logits = rank.logits(pairs)
    assert torch.isfinite(logits).all()
    assert torch.equal(logits, rank.logits(pairs.flip(0)))


def test_ranks_from_one_node_add_up_to_one_however_few_steps_there_are() -> None:
    for tolerance in (0.9, 1e-3):
        rank = PageRank(PATH, 4, PageRankSettings(tolerance=tolerance))
        table = rank.spread(torch.arange(4).numpy()) * rank.degree[:, None]
        assert table.sum(axis=0) == pytest.approx([1, 1, 1, 1], rel=1e-12)


@pytest.mark.parametrize("changed", [{"alpha": 0.3}, {"tolerance": 0.01}])
def test_every_setting_changes_the_scores(changed) -> None:
    known = Known(4, PATH)
    scorer = METHOD.build(9, PageRankSettings()).scorer(known)
    other = METHOD.build(9, PageRankSettings(**changed)).scorer(known)
    assert not torch.equal(scorer.logits(PAIRS), other.logits(PAIRS))


def test_the_usual_settings_are_the_ones_in_use() -> None:
    """0.85^56 > 0.0001 > 0.85^57."""
    scorer = METHOD.build(9, PageRankSettings()).scorer(Known(4, PATH))
    assert scorer.steps == 57
    exact = METHOD.build(9, PageRankSettings(tolerance=1e-12)).scorer(Known(4, PATH))
    assert scorer.values(PAIRS) == pytest.approx(exact.values(PAIRS), abs=1e-4)


@pytest.mark.parametrize(
    "settings_",
    [{"alpha": 0.0}, {"alpha": 1.0}, {"alpha": 0.001}, {"tolerance": 0.0}, {"tolerance": 1.0}],
)
def test_absurd_settings_are_refused(settings_) -> None:
    with pytest.raises(ConfigError, match=next(iter(settings_))):
        PageRankSettings(**settings_)


def test_even_the_farthest_settings_give_finite_logits() -> None:
    for chosen in ({"alpha": 0.99, "tolerance": 0.999}, {"alpha": 0.01, "tolerance": 1e-12}):
        rank = PageRank(PATH, 4, PageRankSettings(**chosen))
        assert rank.steps >= 1
        assert torch.isfinite(rank.logits(PAIRS)).all()


def test_what_to_search_is_allowed() -> None:
    assert set(METHOD.search) == {"alpha"}
    assert PageRankSettings().alpha in METHOD.search["alpha"]
    for alpha in METHOD.search["alpha"]:
        PageRankSettings(alpha=alpha)
    assert not METHOD.needs_features
    assert METHOD.works_across_sides
