"""The encoder and the decoder of CGCL that ranks."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from cgcl.model import GCNEncoder, symmetric
from cgcl.model.ranker import RankingDecoder, RankingEncoder, signatures, symmetric_product
from cgcl.seeds import seeded, stream

pytestmark = pytest.mark.filterwarnings("ignore:Sparse CSR")


def random_links(n: int, seed: int) -> Tensor:
    chosen = torch.rand(n, n, generator=stream(seed, "links")) < 0.4
    return chosen.triu(1).nonzero().T


def dense(links: Tensor, n: int) -> Tensor:
    matrix = torch.zeros(n, n)
    matrix[links[0], links[1]] = matrix[links[1], links[0]] = 1
    return matrix


def normalised(links: Tensor, n: int) -> Tensor:
    """Eq. 1, dense."""
    matrix = dense(links, n) + torch.eye(n)
    scale = matrix.sum(dim=1).rsqrt()
    return scale[:, None] * matrix * scale


def an_encoder(*sizes: int, **told) -> RankingEncoder:
    with seeded(0, "weights"):
        encoder = RankingEncoder(*sizes, **told)
        for weight in encoder.parameters():
            torch.nn.init.uniform_(weight, -1, 1)
    return encoder.eval()


def test_one_layer_without_a_self_term_is_the_papers_encoder() -> None:
    links, x = random_links(8, 0), torch.rand(8, 5, generator=stream(0, "x"))
    encoder, paper = an_encoder(5, 4, 1, self_term=False), GCNEncoder(5, 4).eval()
    with torch.no_grad():
        paper.weight.copy_(encoder.weight)
        paper.bias.copy_(encoder.bias)
        theirs = paper(x, symmetric(links))
        for features in (x, x.to_sparse_coo().coalesce()):
            ours = encoder(features, normalised(links, 8).to_sparse_csr())
            torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-5)


def test_deeper_layers_are_added_to_what_was_there() -> None:
    links, x = random_links(7, 1), torch.rand(7, 5, generator=stream(0, "x"))
    encoder, a = an_encoder(5, 4, 3), normalised(links, 7)
    w, own = encoder.weight[:, :4], encoder.weight[:, 4:]
    with torch.no_grad():
        z = torch.nn.functional.elu(a @ x @ w + x @ own + encoder.bias)
        for layer in encoder.deeper:
            z = z + torch.nn.functional.elu(a @ z @ layer.weight.T + layer.bias)
        torch.testing.assert_close(encoder(x, a.to_sparse_csr()), z, atol=1e-5, rtol=1e-5)


def test_a_graph_without_features_has_its_links() -> None:
    """Two nodes share a feature, of one no feature speaks."""
    links, feature = random_links(6, 2), torch.tensor([0, 1, 2, 3, 3, -1])
    encoder = an_encoder(4, 3, 2)
    speaks = torch.zeros(6, 4)
    speaks[torch.arange(5), feature[:5]] = 1
    a = normalised(links, 6)
    h = dense(links, 6) @ speaks @ encoder.weight
    with torch.no_grad():
        z = torch.nn.functional.elu(a @ h[:, :3] + h[:, 3:] + encoder.bias)
        (layer,) = encoder.deeper
        z = z + torch.nn.functional.elu(a @ z @ layer.weight.T + layer.bias)
        found = encoder.of_links(dense(links, 6).to_sparse_csr(), feature, a.to_sparse_csr())
    torch.testing.assert_close(found, z, atol=1e-5, rtol=1e-5)


def test_the_gradient_of_a_symmetric_product_is_one_more_product() -> None:
    a = normalised(random_links(6, 3), 6)
    h = torch.randn(6, 4, generator=stream(0, "h")).requires_grad_()
    weights = torch.randn(6, 4, generator=stream(1, "h"))
    (ours,) = torch.autograd.grad((symmetric_product(a.to_sparse_csr(), h) * weights).sum(), h)
    torch.testing.assert_close(ours, a.T @ weights)


@pytest.mark.parametrize("norm", [True, False])
def test_a_score_is_as_by_hand_and_the_same_both_ways(norm: bool) -> None:
    """Embeddings (1, 3) and (2, -2), normalised (-1, 1) and (1, -1); w = (2, 3), e^t = 5."""
    decoder = RankingDecoder(2, norm=norm, signatures=True).eval()
    with torch.no_grad():
        decoder.scale.copy_(torch.tensor([2.0, 3.0]))
        decoder.temperature.fill_(math.log(5))
        decoder.popularity.weight.copy_(torch.tensor([[0.5, 1.0]]))
        decoder.popularity.bias.fill_(0.25)
        decoder.sharing.fill_(7.0)
        left, right, p = decoder(torch.tensor([[1.0, 3.0], [2.0, -2.0]]), torch.ones(2, 1))
    products = -(2 + 3) if norm else 2 * 1 * 2 - 3 * 3 * 2
    # Their mean squares are 5 and 4: they are divided by the fourth roots.
    sought = (0.5 + 3) / 5**0.25 + (1 - 2) / 4**0.25 + 2 * 0.25
    expected = 5 / math.sqrt(2) * products + 7 + sought
    scores = left @ right.T + p[:, None] + p
    assert [scores[0, 1], scores[1, 0]] == pytest.approx([expected] * 2, rel=1e-4)


def test_twins_are_not_the_best_pair_where_some_weights_are_negative() -> None:
    """w = (-1, 1): (1, -1) with itself gives 0, and with all w positive the most there is."""
    z = torch.tensor([[2.0, -2.0], [1.0, -1.0], [-3.0, 3.0]])
    for negative_share, twins in ((0.5, 0.0), (0.0, math.sqrt(2))):
        left, right, _ = RankingDecoder(2, negative_share=negative_share).eval()(z)
        scores = (left @ right.T).detach()
        assert [scores[0, 1], scores.max()] == pytest.approx([twins] * 2, abs=1e-4)


def test_weights_begin_within_their_bounds_and_biases_at_zero() -> None:
    with seeded(0, "weights"):
        encoder = RankingEncoder(50, 64, 3)
    weights = dict(encoder.named_parameters())
    assert len(weights) == 2 + 2 * 2
    for name, weight in weights.items():
        if name.endswith("bias"):
            assert not weight.any()
            continue
        bound = math.sqrt(6 / (114 if name == "weight" else 128))  # Glorot
        assert weight.abs().max() <= bound
        assert weight.max() > 0.9 * bound
        assert weight.min() < -0.9 * bound


@pytest.mark.parametrize("popularity", [True, False])
def test_at_first_no_node_is_sought_after_and_one_of_length_zero_never_breaks(popularity) -> None:
    z = torch.cat([torch.zeros(1, 4), torch.rand(2, 4, generator=stream(0, "z"))])
    decoder = RankingDecoder(4, popularity=popularity).eval()
    assert torch.equal(decoder(z)[2], torch.zeros(3))
    if popularity:
        torch.nn.init.ones_(decoder.popularity.weight)
        assert decoder(z)[2].isfinite().all()


def test_signatures_count_where_there_are_some_and_a_weight_for_them() -> None:
    z, signed = torch.rand(3, 4, generator=stream(0, "z")), torch.ones(3, 2)
    plain, sharing = RankingDecoder(4).eval(), RankingDecoder(4, signatures=True).eval()
    for found in (plain(z, signed), sharing(z)):
        for one, other in zip(found, plain(z), strict=True):
            assert torch.equal(one, other)
    assert sharing(z, signed)[0].shape == (3, 6)


def test_entries_of_an_embedding_are_dropped_in_training_alone() -> None:
    z, decoder = torch.rand(50, 8, generator=stream(0, "z")), RankingDecoder(8, 0.5)
    with seeded(0, "coins"):
        dropped = decoder(z)[1] == 0
    assert dropped.float().mean().item() == pytest.approx(0.5, abs=0.1)
    assert not (decoder.eval()(z)[1] == 0).any()


def test_products_of_signatures_estimate_what_two_nodes_share() -> None:
    counted = torch.rand(3, 7, generator=stream(0, "counted"))
    found = signatures(counted.to_sparse_csr(), 4096)
    torch.testing.assert_close(found @ found.T, counted @ counted.T, atol=0.15, rtol=0)
    # A node with itself shares what it has, to the last sign.
    alone = signatures(torch.eye(7).to_sparse_csr(), 64)
    torch.testing.assert_close(alone.abs(), torch.full((7, 64), 1 / 8))
    some = torch.tensor([5, 2])
    assert torch.equal(signatures(torch.eye(2).to_sparse_csr(), 64, some), alone[some])


def test_the_signs_of_a_node_never_change() -> None:
    """Models that were saved count on them."""
    signs = signatures(torch.eye(2).to_sparse_csr(), 4) * 2
    assert signs.tolist() == [[-1, 1, -1, 1], [-1, 1, 1, 1]]


def test_unless_told_otherwise_there_are_two_layers_and_an_eighth_is_negative() -> None:
    assert len(RankingEncoder(3, 4).deeper) == 1
    decoder = RankingDecoder(16)
    assert decoder.scale.tolist() == [-1.0] * 2 + [1.0] * 14
    assert decoder.sharing is None
    assert decoder.popularity is not None
