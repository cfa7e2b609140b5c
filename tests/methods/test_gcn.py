from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.optim import Adam

from cgcl.errors import ConfigError, FeatureError
from cgcl.graph import Graph
from cgcl.methods.cgcl import CrossViewLearner
from cgcl.methods.cgcl_settings import CGCLSettings
from cgcl.methods.gcn import METHOD, MaskedGCN, MaskedGCNSettings
from cgcl.methods.method import Epoch, Known
from cgcl.metrics import auc
from cgcl.seeds import seeded
from cgcl.split import random_split

Build = Callable[[int], Graph]


def learner_of(known: Known, **settings) -> MaskedGCN:
    with seeded(0, "weights"):
        return MaskedGCN(known.features.shape[1], MaskedGCNSettings(**{"hidden": 16} | settings))


def known_of(graph: Graph) -> Known:
    return Known(graph.num_nodes, graph.edges, graph.x)


def losses(known: Known, **settings) -> list[float]:
    learner = learner_of(known, **settings)
    with seeded(0, "epoch", 1):
        return [loss.item() for loss in learner.steps(known, Epoch(1, 0))]


def codes(pairs: Tensor) -> list[int]:
    return sorted((pairs[0] * 1000 + pairs[1]).tolist())


def test_a_score_is_as_by_hand() -> None:
    """z = ELU(A^ X W + b) on 0 - 1 with 2 alone, then W_2 ReLU(W_1 (z_u * z_v) + b_1) + b_2."""
    known = Known(3, torch.tensor([[0], [1]]), torch.tensor([[2.0], [4.0], [-1.0]]))
    learner = learner_of(known, hidden=2)
    learner.load_state_dict(
        {
            "convolve.weight": torch.tensor([[1.0, 2.0]]),
            "convolve.bias": torch.tensor([0.0, 1.0]),
            "decode.layer_1.weight": torch.tensor([[1.0, -0.5]]),
            "decode.layer_1.bias": torch.tensor([10.0]),
            "decode.layer_2.weight": torch.tensor([[2.0]]),
            "decode.layer_2.bias": torch.tensor([-1.0]),
        }
    )
    # Nodes 0 and 1 weigh themselves and each other 1/2 each: both have (3, 6) + b.
    # Node 2 has its own (-1, -2) + b, which ELU makes exp(-1) - 1 each.
    down = torch.tensor(-1.0).exp().item() - 1
    z = learner.eval().encode(known)
    torch.testing.assert_close(z, torch.tensor([[3.0, 7.0], [3.0, 7.0], [down, down]]))
    scores = learner.scorer(known).logits(torch.tensor([[0, 0], [1, 2]]))
    # 9 - 24.5 + 10 < 0; (3 - 3.5) down + 10
    assert scores.tolist() == pytest.approx([-1.0, 2 * (10 - 0.5 * down) - 1])


def test_it_is_the_network_of_cgcl(sbm: Build) -> None:
    known = known_of(sbm(0))
    learner = learner_of(known, hidden=16)
    other = CrossViewLearner(4, CGCLSettings(hidden=16))
    theirs = other.state_dict().values()
    learner.load_state_dict(dict(zip(learner.state_dict(), theirs, strict=True)))
    pairs = torch.combinations(torch.arange(120)).T
    scores = learner.scorer(known).logits(pairs)
    assert torch.equal(scores, other.scorer(known).logits(pairs))
    assert learner.scorer(known).factors()[0].shape == (120, 16)


def test_targets_are_hidden_from_messages_and_every_link_is_a_target_once(sbm: Build) -> None:
    known = known_of(sbm(0))
    learner, seen, asked = learner_of(known, batch=100), [], []
    encode = learner.encode

    def spy(some: Known) -> Tensor:
        seen.append(some.links)
        return encode(some)

    learner.encode = spy
    learner.decode.register_forward_pre_hook(lambda _, given: asked.append(given[1]))
    count = len(list(learner.steps(known, Epoch(1, 0))))
    assert len(seen) == count == -(-known.links.shape[1] // 100)
    every = codes(known.links)
    for links, targets, negatives in zip(seen, asked[::2], asked[1::2], strict=True):
        assert sorted(codes(links) + codes(targets)) == every
        assert not set(codes(negatives)) & set(every)
        assert negatives.shape == targets.shape
    assert codes(torch.cat(asked[::2], dim=1)) == every


def test_embeddings_follow_from_the_links_given_and_no_others(sbm: Build) -> None:
    known = known_of(sbm(0))
    learner = learner_of(known).eval()
    few = known.with_links(known.links[:, ::2])
    before = learner.encode(few)
    assert not torch.equal(learner.encode(known), before)
    list(learner.train().steps(known, Epoch(1, 0)))
    assert torch.equal(learner.eval().encode(few), before)


def test_scores_do_not_depend_on_order_or_company_and_dropout_is_off(sbm: Build) -> None:
    known = known_of(sbm(0))
    learner = learner_of(known).train()
    scorer = learner.scorer(known)
    pairs = torch.combinations(torch.arange(120)).T
    scores = scorer.logits(pairs)
    assert torch.equal(scorer.logits(pairs.flip(0)), scores)
    torch.testing.assert_close(scorer.logits(pairs[:, 5:6]), scores[5:6])
    assert torch.equal(learner.scorer(known).logits(pairs), scores)
    assert learner.training
    assert not scores.requires_grad


def test_sparse_features_give_what_dense_ones_give(sbm: Build) -> None:
    known = known_of(sbm(0))
    x = known.features * (known.features > 0.3)
    dense = Known(120, known.links, x)
    sparse = Known(120, known.links, x.to_sparse_coo().coalesce())
    assert losses(dense, input_dropout=0.0) == (
        pytest.approx(losses(sparse, input_dropout=0.0), abs=1e-5)
    )


def test_nodes_without_links_and_nodes_that_join_later_are_scored(sbm: Build) -> None:
    known = known_of(sbm(0))
    learner = learner_of(known)
    larger = Known(123, known.links, torch.cat([known.features, torch.rand(3, 4)]))
    assert learner.scorer(larger).logits(torch.tensor([[0, 121], [120, 122]])).isfinite().all()
    with pytest.raises(FeatureError, match="needs features"):
        learner.scorer(Known(120, known.links))


@pytest.mark.parametrize(
    "changed", [{"hidden": 8}, {"input_dropout": 0.2}, {"decoder_dropout": 0.6}, {"batch": 300}]
)
def test_every_setting_changes_what_is_learned(sbm: Build, changed: dict[str, float]) -> None:
    known = known_of(sbm(0))
    plain = losses(known)
    assert losses(known, **changed) != plain
    assert losses(known) == plain


def test_it_learns(sbm: Build) -> None:
    graph = sbm(0)
    split = random_split(graph)
    known = Known(graph.num_nodes, split.train, graph.x)
    learner = learner_of(known, input_dropout=0.2)
    optimizer = Adam(learner.parameters(), lr=0.01)
    for number in range(1, 51):
        with seeded(0, "epoch", number):
            for loss in learner.steps(known, Epoch(number, 0)):
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    scorer = learner.scorer(known)
    assert auc(scorer.logits(split.test), scorer.logits(split.test_negatives)) > 0.8


def test_the_search_is_within_range() -> None:
    for name, values in METHOD.search.items():
        for value in values:
            METHOD.settings(**{name: value})
    with pytest.raises(ConfigError, match="batch is 0; it must be at least 1"):
        MaskedGCNSettings(batch=0)
