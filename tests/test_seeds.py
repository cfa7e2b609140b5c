import contextlib

import torch

from cgcl.seeds import seeded, stream


def numbers(*key) -> list[float]:
    return torch.rand(4, generator=stream(*key)).tolist()


def drawn(*key) -> list[float]:
    with seeded(*key):
        return torch.rand(4).tolist()


KEYS = [(0, "views", 1), (1, "views", 1), (0, "negatives", 1), (0, "views", 2), (0, "views", 11)]


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


def test_outside_nobody_notices_even_after_an_error() -> None:
    before, seed = torch.get_rng_state(), torch.initial_seed()
    with contextlib.suppress(ZeroDivisionError), seeded(0, "weights"):
        torch.rand(100)
        torch.nn.Linear(3, 3)
        raise ZeroDivisionError
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.initial_seed() == seed


def test_one_within_another_leaves_the_outer_one_alone() -> None:
    with seeded(0, "outer"):
        first = torch.rand(2).tolist()
        with seeded(0, "inner"):
            assert torch.rand(4).tolist() == numbers(0, "inner")
        rest = torch.rand(2).tolist()
    assert first + rest == numbers(0, "outer")
