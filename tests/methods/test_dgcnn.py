from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from cgcl.methods.dgcnn import DGCNN, Rows, row_sums, sort_pooled
from cgcl.methods.labelled import Batch, LabelledSubgraphs, SubgraphRule


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CGCL_CACHE", str(tmp_path))


def random_batch(num_pairs: int = 20) -> Batch:
    generator = torch.Generator().manual_seed(0)
    ends = torch.randint(40, (2, 120), generator=generator)
    links = torch.stack([ends.min(0).values, ends.max(0).values])
    links = links[:, links[0] < links[1]].unique(dim=1)
    stored = LabelledSubgraphs.kept(links, 40, links[:, :num_pairs], SubgraphRule(1, 0))
    return stored.batch(torch.arange(num_pairs))


def network(num_features: int = 0, layers: int = 2, sizes: int = 14) -> DGCNN:
    torch.default_generator.manual_seed(0)
    made = DGCNN(num_features, 6, layers, most_sorted=30).eval()
    made.choose_sorted_nodes(torch.tensor([sizes]))
    return made


def test_sort_pooling_by_hand() -> None:
    """Two graphs of four and two nodes, the three largest of each by the last entry."""
    h = torch.tensor([[1.0, 0.3], [2.0, 0.9], [3.0, 0.3], [4.0, 0.5], [5.0, -1.0], [6.0, 0.0]])
    owner, start = torch.tensor([0, 0, 0, 0, 1, 1]), torch.tensor([0, 4, 6])
    assert sort_pooled(h, owner, start, 3).tolist() == [
        [[2.0, pytest.approx(0.9)], [4.0, 0.5], [1.0, pytest.approx(0.3)]],  # 3 lost to 1: later
        [[6.0, 0.0], [5.0, -1.0], [0.0, 0.0]],
    ]


def test_a_sparse_product_and_its_gradient() -> None:
    dense = torch.tensor([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0]], dtype=torch.float64)
    rows = Rows(
        torch.tensor([0, 1]), torch.tensor([1, 0, 2]), torch.tensor([2.0, 1.0, 3.0]).double()
    )
    transposed = Rows(
        torch.tensor([0, 1, 2]), torch.tensor([1, 0, 1]), torch.tensor([1.0, 2.0, 3.0]).double()
    )
    h = torch.rand(3, 4, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(row_sums(h, rows, transposed), dense @ h)
    assert torch.autograd.gradcheck(lambda h: row_sums(h, rows, transposed), (h,))


def as_published(net: DGCNN, batch: Batch, x: Tensor) -> Tensor:
    """The same network with PyTorch Geometric's layers, as its authors put them together."""
    from torch_geometric.nn import GCNConv, SortAggregation

    here = torch.arange(batch.nodes.numel()).repeat_interleave(batch.degree)
    edge_index = torch.stack([here, batch.neighbours])
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
    size, width = int(net.sorted_nodes), h.shape[1]
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
    batch, x = random_batch(), torch.rand(40, 5)
    net = network(5, layers, size)
    assert net.features is not None
    x = x[batch.nodes]
    found, expected = net(batch, x @ net.features), as_published(net, batch, x)
    assert found.std() > 1e-3  # not the same for all
    torch.testing.assert_close(found, expected)
    names = [name for name, _ in net.named_parameters()]
    gradients = torch.autograd.grad(found.sum(), list(net.parameters()), allow_unused=True)
    wanted = torch.autograd.grad(expected.sum(), list(net.parameters()), allow_unused=True)
    for name, one, other in zip(names, gradients, wanted, strict=True):
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


def test_dropout_is_on_only_while_training() -> None:
    batch, net = random_batch(), network()
    assert torch.equal(net(batch, None), net(batch, None))
    net.train()
    assert not torch.equal(net(batch, None), net(batch, None))
