"""The yardstick "plain PyG": CGCL as a user would write it from the paper.

`GCNConv` on dense features, `negative_sampling`, eager autograd, torch's Adam. Every direction of
every link is an entry with a coin of its own; each half is encoded in turn, and every entry of the
other half is scored with as many counter-examples. Nothing here is tuned for speed, nor against it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import GCNConv
from torch_geometric.utils import negative_sampling

__all__ = ["PlainModel", "plain_epoch", "plain_optimizer"]


class PlainModel(nn.Module):
    """One graph convolution, then a decoder on the product of two embeddings."""

    def __init__(self, num_features: int, hidden: int = 512) -> None:
        """Create the layers.

        Args:
            num_features: Number of features per node.
            hidden: Width of the embeddings, d_v.
        """
        super().__init__()
        self.conv = GCNConv(num_features, hidden)
        self.layer_1 = nn.Linear(hidden, hidden // 2)
        self.layer_2 = nn.Linear(hidden // 2, 1)

    def encode(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return the embeddings of all nodes, [n, hidden]."""
        x = functional.dropout(x, 0.8, training=self.training)
        return functional.elu(self.conv(x, edge_index))

    def decode(self, z: Tensor, pairs: Tensor) -> Tensor:
        """Return a logit for each pair, [p]."""
        h = functional.dropout(z[pairs[0]] * z[pairs[1]], 0.2, training=self.training)
        return self.layer_2(functional.relu(self.layer_1(h))).squeeze(1)


def plain_optimizer(model: PlainModel) -> torch.optim.Optimizer:
    """Return torch's Adam with the settings of the `paper` preset."""
    return torch.optim.Adam(model.parameters(), lr=0.005, weight_decay=1e-5)


def plain_epoch(
    model: PlainModel, optimizer: torch.optim.Optimizer, x: Tensor, edge_index: Tensor
) -> list[float]:
    """Run one epoch of two steps and return the two losses.

    Args:
        model: The network.
        optimizer: What changes its weights.
        x: Dense features, [n, d].
        edge_index: Both directions of every link to learn from, int64 [2, 2m], on the device of x.
    """
    model.train()
    coin = torch.rand(edge_index.shape[1], device=edge_index.device) < 0.5
    view_1, view_2 = edge_index[:, coin], edge_index[:, ~coin]
    losses = []
    for seen, hidden in ((view_1, view_2), (view_2, view_1)):
        optimizer.zero_grad()
        z = model.encode(x, seen)
        unlinked = negative_sampling(
            edge_index, num_nodes=x.shape[0], num_neg_samples=hidden.shape[1]
        )
        positive, negative = model.decode(z, hidden), model.decode(z, unlinked)
        loss = functional.binary_cross_entropy_with_logits(
            positive, torch.ones_like(positive)
        ) + functional.binary_cross_entropy_with_logits(negative, torch.zeros_like(negative))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
