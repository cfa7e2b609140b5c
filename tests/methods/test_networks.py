"""Networks on embeddings by hand, and beside PyTorch Geometric's layers."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.nn import GCNConv, SAGEConv

from cgcl.graph import Graph, adjacency
from cgcl.graph.pairs import encode
from cgcl.methods import scoring
from cgcl.methods.cgcl import CrossViewLearner
from cgcl.methods.method import Epoch, TrainingGraph, hidden_links, masked_batches
from cgcl.methods.networks import (
    NCN,
    FeaturesMLP,
    FeaturesMLPSettings,
    GCNLayer,
    GraphSAGE,
    GraphSAGESettings,
    MaskedGCN,
    MaskedGCNSettings,
    NCNSettings,
    ProductDecoder,
    SAGELayer,
    row_shares,
)
from cgcl.methods.settings import CGCLSettings
from cgcl.model import propagate, symmetric
from cgcl.seeds import seeded

LINKS = torch.tensor([[0, 0, 1, 1, 2, 3], [1, 2, 2, 3, 3, 4]])


def known_of(graph: Graph) -> TrainingGraph:
    return TrainingGraph(graph.num_nodes, graph.edges, graph.x)


def ring(count: int) -> TrainingGraph:
    """As many links as nodes."""
    nodes = torch.arange(count)
    return TrainingGraph(count, torch.stack([nodes, (nodes + 1) % count]).sort(dim=0).values)


def codes(pairs: torch.Tensor, num_nodes: int) -> list[int]:
    return encode(*pairs, num_nodes).tolist()


@settings(max_examples=40)
@given(
    st.integers(5, 60), st.floats(0.01, 0.99), st.integers(1, 70), st.integers(0, 99), st.booleans()
)
def test_every_link_is_either_seen_or_asked_for(count, share, size, seed, all_of_them) -> None:
    known, epoch = ring(count), Epoch(1, seed)
    all_links = codes(known.links, count)
    hiding = masked_batches(known, epoch, size) if all_of_them else None
    batches = list(hiding or hidden_links(known, epoch, share, size))
    targets = [code for batch in batches for code in codes(batch.targets, count)]
    for batch in batches:
        own = codes(batch.targets, count) if all_of_them else targets
        seen = codes(batch.seen, count)
        assert sorted(seen + own) == sorted(all_links)
        assert not set(codes(batch.negatives, count)) & set(all_links)
        assert batch.negatives.shape == batch.targets.shape
        assert 0 < batch.targets.shape[1] <= size
        assert batch.seen.shape[1]
    expected = count if all_of_them else min(max(round(share * count), 1), count - 1)
    assert len(targets) == len(set(targets)) == expected


def test_epochs_hide_other_links_with_equal_chances_and_the_same_epoch_the_same() -> None:
    known, counts = ring(10), torch.zeros(10)
    every = torch.tensor(codes(known.links, 10))
    for number in range(1, 401):
        (batch,) = hidden_links(known, Epoch(number, 0), 0.3, 100)
        counts += torch.isin(every, torch.tensor(codes(batch.targets, 10)))
    # 120 are expected of 400, with a deviation of 9.
    assert 80 < counts.min() <= counts.max() < 160
    (again,) = hidden_links(known, Epoch(400, 0), 0.3, 100)
    assert torch.equal(batch.targets, again.targets)
    assert torch.equal(batch.negatives, again.negatives)


def test_a_graph_convolution_is_pytorch_geometrics_with_its_gradients() -> None:
    with seeded(0, "test"):
        x, ours, theirs = (torch.rand(6, 4) < 0.5).float(), GCNLayer(4, 3), GCNConv(4, 3)
    assert (ours.bias == 0).all()
    assert 0.7 * (6 / 7) ** 0.5 < ours.weight.abs().max() <= (6 / 7) ** 0.5
    with torch.no_grad():
        theirs.bias.copy_(ours.bias.copy_(torch.tensor([0.1, 0.2, 0.3])))
        theirs.lin.weight.copy_(ours.weight.T)
    along = {ours: TrainingGraph(6, LINKS), theirs: symmetric(LINKS)}
    for layer, links in along.items():
        layer(x, links).square().sum().backward()
    for features in (x, x.to_sparse_coo().coalesce()):
        torch.testing.assert_close(ours(features, along[ours]), theirs(x, along[theirs]))
    torch.testing.assert_close(ours.weight.grad, theirs.lin.weight.grad.T)
    torch.testing.assert_close(ours.bias.grad, theirs.bias.grad)


@pytest.mark.parametrize("sparse", [False, True])
def test_a_layer_is_pytorch_geometrics_to_its_first_weights(sbm, sparse: bool) -> None:
    graph = sbm(0)
    x = graph.x * (graph.x > 0.3)
    with seeded(0, "weights"):
        ours = SAGELayer(4, 7)
    with seeded(0, "weights"):
        theirs = SAGEConv(4, 7)
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    for name, weight in theirs.state_dict().items():
        assert torch.equal(ours.state_dict()[name], weight)
    wanted = theirs(x, symmetric(graph.edges))
    found = ours(x.to_sparse_coo().coalesce() if sparse else x, known_of(graph))
    torch.testing.assert_close(found, wanted)
    for outcome in (found, wanted):
        outcome.square().sum().backward()
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-4, atol=1e-4)


def test_a_relu_stands_between_two_layers_and_none_at_the_end(sbm) -> None:
    known = known_of(sbm(0))
    learner = GraphSAGE(4, GraphSAGESettings(hidden=16, layers=2)).eval()
    first, second = learner.convs
    expected = second(torch.relu(first(known.features, known)), known)
    torch.testing.assert_close(learner.encode(known), expected)
    assert (expected < 0).any()


def test_the_decoder_is_a_network_on_the_product_as_by_hand() -> None:
    """W_2 ReLU(W_1 (z_u * z_v) + b_1) + b_2."""
    decode = ProductDecoder(2, layers=2, dropout=0.5).eval()
    weights = [[1.0, -1.0], [2.0, 0.0]], [0.0, 1.0], [[3.0, 0.5]], [-1.0]
    named = zip(decode.state_dict(), map(torch.tensor, weights), strict=True)
    decode.load_state_dict(dict(named))
    z = torch.tensor([[1.0, 2.0], [3.0, 1.0], [-1.0, 0.0]])
    # (3, 2) -> (1, 7); (-1, 0) -> (0, 0); (-3, 0) -> (0, 0)
    expected = [3.0 + 3.5 - 1.0, -1.0, -1.0]
    assert decode(z, torch.tensor([[0, 0, 1], [1, 2, 2]])).tolist() == pytest.approx(expected)
    assert decode.operations == 2 * 2 * (2 * 1 + 1)
    assert ProductDecoder(8, layers=3, dropout=0.5).operations == 2 * 8 * (8 * 2 + 1)


def test_rows_are_divided_by_their_magnitudes() -> None:
    x = torch.tensor([[1.0, -3.0], [0.0, 0.0], [2.0, 0.0]])
    expected = torch.tensor([[0.25, -0.75], [0.0, 0.0], [1.0, 0.0]])
    assert torch.equal(row_shares(x), expected)
    assert torch.equal(row_shares(x.to_sparse_coo().coalesce()).to_dense(), expected)


def test_the_gcn_is_the_network_of_cgcl(sbm) -> None:
    known = known_of(sbm(0))
    learner = MaskedGCN(4, MaskedGCNSettings(hidden=16))
    other = CrossViewLearner(4, CGCLSettings(hidden=16))
    theirs = other.state_dict().values()
    learner.load_state_dict(dict(zip(learner.state_dict(), theirs, strict=True)))
    pairs = torch.combinations(torch.arange(120)).T
    found, wanted = (own.scorer(known).logits(pairs) for own in (learner, other))
    torch.testing.assert_close(found, wanted)


def test_a_score_by_features_is_that_of_the_decoder_on_each_end_alone(sbm) -> None:
    """z = ELU(x W + b), whatever links there are."""
    known, pairs = known_of(sbm(0)), torch.combinations(torch.arange(120)).T
    learner = FeaturesMLP(4, FeaturesMLPSettings(hidden=16)).eval()
    with torch.no_grad():
        z = torch.nn.functional.elu(known.features @ learner.weight + learner.bias.fill_(0.1))
        expected = learner.decode(z, pairs)
    torch.testing.assert_close(learner.scorer(known).logits(pairs), expected)


def learner_of(known: TrainingGraph, **settings) -> NCN:
    with seeded(0, "weights"):
        return NCN(known.features.shape[1], NCNSettings(**{"hidden": 16} | settings))


def test_a_score_is_made_of_the_product_and_the_common_neighbours() -> None:
    """MLP(f(h_0 * h_1) + beta g(h_2 + r(h_2) + h_3 + r(h_3))) for nodes that share 2 and 3."""
    x = torch.rand(5, 3, generator=torch.Generator().manual_seed(0))
    known = TrainingGraph(5, torch.tensor([[0, 1, 0, 1, 0], [2, 2, 3, 3, 4]]), x)
    learner = learner_of(known, hidden=4, head_layers=2).eval()
    decode, h = learner.decode, learner.encode(known)
    scorer = learner.scorer(known)
    with torch.no_grad():
        decode.weight_of_shared.fill_(0.7)
        shared = h[2] + decode.refine(h[2]) + h[3] + decode.refine(h[3])
        for one, other, sums in ((0, 1, shared), (1, 4, torch.zeros(4))):
            both = decode.from_product(h[one] * h[other]) + 0.7 * decode.from_shared(sums)
            found = scorer.logits(torch.tensor([[one], [other]]))
            torch.testing.assert_close(found, decode.last(decode.head(both)))


def test_training_and_scoring_agree_where_nothing_is_dropped_in_any_blocks(
    sbm, monkeypatch
) -> None:
    known = known_of(sbm(0))
    learner = learner_of(known).eval()
    scorer, pairs = learner.scorer(known), torch.combinations(torch.arange(120)).T[:, ::9]
    trained, whole = learner.logits(learner.encode(known), known, pairs), scorer.logits(pairs)
    torch.testing.assert_close(trained.detach(), whole)
    monkeypatch.setattr(adjacency, "_BUDGET", 40)
    monkeypatch.setattr(scoring, "block_size", lambda *_: 7)
    torch.testing.assert_close(scorer.logits(pairs), whole)
    assert scorer.logits(pairs[:, :0]).shape == (0,)


def test_embeddings_are_a_weighted_sum_of_propagations(sbm) -> None:
    known = known_of(sbm(0))
    learner = learner_of(known, layers=2).eval()
    with torch.no_grad():
        assert learner.shares.tolist() == [0.5, 0.5]
        learner.shares.copy_(torch.tensor([2.0, -3.0]))
        projected = learner.project(known.features)
        once = propagate(projected, symmetric(known.links))
        twice = propagate(once, symmetric(known.links))
        torch.testing.assert_close(learner.encode(known), 2 * once - 3 * twice)


def test_common_neighbours_are_left_out_at_the_rate_asked_for(sbm) -> None:
    known = known_of(sbm(0))
    counts = []
    for rate in (0.0, 0.6):
        learner, sums = learner_of(known, neighbour_dropout=rate, decoder_dropout=0.0), []
        learner.decode.refined = lambda h: torch.ones_like(h)
        learner.decode.register_forward_pre_hook(lambda _, given, to=sums: to.append(given[2]))
        with seeded(0, "epoch", 1):
            list(learner.steps(known, Epoch(1, 0)))
        counts.append(sum(shared[:, 0].sum().item() for shared in sums))
    assert counts[1] / counts[0] == pytest.approx(0.4, abs=0.03)
