"""The losses and decoders of the auto-encoders by hand, and beside PyTorch Geometric's VGAE."""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import VGAE, GCNConv

from cgcl.errors import ConfigError
from cgcl.methods.autoencoders import CrossCorrelationDecoder
from cgcl.methods.method import Epoch, Learner, TrainingGraph
from cgcl.methods.table import method_named
from cgcl.model import propagate, symmetric
from cgcl.seeds import seeded
from cgcl.train.config import RunConfig

# 0 - 1, 0 - 2, 1 - 2, 1 - 3, 2 - 3, 3 - 4, and 5 alone
LINKS = torch.tensor([[0, 0, 1, 1, 2, 3], [1, 2, 2, 3, 3, 4]])


def small(name: str, **told) -> tuple[Learner, TrainingGraph]:
    method = method_named(name)
    with seeded(0, "weights"):
        x = torch.rand(6, 4)
        learner = method.build(4, method.settings(**({"hidden": 8} | told)))
    return learner, TrainingGraph(6, LINKS, x)


def losses(learner: Learner, known: TrainingGraph) -> list[Tensor]:
    learner.train()
    with seeded(0, "epoch"):
        return list(learner.steps(known, Epoch(1, 0)))


def watch(learner: Learner, known: TrainingGraph) -> tuple[list[Tensor], list[Tensor]]:
    """Return the links that each step encodes, and the pairs that it decodes."""
    encoded, decoded = [], []
    encode = learner.encode
    learner.encode = lambda given: encoded.append(given.links) or encode(given)
    hook = learner.decode.register_forward_hook(lambda _, given, __: decoded.append(given[1]))
    losses(learner, known)
    learner.encode = encode
    hook.remove()
    return encoded, decoded


class Reference(nn.Module):
    """The encoder of PyTorch Geometric's example."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.mean, self.log_deviation = GCNConv(4, 8), GCNConv(8, 16), GCNConv(8, 16)

    def forward(self, x: Tensor, edge_index: Tensor) -> tuple[Tensor, Tensor]:
        h = self.first(x, edge_index).relu()
        return self.mean(h, edge_index), self.log_deviation(h, edge_index)


def test_the_loss_is_that_of_pytorch_geometric_on_the_same_links() -> None:
    learner, known = small("vgae")
    (seen,), (targets, negatives) = watch(learner, known)
    theirs = VGAE(Reference())
    with torch.no_grad():
        for name, own in learner.network["encoder"].named_children():
            copy = getattr(theirs.encoder, name)
            copy.lin.weight.copy_(own.weight.T)
            copy.bias.copy_(own.bias)
    with seeded(0, "epoch"):
        z = theirs.encode(known.features, symmetric(seen))
    expected = theirs.recon_loss(z, targets, negatives) + theirs.kl_loss() / 6
    torch.testing.assert_close(losses(learner, known)[0], expected, rtol=1e-5, atol=1e-5)


def test_all_links_are_seen_and_asked_for_in_the_authors_way() -> None:
    (seen,), (targets, negatives) = watch(*small("vgae", visible_targets=True))
    assert torch.equal(seen, LINKS)
    assert torch.equal(targets, LINKS)
    assert negatives.shape == (2, 6)


def test_scores_are_inner_products_of_the_means_and_deviations_are_bounded() -> None:
    learner, known = small("vgae", embedding=3)
    scorer, pairs = learner.scorer(known), torch.combinations(torch.arange(6)).T
    mean, _ = learner.eval().encode(known)
    assert mean.shape == (6, 3)
    expected = (mean @ mean.T)[pairs[0], pairs[1]].detach()
    torch.testing.assert_close(scorer.logits(pairs), expected)
    with torch.no_grad():
        learner.network["encoder"].log_deviation.bias.fill_(100.0)
    assert learner.encode(known)[1].max() == 10
    assert torch.isfinite(losses(learner, known)[0])


def test_the_loss_holds_the_degrees_that_hidden_links_make() -> None:
    """The network guesses 2 for every node: 1/6 of the sum of (2 - degree)^2, times the weight."""
    learner, known = small("maskgae", degree_weight=0.5, decoder_dropout=0.0)
    with torch.no_grad():
        for weights in [*learner.guess_degrees.parameters(), *learner.decode.parameters()]:
            weights.zero_()
        learner.guess_degrees[3].bias.fill_(2.0)
    _, (pairs,) = watch(learner, known)
    targets = pairs[:, : pairs.shape[1] // 2]
    count = [int((targets == node).sum()) for node in range(6)]
    assert sum(count) == 2 * 4
    on_degrees = sum((2 - number) ** 2 for number in count) / 6
    on_links = 2 * math.log(2)
    assert losses(learner, known)[0].item() == pytest.approx(on_links + 0.5 * on_degrees, rel=1e-5)
    with torch.no_grad():
        learner.guess_degrees[3].bias.fill_(-100.0)
    assert (learner.guess_degrees(torch.rand(5, 8)) == 0).all()


def test_embeddings_are_normalised_by_what_training_has_seen() -> None:
    """ELU((h - mean) / sqrt(variance + 1e-5)) of each column of h = A X W."""
    learner, known = small("maskgae", input_dropout=0.0)
    h = propagate(known.features @ learner.convolve.weight, symmetric(LINKS))
    expected = functional.elu((h - h.mean(0)) / (h.var(0, correction=0) + 1e-5).sqrt())
    torch.testing.assert_close(learner.train().encode(known), expected)
    for _ in range(200):
        learner.encode(known)
    # What was seen is stored: another network with the same state gives the same scores.
    copy, _ = small("maskgae")
    copy.load_state_dict(learner.state_dict())
    expected = functional.elu((h - h.mean(0)) / (h.var(0) + 1e-5).sqrt())
    for one in (learner, copy):
        torch.testing.assert_close(one.scorer(known).z, expected.detach(), rtol=1e-4, atol=1e-4)


# Node 0 has (1, 2) in layer 1 and (3, 4) in layer 2, node 1 has (5, 6) and (7, 8).
TWO_LAYERS = torch.tensor([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]])


@pytest.mark.parametrize(
    ("pair", "products"),
    [
        ([[0], [1]], [5, 12, 7, 16, 15, 24, 21, 32]),
        ([[1], [0]], [5, 12, 15, 24, 7, 16, 21, 32]),
    ],
)
def test_the_products_and_a_logit_of_all_layers_are_as_by_hand(pair, products) -> None:
    """1 with 1: (1*5, 2*6); 1 with 2: (1*7, 2*8); 2 with 1: (3*5, 4*6); 2 with 2: (3*7, 4*8).

    The first unit adds the products at 0 and 6: 5 + 21 = 26 in both orders.

    The second takes that at 4 from that at 2: ReLU(7 - 15) = 0, in the other order 15 - 7 = 8,
    of which the mean is 4. The logit is 0.5 * 26 + 3 * 4 + 1.
    """
    decoder, pair = CrossCorrelationDecoder(2, 2, hidden=2, dropout=0.0), torch.tensor(pair)
    assert decoder.pair_features(TWO_LAYERS, pair).tolist() == [products]
    with torch.no_grad():
        decoder.layer_1.weight.zero_()
        decoder.layer_1.weight[0, [0, 6]] = 1.0
        decoder.layer_1.weight[1, 2], decoder.layer_1.weight[1, 4] = 1.0, -1.0
        decoder.layer_1.bias.zero_()
        decoder.layer_2.weight.copy_(torch.tensor([[0.5, 3.0]]))
        decoder.layer_2.bias.fill_(1.0)
    assert decoder(TWO_LAYERS, pair).tolist() == [26.0]


def test_each_layer_sees_one_step_further_with_dropout_in_between() -> None:
    """H1 = ReLU(A X W1), H2 = ReLU(A H1 W2), side by side."""
    learner, known = small("s2gae", dropout=0.5, hidden=64)
    with torch.no_grad():
        for convolve in learner.convolve:
            convolve.weight.abs_()  # nothing is cut off by a ReLU
    first, second = learner.convolve
    h_1 = torch.relu(propagate(known.features @ first.weight, symmetric(LINKS)))
    h_2 = torch.relu(propagate(h_1 @ second.weight, symmetric(LINKS)))
    torch.testing.assert_close(learner.eval().encode(known), torch.cat([h_1, h_2], dim=1))
    with seeded(0, "epoch"):
        z = learner.train().encode(known)
    assert 0.3 < (z[:, :64] == 0).float().mean() < 0.7
    assert (z[:, 64:] > 0).all()


@pytest.mark.parametrize(
    ("method", "name", "value"),
    [("maskgae", "mask", 0.0), ("maskgae", "mask", 1.0), ("cgcl-rank", "average", 1.0)],
)
def test_a_share_that_would_leave_nothing_is_refused(method: str, name: str, value: float) -> None:
    with pytest.raises(ConfigError, match=name):
        RunConfig.of(method, {name: value})
