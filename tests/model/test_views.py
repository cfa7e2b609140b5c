from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest
import torch

from cgcl.model import View, Views, draw_views, symmetric
from cgcl.seeds import stream

KINDS = ("disjoint", "shared", "directed", "own", "one", "all")


def edges_of(num_nodes: int, seed: int) -> torch.Tensor:
    chance = torch.rand(num_nodes, num_nodes, generator=stream(seed, "edges"))
    return (chance < 0.4).triu(1).nonzero().T.contiguous()


def entries(view: View) -> set[tuple[int, int]]:
    listed = [tuple(pair) for pair in view.edge_index.T.tolist()]
    assert len(set(listed)) == len(listed)
    return set(listed)


def unordered(pairs: torch.Tensor) -> set[tuple[int, int]]:
    return {tuple(sorted(pair)) for pair in pairs.T.tolist()}


def cases(*kinds: str) -> Iterator[tuple[torch.Tensor, Views]]:
    """Yield the links of many graphs, and the two views of each kind."""
    for seed, kind in product(range(100), kinds):
        edges = edges_of(2 + seed % 14, seed)
        yield edges, draw_views(edges, kind, stream(seed, "views"))


def test_the_two_views_together_hold_every_link_and_nothing_else() -> None:
    for edges, views in cases(*KINDS):
        both = unordered(views.view_1.edge_index) | unordered(views.view_2.edge_index)
        assert both == unordered(edges)


def test_disjoint_views_share_no_pair_so_no_target_is_ever_visible() -> None:
    for _, views in cases("disjoint", "one"):
        for seen, hidden in views.passes():
            assert not unordered(seen.edge_index) & unordered(hidden.pairs)


def test_undirected_views_hold_both_directions_and_ask_for_each_pair_once() -> None:
    for _, views in cases("disjoint", "shared", "one"):
        for view in (views.view_1, views.view_2):
            assert {(b, a) for a, b in entries(view)} == entries(view)
            assert view.num_pairs == len(unordered(view.pairs))
            assert unordered(view.pairs) == unordered(view.edge_index)


def test_directed_views_divide_the_directed_entries() -> None:
    for edges, views in cases("directed"):
        one, two = entries(views.view_1), entries(views.view_2)
        assert not one & two
        assert one | two == set(map(tuple, symmetric(edges).T.tolist()))


@pytest.mark.parametrize(
    ("kind", "only_first", "in_both"),
    [("disjoint", 0.5, 0.0), ("one", 0.5, 0.0), ("shared", 0.25, 0.5), ("directed", 0.25, 0.5)],
)
def test_how_often_a_pair_falls_into_one_view_or_both(kind, only_first, in_both) -> None:
    edges = torch.combinations(torch.arange(200), 2).T
    views = draw_views(edges, kind, stream(0, "views"))
    one, two = unordered(views.view_1.edge_index), unordered(views.view_2.edge_index)
    assert len(one - two) / edges.shape[1] == pytest.approx(only_first, abs=0.01)
    assert len(one & two) / edges.shape[1] == pytest.approx(in_both, abs=0.01)


def test_only_the_ablations_take_one_turn() -> None:
    edges = edges_of(10, 0)
    turns = {kind: len(draw_views(edges, kind, stream(0, "v")).passes()) for kind in KINDS}
    assert turns == {"disjoint": 2, "shared": 2, "directed": 2, "own": 2, "one": 1, "all": 1}


def test_views_that_are_asked_for_themselves_are_those_that_are_asked_for_each_other() -> None:
    edges = edges_of(10, 0)
    crossed, own = (draw_views(edges, kind, stream(0, "v")) for kind in ("disjoint", "own"))
    for (seen, hidden), (same, itself) in zip(crossed.passes(), own.passes(), strict=True):
        assert torch.equal(seen.edge_index, same.edge_index)
        assert torch.equal(itself.pairs, seen.pairs)
        assert not unordered(itself.pairs) & unordered(hidden.pairs)


def test_without_augmentation_every_link_is_seen_and_asked_for() -> None:
    edges = edges_of(10, 0)
    ((seen, hidden),) = draw_views(edges, "all", stream(0, "v")).passes()
    assert unordered(seen.edge_index) == unordered(hidden.pairs) == unordered(edges)
