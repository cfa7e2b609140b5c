import gc
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from cgcl.graph import Graph
from cgcl.methods import seal as module
from cgcl.methods import subgraphs
from cgcl.methods.method import Epoch, TrainingGraph
from cgcl.methods.seal import DGCNN, SEAL, Batch, FeatureRows, LabelledSubgraphs, SEALSettings
from cgcl.model.ops import Rows
from cgcl.seeds import seeded
from cgcl.train.engines.plain import PlainEngine

Build = Callable[[int], Graph]


@pytest.fixture
def known(sbm: Build) -> TrainingGraph:
    """The links among half of the nodes."""
    graph = sbm(0)
    assert graph.x is not None
    return TrainingGraph(60, graph.edges[:, (graph.edges < 60).all(dim=0)], graph.x[:60])


def learner_for(known: TrainingGraph, **changed: object) -> SEAL:
    with seeded(0, "weights"):
        return SEAL(known.num_features, SEALSettings(**{"hidden": 8, **changed}))


def train(learner: SEAL, known: TrainingGraph, epochs: int = 1) -> None:
    PlainEngine(learner, known, learner.settings, 0).run(1, epochs)


def some_pairs(known: TrainingGraph) -> Tensor:
    unlinked = known.unlinked.draw(60, torch.Generator().manual_seed(1))
    return torch.cat([known.links[:, :60], unlinked], dim=1)


def test_examples_are_drawn_once_a_run_and_see_all_links(known: TrainingGraph, monkeypatch) -> None:
    asked: list[tuple[Tensor, Tensor]] = []
    kept = LabelledSubgraphs.kept

    def note(known: TrainingGraph, pairs: Tensor, rule: object) -> object:
        asked.append((known.links, pairs))
        return kept(known, pairs, rule)

    monkeypatch.setattr(LabelledSubgraphs, "kept", note)
    learner = learner_for(known)
    train(learner, known, epochs=2)
    train(learner_for(known), known)  # as after an interruption
    assert len(asked) == 2
    assert torch.equal(asked[0][1], asked[1][1])
    links, unlinked = asked[0][1].tensor_split(2, dim=1)
    assert torch.equal(links, known.links)
    codes = known.links[0] * known.num_nodes + known.links[1]
    assert not torch.isin(unlinked.amin(0) * known.num_nodes + unlinked.amax(0), codes).any()
    next(learner.steps(known, Epoch(1, 9)))  # another seed
    next(learner.steps(known.with_links(known.links[:, 1:]), Epoch(1, 9)))  # another graph
    assert len(asked) == 4
    assert not torch.equal(asked[2][1], asked[0][1])
    # A share of the links is an even choice, in the order of the graph.
    next(learner_for(known, share=0.25).steps(known, Epoch(1, 0)))
    seen, pairs = asked[4]
    assert torch.equal(seen, known.links)
    count = round(0.25 * known.links.shape[1])
    assert pairs.shape[1] == 2 * count
    chosen = torch.isin(codes, pairs[0, :count] * known.num_nodes + pairs[1, :count])
    assert chosen.sum() == count
    assert min(part.float().mean() for part in chosen.tensor_split(4)) > 0.1


def test_small_blocks_change_nothing(known: TrainingGraph, monkeypatch) -> None:
    learner, pairs = learner_for(known), some_pairs(known)
    train(learner, known)
    scorer = learner.scorer(known)
    whole = scorer.logits(pairs)
    monkeypatch.setattr(module, "_SCORED_NODES", 50)
    monkeypatch.setattr(subgraphs, "_UNPACKED", 500)
    assert torch.equal(scorer.logits(pairs), whole)


def test_steps_are_the_same_however_many_are_fetched_together(
    known: TrainingGraph, monkeypatch
) -> None:
    found = []
    for fetched in (2**20, 300, 1):
        monkeypatch.setattr(subgraphs, "_FETCHED", fetched)
        learner = learner_for(known)
        found.append(PlainEngine(learner, known, learner.settings, 0).run(1, 2))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("size", [1, 2, 5])
def test_the_nodes_with_the_largest_values_come_first(size: int) -> None:
    """Two graphs of three nodes and one; of equal ones the earlier, and 4 for no node."""
    value, owner = torch.tensor([0.1, 0.7, 0.7, -0.9]), torch.tensor([0, 0, 0, 1])
    kept = module.sort_pooled(value, owner, torch.tensor([0, 3, 4]), size)
    assert kept.tolist() == [[1, 2, 0, 4, 4][:size], [3, 4, 4, 4, 4][:size]]


@pytest.mark.parametrize("per_fetched", [0, 8])
def test_rows_of_features_times_weights_and_their_gradient(per_fetched: int, monkeypatch) -> None:
    monkeypatch.setattr(module, "_PER_FETCHED", per_fetched)  # few rows are fetched, or all are
    x = torch.tensor([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0], [0.0, 0.0, 0.0]])
    nodes, upstream = torch.tensor([1, 0, 1, 2]), torch.rand(4, 5)
    for features in (FeatureRows(x), FeatureRows(x.to_sparse_coo().coalesce())):
        weight = torch.rand(3, 5, requires_grad=True)
        product = features.times(nodes, weight)
        torch.testing.assert_close(product, x[nodes] @ weight)
        product.backward(upstream)
        torch.testing.assert_close(weight.grad, x[nodes].T @ upstream)


def test_a_graph_that_is_only_scored_leaves_nothing_behind(known: TrainingGraph) -> None:
    learner = learner_for(known)
    train(learner, known)
    other = TrainingGraph(known.num_nodes, known.links[:, 1:], known.x)
    learner.scorer(other).logits(some_pairs(known))
    assert len(learner._asked) == 1
    del other
    gc.collect()
    assert len(learner._asked) == 0


def test_features_are_asked_for_only_if_they_are_used(known: TrainingGraph) -> None:
    bare = replace(known, x=None)
    labels_only = learner_for(bare, use_features=False)
    train(labels_only, bare)
    assert labels_only.scorer(bare).logits(some_pairs(bare)).std() > 0


def test_the_dense_layer_fits_the_largest_subgraphs() -> None:
    for told, most in (((1, 30), 32), ((1, 3), 10), ((1, 0), 256), ((5, 100), 256)):
        assert SEALSettings(hops=told[0], nodes_per_hop=told[1]).most_sorted == most


def random_batch() -> Batch:
    chosen = torch.rand(40, 40, generator=torch.Generator().manual_seed(0)) < 0.15
    links = chosen.triu(1).nonzero().T
    around = SEALSettings(nodes_per_hop=0)
    stored = LabelledSubgraphs.kept(TrainingGraph(40, links), links[:, :20], around)
    return stored.fetched(torch.arange(20))


def links_of(rows: Rows) -> Tensor:
    """Return row and column of each entry."""
    size = torch.cat([rows.start, torch.tensor([rows.index.numel()])]).diff()
    return torch.stack([torch.repeat_interleave(size), rows.index])


def as_published(net: DGCNN, batch: Batch, x: Tensor) -> Tensor:
    """The same network with PyTorch Geometric's layers, as its authors put them together."""
    from torch_geometric.nn import GCNConv, SortAggregation

    edge_index = links_of(batch.adjacency)
    edge_index = edge_index[:, edge_index[0] != edge_index[1]]
    label = net.label.index_select(0, batch.labels)
    assert net.features is not None
    first = torch.cat([net.weights[0], net.features])
    h, outputs = torch.cat([label, x], dim=1), []
    for weight, bias in zip([first, *net.weights[1:]], net.biases, strict=True):
        layer = GCNConv(*weight.shape)
        del layer.lin.weight, layer.bias  # no parameters of its own: gradients reach ours
        layer.lin.weight, layer.bias = weight.T, bias
        h = torch.tanh(layer(h, edge_index))
        outputs.append(h)
    h = torch.cat(outputs, dim=1)
    size, width = net.size, h.shape[1]
    h = SortAggregation(size)(h, batch.owner).unsqueeze(1)  # [b, 1, k * width]
    h = functional.relu(
        functional.conv1d(h, net.per_node.weight.unsqueeze(1), net.per_node.bias, stride=width)
    )
    h = functional.relu(net.per_five(functional.max_pool1d(h, 2))).flatten(1)
    places = size // 2 - 4
    dense = torch.stack([net.dense[at] for at in range(places)], dim=2).flatten(1)
    return net.score(functional.relu(functional.linear(h, dense, net.dense_bias))).squeeze(1)


@pytest.mark.parametrize(("layers", "size"), [(2, 14), (3, 10), (1, 29)])
def test_it_is_the_network_that_its_authors_describe(layers: int, size: int) -> None:
    batch = random_batch()
    with seeded(0, "weights"):
        net, x = DGCNN(5, 6, layers, most_sorted=30).eval(), torch.rand(40, 5)[batch.nodes]
    net.choose_sorted_nodes(torch.tensor([size]))
    assert net.features is not None
    first = net.label_products().index_select(0, batch.labels) + x @ net.features
    found, expected = net(batch, first, net.size), as_published(net, batch, x)
    assert found.std() > 1e-3  # not the same for all
    torch.testing.assert_close(found, expected)
    names, weights = zip(*net.named_parameters(), strict=True)
    gradients = (
        torch.autograd.grad(o.sum(), weights, allow_unused=True) for o in (found, expected)
    )
    for name, one, other in zip(names, *gradients, strict=True):
        if one is None:  # a matrix beyond k
            assert name.startswith("dense.")
            assert other is None
        else:
            torch.testing.assert_close(one, other, msg=name)


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([3, 4, 5], 10),  # never less than ten
        ([12, 20, 14, 28, 16], 16),  # 60 % of five is the third smallest
        ([12, 20, 14, 28], 20),  # 2.4 of four: the third smallest
        ([100] * 5, 30),  # never more than the network is made for
    ],
)
def test_the_number_of_sorted_nodes_is_the_60th_percentile(sizes: list[int], expected: int) -> None:
    net = DGCNN(0, 4, 1, most_sorted=30)
    assert int(net.sorted_nodes) == 0
    net.choose_sorted_nodes(torch.tensor(sizes))
    assert int(net.sorted_nodes) == expected
    # As PyTorch draws the weights of a layer of that many inputs.
    inputs = 32 * (expected // 2 - 4)
    largest = torch.cat([weight.flatten() for weight in net.dense]).abs().max().item()
    assert largest == pytest.approx(inputs**-0.5, rel=0.02)


def test_first_weights_are_drawn_as_pytorch_geometric_draws_them() -> None:
    net = DGCNN(500, 16, 2, most_sorted=20)
    assert net.features is not None
    together = torch.cat([net.weights[0].flatten(), net.features.flatten()])
    assert together.abs().max().item() == pytest.approx((6 / (16 + 500 + 16)) ** 0.5, rel=0.01)
    assert net.weights[1].abs().max().item() == pytest.approx((6 / 32) ** 0.5, rel=0.05)
    assert all((bias == 0).all() for bias in net.biases)
    assert net.label.std().item() == pytest.approx(1, rel=0.05)
