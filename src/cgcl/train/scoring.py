"""Scores of pairs by a trained network, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from cgcl.metrics import link_metrics
from cgcl.model import CGCL, symmetric
from cgcl.split import Split

__all__ = [
    "BLOCK_PAIRS",
    "block_size",
    "decode_pairs",
    "embed",
    "evaluating",
    "measure_test_links",
    "score_test_links",
]

# 2^16 pairs at d_v = 512 take 128 MB on a GPU; a CPU is several times as fast on blocks that stay
# in its cache. A fixed size also fixes the order of every sum.
BLOCK_PAIRS = 2**16
_CACHED_ENTRIES = 2**19


@contextmanager
def evaluating(model: CGCL) -> Iterator[None]:
    """Switch dropout and gradients off for a while."""
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(was_training)


def embed(model: CGCL, x: Tensor, edge_index: Tensor) -> Tensor:
    """Return the embeddings that the links in `edge_index` give, without dropout, [n, d_v]."""
    with evaluating(model):
        return model.encode(x, edge_index)


def block_size(width: int, device: torch.device | str = "cpu") -> int:
    """Return how many pairs are scored at once.

    Args:
        width: Width of the embeddings, d_v.
        device: Where it is computed.
    """
    if torch.device(device).type != "cpu":
        return BLOCK_PAIRS
    return max(1, _CACHED_ENTRIES // max(width, 1))


def decode_pairs(model: CGCL, z: Tensor, pairs: Tensor) -> Tensor:
    """Return the logits of `pairs` on the CPU, [p], computed block by block."""
    size = block_size(z.shape[1], z.device)
    with evaluating(model):
        blocks = [model.decode(z, block.to(z.device)).cpu() for block in pairs.split(size, dim=1)]
    return torch.cat(blocks) if blocks else torch.empty(0)


def score_test_links(model: CGCL, x: Tensor, split: Split) -> tuple[Tensor, Tensor]:
    """Return the logits of the test links and of their counter-examples.

    Only the training links are encoded: neither validation nor test links may be seen.
    """
    z = embed(model, x, symmetric(split.train.to(x.device)))
    return decode_pairs(model, z, split.test), decode_pairs(model, z, split.test_negatives)


def measure_test_links(model: CGCL, x: Tensor, split: Split) -> dict[str, float] | None:
    """Return all metrics on the test links as fractions, or None if there are none."""
    if split.test.shape[1] == 0:
        return None
    return link_metrics(*score_test_links(model, x, split))
