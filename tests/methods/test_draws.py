"""What chance decides in an epoch of CGCL."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from cgcl.coins import base_key, epoch_key, words
from cgcl.graph import Graph
from cgcl.methods.cgcl_settings import CGCLSettings
from cgcl.methods.draws import Draw, draw
from cgcl.methods.method import Epoch, Known
from cgcl.model import divide
from cgcl.split import Split, random_split

Build = Callable[[int], Graph]


def drawn(split: Split, epoch: int, seed: int = 0, **settings) -> Draw:
    known = Known(split.num_nodes, split.train)
    return draw(known, Epoch(epoch, seed), CGCLSettings(**settings))


def as_set(pairs: torch.Tensor) -> set[tuple[int, int]]:
    return {tuple(sorted(pair)) for pair in pairs.T.tolist()}


def test_streams_are_independent(sbm: Build) -> None:
    """What counter-examples avoid changes neither the views nor the first weights."""
    split = random_split(sbm(0))
    draws = [drawn(split, 3, negatives=kind) for kind in ("train", "view")]
    assert torch.equal(draws[0].views.view_1.pairs, draws[1].views.view_1.pairs)
    assert not torch.equal(draws[0].negatives[0], draws[1].negatives[0])


@pytest.mark.parametrize("views", ["disjoint", "shared", "directed", "own", "one", "all"])
def test_a_draw_follows_from_its_seed_and_epoch(sbm: Build, views: str) -> None:
    split = random_split(sbm(0))
    one, again = (drawn(split, 3, views=views) for _ in range(2))
    # The coin of a direction is the top bit of a hash of both ends.
    key = epoch_key(base_key(0, "views"), 3)
    low, high = split.train
    coins = [words(key, low, high) < 2**31, words(key, high, low) < 2**31]
    expected = divide(split.train, views, *coins)
    assert torch.equal(one.views.view_1.edge_index, expected.view_1.edge_index)
    assert torch.equal(one.views.view_2.edge_index, expected.view_2.edge_index)
    for first, second in zip(one.negatives, again.negatives, strict=True):
        assert torch.equal(first, second)
    for other in (drawn(split, 4, views=views), drawn(split, 3, seed=1, views=views)):
        same_view = as_set(other.views.view_1.pairs) == as_set(one.views.view_1.pairs)
        assert same_view == (views == "all")
        assert as_set(other.negatives[0]) != as_set(one.negatives[0])


@pytest.mark.parametrize("seen", [0.1, 0.5, 0.9])
def test_so_many_links_are_in_the_first_view_and_the_others_in_the_second(
    sbm: Build, seen: float
) -> None:
    split = random_split(sbm(0))
    count = split.train.shape[1]
    views = [drawn(split, epoch, seen=seen).views for epoch in range(1, 31)]
    share = sum(own.view_1.num_pairs for own in views) / (30 * count)
    assert share == pytest.approx(seen, abs=4 / math.sqrt(4 * 30 * count))
    assert all(own.view_1.num_pairs + own.view_2.num_pairs == count for own in views)


def test_training_counter_examples_avoid_training_links_only(sbm: Build) -> None:
    """Avoiding held-out links too would tell the model which pairs they are."""
    split = random_split(sbm(0))
    seen: set[tuple[int, int]] = set()
    for epoch in range(1, 60):
        for negatives in drawn(split, epoch).negatives:
            seen |= as_set(negatives)
    assert not seen & as_set(split.train)
    assert seen & as_set(split.val)
    assert seen & as_set(split.test)


def test_counter_examples_of_a_view_may_be_links_of_the_other(sbm: Build) -> None:
    split = random_split(sbm(0))
    seen_links = 0
    for epoch in range(1, 30):
        found = drawn(split, epoch, negatives="view")
        for (seen, hidden), negatives in zip(found.views.turns(), found.negatives, strict=True):
            assert not as_set(negatives) & as_set(hidden.pairs)
            seen_links += len(as_set(negatives) & as_set(seen.pairs))
    assert seen_links > 0


def test_there_are_as_many_counter_examples_as_links_to_reconstruct(sbm: Build) -> None:
    found = drawn(random_split(sbm(0)), 1)
    for (_, hidden), negatives in zip(found.views.turns(), found.negatives, strict=True):
        assert negatives.shape[1] == hidden.num_pairs


def test_counter_examples_of_a_bipartite_graph_go_across() -> None:
    links = torch.cartesian_prod(torch.arange(4), torch.arange(4, 9)).T[:, ::2]
    known = Known(9, links, sides=torch.arange(9) >= 4)
    for kind in ("train", "view"):
        for epoch in range(1, 9):
            for negatives in draw(known, Epoch(epoch, 0), CGCLSettings(negatives=kind)).negatives:
                assert ((negatives[0] < 4) & (negatives[1] >= 4)).all()
