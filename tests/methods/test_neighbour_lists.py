from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from cgcl.methods import neighbour_lists
from cgcl.methods.neighbour_lists import NeighbourLists

# 0 - 2, 1 - 2, 0 - 3, 1 - 3, 0 - 4, with 5 alone.
LINKS = torch.tensor([[0, 1, 0, 1, 0], [2, 2, 3, 3, 4]])


def listed(answer: tuple[Tensor, Tensor]) -> list[tuple[int, int]]:
    return list(zip(answer[0].tolist(), answer[1].tolist(), strict=True))


def test_common_neighbours_are_as_by_hand() -> None:
    lists = NeighbourLists(LINKS, 6)
    pairs = torch.tensor([[0, 2, 3, 4, 5, 0], [1, 3, 4, 1, 0, 2]])
    # 0 and 1 share 2 and 3; 2 and 3 share 0 and 1; 3 and 4 share 0; the others share nothing.
    expected = [(0, 2), (0, 3), (1, 0), (1, 1), (2, 0)]
    assert listed(lists.common(pairs)) == expected
    assert listed(lists.common(pairs.flip(0))) == expected
    assert lists.mean_degree == 10 / 6


def test_nothing_to_share_is_no_trouble() -> None:
    pairs = torch.tensor([[0, 1], [1, 2]])
    empty = NeighbourLists(LINKS[:, :0], 6)
    assert listed(empty.common(pairs)) == []
    assert listed(NeighbourLists(LINKS, 6).common(pairs[:, :0])) == []
    assert list(empty.blocks(pairs, 10)) == [slice(0, 2)]


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 12), st.floats(0, 1), st.integers(0, 2**31), st.sampled_from([1, 5, 2**20]))
def test_common_neighbours_are_the_sets_intersection(
    num_nodes: int, chance: float, seed: int, budget: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.rand(num_nodes, num_nodes, generator=generator) < chance
    links = drawn.triu(1).nonzero().T
    near = [set() for _ in range(num_nodes)]
    for one, other in links.T.tolist():
        near[one].add(other)
        near[other].add(one)
    pairs = torch.randint(num_nodes, (2, 20), generator=generator)
    expected = [
        (place, node)
        for place, (one, other) in enumerate(pairs.T.tolist())
        for node in sorted(near[one] & near[other])
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbour_lists, "_BUDGET", budget)
        assert listed(NeighbourLists(links, num_nodes).common(pairs)) == expected


def test_blocks_cover_all_pairs_and_stay_within_the_budget(monkeypatch) -> None:
    monkeypatch.setattr(neighbour_lists, "_BUDGET", 5)
    lists = NeighbourLists(LINKS, 6)
    # Two nodes with 3 and 2 neighbours: each pair of 0 and 1 costs 2, so two fit.
    pairs = torch.tensor([[0], [1]]).expand(2, 5)
    assert list(lists.blocks(pairs, 10)) == [slice(0, 2), slice(2, 4), slice(4, 5)]
    assert list(lists.blocks(pairs, 1)) == [slice(i, i + 1) for i in range(5)]
    monkeypatch.setattr(neighbour_lists, "_BUDGET", 1)
    assert list(lists.blocks(pairs, 10)) == [slice(i, i + 1) for i in range(5)]


def test_a_hub_costs_what_its_partner_has() -> None:
    """A pair of a hub and a leaf looks up one neighbour, not the hub's thousands."""
    leaves = torch.arange(1, 5001)
    lists = NeighbourLists(torch.stack([torch.zeros_like(leaves), leaves]), 5001)
    pairs = torch.stack([torch.zeros(5000, dtype=torch.int64), leaves])
    assert list(lists.blocks(pairs, 10**6)) == [slice(0, 5000)]
    assert listed(lists.common(pairs)) == []
    among_leaves = torch.stack([leaves[:-1], leaves[1:]])
    assert listed(lists.common(among_leaves)) == [(place, 0) for place in range(4999)]
