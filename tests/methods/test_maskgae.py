from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch.nn import functional

from cgcl.errors import ConfigError, FeatureError
from cgcl.graph import Graph
from cgcl.methods.maskgae import METHOD, MaskGAE, MaskGAESettings, degree_loss, degrees
from cgcl.methods.method import Epoch, Known
from cgcl.metrics import auc
from cgcl.model import propagate, symmetric
from cgcl.seeds import seeded
from cgcl.split import random_split

Build = Callable[[int], Graph]

# 0 - 1, 0 - 2, 1 - 2, 1 - 3, 2 - 3, 3 - 4, and 5 alone
LINKS = torch.tensor([[0, 0, 1, 1, 2, 3], [1, 2, 2, 3, 3, 4]])


def small(**changed) -> tuple[MaskGAE, Known]:
    with seeded(0, "weights"):
        x = torch.rand(6, 4)
        learner = MaskGAE(4, MaskGAESettings(**({"hidden": 8} | changed)))
    return learner, Known(6, LINKS, x)


def losses(learner: MaskGAE, known: Known) -> list[torch.Tensor]:
    learner.train()
    with seeded(0, "epoch"):
        return list(learner.steps(known, Epoch(1, 0)))


def trained(known: Known, epochs: int = 60, **changed) -> MaskGAE:
    settings = MaskGAESettings(**({"hidden": 32, "input_dropout": 0.2} | changed))
    with seeded(0, "weights"):
        learner = MaskGAE(known.features.shape[1], settings)
    optimizer = torch.optim.Adam(learner.parameters(), settings.lr)
    for number in range(1, epochs + 1):
        with seeded(0, "epoch", number):
            learner.train()
            for loss in learner.steps(known, Epoch(number, 0)):
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    return learner


def watch(learner: MaskGAE, known: Known) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Return the links that each step encodes, and the pairs that it decodes."""
    encoded, decoded = [], []
    encode = learner.encode
    learner.encode = lambda given: encoded.append(given.links) or encode(given)
    hook = learner.decode.register_forward_hook(lambda _, given, __: decoded.append(given[1]))
    losses(learner, known)
    learner.encode = encode
    hook.remove()
    return encoded, decoded


def test_degrees_are_counted_as_by_hand() -> None:
    assert degrees(LINKS, 6).tolist() == [2, 3, 3, 3, 1, 0]
    assert degrees(LINKS[:, :0], 2).tolist() == [0, 0]


def test_the_degree_loss_is_as_by_hand() -> None:
    """Guesses 1, 0.5, 3 of degrees 2, 0, 1: (1 + 0.25 + 4) / 3."""
    guessed = torch.tensor([[1.0], [0.5], [3.0]])
    assert degree_loss(guessed, torch.tensor([2, 0, 1])).item() == pytest.approx(1.75)


def test_the_loss_holds_the_degrees_that_hidden_links_make() -> None:
    """The network guesses 2 for every node; all links but 2 - 3 and 3 - 4 are hidden, say.

    Whatever is hidden, the loss is 1/6 of the sum of (2 - degree)^2, times the weight.
    """
    learner, known = small(degree_weight=0.5, decoder_dropout=0.0)
    with torch.no_grad():
        for weights in [*learner.guess_degrees.parameters(), *learner.decode.parameters()]:
            weights.zero_()
        learner.guess_degrees[3].bias.fill_(2.0)
    _, (targets, _) = watch(learner, known)
    count = [int((targets == node).sum()) for node in range(6)]
    assert sum(count) == 2 * 4
    on_degrees = sum((2 - number) ** 2 for number in count) / 6
    on_links = 2 * torch.log(torch.tensor(2.0)).item()
    (loss,) = losses(learner, known)
    assert loss.item() == pytest.approx(on_links + 0.5 * on_degrees, rel=1e-5)


def test_degrees_are_never_guessed_below_zero() -> None:
    learner, _ = small()
    with torch.no_grad():
        learner.guess_degrees[3].bias.fill_(-100.0)
    assert (learner.guess_degrees(torch.rand(5, 8)) == 0).all()


def test_embeddings_are_normalised_over_the_nodes_while_training() -> None:
    """ELU((h - mean) / sqrt(variance + 1e-5)) of each column of h = A X W."""
    learner, known = small(input_dropout=0.0)
    learner.train()
    h = propagate(known.features @ learner.convolve.weight, symmetric(LINKS))
    expected = functional.elu((h - h.mean(0)) / (h.var(0, correction=0) + 1e-5).sqrt())
    torch.testing.assert_close(learner.encode(known), expected)


def test_scores_take_what_training_has_seen_of_the_mean_and_the_deviation() -> None:
    learner, known = small(input_dropout=0.0)
    before = learner.scorer(known).z
    learner.train()
    for _ in range(200):
        learner.encode(known)
    after = learner.scorer(known).z
    assert learner.training
    assert not torch.allclose(before, after)
    h = propagate(known.features @ learner.convolve.weight, symmetric(LINKS))
    expected = functional.elu((h - h.mean(0)) / (h.var(0) + 1e-5).sqrt())
    torch.testing.assert_close(after, expected.detach(), rtol=1e-4, atol=1e-4)
    # They belong to what is stored: another network with the same state gives the same scores.
    copy = MaskGAE(4, MaskGAESettings(hidden=8))
    copy.load_state_dict(learner.state_dict())
    assert torch.equal(copy.scorer(known).z, after)


def test_no_link_is_seen_that_is_asked_for() -> None:
    learner, known = small(mask=0.5)
    (seen,), (targets, negatives) = watch(learner, known)
    both = torch.cat([seen, targets], dim=1)
    assert sorted(both.T.tolist()) == LINKS.T.tolist()
    assert targets.shape == negatives.shape == (2, 3)


def test_batches_share_the_seen_links_and_the_degrees() -> None:
    learner, known = small(mask=0.8, batch=2)
    seen, decoded = watch(learner, known)
    assert len(seen) == 3
    assert all(torch.equal(links, seen[0]) for links in seen)
    targets = torch.cat(decoded[::2], dim=1)
    both = torch.cat([seen[0], targets], dim=1)
    assert sorted(both.T.tolist()) == LINKS.T.tolist()
    assert [pairs.shape[1] for pairs in decoded] == [2, 2, 2, 2, 1, 1]
    with torch.no_grad():
        for weights in [*learner.guess_degrees.parameters(), *learner.decode.parameters()]:
            weights.zero_()
    # With all logits and guesses at 0, every batch has the same loss: the degrees are the same.
    first, second, third = losses(learner, known)
    assert first.item() == pytest.approx(second.item())
    assert first.item() == pytest.approx(third.item())


def test_scores_do_not_depend_on_the_order_of_a_pair() -> None:
    learner, known = small()
    scorer = learner.scorer(known)
    pairs = torch.combinations(torch.arange(6)).T
    assert torch.equal(scorer.logits(pairs), scorer.logits(pairs.flip(0)))
    left, right = scorer.factors()
    assert left.shape == right.shape == (6, 8)


def test_every_setting_changes_the_loss() -> None:
    learner, known = small(mask=0.5, input_dropout=0.5)
    (before,) = losses(learner, known)
    for changed in (
        {"mask": 0.7},
        {"input_dropout": 0.1},
        {"decoder_dropout": 0.7},
        {"degree_weight": 0.5},
        {"hidden": 12},
        {"batch": 2},
    ):
        other, _ = small(**({"mask": 0.5, "input_dropout": 0.5} | changed))
        assert losses(other, known)[0].item() != pytest.approx(before.item()), changed


def test_it_learns_and_scores_nodes_that_joined_later(sbm: Build) -> None:
    graph = sbm(0)
    split = random_split(graph)
    known = Known(graph.num_nodes, split.train, graph.x)
    learner = trained(known)
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
    learner, known = small(input_dropout=0.0)
    sparse = replace(known, x=known.features.to_sparse_coo().coalesce())
    torch.testing.assert_close(losses(learner, sparse), losses(learner, known))


def test_features_are_asked_for_and_settings_checked() -> None:
    learner, _ = small()
    with pytest.raises(FeatureError, match="needs features"):
        learner.scorer(Known(6, LINKS))
    for wrong in ({"hidden": 1}, {"mask": 0.0}, {"mask": 1.0}, {"degree_weight": -1.0}):
        with pytest.raises(ConfigError):
            MaskGAESettings(**wrong)


def test_the_settings_are_those_of_the_authors() -> None:
    settings = MaskGAESettings()
    assert (settings.lr, settings.weight_decay, settings.clip) == (0.01, 5e-5, 1.0)
    assert (settings.epochs, settings.evaluate_every) == (500, 10)
    assert METHOD.authors_settings("cora") == {}
    assert METHOD.authors_settings("pubmed") == {"input_dropout": 0.2}
    for name, choices in METHOD.search.items():
        for choice in choices:
            assert getattr(MaskGAESettings(**{name: choice}), name) == choice
