from __future__ import annotations

import pytest
import torch

from cgcl.seeds import seeded, stream


def numbers(*key) -> list[float]:
    return torch.rand(4, generator=stream(*key)).tolist()


def drawn(*key) -> list[float]:
    with seeded(*key):
        return torch.rand(4).tolist()


KEYS = [
    (0, "views", 1),
    (1, "views", 1),
    (0, "negatives", 1),
    (0, "views", 2),
    (0, "views", 11),
]


def test_seed_purpose_and_epoch_each_give_another_stream() -> None:
    assert len({tuple(numbers(*key)) for key in KEYS}) == len(KEYS)


def test_the_same_key_gives_the_same_numbers_for_ever() -> None:
    """Pinned: a change here would silently change every split ever published."""
    assert numbers(0, "split") == numbers(0, "split")
    assert stream(0, "split").initial_seed() == 7485452099739250259


def test_inside_the_global_generator_follows_from_the_key() -> None:
    assert len({tuple(drawn(*key)) for key in KEYS}) == len(KEYS)
    torch.rand(7)
    assert drawn(0, "weights") == drawn(0, "weights")
    # What a layer or dropout takes is what a stream of the same key gives.
    assert drawn(0, "weights") == numbers(0, "weights")
    with seeded(3, "epoch", 5):
        assert torch.initial_seed() == stream(3, "epoch", 5).initial_seed()


def test_outside_nobody_notices() -> None:
    before, seed = torch.get_rng_state(), torch.initial_seed()
    with seeded(0, "weights"):
        torch.rand(100)
        torch.nn.Linear(3, 3)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.initial_seed() == seed


def test_an_error_inside_puts_the_generator_back_too() -> None:
    def fail() -> None:
        with seeded(0, "weights"):
            torch.rand(1)
            raise ZeroDivisionError

    before = torch.get_rng_state()
    with pytest.raises(ZeroDivisionError):
        fail()
    assert torch.equal(torch.get_rng_state(), before)


def test_one_within_another_leaves_the_outer_one_alone() -> None:
    with seeded(0, "outer"):
        first = torch.rand(2).tolist()
        with seeded(0, "inner"):
            assert torch.rand(4).tolist() == numbers(0, "inner")
        rest = torch.rand(2).tolist()
    assert first + rest == numbers(0, "outer")


def test_layers_and_dropout_are_repeatable_inside() -> None:
    def outcome() -> torch.Tensor:
        with seeded(0, "weights"):
            layer = torch.nn.Linear(8, 4)
        with seeded(0, "epoch", 1):
            return torch.nn.functional.dropout(layer(torch.ones(3, 8)), 0.5).detach()

    first = outcome()
    torch.rand(3)
    assert torch.equal(outcome(), first)
