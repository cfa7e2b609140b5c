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


@pytest.mark.parametrize("product", ["hadamard", "inner"])
@pytest.mark.parametrize("last_layer", ["linear", "relu"])
@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 20_000])
def test_scores_are_the_decoders_to_the_last_bit(product, last_layer, count) -> None:
    """Whole blocks of rows: a product treats the last ones in another way."""
    with seeded(0, "weights"):
        decoder = PairDecoder(32, product=product, last_layer=last_layer)
        decoder.reset_parameters()
    z = torch.randn(50, 32, generator=stream(0, "embedding"))
    pairs = torch.randint(0, 50, (2, count), generator=stream(0, "pairs"))
    padded = torch.cat([pairs, pairs.new_zeros(2, -count % 64)], dim=1)
    decoder.eval()
    with torch.no_grad():
        expected = decoder(z, padded)[:count]
    assert torch.equal(DecoderScorer(decoder, z).logits(pairs), expected)


def test_a_later_answer_leaves_an_earlier_one_alone() -> None:
    """Blocks are written over each other; what was returned is not."""
    with seeded(0, "weights"):
        decoder = PairDecoder(16)
    z = torch.randn(30, 16, generator=stream(0, "embedding"))
    scorer = DecoderScorer(decoder, z)
    pairs = torch.combinations(torch.arange(30)).T
    first = scorer.logits(pairs)
    kept = first.clone()
    scorer.logits(pairs.flip(1))
    assert torch.equal(first, kept)
    assert torch.equal(first.flip(0), scorer.logits(pairs.flip(1)))


@pytest.mark.parametrize("product", ["hadamard", "inner"])
def test_rows_are_the_pairs_of_a_node_with_all_nodes_to_the_last_bit(product, monkeypatch) -> None:
    monkeypatch.setattr("cgcl.methods.scoring._CACHED_ENTRIES", 16 * 50)  # blocks across rows
    with seeded(0, "weights"):
        decoder = PairDecoder(16, product=product)
    scorer = DecoderScorer(decoder, torch.randn(30, 16, generator=stream(0, "embedding")))
    nodes = torch.tensor([4, 0, 29])
    pairs = torch.cartesian_prod(nodes, torch.arange(30)).T
    assert torch.equal(scorer.rows(nodes).flatten(), scorer.logits(pairs))
