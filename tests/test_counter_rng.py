import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cgcl.counter_rng import WORDS, base_key, epoch_key, integers, mix, words

NUMBERS = torch.arange(500)


def test_the_hash_is_the_published_one() -> None:
    # By hand from its definition, with numbers of any size: Python's integers do not overflow.
    def by_hand(x: int) -> int:
        x = ((x ^ (x >> 16)) * 0x7FEB352D) % 2**32
        x = ((x ^ (x >> 15)) * 0x846CA68B) % 2**32
        return x ^ (x >> 16)

    numbers = [0, 1, 2, 2**16 + 3, 2**31, 2**32 - 1]
    assert mix(torch.tensor(numbers)).tolist() == [by_hand(number) for number in numbers]


@given(st.integers(0, 2**62), st.integers(0, 2**20))
def test_words_are_32_bits_of_the_same_number_everywhere(seed: int, epoch: int) -> None:
    key = epoch_key(base_key(seed, "views"), epoch)
    found = words(key, NUMBERS, NUMBERS + 1)
    assert int(found.min()) >= 0
    assert int(found.max()) < WORDS
    part = words(key, NUMBERS[7:9], NUMBERS[8:10])
    assert torch.equal(part, found[7:9])


def test_other_epochs_purposes_seeds_and_directions_give_other_coins() -> None:
    def coins(seed: int = 0, purpose: str = "views", epoch: int = 1) -> torch.Tensor:
        key = epoch_key(base_key(seed, purpose), epoch)
        return words(key, NUMBERS[:, None], NUMBERS[None, :]) < WORDS // 2

    first = coins()
    for other in (coins(seed=1), coins(purpose="negatives 1"), coins(epoch=2), first.T):
        # 250,000 fair coins agree in half, give or take 5 standard deviations of 0.001.
        assert (first == other).float().mean().item() == pytest.approx(0.5, abs=0.005)
    assert first.float().mean().item() == pytest.approx(0.5, abs=0.005)
    assert first.float().mean(dim=0).std().item() == pytest.approx(0.5 / 500**0.5, rel=0.2)


def test_integers_fall_evenly_below_their_limit() -> None:
    found = integers(words(epoch_key(5, 1), NUMBERS[:, None], NUMBERS[None, :]), 10)
    counts = torch.bincount(found.flatten(), minlength=10)
    assert counts.numel() == 10
    assert counts.min().item() > 24_000
    assert counts.max().item() < 26_000
