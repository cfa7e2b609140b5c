"""GraphSAGE: a node is what it is, and the mean of what its neighbours are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import SAGEConv

from cgcl.methods.masking import masked_batches
from cgcl.methods.method import Epoch, Known, Learner, Method
from cgcl.methods.row_shares import row_shares
from cgcl.methods.scoring import EmbeddingScorer, evaluating
from cgcl.methods.settings import TrainedSettings
from cgcl.model import consistency_loss, symmetric
from cgcl.model.dropout import dropout
from cgcl.model.product import product
from cgcl.settings import Range

__all__ = [
    "METHOD",
    "GraphSAGE",
    "GraphSAGESettings",
    "ProductDecoder",
    "convolve",
    "mean_of",
]


@dataclass(frozen=True)
class GraphSAGESettings(TrainedSettings):
    """The settings of GraphSAGE."""

    hidden: int = 256
    """Width of the embeddings, and of the decoder's hidden layers."""
    layers: int = 1
    """Number of graph convolutions: how many links away a node looks."""
    decoder_layers: int = 2
    """Number of layers of the decoder, the last included."""
    row_normalised: bool = False
    """Divide the features of each node by the sum of their magnitudes."""
    input_dropout: float = 0.0
    """Chance of a feature to be dropped in a training step."""
    dropout: float = 0.5
    """Chance of an entry between two layers to be dropped in a training step."""
    batch: int = 1024
    """Links that a step predicts, and passes no messages along."""
    lr: float = 0.01
    """Learning rate of Adam."""
    epochs: int = 100
    """Number of epochs; each takes a step per batch of links."""
    evaluate_every: int = 5
    """Epochs between two measurements on the validation links."""
    clip: float = 1.0
    """Longest gradient that a step may follow; longer ones are shortened. 0 for no limit."""

    RANGES: ClassVar[Mapping[str, Range]] = {
        "hidden": Range(low=1, high=65536),
        "layers": Range(low=1, high=16),
        "decoder_layers": Range(low=1, high=16),
        "input_dropout": Range(low=0, below=1),
        "dropout": Range(low=0, below=1),
        "batch": Range(low=1, high=10_000_000),
    }


class GraphSAGE(Learner):
    r"""Mean aggregation, then a network on the product of two nodes (Hamilton et al., 2017).

    A layer gives $h_u = W_s x_u + W_n \frac{1}{|N(u)|} \sum_{v \in N(u)} x_v + b$, with a ReLU
    and dropout between two layers. A pair scores $\mathrm{MLP}(h_u \odot h_v)$.

    This follows GraphSAGE with one difference: it is trained on links and has all neighbours.
    The paper trains on random walks and samples neighbours, for graphs far larger than these.
    """

    def __init__(self, num_features: int, settings: GraphSAGESettings) -> None:
        """Create the weights.

        Args:
            num_features: Number of features per node, d.
            settings: Widths, depths, dropout and the size of a batch.
        """
        super().__init__()
        self._settings = settings
        widths = [num_features] + [settings.hidden] * settings.layers
        self.convs = nn.ModuleList(
            SAGEConv(width, settings.hidden, aggr="mean") for width in widths[:-1]
        )
        self.decode = ProductDecoder(settings.hidden, settings.decoder_layers, settings.dropout)

    def encode(self, known: Known) -> Tensor:
        """Return one vector per node, [n, hidden], from features and these links alone."""
        settings, mean = self._settings, mean_of(known.links, known.num_nodes)
        h = row_shares(known.features) if settings.row_normalised else known.features
        if self.training:
            h = dropout(h, settings.input_dropout, None)
        for depth, conv in enumerate(self.convs):
            if depth:
                h = functional.dropout(torch.relu(h), settings.dropout, self.training)
            h = convolve(cast("SAGEConv", conv), h, mean)
        return h

    def steps(self, known: Known, epoch: Epoch) -> Iterator[Tensor]:
        """Yield a loss per batch of links, which are hidden from the encoder meanwhile."""
        for batch in masked_batches(known, epoch, self._settings.batch):
            z = self.encode(known.with_links(batch.seen))
            yield consistency_loss(self.decode(z, batch.targets), self.decode(z, batch.negatives))

    def scorer(self, known: Known) -> EmbeddingScorer:
        """Return the decoder on embeddings that all these links give."""
        with evaluating(self):
            z = self.encode(known)
        return EmbeddingScorer(self.decode, z, self.decode, self.decode.operations)


class ProductDecoder(nn.Module):
    r"""A network on the entry-wise product of two embeddings, $\mathrm{MLP}(z_u \odot z_v)$.

    Each layer but the last is followed by a ReLU and dropout. A pair's logit does not depend on
    its order, to the last bit.
    """

    def __init__(self, hidden: int, layers: int, dropout: float) -> None:
        """Create the weights.

        Args:
            hidden: Width of the embeddings and of the hidden layers.
            layers: Number of layers, the last included.
            dropout: Chance of an entry to be dropped after a hidden layer while training.
        """
        super().__init__()
        self._dropout = dropout
        self.inner = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(layers - 1))
        self.last = nn.Linear(hidden, 1)

    @property
    def operations(self) -> float:
        """How many multiplications and additions one pair takes."""
        width = self.last.in_features
        return 2.0 * width * (width * len(self.inner) + 1)

    def forward(self, z: Tensor, pairs: Tensor) -> Tensor:
        """Return one logit per pair, [p].

        Args:
            z: Embeddings, [n, hidden].
            pairs: Node numbers, int64 [2, p].
        """
        h = z.index_select(0, pairs[0]) * z.index_select(0, pairs[1])
        for layer in self.inner:
            h = functional.dropout(torch.relu(layer(h)), self._dropout, self.training)
        logits: Tensor = self.last(h).squeeze(1)
        return logits


def mean_of(links: Tensor, num_nodes: int) -> Tensor:
    r"""Return $D^{-1} A$, sparse [n, n]: times H it is the mean of each node's neighbours.

    A node without neighbours has an empty row, and so a mean of zero.

    Args:
        links: Each link once, int64 [2, m].
        num_nodes: Number of nodes, isolated ones included.
    """
    edge_index = symmetric(links)
    share = 1 / torch.bincount(edge_index[0], minlength=num_nodes).clamp(min=1)
    return torch.sparse_coo_tensor(
        edge_index,
        share.index_select(0, edge_index[0]),
        (num_nodes, num_nodes),
        check_invariants=False,
    )


def convolve(conv: SAGEConv, x: Tensor, mean: Tensor) -> Tensor:
    """Return what `conv` gives, with the weights multiplied before the mean is taken.

    The mean is linear, so the result is the same. But x may be sparse then, and what is averaged
    is as wide as the output, not as the features.

    Args:
        conv: Holds the weights.
        x: One row per node, [n, any], dense or coalesced sparse COO.
        mean: What `mean_of` returns.
    """
    near, own = (product(x, lin.weight.T) for lin in (conv.lin_l, conv.lin_r))
    return product(mean, near) + own + conv.lin_l.bias


METHOD = Method(
    title="GraphSAGE",
    settings=GraphSAGESettings,
    build=GraphSAGE,
    # GraphSAGE's own paper predicts no links on these graphs: these are the settings that the
    # HeaRT benchmark (Li et al., 2023) found for it. Its features are not part of its code. On Cora
    # validation asks for rows that sum to one, on CiteSeer for features as they are.
    authors={
        "cora": {
            "hidden": 128,
            "decoder_layers": 3,
            "row_normalised": True,
            "weight_decay": 1e-7,
        },
        "citeseer": {"lr": 0.001, "dropout": 0.1, "weight_decay": 1e-7},
        "pubmed": {"layers": 2},
    },
    search={
        "lr": (0.001, 0.005, 0.01),
        "hidden": (128, 256, 512),
        "layers": (1, 2),
        "row_normalised": (False, True),
        "input_dropout": (0.0, 0.5, 0.8),
    },
)
