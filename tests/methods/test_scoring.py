"""Scores by embeddings: what a pair's logit may not depend on."""

from __future__ import annotations

import pytest
import torch

from cgcl.methods.scoring import DecoderScorer
from cgcl.model import PairDecoder
from cgcl.seeds import seeded, stream


@pytest.mark.parametrize("width", [8, 16, 32, 64, 128, 256, 512])
def test_equal_pairs_have_equal_bits_wherever_they_stand(width: int) -> None:
    """A product treats its last rows in another way: ties would be broken by the place."""
    with seeded(0, "weights"):
        decoder = PairDecoder(width)
    z = torch.randn(1, width, generator=stream(0, "embedding")).repeat(40, 1)
    scorer = DecoderScorer(decoder, z)
    pairs = torch.combinations(torch.arange(40)).T
    for count in (1, 2, 3, 7, 15, 16, 17, 63, 64, 65, 120, 127, 500, 779):
        assert len(set(scorer.logits(pairs[:, :count]).tolist())) == 1, count
    first = scorer.logits(pairs[:, :1])
    assert torch.equal(first, scorer.logits(pairs)[:1])
