from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.optim import Adam
from torch_geometric.nn import SAGEConv

from cgcl.errors import ConfigError, FeatureError
from cgcl.graph import Graph
from cgcl.methods.graphsage import (
    METHOD,
    GraphSAGE,
    GraphSAGESettings,
    ProductDecoder,
    convolve,
    mean_of,
)
from cgcl.methods.method import Epoch, Known
from cgcl.methods.row_shares import row_shares
from cgcl.metrics import auc
from cgcl.model import symmetric
from cgcl.seeds import seeded
from cgcl.split import random_split

Build = Callable[[int], Graph]


def learner_of(known: Known, **settings) -> GraphSAGE:
    with seeded(0, "weights"):
        return GraphSAGE(known.features.shape[1], GraphSAGESettings(**{"hidden": 16} | settings))


def known_of(graph: Graph) -> Known:
    return Known(graph.num_nodes, graph.edges, graph.x)


def losses(known: Known, **settings) -> list[float]:
    learner = learner_of(known, **settings)
    with seeded(0, "epoch", 1):
        return [loss.item() for loss in learner.steps(known, Epoch(1, 0))]


def codes(pairs: Tensor) -> list[int]:
    return sorted((pairs[0] * 1000 + pairs[1]).tolist())


def test_a_layer_takes_the_mean_of_the_neighbours_as_by_hand() -> None:
    """h_u = W_s x_u + W_n mean(x_v) + b on 1 - 0 - 2, with 3 alone."""
    conv = SAGEConv(2, 2)
    with torch.no_grad():
        conv.lin_l.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 10.0]]))
        conv.lin_l.bias.copy_(torch.tensor([0.5, -1.0]))
        conv.lin_r.weight.copy_(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 8.0], [7.0, 9.0]])
    links = torch.tensor([[0, 0], [1, 2]])
    # The means are (4, 6) of nodes 1 and 2, (1, 2) of node 0 twice, and nothing for node 3.
    expected = torch.tensor(
        [
            [4.0 + 2.0 + 0.5, 60.0 + 1.0 - 1.0],
            [1.0 + 4.0 + 0.5, 20.0 + 3.0 - 1.0],
            [1.0 + 8.0 + 0.5, 20.0 + 5.0 - 1.0],
            [0.0 + 9.0 + 0.5, 0.0 + 7.0 - 1.0],
        ]
    )
    torch.testing.assert_close(convolve(conv, x, mean_of(links, 4)), expected)


@pytest.mark.parametrize("sparse", [False, True])
def test_a_layer_is_pytorch_geometrics(sbm: Build, sparse: bool) -> None:
    graph = sbm(0)
    x = graph.x * (graph.x > 0.3)
    conv = SAGEConv(4, 7)
    theirs = conv(x, symmetric(graph.edges))
    theirs.square().sum().backward()
    wanted = [parameter.grad.clone() for parameter in conv.parameters()]
    conv.zero_grad()
    given = x.to_sparse_coo().coalesce() if sparse else x
    ours = convolve(conv, given, mean_of(graph.edges, graph.num_nodes))
    ours.square().sum().backward()
    torch.testing.assert_close(ours, theirs)
    for parameter, gradient in zip(conv.parameters(), wanted, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-4, atol=1e-4)


def test_a_relu_stands_between_two_layers_and_none_at_the_end(sbm: Build) -> None:
    known = known_of(sbm(0))
    learner = learner_of(known, layers=2).eval()
    edge_index = symmetric(known.links)
    first, second = learner.convs
    expected = second(torch.relu(first(known.features, edge_index)), edge_index)
    torch.testing.assert_close(learner.encode(known), expected)
    assert (expected < 0).any()


def test_the_decoder_is_a_network_on_the_product_as_by_hand() -> None:
    """W_2 ReLU(W_1 (z_u * z_v) + b_1) + b_2."""
    decode = ProductDecoder(2, layers=2, dropout=0.5).eval()
    decode.load_state_dict(
        {
            "inner.0.weight": torch.tensor([[1.0, -1.0], [2.0, 0.0]]),
            "inner.0.bias": torch.tensor([0.0, 1.0]),
            "last.weight": torch.tensor([[3.0, 0.5]]),
            "last.bias": torch.tensor([-1.0]),
        }
    )
    z = torch.tensor([[1.0, 2.0], [3.0, 1.0], [-1.0, 0.0]])
    # (3, 2) -> (1, 7); (-1, 0) -> (0, 0); (-3, 0) -> (0, 0)
    expected = [3.0 + 3.5 - 1.0, -1.0, -1.0]
    assert decode(z, torch.tensor([[0, 0, 1], [1, 2, 2]])).tolist() == pytest.approx(expected)
    assert decode.operations == 2 * 2 * (2 * 1 + 1)
    linear = ProductDecoder(2, layers=1, dropout=0.5)
    assert len(linear.inner) == 0
    assert linear(z, torch.tensor([[0], [1]])).shape == (1,)


def test_rows_are_divided_by_their_magnitudes() -> None:
    x = torch.tensor([[1.0, -3.0], [0.0, 0.0], [2.0, 0.0]])
    expected = torch.tensor([[0.25, -0.75], [0.0, 0.0], [1.0, 0.0]])
    assert torch.equal(row_shares(x), expected)
    assert torch.equal(row_shares(x.to_sparse_coo().coalesce()).to_dense(), expected)


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
    assert len(asked) == 2 * count
    every = codes(known.links)
    for links, targets, negatives in zip(seen, asked[::2], asked[1::2], strict=True):
        assert sorted(codes(links) + codes(targets)) == every
        assert not set(codes(negatives)) & set(every)
        assert negatives.shape == targets.shape
    assert codes(torch.cat(asked[::2], dim=1)) == every


def test_embeddings_follow_from_the_links_given_and_no_others(sbm: Build) -> None:
    known = known_of(sbm(0))
    learner = learner_of(known, layers=2).eval()
    few = known.with_links(known.links[:, ::2])
    before = learner.encode(few)
    assert not torch.equal(learner.encode(known), before)
    list(learner.train().steps(known, Epoch(1, 0)))
    assert torch.equal(learner.eval().encode(few), before)


def test_scores_do_not_depend_on_order_or_company_and_dropout_is_off(sbm: Build) -> None:
    known = known_of(sbm(0))
    learner = learner_of(known, layers=2, dropout=0.9, input_dropout=0.9).train()
    scorer = learner.scorer(known)
    pairs = torch.combinations(torch.arange(120)).T
    scores = scorer.logits(pairs)
    assert torch.equal(scorer.logits(pairs.flip(0)), scores)
    torch.testing.assert_close(scorer.logits(pairs[:, 5:6]), scores[5:6])
    assert torch.equal(learner.scorer(known).logits(pairs), scores)
    assert learner.training
    assert scores.dtype == torch.float32
    assert not scores.requires_grad
    assert scorer.num_nodes == 120
    assert scorer.factors() is None
    assert scorer.cost_per_pair == learner.decode.operations + 20 * 16


@pytest.mark.parametrize("row_normalised", [False, True])
def test_sparse_features_give_what_dense_ones_give(sbm: Build, row_normalised: bool) -> None:
    known = known_of(sbm(0))
    x = known.features * (known.features > 0.3)
    dense = Known(120, known.links, x)
    sparse = Known(120, known.links, x.to_sparse_coo().coalesce())
    settings = {"layers": 2, "row_normalised": row_normalised, "batch": 300}
    assert losses(dense, **settings) == pytest.approx(losses(sparse, **settings), abs=1e-5)


def test_nodes_without_links_and_nodes_that_join_later_are_scored(sbm: Build) -> None:
    known = known_of(sbm(0))
    learner = learner_of(known)
    larger = Known(123, known.links, torch.cat([known.features, torch.rand(3, 4)]))
    scores = learner.scorer(larger).logits(torch.tensor([[0, 121], [120, 122]]))
    assert scores.isfinite().all()
    nothing = known.with_links(known.links[:, :0])
    assert learner.scorer(nothing).logits(torch.tensor([[0], [1]])).isfinite().all()
    with pytest.raises(FeatureError, match="needs features"):
        learner.scorer(Known(120, known.links))


@pytest.mark.parametrize(
    "changed",
    [
        {"hidden": 8},
        {"layers": 2},
        {"decoder_layers": 3},
        {"row_normalised": True},
        {"input_dropout": 0.5},
        {"dropout": 0.1},
        {"batch": 300},
    ],
)
def test_every_setting_changes_what_is_learned(sbm: Build, changed: dict[str, float]) -> None:
    known = known_of(sbm(0))
    plain = losses(known, batch=10_000)
    assert losses(known, **{"batch": 10_000} | changed) != plain
    assert losses(known, batch=10_000) == plain


def test_it_learns(sbm: Build) -> None:
    graph = sbm(0)
    split = random_split(graph)
    known = Known(graph.num_nodes, split.train, graph.x)
    learner = learner_of(known)
    optimizer = Adam(learner.parameters(), lr=0.01)
    for number in range(1, 31):
        with seeded(0, "epoch", number):
            for loss in learner.steps(known, Epoch(number, 0)):
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    scorer = learner.scorer(known)
    assert auc(scorer.logits(split.test), scorer.logits(split.test_negatives)) > 0.8


def test_published_settings_and_the_search_are_within_range() -> None:
    for graph in ("cora", "citeseer", "pubmed", "photo", "computers"):
        METHOD.settings(**METHOD.authors_settings(graph))
    assert METHOD.authors_settings("pubmed") == {"layers": 2}
    for name, values in METHOD.search.items():
        for value in values:
            METHOD.settings(**{name: value})
    with pytest.raises(ConfigError, match="layers is 0; it must be at least 1"):
        GraphSAGESettings(layers=0)
