"""Algorithm 1, its encoder and its decoder: to the bit, and beside PyTorch Geometric's layer."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.nn import GCNConv

from cgcl.graph import Graph
from cgcl.model import CGCL, GCNEncoder, PairDecoder, consistency_loss, divide, draw_views
from cgcl.seeds import stream
from cgcl.split import NegativeSampler


def test_each_loss_is_computed_after_the_step_before_it(two_cliques: Graph) -> None:
    """Two optimizer steps an epoch: the second view sees the weights the first one changed."""
    views = draw_views(two_cliques.edges, "disjoint", stream(0, "views"))
    unlinked, coins = NegativeSampler(two_cliques.edges, 20), stream(0, "negatives")
    negatives = [unlinked.draw(hidden.num_pairs, coins) for _, hidden in views.passes()]
    model = CGCL(20, 8, input_dropout=0.0, decoder_dropout=0.0)
    untouched = [loss.item() for loss in model.losses(two_cliques.x, views, negatives)]
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    stepped = []
    for loss in model.losses(two_cliques.x, views, negatives):
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        stepped.append(loss.item())
    assert stepped[0] == untouched[0]
    assert stepped[1] != untouched[1]


@pytest.mark.parametrize("kind", ["disjoint", "directed"])
def test_propagation_is_that_of_gcnconv_for_symmetric_and_directed_views(cora, kind) -> None:
    view = draw_views(cora.edges, kind, stream(0, "views")).view_1
    encoder = GCNEncoder(cora.num_features, 16).eval()
    conv = GCNConv(cora.num_features, 16)
    with torch.no_grad():
        conv.lin.weight.copy_(encoder.weight.T)
        conv.bias.copy_(encoder.bias.uniform_(-1, 1))
        theirs = torch.nn.functional.elu(conv(cora.x.to_dense(), view.edge_index))
        ours = encoder(cora.x, view.edge_index)
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


def test_unless_told_otherwise_it_is_the_authors_code() -> None:
    model = CGCL(3)
    assert model.encode.weight.shape == (3, 512)
    assert (model.encode.input_dropout, model.decode.decoder_dropout) == (0.8, 0.2)
    told = PairDecoder(512, 0.2, "hadamard", "linear").eval()
    told.load_state_dict(model.decode.state_dict())
    z, pairs = torch.randn(4, 512, generator=stream(0, "z")), torch.tensor([[0, 1], [2, 3]])
    for plain in (model.decode.eval(), PairDecoder(512).eval()):
        plain.load_state_dict(told.state_dict())
        assert torch.equal(plain(z, pairs), told(z, pairs))
        assert plain(z, pairs).shape == (2,)
        assert (plain.product, plain.last_layer) == (told.product, told.last_layer)
    logits = torch.tensor([0.3, -2.0])
    assert consistency_loss(logits, logits) == consistency_loss(logits, logits, "hard")
    assert model.targets == "hard"


def test_a_view_without_links_is_not_asked_for() -> None:
    coin, edges = torch.tensor([True]), torch.tensor([[0], [1]])
    views = divide(edges, "disjoint", coin, coin)
    negatives = [torch.zeros(2, 0, dtype=torch.int64), torch.tensor([[0], [2]])]
    (loss,) = CGCL(4, 8).losses(torch.eye(4), views, negatives)
    assert loss.isfinite()


def test_new_weights_follow_from_the_generator_and_lie_within_their_bounds() -> None:
    model = CGCL(50, 64)

    def weights(seed: int) -> dict[str, torch.Tensor]:
        model.reset_parameters(stream(seed, "weights"))
        return {name: weight.detach().clone() for name, weight in model.named_parameters()}

    one, again, other = weights(0), weights(0), weights(1)
    assert torch.equal(one.pop("encode.bias"), torch.zeros(64))
    bounds = {"encode.weight": (6 / (50 + 64)) ** 0.5}
    for name, weight in one.items():
        assert torch.equal(weight, again[name])
        assert not torch.equal(weight, other[name])
        bound = bounds.get(name, 64**-0.5 if "layer_1" in name else 32**-0.5)
        assert weight.abs().max() <= bound
        if weight.numel() > 30:
            assert weight.max() > 0.8 * bound
            assert weight.min() < -0.8 * bound


@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_dropout_is_for_training_and_by_the_generator_alone(part: str) -> None:
    z, pairs = torch.rand(9, 64, generator=stream(0, "z")), torch.tensor([[0, 1], [2, 3]])
    layer = GCNEncoder(64, 8) if part == "encoder" else PairDecoder(64)
    first, again, other = (layer(z, pairs, stream(seed, "coins")) for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    layer.eval()
    assert torch.equal(layer(z, pairs, stream(0, "coins")), layer(z, pairs, stream(1, "coins")))


@pytest.mark.parametrize("layer", ["encoder", "hadamard", "inner"])
def test_the_backward_pass_gives_the_same_bits_every_time(cora: Graph, layer: str) -> None:
    z = torch.randn(500, 64, generator=stream(0, "z")).requires_grad_()
    pairs = torch.randint(500, (2, 20_000), generator=stream(0, "pairs"))
    if layer == "encoder":
        part = GCNEncoder(cora.num_features, 64)
        given, of = (cora.x, cora.edge_index), part.weight
    else:
        part, given, of = PairDecoder(64, product=layer), (z, pairs), z
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    first, *others = (
        torch.autograd.grad(part(*given, stream(0, "coins")).square().sum(), of)[0]
        for _ in range(8)
    )
    torch.set_num_threads(before)
    assert all(torch.equal(first, other) for other in others)
