from __future__ import annotations

import hashlib

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cgcl.graph import Graph
from cgcl.model import GCNEncoder, draw_views
from cgcl.seeds import stream


def random_problem(n: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = stream(seed, "problem")
    x = torch.rand(n, 5, generator=generator)
    edges = (torch.rand(n, n, generator=generator) < 0.3).triu(1).nonzero().T
    return x, torch.cat([edges, edges.flip(0)], dim=1)


@pytest.mark.parametrize("kind", ["disjoint", "directed"])
def test_propagation_is_that_of_gcnconv_for_symmetric_and_directed_views(cora, kind) -> None:
    from torch_geometric.nn import GCNConv

    view = draw_views(cora.edges, kind, stream(0, "views")).view_1
    encoder = GCNEncoder(cora.num_features, 16).eval()
    conv = GCNConv(cora.num_features, 16)
    with torch.no_grad():
        conv.lin.weight.copy_(encoder.weight.T)
        conv.bias.copy_(encoder.bias.uniform_(-1, 1))
        theirs = torch.nn.functional.elu(conv(cora.x.to_dense(), view.edge_index))
        ours = encoder(cora.x, view.edge_index)
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


@settings(max_examples=50, deadline=None)
@given(st.integers(2, 12), st.integers(0, 50))
def test_renaming_nodes_renames_embeddings_and_nothing_else(n, seed) -> None:
    x, edge_index = random_problem(n, seed)
    encoder = GCNEncoder(5, 4).eval()
    order = torch.randperm(n, generator=stream(seed, "order"))
    place = order.argsort()
    with torch.no_grad():
        plain = encoder(x, edge_index)
        renamed = encoder(x[order], place[edge_index])
    torch.testing.assert_close(renamed, plain[order], atol=1e-6, rtol=1e-5)


def test_sparse_features_give_what_dense_ones_give_and_so_do_their_gradients(cora: Graph) -> None:
    encoder = GCNEncoder(cora.num_features, 8).eval()
    results = []
    for x in (cora.x, cora.x.to_dense()):
        encoder.zero_grad()
        z = encoder(x, cora.edge_index)
        z.square().sum().backward()
        results.append((z.detach(), encoder.weight.grad.clone()))
    torch.testing.assert_close(results[0], results[1], atol=1e-4, rtol=1e-4)


def test_the_backward_pass_gives_the_same_bits_every_time(cora: Graph) -> None:
    encoder = GCNEncoder(cora.num_features, 64)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    hashes = set()
    for _ in range(8):
        encoder.zero_grad()
        encoder(cora.x, cora.edge_index, stream(0, "coins")).square().sum().backward()
        hashes.add(hashlib.sha256(encoder.weight.grad.numpy().tobytes()).hexdigest())
    torch.set_num_threads(before)
    assert len(hashes) == 1
