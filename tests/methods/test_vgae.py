from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch_geometric.nn import VGAE, GCNConv

from cgcl.errors import ConfigError, FeatureError
from cgcl.graph import Graph
from cgcl.methods.method import Epoch, Known
from cgcl.methods.vgae import METHOD, VGAELearner, VGAESettings
from cgcl.metrics import auc
from cgcl.model import symmetric
from cgcl.seeds import seeded
from cgcl.split import random_split

Build = Callable[[int], Graph]

# 0 - 1, 0 - 2, 1 - 2, 1 - 3, 2 - 3, 3 - 4, and 5 alone
LINKS = torch.tensor([[0, 0, 1, 1, 2, 3], [1, 2, 2, 3, 3, 4]])


def small(**changed) -> tuple[VGAELearner, Known]:
    with seeded(0, "weights"):
        x = torch.rand(6, 4)
        learner = VGAELearner(4, VGAESettings(**changed))
    return learner, Known(6, LINKS, x)


def first_loss(learner: VGAELearner, known: Known) -> torch.Tensor:
    learner.train()
    with seeded(0, "epoch"):
        (loss,) = learner.steps(known, Epoch(1, 0))
    return loss


def trained(known: Known, epochs: int = 60, **changed) -> VGAELearner:
    settings = VGAESettings(**changed)
    with seeded(0, "weights"):
        learner = VGAELearner(known.features.shape[1], settings)
    optimizer = torch.optim.Adam(learner.parameters(), settings.lr)
    for number in range(1, epochs + 1):
        with seeded(0, "epoch", number):
            learner.train()
            for loss in learner.steps(known, Epoch(number, 0)):
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    return learner


def watch(learner: VGAELearner, known: Known) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Return the links that a step encodes, and the pairs that it decodes."""
    encoded, decoded = [], []
    encode, decode = learner.encode, learner.network.decode
    learner.encode = lambda given: encoded.append(given.links) or encode(given)
    learner.network.decode = lambda z, pairs: decoded.append(pairs) or decode(z, pairs)
    first_loss(learner, known)
    return encoded, decoded


def test_the_divergence_is_as_by_hand() -> None:
    """Each of the six nodes has the means (1, 2) and the deviations (1, 2).

    KL = -1/2 sum(1 + 2 log s - m^2 - s^2) = ((1 + 1 - 1 - 0) + (4 + 4 - 1 - 2 log 2)) / 2
    = 4 - log 2; the loss takes a sixth of it.
    """
    learner, known = small(embedding=2)
    encoder = learner.network.encoder
    with torch.no_grad():
        for weights in learner.parameters():
            weights.zero_()
        encoder.mean.bias.copy_(torch.tensor([1.0, 2.0]))
        encoder.log_deviation.bias.copy_(torch.tensor([0.0, math.log(2)]))
    _, (targets, negatives) = watch(learner, known)
    with seeded(0, "epoch"):
        z = torch.tensor([1.0, 2.0]) + torch.randn(6, 2) * torch.tensor([1.0, 2.0])
    reconstruction = -(
        torch.sigmoid((z[targets[0]] * z[targets[1]]).sum(1)).log().mean()
        + torch.sigmoid(-(z[negatives[0]] * z[negatives[1]]).sum(1)).log().mean()
    )
    expected = reconstruction.item() + (4 - math.log(2)) / 6
    assert first_loss(learner, known).item() == pytest.approx(expected, rel=1e-5)


class Reference(nn.Module):
    """The encoder of PyTorch Geometric's example, with the weights of another."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.first = self.copied(encoder.first)
        self.mean = self.copied(encoder.mean)
        self.log_deviation = self.copied(encoder.log_deviation)

    def copied(self, layer: nn.Module) -> GCNConv:
        copy = GCNConv(*layer.weight.shape)
        copy.load_state_dict({"bias": layer.bias, "lin.weight": layer.weight.T})
        copy.reset_parameters = lambda: None
        return copy

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor):
        h = self.first(x, edge_index).relu()
        return self.mean(h, edge_index), self.log_deviation(h, edge_index)


def test_the_loss_is_that_of_pytorch_geometric_on_the_same_links() -> None:
    learner, known = small()
    (seen,), (targets, negatives) = watch(learner, known)
    theirs = VGAE(Reference(learner.network.encoder))
    with seeded(0, "epoch"):
        z = theirs.encode(known.features, symmetric(seen))
    expected = theirs.recon_loss(z, targets, negatives) + theirs.kl_loss() / 6
    torch.testing.assert_close(first_loss(learner, known), expected)


def test_no_link_is_seen_that_is_asked_for() -> None:
    learner, known = small(mask=0.5)
    (seen,), (targets, negatives) = watch(learner, known)
    both = torch.cat([seen, targets], dim=1)
    assert sorted(both.T.tolist()) == LINKS.T.tolist()
    assert targets.shape == negatives.shape == (2, 3)


def test_all_links_are_seen_and_asked_for_in_the_authors_way() -> None:
    learner, known = small(visible_targets=True)
    (seen,), (targets, negatives) = watch(learner, known)
    assert torch.equal(seen, LINKS)
    assert torch.equal(targets, LINKS)
    assert negatives.shape == (2, 6)


def test_scores_are_inner_products_of_the_means() -> None:
    learner, known = small()
    learner.train()
    scorer = learner.scorer(known)
    assert learner.training
    pairs = torch.combinations(torch.arange(6)).T
    learner.eval()
    mean, _ = learner.encode(known)
    expected = (mean @ mean.T)[pairs[0], pairs[1]].detach()
    torch.testing.assert_close(scorer.logits(pairs), expected)
    left, right = scorer.factors()
    torch.testing.assert_close((left @ right.T)[pairs[0], pairs[1]], expected)
    assert torch.equal(scorer.logits(pairs), scorer.logits(pairs.flip(0)))
    alone = [scorer.logits(pairs[:, i : i + 1]) for i in range(pairs.shape[1])]
    assert torch.equal(torch.cat(alone), scorer.logits(pairs))
    assert scorer.num_nodes == 6
    assert scorer.cost_per_pair == 2 * 16 + 20 * 16


def test_the_widths_are_as_told() -> None:
    learner, known = small(hidden=5, embedding=3)
    assert learner.network.encoder.first.weight.shape == (4, 5)
    assert learner.scorer(known).embeddings.shape == (6, 3)


def test_the_mask_says_how_many_links_are_hidden() -> None:
    for mask, hidden in ((0.2, 1), (0.8, 5)):
        _, (targets, _) = watch(*small(mask=mask))
        assert targets.shape[1] == hidden


def test_row_normalised_features_have_rows_that_sum_to_one() -> None:
    """Rows (2, 0, 6) and (-1, 1, 2) are divided by 8 and 4, a row of zeros stays."""
    x = torch.tensor([[2.0, 0.0, 6.0], [-1.0, 1.0, 2.0], [0.0, 0.0, 0.0]])
    divided = torch.tensor([[0.25, 0.0, 0.75], [-0.25, 0.25, 0.5], [0.0, 0.0, 0.0]])
    links = torch.tensor([[0], [1]])
    with seeded(0, "weights"):
        learner = VGAELearner(3, VGAESettings(row_normalised=True))
    plain = VGAELearner(3, VGAESettings())
    plain.load_state_dict(learner.state_dict())
    for given in (x, x.to_sparse_coo().coalesce()):
        mean, log_deviation = learner.encode(Known(3, links, given))
        expected = plain.encode(Known(3, links, divided))
        torch.testing.assert_close((mean, log_deviation), expected)
    assert not torch.allclose(plain.encode(Known(3, links, x))[0], mean)


def test_deviations_stay_within_bounds() -> None:
    learner, known = small()
    with torch.no_grad():
        learner.network.encoder.log_deviation.bias.fill_(100.0)
    assert learner.encode(known)[1].max() == 10
    assert torch.isfinite(first_loss(learner, known))


def test_it_learns_and_scores_nodes_that_joined_later(sbm: Build) -> None:
    graph = sbm(0)
    split = random_split(graph)
    for visible in (False, True):
        known = Known(graph.num_nodes, split.train, graph.x)
        learner = trained(known, visible_targets=visible)
        scorer = learner.scorer(known)
        assert auc(scorer.logits(split.test), scorer.logits(split.test_negatives)) > 0.8
    more = Known(121, split.train, torch.cat([graph.x, graph.x[:1]]))
    logits = learner.scorer(more).logits(torch.tensor([[0, 0], [4, 120]]))
    assert torch.isfinite(logits).all()
    assert scorer.logits(split.test[:, :0]).shape == (0,)


def test_the_same_seed_gives_the_same_bits(sbm: Build) -> None:
    graph = sbm(0)
    known = Known(graph.num_nodes, graph.edges, graph.x)
    first, again = (trained(known, epochs=5).state_dict() for _ in range(2))
    assert all(torch.equal(first[name], again[name]) for name in first)


def test_sparse_features_give_what_dense_ones_give() -> None:
    learner, known = small()
    sparse = replace(known, x=known.features.to_sparse_coo().coalesce())
    torch.testing.assert_close(first_loss(learner, sparse), first_loss(learner, known))


def test_features_are_asked_for_and_settings_checked() -> None:
    learner, _ = small()
    with pytest.raises(FeatureError, match="needs features"):
        learner.scorer(Known(6, LINKS))
    for wrong in ({"hidden": 0}, {"embedding": 0}, {"mask": 0.0}, {"mask": 1.0}):
        with pytest.raises(ConfigError):
            VGAESettings(**wrong)


def test_the_table_of_methods_has_it() -> None:
    assert METHOD.authors_settings("cora") == {}
    assert not VGAESettings().visible_targets
    for name, choices in METHOD.search.items():
        for choice in choices:
            assert getattr(VGAESettings(**{name: choice}), name) == choice
