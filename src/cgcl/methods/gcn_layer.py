"""One graph convolution, for encoders that are more than CGCL's."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cgcl.model import propagate
from cgcl.model.product import product

__all__ = ["GCNLayer"]


class GCNLayer(nn.Module):
    r"""$\hat A X W + b$, with $\hat A$ the normalised adjacency with self-links.

    It is PyTorch Geometric's `GCNConv`, but it takes sparse features, too, and its gradients are
    the same in every run.
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        """Create the weights.

        Args:
            in_channels: Number of columns of what comes in.
            out_channels: Number of columns of what goes out.
        """
        super().__init__()
        self.weight = nn.Parameter(torch.empty(in_channels, out_channels))
        self.bias = nn.Parameter(torch.empty(out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new weights, as `GCNConv` does."""
        nn.init.xavier_uniform_(self.weight)
        nn.init.zeros_(self.bias)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return one row per node, [n, out_channels].

        Args:
            x: One row per node, [n, in_channels], dense or coalesced sparse COO.
            edge_index: Links to pass messages along, int64 [2, e], from row 0 to row 1.
        """
        return propagate(product(x, self.weight), edge_index) + self.bias
