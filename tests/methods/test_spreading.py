from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cgcl.methods import spreading as module
from cgcl.methods.katz import Katz, KatzSettings
from cgcl.methods.pagerank import PageRank, PageRankSettings
from cgcl.methods.spreading import Spreading

NOBODY = torch.empty(2, 0, dtype=torch.int64)
# Rounding plays a part in each: 1/d in one, more than 2^53 walks in the other.
KINDS = [
    lambda links, nodes: PageRank(links, nodes, PageRankSettings(tolerance=0.01)),
    lambda links, nodes: Katz(links, nodes, KatzSettings(beta=0.3, length=20)),
]


def a_graph(seed: int, nodes: int = 40, links: int = 150) -> torch.Tensor:
    pairs = np.random.default_rng(seed).integers(0, nodes, (2, 3 * links))
    pairs = np.unique(np.sort(pairs[:, pairs[0] != pairs[1]], axis=0), axis=1)
    return torch.from_numpy(pairs)[:, :links]


def all_pairs(nodes: int) -> torch.Tensor:
    return torch.cartesian_prod(torch.arange(nodes), torch.arange(nodes)).T


class Skewed(Spreading):
    """A measure of which the last bits tell which end it was spread from."""

    measure = 1.0
    nothing = 1e-20

    def spread(self, sources):
        return np.tile(self.measure * (1 + 1e-15 * sources), (self.num_nodes, 1))


class Careless(Skewed):
    rounding = 0.0


def between_two_float32() -> float:
    """A number of which the logarithm lies as near as can be between two float32 numbers."""
    low = np.float32(-5.3)
    high = np.nextafter(low, np.float32(0))
    return float(np.exp((np.float64(low) + np.float64(high)) / 2))


@pytest.mark.parametrize("kind", [Skewed, Careless])
def test_which_end_was_spread_from_leaves_no_trace(kind, monkeypatch) -> None:
    """Around a boundary of float32; without the care for rounding, the end does show."""
    scorer = kind(torch.tensor([[0, 1, 2], [3, 3, 3]]), 9, 5)
    pair, company = torch.tensor([[2], [8]]), torch.tensor([[8, 8], [4, 5]])
    found = set()
    for shift in np.linspace(-2e-14, 2e-14, 41):
        monkeypatch.setattr(kind, "measure", between_two_float32() * (1 + shift))
        alone = scorer.logits(pair)
        beside = scorer.logits(torch.cat([pair, company], dim=1))[:1]
        found.add(torch.equal(alone, beside) and torch.equal(alone, scorer.logits(pair.flip(0))))
    assert found == ({True} if kind is Skewed else {True, False})


@pytest.mark.parametrize("times", [1, 2])
def test_pairs_out_of_reach_are_never_in_doubt(times, monkeypatch) -> None:
    """They may be most of all pairs: to spread from each of their ends would take for ever."""
    spread_from = []
    spread = Skewed.spread
    monkeypatch.setattr(
        Skewed, "spread", lambda self, s: spread_from.append(s.tolist()) or spread(self, s)
    )
    monkeypatch.setattr(Skewed, "measure", 0.0)
    monkeypatch.setattr(Skewed, "nothing", times * between_two_float32())
    others = torch.arange(8)
    Skewed(NOBODY, 9, 5).logits(torch.stack([others, torch.full_like(others, 8)]))
    assert spread_from == [[8]]


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("seed", [0, 1])
def test_a_pair_has_the_same_bits_in_any_order_company_and_table(make, seed, monkeypatch) -> None:
    scorer = make(a_graph(seed), 43)  # three nodes alone
    pairs = all_pairs(43)
    logits = scorer.logits(pairs)
    assert torch.equal(logits, scorer.logits(pairs.flip(0)))
    order = torch.randperm(pairs.shape[1], generator=torch.Generator().manual_seed(seed))
    for size in (1, 43 * 7, 10**9):
        monkeypatch.setattr(module, "_TABLE", size)
        assert torch.equal(logits[order], scorer.logits(pairs[:, order]))
    for place in order[:20]:
        assert torch.equal(logits[place : place + 1], scorer.logits(pairs[:, place : place + 1]))
        row = pairs[0] == pairs[0, place]
        assert torch.equal(logits[row], scorer.logits(pairs[:, row]))


@pytest.mark.parametrize("make", KINDS)
def test_the_smaller_end_gives_the_same_logits_everywhere(make, monkeypatch) -> None:
    """With every pair in doubt, all are spread from their smaller end: no logit changes."""
    scorer = make(a_graph(2), 40)
    logits = scorer.logits(all_pairs(40))
    monkeypatch.setattr(type(scorer), "rounding", 1.0)
    assert torch.equal(logits, scorer.logits(all_pairs(40)))


@pytest.mark.parametrize("make", KINDS)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), links=st.integers(0, 60))
def test_the_ends_differ_by_no_more_than_rounding(make, seed, links) -> None:
    scorer = make(a_graph(seed, 12, links), 12)
    one, other = all_pairs(12).numpy()
    there, back = scorer._spread_from(one, other), scorer._spread_from(other, one)
    assert (np.abs(there - back) <= scorer.rounding * there).all()
    assert scorer.rounding < 1e-11


def test_a_question_about_one_node_takes_one_spread(monkeypatch) -> None:
    spread_from = []
    spread = PageRank.spread
    monkeypatch.setattr(
        PageRank, "spread", lambda self, s: spread_from.append(s.tolist()) or spread(self, s)
    )
    scorer = KINDS[0](a_graph(0), 40)
    others = torch.arange(39)
    star = torch.stack([others, torch.full_like(others, 39)])
    star[:, ::2] = star[:, ::2].flip(0)
    scorer.values(star)
    assert spread_from == [[39]]


def test_tables_stay_within_their_size(monkeypatch) -> None:
    widths = []
    spread = PageRank.spread
    monkeypatch.setattr(
        PageRank, "spread", lambda self, s: widths.append(s.size) or spread(self, s)
    )
    scorer = KINDS[0](a_graph(0), 40)
    monkeypatch.setattr(module, "_TABLE", 40 * 3 + 5)
    scorer._spread_from(np.arange(8), np.arange(8))
    assert widths == [3, 3, 2]
    widths.clear()
    monkeypatch.setattr(module, "_TABLE", 7)
    scorer._spread_from(np.arange(2), np.arange(2))
    assert widths == [1, 1]


@pytest.mark.parametrize("make", KINDS)
def test_logits_follow_the_measure(make) -> None:
    scorer = make(a_graph(3, 40, 50), 42)
    values, logits = scorer.values(all_pairs(42)), scorer.logits(all_pairs(42))
    assert logits.dtype == torch.float32
    assert torch.isfinite(logits).all()
    assert (values == 0).any()
    assert (values > 0).any()
    assert np.exp(logits.double().numpy()[values > 0]) == pytest.approx(
        values[values > 0], rel=1e-5
    )
    assert logits[values == 0].max() < logits[values > 0].min()
    assert len(set(logits[values == 0].tolist())) == 1
    assert scorer.num_nodes == 42
    assert scorer.factors() is None


@pytest.mark.parametrize("make", KINDS)
def test_graphs_without_nodes_links_or_pairs_are_fine(make) -> None:
    assert make(NOBODY, 0).logits(NOBODY).shape == (0,)
    assert make(a_graph(0), 40).logits(NOBODY).shape == (0,)
    unlinked = make(NOBODY, 3).logits(torch.tensor([[0, 1], [1, 2]]))
    assert unlinked[0] == unlinked[1]
    assert torch.isfinite(unlinked).all()
    assert make(NOBODY, 3).cost_per_pair > 0


def test_the_cost_of_a_spread_grows_with_links_and_steps() -> None:
    few, many = a_graph(0, 40, 20), a_graph(0, 40, 150)
    cost = Spreading(few, 40, 5).cost_per_node
    assert Spreading(many, 40, 5).cost_per_node > cost
    assert Spreading(few, 40, 6).cost_per_node > cost
    assert Spreading(NOBODY, 2**13, 5).cost_per_node == 5 * 2**13 * module._AT_NODE
    assert Spreading(NOBODY, 0, 5).cost_per_pair == module._LOOK_UP


@pytest.mark.parametrize("make", KINDS)
def test_cutting_the_sums_of_hubs_changes_no_more_than_rounding(make, monkeypatch) -> None:
    links, pairs = a_graph(4), all_pairs(42)
    whole = make(links, 42)
    for part in (1, 2, 5):
        monkeypatch.setattr(module, "_PART", part)
        cut = make(links, 42)
        assert np.diff(cut._parts.indptr).max() <= part
        assert cut.values(pairs) == pytest.approx(whole.values(pairs), rel=1e-12)
        assert torch.equal(cut.logits(pairs), cut.logits(pairs.flip(0)))


def test_hubs_do_not_make_rounding_matter() -> None:
    """A hub of 100,000 links: without cutting its sum, 57 steps could be wrong by 1e-9."""
    leaves = torch.arange(1, 100_001)
    star = torch.stack([torch.zeros_like(leaves), leaves])
    assert PageRank(star, 100_001, PageRankSettings()).rounding < 2e-11
