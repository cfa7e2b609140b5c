"""Coins by a hash."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cgcl.train.engines.blocked_features import Coins, draw_words


def tossed(probability: float, rows: int, columns: int, seed: int = 0) -> torch.Tensor:
    words = draw_words(rows, torch.Generator().manual_seed(seed))
    return Coins(probability, columns, rows).toss(words, torch.empty(rows, columns))


@given(st.integers(1, 40), st.integers(1, 33), st.floats(0, 1, exclude_max=True), st.data())
@settings(max_examples=60, deadline=None)
def test_a_row_tosses_the_same_coins_in_any_block(
    rows: int, columns: int, probability: float, data: st.DataObject
) -> None:
    size = data.draw(st.integers(1, rows))
    words = draw_words(rows, torch.Generator().manual_seed(7))
    coins = Coins(probability, columns, size)
    blocks = [coins.toss(block, torch.empty(len(block), columns)) for block in words.split(size)]
    assert torch.equal(torch.cat(blocks), tossed(probability, rows, columns, seed=7))


@pytest.mark.parametrize("probability", [0.0, 1e-9, 0.2, 0.5, 0.8, 0.999, 1 - 1e-9])
def test_the_mean_stays(probability: float) -> None:
    coins = Coins(probability, 512, 1)
    assert coins.scale == pytest.approx(1 / (1 - probability), rel=0.01) or probability > 0.9999
    kept = 1 / coins.scale
    error = (kept * (1 - kept) / (4096 * 512)) ** 0.5
    found = tossed(probability, 4096, 512)
    assert set(found.unique().tolist()) <= {0, 1}
    assert float(found.double().mean()) == pytest.approx(kept, abs=5 * error + 1e-12)


@pytest.mark.parametrize("probability", [0.2, 0.8])
def test_coins_know_nothing_of_each_other(probability: float) -> None:
    """Columns, neighbouring rows and whole rows vary as independent coins do."""
    rows, columns = 2**14, 256
    kept = 1 - probability
    coin = (tossed(probability, rows, columns) - kept) / (kept * (1 - kept)) ** 0.5
    of_columns = coin.sum(dim=0) / rows**0.5
    together = (coin.T @ coin / rows**0.5).fill_diagonal_(0)
    of_rows = coin.sum(dim=1) / columns**0.5
    neighbours = (coin[1:] * coin[:-1]).sum() / coin[1:].numel() ** 0.5
    assert float(of_columns.abs().max()) < 5
    assert float(together.abs().max()) < 6
    assert float(together.std()) == pytest.approx(1, abs=0.03)
    assert float(of_rows.var()) == pytest.approx(1, abs=0.06)
    assert abs(float(neighbours)) < 5


def test_the_same_words_give_the_same_coins_for_ever() -> None:
    words = torch.tensor([-5, 123_456_789], dtype=torch.int32)
    found = Coins(0.3, 12, 2).toss(words, torch.empty(2, 12)).int().tolist()
    assert found == [
        [0, 1, 0, 0, 0, 1, 0, 1, 0, 1, 1, 1],
        [1, 1, 0, 0, 1, 1, 1, 1, 0, 1, 1, 0],
    ]
