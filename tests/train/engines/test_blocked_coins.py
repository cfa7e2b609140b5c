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


def test_coins_of_a_small_case() -> None:
    """Worked out by hand in Python's whole numbers."""
    words = [-5, 123_456_789]
    expected = [[_coin(word, column) for column in range(5)] for word in words]
    found = Coins(0.3, 5, 2).toss(torch.tensor(words, dtype=torch.int32), torch.empty(2, 5))
    assert found.tolist() == expected


def _coin(word: int, column: int) -> float:
    """Return the coin of one entry, the long way."""
    x = _signed(word + _signed(_word_of(column // 2) - 2**31))
    for shift, multiplier in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        x = _signed((x ^ (x >> shift)) * multiplier)
    number = (x >> (16 * (column % 2))) & 0xFFFF
    number = number - 2**16 if number >= 2**15 else number
    return float(number >= round(0.3 * 2**16) - 2**15)


def _signed(number: int) -> int:
    return (number + 2**31) % 2**32 - 2**31


def _word_of(number: int) -> int:
    x = number
    x = ((x ^ (x >> 16)) * 0x7FEB352D) % 2**32
    x = ((x ^ (x >> 15)) * 0x846CA68B) % 2**32
    return x ^ (x >> 16)
