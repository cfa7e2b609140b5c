"""The shared decoder, a product of two embeddings, then two layers; and the loss for one view."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from cgcl.model.ops import dropout

Product = Literal["hadamard", "inner"]
LastLayer = Literal["linear", "relu"]
Targets = Literal["hard", "sigmoid"]


class PairDecoder(nn.Module):
    r"""A logit for each pair of nodes.

    $\mathrm{MLP}(h_{ij}) = W_2\,\mathrm{ReLU}(W_1 h_{ij} + b_1) + b_2$   (Eq. 7), where
    $h_{ij} = z_i \odot z_j$ as in the authors' code. Eq. 6 taken by the letter, the inner product
    $h_{ij} = z_i^\top z_j$, is `product="inner"`; a ReLU on the last layer too, as the text has
    it, is `last_layer="relu"`. A pair's logit does not depend on its order, to the last bit.
    """

    def __init__(
        self,
        hidden_channels: int,
        decoder_dropout: float = 0.2,
        product: Product = "hadamard",
        last_layer: LastLayer = "linear",
    ) -> None:
        """Create the weights.

        Args:
            hidden_channels: Width of the embeddings, d_v; the hidden layer has half of it.
            decoder_dropout: Chance of an entry of the product to be dropped while training.
            product: How two embeddings are combined.
            last_layer: Whether a ReLU follows the last layer.
        """
        super().__init__()
        self.decoder_dropout = decoder_dropout
        self.product = product
        self.last_layer = last_layer
        self.layer_1 = nn.Linear(1 if product == "inner" else hidden_channels, hidden_channels // 2)
        self.layer_2 = nn.Linear(hidden_channels // 2, 1)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw new weights, uniform in +-1/sqrt(inputs) as torch's linear layers start."""
        for layer in (self.layer_1, self.layer_2):
            bound = 1 / math.sqrt(layer.in_features)
            nn.init.uniform_(layer.weight, -bound, bound, generator=generator)
            nn.init.uniform_(layer.bias, -bound, bound, generator=generator)

    def pair_features(self, z: Tensor, pairs: Tensor) -> Tensor:
        """Combine the embeddings of each pair: H, [p, d_v] or [p, 1]   (Eq. 6)."""
        # index_select, never z[index]: the backward pass of the latter is not deterministic.
        h = z.index_select(0, pairs[0]) * z.index_select(0, pairs[1])
        return h.sum(dim=1, keepdim=True) if self.product == "inner" else h

    def forward(self, z: Tensor, pairs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Return one logit per pair, [p]   (Eq. 6-7).

        Args:
            z: Embeddings, [n, d_v].
            pairs: Node numbers, int64 [2, p].
            generator: Source of the dropout coins.
        """
        h = self.pair_features(z, pairs)
        if self.training:
            h = dropout(h, self.decoder_dropout, generator)
        logits = self.layer_2(torch.relu(self.layer_1(h))).squeeze(1)
        return torch.relu(logits) if self.last_layer == "relu" else logits


def consistency_loss(positive: Tensor, negative: Tensor, targets: Targets = "hard") -> Tensor:
    r"""Return $L_v$, the binary cross-entropy between a view and its reconstruction   (Eq. 8).

    Eq. 8 sums over all $n^2$ entries; the text and the code around it score the view's links and
    an equal number of unlinked pairs. The mean over each of the two is taken and added.

    Args:
        positive: Logits of the hidden view's links, [p].
        negative: Logits of sampled unlinked pairs, any number.
        targets: `hard` asks for 1 and 0. `sigmoid` follows the letter of Eq. 8, which applies
            the sigmoid to the adjacency entries too and so asks for 0.731 and 0.5.
    """
    wanted_positive, wanted_negative = torch.ones_like(positive), torch.zeros_like(negative)
    if targets == "sigmoid":
        wanted_positive, wanted_negative = wanted_positive.sigmoid(), wanted_negative.sigmoid()
    return functional.binary_cross_entropy_with_logits(
        positive, wanted_positive
    ) + functional.binary_cross_entropy_with_logits(negative, wanted_negative)
