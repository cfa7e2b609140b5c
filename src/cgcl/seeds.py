"""Random numbers: one independent stream for each purpose and epoch.

No state is kept between epochs. The generator of a purpose at an epoch follows from the seed
alone, so a resumed run draws what an uninterrupted one would have drawn, and changing how many
numbers one purpose takes changes no other.
"""

from __future__ import annotations

import hashlib

import torch

__all__ = ["stream"]


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
