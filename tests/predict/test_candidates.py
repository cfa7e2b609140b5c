"""Candidates: the linearised decoder, the lists of best partners, and steps over hubs."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cgcl.graph import Graph
from cgcl.methods.scoring import DecoderScorer, decode_pairs, linear_factors
from cgcl.model import CGCL
from cgcl.predict import Query, candidates
from cgcl.predict.candidates import LinearCandidates, TwoHopCandidates, list_size
from cgcl.predict.pair_space import PairSpace
from cgcl.predict.search import SearchStats, find, share_held
from cgcl.predict.strategy import in_words
from cgcl.seeds import stream
from cgcl.testing.graphs import links_graph


def bare(n: int, links: list[tuple[int, int]] = ()) -> Graph:
    return links_graph(links, [f"n{i}" for i in range(n)], None)


def random_model(hidden: int, product: str = "hadamard") -> CGCL:
    model = CGCL(4, hidden, product=product)
    model.reset_parameters(stream(0, "test"))
    return model


def all_logits(model: CGCL, z: torch.Tensor) -> torch.Tensor:
    nodes = torch.arange(len(z))
    return decode_pairs(model, z, torch.cartesian_prod(nodes, nodes).T).view(len(z), len(z))


@pytest.mark.parametrize("product", ["hadamard", "inner"])
def test_where_no_unit_is_off_the_linear_form_is_exact_up_to_a_constant_of_the_node(
    product: str,
) -> None:
    model = random_model(8, product)
    with torch.no_grad():
        model.decode.layer_1.bias.fill_(100.0)
    z = torch.randn(20, 8, generator=stream(0, "z"))
    left, right = linear_factors(model.decode, z)
    difference = all_logits(model, z) - left @ right.T
    spread = difference - difference.mean(dim=1, keepdim=True)
    torch.testing.assert_close(spread, torch.zeros(20, 20), atol=1e-3, rtol=0)


def test_the_slope_of_a_unit_is_that_of_its_best_line() -> None:
    """With z = 1 for node 0 and partners at -1, 0, 1, 2: ReLU has slope 0.7 over -1, 0, 1, 2."""
    model = CGCL(1, 2)
    z = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 0.0], [2.0, 0.0]])
    with torch.no_grad():
        model.decode.layer_1.weight.copy_(torch.tensor([[1.0, 0.0]]))
        model.decode.layer_1.bias.zero_()
        model.decode.layer_2.weight.fill_(3.0)
    left, right = linear_factors(model.decode, z)
    # a = 1, -1, 0, 2 with mean 1/2; Cov = (1/2 * 1 + 3/2 * 2) = 3.5, Var = 5: slope 0.7.
    assert left[0].tolist() == pytest.approx([3 * 0.7, 0.0])
    assert right is z


def test_a_decoder_that_falls_with_the_inner_product_is_turned_round() -> None:
    model = random_model(8, "inner")
    with torch.no_grad():
        model.decode.layer_1.weight.fill_(1.0)
        model.decode.layer_1.bias.fill_(0.5)
        model.decode.layer_2.weight.fill_(-1.0)
    z = torch.randn(300, 8, generator=stream(0, "z"))
    left, right = linear_factors(model.decode, z)
    best = all_logits(model, z).argmax(dim=1)
    inner = (z @ z.T).gather(1, best[:, None])
    assert bool((inner <= 0).all())
    assert bool(((left @ right.T).gather(1, best[:, None]) >= 0).all())


def test_few_candidates_of_a_random_decoder_hold_the_best() -> None:
    model = random_model(16)
    with torch.no_grad():
        model.decode.layer_1.bias += 0.5  # some units bend, most pairs keep most of them on
    scorer = DecoderScorer(model.decode, 0.5 * torch.randn(1500, 16, generator=stream(1, "z")))
    found, exact = (
        find(scorer, bare(1500), Query(count=20, candidates=way)) for way in ("linear", "exact")
    )
    assert found.recall is not None
    assert found.recall > 0.9
    assert found.nodes_sampled == 50
    assert found.pairs_scored < 1500 * 128
    assert torch.equal(found.pairs, exact.pairs)
    torch.testing.assert_close(found.logits, exact.logits)


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 11), st.integers(1, 60), st.booleans())
def test_a_pair_is_a_candidate_if_either_end_lists_the_other(
    seed: int, size: int, cells: int, two_sides: bool
) -> None:
    # Whole numbers: no rounding, and ties, all of which are listed here.
    left, right = torch.randint(-9, 10, (2, 12, 3), generator=stream(seed, "factors")).float()
    sides = torch.arange(12) % 3 == 0 if two_sides else None
    links = [(0, 1), (0, 2), (3, 4)]
    if sides is not None:
        links = [(a, b) for a, b in links if sides[a] != sides[b]]
    space = PairSpace(replace(bare(12, links), sides=sides), Query())
    products = left @ right.T
    allowed = torch.ones(12, 12, dtype=torch.bool) if sides is None else sides[:, None] != sides
    for a, b in [*links, *((node, node) for node in range(12))]:
        allowed[a, b] = allowed[b, a] = False
    products[~allowed] = -torch.inf
    edge = products.sort(descending=True).values[:, size - 1]
    expected = {
        frozenset((a, b)) for a, b in allowed.nonzero().tolist() if products[a, b] >= edge[a]
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(candidates, "_CELLS", cells)
        patch.setattr(candidates, "_without_ties", lambda *factors: factors)
        patch.setattr(candidates, "list_size", lambda _: size)
        blocks = list(LinearCandidates(space, (left, right)).blocks())
    found = [frozenset(pair) for block in blocks for pair in block.T.tolist()]
    assert set(found) == expected
    assert len(found) == len(expected)


def test_nodes_that_are_all_alike_do_not_fill_the_lists(monkeypatch) -> None:
    monkeypatch.setattr(candidates, "list_size", lambda _: 10)
    for z in (torch.zeros(400, 3), torch.ones(400, 3)):
        lists = LinearCandidates(PairSpace(bare(400), Query()), (z, z))
        pairs = torch.cat(list(lists.blocks()), dim=1)
        assert 390 * 10 <= pairs.shape[1] <= 400 * 10
        assert int(pairs[0].max()) == 9  # of equal ones the smaller numbers are listed


def test_how_long_the_lists_are() -> None:
    sizes = [list_size(n) for n in (10, 6400, 6401, 20_000, 25_000, 10**6)]
    assert sizes == [128, 128, 129, 400, 500, 500]


def test_sources_get_their_lists_among_the_targets_only(monkeypatch) -> None:
    monkeypatch.setattr(candidates, "list_size", lambda _: 1)
    z = torch.arange(8.0)[:, None]
    query = Query(sources=["n1", "n6"], targets=["n0", "n2", "n3"])
    lists = LinearCandidates(PairSpace(bare(8), query), (z, z))
    pairs = torch.cat(list(lists.blocks()), dim=1).T.tolist()
    # The sources list 3; targets 0 (all products are 0: the smaller number), 2 and 3 list 1, 6, 6.
    assert pairs == [[1, 0], [1, 3], [6, 2], [6, 3]]


def test_hubs_beyond_the_limit_are_not_walked_through_and_that_is_said() -> None:
    star = [(0, leaf) for leaf in range(1, 7)]
    graph = bare(9, [*star, (7, 1), (8, 1)])
    space = PairSpace(graph, Query())
    whole = torch.cat(list(TwoHopCandidates(graph, space).blocks()), dim=1).T.tolist()
    assert len(whole) == 15 + 3  # any two leaves of the star, and 0, 7, 8 over node 1
    # Node 0 alone takes 36 steps, node 1 takes 9 and the leaves and ends 1 each.
    limited = TwoHopCandidates(graph, space, most_steps=36 + 9 + 7 - 1)
    found = torch.cat(list(limited.blocks()), dim=1).T.tolist()
    assert found == [[0, 7], [0, 8], [7, 8]]
    assert limited.hubs_left_out == 1
    assert TwoHopCandidates(graph, space, most_steps=36 + 9 + 7).hubs_left_out == 0
    assert limited.most_pairs >= 3
    held = [limited.holds((slice(row, row + 1), slice(0, 9)))[0].nonzero() for row in (2, 7)]
    assert [row.flatten().tolist() for row in held] == [[], [0, 7, 8]]


@pytest.mark.parametrize(("most", "nodes"), [(1, 1), (2 * 144, 2), (2 * 144 - 1, 1)])
def test_no_more_steps_are_held_at_once_than_the_limit_and_one_node_take(
    monkeypatch, most: int, nodes: int
) -> None:
    """Each of four hubs leads over 36 leaves to 4 hubs, and each leaf over 4 hubs to 36 leaves."""
    graph = bare(40, [(hub, leaf) for hub in range(4) for leaf in range(4, 40)])
    monkeypatch.setattr(candidates, "_STEPS_AT_ONCE", most)
    blocks = list(TwoHopCandidates(graph, PairSpace(graph, Query())).blocks())
    assert sum(block.shape[1] for block in blocks) == 6 + 36 * 35 // 2
    assert max(block[0].unique().numel() for block in blocks) == nodes


def test_the_share_held_counts_ties_at_the_edge_once() -> None:
    logits = torch.tensor([5.0, 4.0, 3.0, 3.0, 3.0, 1.0])
    held = torch.tensor([True, False, True, True, True, True])
    assert share_held(logits, held, 3) == pytest.approx(2 / 3)
    assert share_held(logits, held, 2) == pytest.approx(1 / 2)
    assert share_held(logits, held, 100) == pytest.approx(5 / 6)


def test_the_account_is_a_sentence() -> None:
    about = {"pairs_scored": 19_432_100, "pairs_possible": 194_400_000, "recall": 0.99699}
    linear = SearchStats(way="linear", **about, nodes_sampled=50)
    assert linear.sentence == (
        "Candidates by a linearised decoder, rescored exactly: 19.4 million of 194 million pairs; "
        "on 50 sampled nodes they held 99.6 % of the exact best 100."
    )
    hubs = SearchStats(way="two-hop", **about, nodes_sampled=1, hubs_left_out=3)
    assert hubs.sentence.endswith(
        "on 1 sampled node they held 99.6 % of the exact best 100. The 3 largest hubs were not "
        "walked through."
    )
    assert (in_words(999_999), in_words(1_000_000)) == ("999,999", "1.00 million")
