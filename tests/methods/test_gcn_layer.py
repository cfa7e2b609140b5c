from __future__ import annotations

import torch
from torch_geometric.nn import GCNConv

from cgcl.methods.gcn_layer import GCNLayer
from cgcl.model import symmetric
from cgcl.seeds import seeded

LINKS = torch.tensor([[0, 0, 1, 1, 2, 3], [1, 2, 2, 3, 3, 4]])


def test_it_is_the_layer_of_pytorch_geometric_with_its_gradients() -> None:
    with seeded(0, "test"):
        x = torch.rand(6, 4)
        ours, theirs = GCNLayer(4, 3), GCNConv(4, 3)
    with torch.no_grad():
        ours.bias.copy_(torch.tensor([0.1, 0.2, 0.3]))
        theirs.bias.copy_(ours.bias)
        theirs.lin.weight.copy_(ours.weight.T)
    edge_index = symmetric(LINKS)
    for layer in (ours, theirs):
        layer(x, edge_index).square().sum().backward()
    torch.testing.assert_close(ours(x, edge_index), theirs(x, edge_index))
    torch.testing.assert_close(ours.weight.grad, theirs.lin.weight.grad.T)
    torch.testing.assert_close(ours.bias.grad, theirs.bias.grad)


def test_sparse_features_give_what_dense_ones_give() -> None:
    with seeded(0, "test"):
        layer = GCNLayer(4, 3)
        x = (torch.rand(6, 4) < 0.5).float()
    edge_index = symmetric(LINKS)
    torch.testing.assert_close(
        layer(x.to_sparse_coo().coalesce(), edge_index), layer(x, edge_index)
    )


def test_new_weights_start_as_those_of_pytorch_geometric() -> None:
    with seeded(0, "test"):
        layer = GCNLayer(300, 100)
        first = layer.weight.clone()
        layer.reset_parameters()
    bound = (6 / 400) ** 0.5
    assert 0.95 * bound < first.abs().max() <= bound
    assert not torch.equal(first, layer.weight)
    assert (layer.bias == 0).all()
