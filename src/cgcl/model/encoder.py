"""The shared encoder: one graph convolution."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from cgcl.model.ops import dropout, sparse, spmm


class GCNEncoder(nn.Module):
    r"""Node embeddings from features and one view's links.

    $Z_v = \mathrm{ELU}(\hat A_v X W^{(1)} + b)$   (Eq. 5), with $\hat A_v$ the normalised
    adjacency of Eq. 1. Dropout on the features and the bias are not in the paper; both are in
    its authors' code.
    """

    def __init__(self, in_channels: int, hidden_channels: int, input_dropout: float = 0.8) -> None:
        """Create the weights.

        Args:
            in_channels: Number of features per node, d.
            hidden_channels: Width of the embeddings, d_v.
            input_dropout: Chance of a feature to be dropped while training.
        """
        super().__init__()
        self.input_dropout = input_dropout
        self.weight = nn.Parameter(torch.empty(in_channels, hidden_channels))  # W^(1), [d, d_v]
        self.bias = nn.Parameter(torch.empty(hidden_channels))
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw new weights (Glorot, as in the GCN paper)."""
        nn.init.xavier_uniform_(self.weight, generator=generator)
        nn.init.zeros_(self.bias)

    def forward(
        self, x: Tensor, edge_index: Tensor, generator: torch.Generator | None = None
    ) -> Tensor:
        """Return the embeddings Z, [n, d_v].

        Args:
            x: Features, [n, d], dense or coalesced sparse COO.
            edge_index: Links to pass messages along, int64 [2, e], from row 0 to row 1.
            generator: Source of the dropout coins.
        """
        return self.along(x, lambda h: propagate(h, edge_index), generator)

    def along(
        self, x: Tensor, send: Callable[[Tensor], Tensor], generator: torch.Generator | None = None
    ) -> Tensor:
        """Return the embeddings of the nodes that something arrives at, [any, d_v].

        Args:
            x: Features of the nodes that are heard, dense or coalesced sparse COO.
            send: Returns what arrives, from a row for each of these.
            generator: Source of the dropout coins.
        """
        if self.training:
            x = dropout(x, self.input_dropout, generator)
        h = spmm(x, self.weight)  # [n, d_v]
        return functional.elu(send(h) + self.bias)


def propagate(h: Tensor, edge_index: Tensor) -> Tensor:
    r"""Return $\tilde D^{-1/2} \tilde A \tilde D^{-1/2} H$ with $\tilde A = A + I$   (Eq. 1).

    Where `edge_index` holds a link in one direction only, the degree counts what arrives at a
    node, as in PyTorch Geometric's `GCNConv`.

    Args:
        h: One row per node, [n, any].
        edge_index: Links without self-links, int64 [2, e], from row 0 to row 1.
    """
    num_nodes = h.shape[0]
    loops = torch.arange(num_nodes, device=h.device)
    source = torch.cat([edge_index[0], loops])
    target = torch.cat([edge_index[1], loops])
    scale = torch.bincount(target).to(h.dtype).rsqrt()  # D~^(-1/2), [n]
    # index_select, never h[index]: the backward pass of the latter is not deterministic.
    weight = scale.index_select(0, source) * scale.index_select(0, target)
    adjacency = sparse(torch.stack([target, source]), weight, (num_nodes, num_nodes))
    return spmm(adjacency, h)
