from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from cgcl.errors import ConfigError, FeatureError
from cgcl.graph import Graph
from cgcl.methods.method import Epoch, Known
from cgcl.methods.s2gae import METHOD, S2GAE, CrossCorrelationDecoder, S2GAESettings
from cgcl.metrics import auc
from cgcl.model import propagate, symmetric
from cgcl.seeds import seeded
from cgcl.split import random_split

Build = Callable[[int], Graph]

# 0 - 1, 0 - 2, 1 - 2, 1 - 3, 2 - 3, 3 - 4, and 5 alone
LINKS = torch.tensor([[0, 0, 1, 1, 2, 3], [1, 2, 2, 3, 3, 4]])


def small(**changed) -> tuple[S2GAE, Known]:
    with seeded(0, "weights"):
        x = torch.rand(6, 4)
        learner = S2GAE(4, S2GAESettings(**({"hidden": 8, "decoder_hidden": 5} | changed)))
    return learner, Known(6, LINKS, x)


def losses(learner: S2GAE, known: Known) -> list[torch.Tensor]:
    learner.train()
    with seeded(0, "epoch"):
        return list(learner.steps(known, Epoch(1, 0)))


def trained(known: Known, epochs: int = 60) -> S2GAE:
    settings = S2GAESettings(hidden=16, decoder_hidden=16)
    with seeded(0, "weights"):
        learner = S2GAE(known.features.shape[1], settings)
    optimizer = torch.optim.Adam(learner.parameters(), settings.lr)
    for number in range(1, epochs + 1):
        with seeded(0, "epoch", number):
            learner.train()
            for loss in learner.steps(known, Epoch(number, 0)):
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    return learner


def watch(learner: S2GAE, known: Known) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Return the links that each step encodes, and the pairs that it decodes."""
    encoded, decoded = [], []
    encode = learner.encode
    learner.encode = lambda given: encoded.append(given.links) or encode(given)
    hook = learner.decode.register_forward_hook(lambda _, given, __: decoded.append(given[1]))
    losses(learner, known)
    learner.encode = encode
    hook.remove()
    return encoded, decoded


# Node 0 has (1, 2) in layer 1 and (3, 4) in layer 2, node 1 has (5, 6) and (7, 8).
TWO_LAYERS = torch.tensor([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]])


def test_the_products_of_all_layers_are_as_by_hand() -> None:
    """1 with 1: (1*5, 2*6); 1 with 2: (1*7, 2*8); 2 with 1: (3*5, 4*6); 2 with 2: (3*7, 4*8)."""
    decoder = CrossCorrelationDecoder(layers=2, width=2, hidden=3, dropout=0.0)
    there = decoder.pair_features(TWO_LAYERS, torch.tensor([[0], [1]]))
    assert there.tolist() == [[5, 12, 7, 16, 15, 24, 21, 32]]
    back = decoder.pair_features(TWO_LAYERS, torch.tensor([[1], [0]]))
    assert back.tolist() == [[5, 12, 15, 24, 7, 16, 21, 32]]


def test_a_logit_is_as_by_hand() -> None:
    """The first unit adds the products at 0 and 6: 5 + 21 = 26 in both orders.

    The second takes that at 4 from that at 2: ReLU(7 - 15) = 0, in the other order 15 - 7 = 8,
    of which the mean is 4. The logit is 0.5 * 26 + 3 * 4 + 1.
    """
    decoder = CrossCorrelationDecoder(layers=2, width=2, hidden=2, dropout=0.0)
    with torch.no_grad():
        decoder.layer_1.weight.zero_()
        decoder.layer_1.weight[0, [0, 6]] = 1.0
        decoder.layer_1.weight[1, 2], decoder.layer_1.weight[1, 4] = 1.0, -1.0
        decoder.layer_1.bias.zero_()
        decoder.layer_2.weight.copy_(torch.tensor([[0.5, 3.0]]))
        decoder.layer_2.bias.fill_(1.0)
    for pair in ([[0], [1]], [[1], [0]]):
        assert decoder(TWO_LAYERS, torch.tensor(pair)).tolist() == [26.0]


def test_three_layers_have_nine_products() -> None:
    decoder = CrossCorrelationDecoder(layers=3, width=1, hidden=2, dropout=0.0)
    z = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    found = decoder.pair_features(z, torch.tensor([[0], [1]]))
    assert found.tolist() == [[4, 5, 6, 8, 10, 12, 12, 15, 18]]
    assert decoder.pair_features(z, torch.empty(2, 0, dtype=torch.int64)).shape == (0, 9)


def test_each_layer_sees_one_step_further() -> None:
    """H1 = ReLU(A X W1), H2 = ReLU(A H1 W2): 4 reaches 2 by 3 in the second layer only."""
    learner, known = small()
    learner.eval()
    z = learner.encode(known)
    first, second = learner.convolve
    h_1 = torch.relu(propagate(known.features @ first.weight, symmetric(LINKS)))
    h_2 = torch.relu(propagate(h_1 @ second.weight, symmetric(LINKS)))
    torch.testing.assert_close(z, torch.cat([h_1, h_2], dim=1))
    x = known.features.clone()
    x[4] += 10
    changed = learner.encode(replace(known, x=x))
    assert torch.equal(changed[2, :8], z[2, :8])
    assert not torch.equal(changed[2, 8:], z[2, 8:])
    assert torch.equal(changed[5], z[5])


def test_dropout_is_between_layers_and_off_when_pairs_are_scored() -> None:
    learner, known = small(dropout=0.5, hidden=64)
    with torch.no_grad():
        for convolve in learner.convolve:
            convolve.weight.abs_()  # nothing is cut off by a ReLU
    learner.train()
    with seeded(0, "epoch"):
        z = learner.encode(known)
    assert 0.3 < (z[:, :64] == 0).float().mean() < 0.7
    assert (z[:, 64:] > 0).all()
    scorer = learner.scorer(known)
    pairs = torch.combinations(torch.arange(6)).T
    assert learner.training
    assert torch.equal(scorer.logits(pairs), scorer.logits(pairs))
    assert learner.decode.training
    with seeded(0, "epoch"):
        loud = learner.decode(scorer.z, pairs)
    assert not torch.allclose(loud, scorer.logits(pairs))


def test_no_link_is_seen_that_is_asked_for() -> None:
    learner, known = small(mask=0.5)
    (seen,), (targets, negatives) = watch(learner, known)
    both = torch.cat([seen, targets], dim=1)
    assert sorted(both.T.tolist()) == LINKS.T.tolist()
    assert targets.shape == negatives.shape == (2, 3)
    links = {tuple(pair) for pair in LINKS.T.tolist()}
    assert not links & {tuple(pair) for pair in negatives.T.tolist()}


def test_batches_share_the_seen_links() -> None:
    learner, known = small(mask=0.8, batch=2)
    seen, decoded = watch(learner, known)
    assert [pairs.shape[1] for pairs in decoded] == [2, 2, 2, 2, 1, 1]
    assert all(torch.equal(links, seen[0]) for links in seen)
    both = torch.cat([seen[0], *decoded[::2]], dim=1)
    assert sorted(both.T.tolist()) == LINKS.T.tolist()


def test_the_loss_is_the_cross_entropy_of_links_and_counter_examples() -> None:
    learner, known = small(dropout=0.0)
    (seen,), (targets, negatives) = watch(learner, known)
    z = learner.encode(known.with_links(seen))
    links, others = learner.decode(z, targets), learner.decode(z, negatives)
    expected = -(links.sigmoid().log().mean() + (1 - others.sigmoid()).log().mean())
    (loss,) = losses(learner, known)
    torch.testing.assert_close(loss, expected)


def test_scores_depend_neither_on_order_nor_on_numbers() -> None:
    learner, known = small()
    scorer = learner.scorer(known)
    pairs = torch.combinations(torch.arange(6)).T
    logits = scorer.logits(pairs)
    assert torch.equal(logits, scorer.logits(pairs.flip(0)))
    number = torch.tensor([3, 5, 0, 1, 4, 2])  # the new number of each node
    x = torch.empty_like(known.features)
    x[number] = known.features
    renamed = learner.scorer(Known(6, number[LINKS].sort(dim=0).values, x))
    torch.testing.assert_close(renamed.logits(number[pairs]), logits)
    assert scorer.factors() is None
    assert scorer.cost_per_pair == 2 * 2 * (4 * 8) * 5 + 20 * 16


def test_every_setting_changes_the_loss() -> None:
    learner, known = small(mask=0.5)
    (before,) = losses(learner, known)
    for changed in (
        {"mask": 0.7},
        {"dropout": 0.1},
        {"layers": 3},
        {"hidden": 12},
        {"decoder_hidden": 7},
        {"batch": 2},
    ):
        other, _ = small(**({"mask": 0.5} | changed))
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
    learner, known = small()
    sparse = replace(known, x=known.features.to_sparse_coo().coalesce())
    torch.testing.assert_close(losses(learner, sparse), losses(learner, known))


def test_features_are_asked_for_and_settings_checked() -> None:
    learner, _ = small()
    with pytest.raises(FeatureError, match="needs features"):
        learner.scorer(Known(6, LINKS))
    for wrong in ({"hidden": 0}, {"layers": 0}, {"mask": 0.0}, {"mask": 1.0}, {"dropout": 1.0}):
        with pytest.raises(ConfigError):
            S2GAESettings(**wrong)


def test_the_settings_are_those_of_the_authors() -> None:
    settings = S2GAESettings()
    assert (settings.lr, settings.weight_decay, settings.clip) == (0.01, 0.0, 1.0)
    assert (settings.epochs, settings.evaluate_every) == (200, 1)
    assert METHOD.authors_settings("cora") == {}
    for name, choices in METHOD.search.items():
        for choice in choices:
            assert getattr(S2GAESettings(**{name: choice}), name) == choice
