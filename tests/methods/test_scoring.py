"""Scores by embeddings: what a pair's logit may not depend on."""

import pytest
import torch
from torch import Tensor

from cgcl.methods.scoring import DecoderScorer, InnerProductScorer
from cgcl.model import PairDecoder
from cgcl.seeds import seeded, stream


def a_decoder(width: int = 16, **told) -> PairDecoder:
    with seeded(0, "weights"):
        return PairDecoder(width, **told)


def embeddings(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=stream(0, "embedding"))


@pytest.mark.parametrize("width", [8, 16, 32, 64, 128, 256, 512])
def test_equal_pairs_have_equal_bits_wherever_they_stand(width: int) -> None:
    """A product treats its last rows in another way: ties would be broken by the place."""
    scorer = DecoderScorer(a_decoder(width), embeddings(1, width).repeat(40, 1))
    pairs = torch.combinations(torch.arange(40)).T
    first = scorer.logits(pairs[:, :1])
    for count in (1, 2, 3, 7, 15, 16, 17, 63, 64, 65, 120, 127, 500, 779):
        assert torch.equal(scorer.logits(pairs[:, :count]), first.expand(count)), count


@pytest.mark.parametrize("product", ["hadamard", "inner"])
@pytest.mark.parametrize("last_layer", ["linear", "relu"])
@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 20_000])
def test_scores_are_the_decoders_to_the_last_bit(product, last_layer, count) -> None:
    """Whole blocks of rows: a product treats the last ones in another way."""
    decoder, z = a_decoder(32, product=product, last_layer=last_layer), embeddings(50, 32)
    pairs = torch.randint(0, 50, (2, count), generator=stream(0, "pairs"))
    padded = torch.cat([pairs, pairs.new_zeros(2, -count % 64)], dim=1)
    decoder.eval()
    with torch.no_grad():
        expected = decoder(z, padded)[:count]
    assert torch.equal(DecoderScorer(decoder, z).logits(pairs), expected)


@pytest.mark.parametrize("product", ["hadamard", "inner"])
def test_rows_are_the_pairs_of_a_node_with_all_nodes_to_the_last_bit(product, monkeypatch) -> None:
    monkeypatch.setattr("cgcl.methods.scoring._CACHED_ENTRIES", 16 * 50)  # blocks across rows
    scorer = DecoderScorer(a_decoder(product=product), embeddings(30, 16))
    nodes = torch.tensor([4, 0, 29])
    pairs = torch.cartesian_prod(nodes, torch.arange(30)).T
    assert torch.equal(scorer.rows(nodes).flatten(), scorer.logits(pairs))


def test_a_pair_scores_the_same_both_ways_and_wherever_it_stands() -> None:
    right, pairs = embeddings(40, 19), torch.cartesian_prod(*[torch.arange(40)] * 2).T
    left = right * torch.randn(19, generator=stream(0, "scale"))
    scorer = InnerProductScorer(left, right, torch.randn(40, generator=stream(0, "terms")))
    whole = scorer.logits(pairs)
    assert torch.equal(whole, scorer.logits(pairs.flip(0)))
    for count in (1, 2, 63, 65, 700):
        assert torch.equal(scorer.logits(pairs[:, 100 : 100 + count]), whole[100 : 100 + count])
    left, right = scorer.factors()  # what they lack is a node's own term
    difference = scorer.rows(torch.arange(40)) - left @ right.T
    assert (difference - difference[:, :1]).abs().max() < 1e-4
    rows = scorer.rows(torch.arange(40)).flatten()
    torch.testing.assert_close(rows, whole, atol=1e-4, rtol=1e-5)
    assert 0 < (rows - whole).abs().max() <= scorer.rounding < 1e-2
    some = torch.tensor([3, 30, 31, 7])
    torch.testing.assert_close(scorer.rows(some, some), rows.view(40, 40)[some][:, some])


def test_embeddings_have_the_scores_for_inner_products_but_for_a_term_of_each_end() -> None:
    right = embeddings(30, 9)
    scale, terms = torch.rand(9, generator=stream(0, "scale")), torch.arange(30.0)
    scorer = InnerProductScorer(right * scale, right, terms)
    z = scorer.embeddings
    torch.testing.assert_close(z, right * scale.sqrt())
    one, other = pairs = torch.combinations(torch.arange(30)).T
    expected = scorer.logits(pairs) - terms[one] - terms[other]
    torch.testing.assert_close((z @ z.T)[one, other], expected, atol=1e-4, rtol=1e-4)
    # A weight below zero is none that two equal vectors can have: it counts by its size.
    assert torch.equal(InnerProductScorer(-right, right, terms).embeddings, right)
