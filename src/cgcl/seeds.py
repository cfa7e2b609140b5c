"""Random numbers: one independent stream for each purpose and epoch.

No state is kept between epochs. The generator of a purpose at an epoch follows from the seed
alone, so a resumed run draws what an uninterrupted one would have drawn, and changing how many
numbers one purpose takes changes no other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def stream(
    seed: int, purpose: str, epoch: int = 0, device: torch.device | str = "cpu"
) -> torch.Generator:
    """Return the generator for one purpose of one epoch.

    Args:
        seed: The seed of the whole run.
        purpose: What the numbers are for, such as `"split"` or `"views"`.
        epoch: The epoch they are for; 0 for what happens once.
        device: Where the numbers are drawn.

    Example:
        >>> first = torch.rand(2, generator=stream(0, "views", epoch=3))
        >>> again = torch.rand(2, generator=stream(0, "views", epoch=3))
        >>> bool((first == again).all())
        True
    """
    digest = hashlib.sha256(f"cgcl/{seed}/{purpose}/{epoch}".encode()).digest()
    # 63 bits: torch takes a signed 64-bit seed on every device.
    return torch.Generator(device=device).manual_seed(int.from_bytes(digest[:8], "big") >> 1)


@contextmanager
def seeded(
    seed: int, purpose: str, epoch: int = 0, device: torch.device | str = "cpu"
) -> Iterator[None]:
    """Let torch's global generators follow from a seed for a while, then put them back.

    Layers draw their first weights, and dropout its coins, from the global generators. Inside
    this they are as repeatable as what comes from a `stream`, and nobody outside notices.

    Args:
        seed: The seed of the whole run.
        purpose: What the numbers are for, such as `"weights"`.
        epoch: The epoch they are for; 0 for what happens once.
        device: Where numbers are drawn besides the CPU.

    Example:
        >>> with seeded(0, "weights"):
        ...     first = torch.rand(2)
        >>> with seeded(0, "weights"):
        ...     bool((first == torch.rand(2)).all())
        True
    """
    place = torch.device(device)
    cards: list[int] = []
    if place.type == "cuda":
        cards = [torch.cuda.current_device() if place.index is None else place.index]
    with torch.random.fork_rng(devices=cards):
        number = stream(seed, purpose, epoch).initial_seed()
        torch.default_generator.manual_seed(number)
        for card in cards:
            torch.cuda.default_generators[card].manual_seed(number)
        yield
