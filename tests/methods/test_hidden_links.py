from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from cgcl.methods.hidden_links import hidden_links
from cgcl.methods.method import Epoch, Known


def codes(pairs: torch.Tensor, num_nodes: int) -> list[int]:
    return (pairs[0] * num_nodes + pairs[1]).tolist()


def ring(count: int) -> Known:
    """As many links as nodes."""
    nodes = torch.arange(count)
    ends = torch.stack([nodes, (nodes + 1) % count])
    return Known(count, ends.sort(dim=0).values)


@given(st.integers(5, 60), st.floats(0.01, 0.99), st.integers(1, 70), st.integers(0, 99))
def test_every_link_is_either_seen_or_asked_for_once(
    count: int, share: float, size: int, seed: int
) -> None:
    known = ring(count)
    batches = list(hidden_links(known, Epoch(1, seed), share, size))
    targets = [code for batch in batches for code in codes(batch.targets, count)]
    all_links = codes(known.links, count)
    for batch in batches:
        seen = codes(batch.seen, count)
        assert not set(seen) & set(targets)
        assert sorted(seen + targets) == sorted(all_links)
        assert batch.targets.shape[1] <= size
        assert batch.negatives.shape == batch.targets.shape
        assert not set(codes(batch.negatives, count)) & set(all_links)
    assert len(targets) == min(max(round(share * count), 1), count - 1)


def test_something_is_left_to_see_and_something_to_ask_for() -> None:
    known = ring(5)
    for share, hidden in ((0.01, 1), (0.99, 4)):
        (batch,) = hidden_links(known, Epoch(1, 0), share, 100)
        assert batch.targets.shape[1] == hidden
        assert batch.seen.shape[1] == 5 - hidden


def test_a_single_link_is_asked_for() -> None:
    known = Known(3, torch.tensor([[0], [2]]))
    (batch,) = hidden_links(known, Epoch(1, 0), 0.5, 100)
    assert batch.targets.tolist() == [[0], [2]]
    assert batch.seen.shape == (2, 0)


def test_epochs_hide_other_links_and_the_same_epoch_the_same() -> None:
    known = ring(40)
    first, again, later = (
        next(hidden_links(known, Epoch(number, 0), 0.5, 100)) for number in (1, 1, 2)
    )
    assert torch.equal(first.targets, again.targets)
    assert torch.equal(first.negatives, again.negatives)
    assert not torch.equal(first.targets, later.targets)
    assert not torch.equal(first.negatives, later.negatives)


def test_links_are_hidden_with_equal_chances() -> None:
    known = ring(10)
    counts = torch.zeros(10)
    for number in range(1, 401):
        (batch,) = hidden_links(known, Epoch(number, 0), 0.3, 100)
        hidden = torch.tensor(codes(batch.targets, 10))
        counts += torch.isin(torch.tensor(codes(known.links, 10)), hidden)
    # 120 are expected of 400, with a deviation of 9.
    assert counts.min() > 80
    assert counts.max() < 160
