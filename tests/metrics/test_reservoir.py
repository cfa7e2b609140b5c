from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from cgcl.metrics.calibrators import Kept, Reservoir
from cgcl.seeds import stream


def fill(logits: Tensor, size: int, block: int, total: float) -> tuple[Kept, Reservoir]:
    count = logits.numel()
    reservoir = Reservoir(size, count, stream(0, "test"))
    pairs = torch.stack([torch.arange(count), torch.arange(count) + 1])
    for chosen in torch.arange(count).split(block):
        reservoir.offer(pairs[:, chosen], logits[chosen])
    return reservoir.kept(total), reservoir


@given(st.integers(1, 300), st.integers(1, 40), st.integers(1, 100), st.integers(0, 5))
def test_the_best_stay_and_weights_add_up(count: int, size: int, block: int, levels: int) -> None:
    logits = torch.randn(count, generator=stream(count, "logits"))
    if levels:  # ties
        logits = (logits * levels).round()
    kept, _ = fill(logits, size, block, total=7.0 * count)
    places = kept.pairs[0]
    assert places.unique().numel() == places.numel()
    assert torch.equal(kept.pairs[1], places + 1)
    assert torch.equal(kept.logits, logits[places])
    best = min(count, size)
    assert torch.equal(
        kept.logits.sort(descending=True).values[:best], logits.sort(descending=True).values[:best]
    )
    if count <= 2 * size:
        assert places.numel() == count
    # With a few coins it may happen that none of the rest is kept.
    if places.numel() > size or count <= size:
        assert float(kept.weights.sum()) == pytest.approx(7.0 * count)


def test_the_rest_is_sampled_fairly() -> None:
    logits = torch.arange(20_000).float()
    kept, _ = fill(logits, 1000, 512, total=20_000)
    rest = kept.logits[kept.weights > 1]
    assert 850 < rest.numel() < 1050
    assert kept.weights.max() == pytest.approx(19_000 / rest.numel())
    assert float(rest.mean()) == pytest.approx(9500, rel=0.05)
    # What is known of all pairs can be told from those that were kept.
    assert float(kept.weights @ (kept.logits > 15_000).double()) == pytest.approx(5000, rel=0.1)


def test_memory_does_not_grow_with_equal_scores() -> None:
    _, reservoir = fill(torch.zeros(5000), 10, 50, total=5000)
    assert reservoir._best[1].numel() == 10
    assert sum(logits.numel() for _, logits in reservoir._random) < 50
