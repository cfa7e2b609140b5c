"""S2GAE: hidden links, reconstructed from all layers of the encoder (Tan et al., 2023)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from cgcl.methods.gcn_layer import GCNLayer
from cgcl.methods.hidden_links import hidden_links
from cgcl.methods.method import Epoch, Known, Learner, Method
from cgcl.methods.scoring import EmbeddingScorer, evaluating
from cgcl.methods.settings import TrainedSettings
from cgcl.model import consistency_loss, symmetric
from cgcl.settings import Range

__all__ = ["METHOD", "S2GAE", "CrossCorrelationDecoder", "S2GAESettings"]


@dataclass(frozen=True)
class S2GAESettings(TrainedSettings):
    """The settings of S2GAE, as its authors predict links with it."""

    evaluate_every: int = 1
    """Epochs between two measurements on the validation links."""
    clip: float = 1.0
    """Longest gradient that a step may follow; longer ones are shortened. 0 for no limit."""
    hidden: int = 128
    """Width of each graph convolution."""
    layers: int = 2
    """Number of graph convolutions."""
    decoder_hidden: int = 256
    """Width of the decoder's hidden layer."""
    dropout: float = 0.5
    """Chance of an entry to be dropped between two layers in a training step."""
    mask: float = 0.7
    """Share of the links that an epoch hides and predicts from the others."""
    batch: int = 65536
    """How many hidden links a step predicts at most."""

    RANGES: ClassVar[Mapping[str, Range]] = {
        "hidden": Range(low=1, high=65536),
        "layers": Range(low=1, high=8),
        "decoder_hidden": Range(low=1, high=65536),
        "dropout": Range(low=0, below=1),
        "mask": Range(above=0, below=1),
        "batch": Range(low=1, high=2**31),
    }


class S2GAE(Learner):
    r"""Hides most links and reconstructs them from what every layer says of their ends.

    $H^{(0)} = X$, $H^{(k)} = \mathrm{ReLU}(\hat A_{seen} H^{(k-1)} W_k + b_k)$; the decoder sees
    the products of all layers of one end with all layers of the other.

    It follows the authors with three differences: the decoder's dropout is off when pairs are
    scored; no hidden link can be drawn as a counter-example; and a pair's score does not depend
    on the order of its ends.
    """

    def __init__(self, num_features: int, settings: S2GAESettings) -> None:
        """Create the weights.

        Args:
            num_features: Number of features per node, d.
            settings: Widths, dropout, and what is hidden.
        """
        super().__init__()
        self._settings = settings
        widths = [num_features] + [settings.hidden] * settings.layers
        self.convolve = nn.ModuleList(GCNLayer(before, after) for before, after in pairwise(widths))
        self.decode = CrossCorrelationDecoder(
            settings.layers, settings.hidden, settings.decoder_hidden, settings.dropout
        )

    def encode(self, known: Known) -> Tensor:
        """Return what the layers say of each node, one beside the other, [n, layers * hidden]."""
        edge_index = symmetric(known.links)
        h = known.features
        outputs: list[Tensor] = []
        for number, convolve in enumerate(self.convolve, start=1):
            h = torch.relu(convolve(h, edge_index))
            if number < len(self.convolve):
                h = functional.dropout(h, self._settings.dropout, self.training)
            outputs.append(h)
        return torch.cat(outputs, dim=1)

    def steps(self, known: Known, epoch: Epoch) -> Iterator[Tensor]:
        """Yield a loss for each batch of the hidden links."""
        for batch in hidden_links(known, epoch, self._settings.mask, self._settings.batch):
            z = self.encode(known.with_links(batch.seen))
            yield consistency_loss(self.decode(z, batch.targets), self.decode(z, batch.negatives))

    def scorer(self, known: Known) -> EmbeddingScorer:
        """Return the decoder on what the layers say by all these links."""
        with evaluating(self):
            z = self.encode(known)
        layer = self.decode.layer_1
        operations = 4.0 * layer.in_features * layer.out_features  # a product for each order
        return EmbeddingScorer(self.decode, z, self.decode, operations)


class CrossCorrelationDecoder(nn.Module):
    r"""A logit for each pair of nodes, from what all layers say of both.

    $f_{uv}$ holds $h_u^{(a)} \odot h_v^{(b)}$ for all layers a and b. For $a \neq b$ it depends on
    which end comes first, and an undirected link has no first end. So the hidden layer is the mean
    over both orders:

    $W_2\,\frac12 (\mathrm{ReLU}(W_1 f_{uv} + b_1) + \mathrm{ReLU}(W_1 f_{vu} + b_1)) + b_2$

    It is the mean of the two logits that the authors' decoder would give. To put the node with
    the smaller number first, as their training pairs do, would be no worse and half the work, but
    scores would change when nodes are numbered in another way.
    """

    def __init__(self, layers: int, width: int, hidden: int, dropout: float) -> None:
        """Create the weights.

        Args:
            layers: Number of layers of the encoder.
            width: Width of each of them.
            hidden: Width of the hidden layer.
            dropout: Chance of an entry of the hidden layer to be dropped while training.
        """
        super().__init__()
        self.layers = layers
        self.dropout = dropout
        self.layer_1 = nn.Linear(layers**2 * width, hidden)
        self.layer_2 = nn.Linear(hidden, 1)

    def pair_features(self, z: Tensor, pairs: Tensor) -> Tensor:
        """Return the products of all layers of both ends, in this order, [p, layers^2 * width].

        Args:
            z: What the layers say of each node, one beside the other, [n, layers * width].
            pairs: Node numbers, int64 [2, p].
        """
        # index_select, never z[index]: the backward pass of the latter is not deterministic.
        one, other = (z.index_select(0, ends).unflatten(1, (self.layers, -1)) for ends in pairs)
        return (one[:, :, None] * other[:, None]).flatten(start_dim=1)

    def forward(self, z: Tensor, pairs: Tensor) -> Tensor:
        """Return one logit per pair, [p].

        Args:
            z: What the layers say of each node, one beside the other, [n, layers * width].
            pairs: Node numbers, int64 [2, p].
        """
        there, back = (
            torch.relu(self.layer_1(self.pair_features(z, order)))
            for order in (pairs, pairs.flip(0))
        )
        h = functional.dropout((there + back) / 2, self.dropout, self.training)
        return self.layer_2(h).squeeze(1)


METHOD = Method(
    title="S2GAE",
    settings=S2GAESettings,
    build=S2GAE,
    search={
        "lr": (0.001, 0.005, 0.01),
        "hidden": (64, 128, 256),
        "dropout": (0.0, 0.2, 0.5, 0.8),
        "mask": (0.3, 0.5, 0.7),
        "epochs": (100, 200, 400),
    },
)
