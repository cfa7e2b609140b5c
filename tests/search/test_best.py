"""The best pairs of a stream, and the order of names."""

from __future__ import annotations

import torch

from cgcl.search.best import Best, NameOrder


def test_a_later_pair_with_an_equal_logit_and_a_smaller_name_wins(monkeypatch) -> None:
    monkeypatch.setattr("cgcl.search.best._WAITING", 0)
    best = Best(1, ["d", "c", "b", "a"])
    for pair in ([0, 1], [0, 2], [1, 2], [0, 3], [2, 3]):
        best.add(torch.tensor(pair)[:, None], torch.zeros(1))
    pairs, logits = best.sorted()
    assert pairs.T.tolist() == [[2, 3]]  # b, a
    assert logits.tolist() == [0.0]


def test_few_pairs_of_many_nodes_are_in_the_order_of_names_too() -> None:
    names = [f"n{number:03d}" for number in reversed(range(100))]
    pairs = torch.tensor([[5, 7, 7, 90], [6, 6, 80, 1]])
    assert NameOrder(names).order(pairs).tolist() == [3, 2, 1, 0]
    everybody = torch.stack([torch.arange(100), torch.arange(100).flip(0)])
    assert NameOrder(names).order(everybody).tolist() == list(range(99, -1, -1))


def test_memory_is_bounded_by_what_is_kept(monkeypatch) -> None:
    monkeypatch.setattr("cgcl.search.best._WAITING", 10)
    best = Best(5, [f"n{number}" for number in range(50)])
    for low in range(49):
        pairs = torch.stack([torch.full((49 - low,), low), torch.arange(low + 1, 50)])
        best.add(pairs, pairs.sum(dim=0).float())
        assert sum(part.shape[1] for part in best._pairs) <= 2 * 5 + 10
    assert best.sorted()[1].tolist() == [97.0, 96.0, 95.0, 95.0, 94.0]


def test_nothing_comes_of_nothing() -> None:
    pairs, logits = Best(3, []).sorted()
    assert pairs.shape == (2, 0)
    assert logits.shape == (0,)
