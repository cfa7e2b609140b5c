"""Networks on the embeddings of a pair's two ends: GraphSAGE, a GCN, and one without links."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from cgcl.methods.masking import MaskedBatch, hidden_links, masked_batches, visible_links
from cgcl.methods.method import Epoch, Known, Learner, Method
from cgcl.methods.scoring import DecoderScorer, EmbeddingScorer, evaluating
from cgcl.methods.settings import CGCL_SEARCH, TrainedSettings
from cgcl.model import GCNEncoder, PairDecoder, consistency_loss, propagate, symmetric
from cgcl.model.ops import dropout, product
from cgcl.settings import Range


class PairNetwork(Learner):
    """Embeds the nodes, and decodes the embeddings of pairs: what most networks share."""

    decode: Any
    """Takes embeddings and pairs, and returns a logit for each pair."""

    def encode(self, known: Known) -> Tensor:
        """Return one vector per node, [n, any], from features and these links alone."""
        raise NotImplementedError

    def batches(self, known: Known, epoch: Epoch) -> Iterator[MaskedBatch]:
        """Yield what each step predicts, and what it may look at."""
        raise NotImplementedError

    def extra_loss(self, z: Tensor, known: Known, batch: MaskedBatch) -> Tensor | float:  # noqa: ARG002
        """Return what a step's loss has besides the cross-entropy of its pairs."""
        return 0.0

    def steps(self, known: Known, epoch: Epoch) -> Iterator[Tensor]:
        """Yield the loss of each batch, whose links are hidden from the encoder meanwhile."""
        for batch in self.batches(known, epoch):
            z = self.encode(known.with_links(batch.seen))
            loss = consistency_loss(self.decode(z, batch.targets), self.decode(z, batch.negatives))
            yield loss + self.extra_loss(z, known, batch)

    def scorer(self, known: Known) -> EmbeddingScorer:
        """Return the decoder on embeddings that all these links give."""
        with evaluating(self):
            z = self.encode(known)
        if isinstance(self.decode, PairDecoder):
            return DecoderScorer(self.decode, z)
        return EmbeddingScorer(self.decode, z, self.decode, self.decode.operations)


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


class SAGELayer(nn.Module):
    r"""$W_s x_u + W_n \frac{1}{|N(u)|} \sum_{v \in N(u)} x_v + b$.

    It is PyTorch Geometric's `SAGEConv`, its weights by the same names. But weights are multiplied
    before the mean is taken, which is linear: so features may be sparse, and what is averaged is
    as wide as the output, not as the features.
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        """Create the weights.

        Args:
            in_channels: Number of columns of what comes in.
            out_channels: Number of columns of what goes out.
        """
        super().__init__()
        self.lin_l = nn.Linear(in_channels, out_channels)
        self.lin_r = nn.Linear(in_channels, out_channels, bias=False)
        for lin in (self.lin_l, self.lin_r):  # `SAGEConv` draws twice: a seed keeps its weights
            lin.reset_parameters()

    def forward(self, x: Tensor, mean: Tensor) -> Tensor:
        """Return one row per node, [n, out_channels].

        Args:
            x: One row per node, [n, in_channels], dense or coalesced sparse COO.
            mean: What `mean_of` returns.
        """
        near, own = (product(x, lin.weight.T) for lin in (self.lin_l, self.lin_r))
        return product(mean, near) + own + self.lin_l.bias


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


def row_shares(x: Tensor) -> Tensor:
    """Return the features with each row divided by the sum of its magnitudes, if that is not 0.

    Args:
        x: Features, [n, d], dense or coalesced sparse COO.
    """
    ones = torch.ones(x.shape[1], 1, dtype=x.dtype, device=x.device)
    total = product(x.abs(), ones)  # [n, 1]
    total = torch.where(total > 0, total, torch.ones_like(total))
    if not x.is_sparse:
        return x / total
    values = x.values() / total.squeeze(1).index_select(0, x.indices()[0])
    return torch.sparse_coo_tensor(
        x.indices(), values, x.shape, check_invariants=False, is_coalesced=True
    )


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
        "batch": Range(low=1, high=10_000_000),
    }


class GraphSAGE(PairNetwork):
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
        self.convs = nn.ModuleList(SAGELayer(width, settings.hidden) for width in widths[:-1])
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
            h = conv(h, mean)
        return h

    def batches(self, known: Known, epoch: Epoch) -> Iterator[MaskedBatch]:
        """Yield some links at a time, with all others to see."""
        return masked_batches(known, epoch, self._settings.batch)


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
        return self.last(h).squeeze(1)


GRAPHSAGE = Method(
    title="GraphSAGE",
    settings=GraphSAGESettings,
    build=GraphSAGE,
    # GraphSAGE's own paper predicts no links on these graphs: these are the settings that the
    # HeaRT benchmark (Li et al., 2023) found for it. Its features are not part of its code. On Cora
    # validation asks for rows that sum to one, on CiteSeer for features as they are.
    authors={
        "cora": {"hidden": 128, "decoder_layers": 3, "row_normalised": True, "weight_decay": 1e-7},
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
"""GraphSAGE: a node is what it is, and the mean of what its neighbours are."""


@dataclass(frozen=True)
class MaskedGCNSettings(TrainedSettings):
    """The settings of a GCN whose targets are hidden from it."""

    hidden: int = 128
    """Width of the embeddings; the decoder's hidden layer has half of it."""
    input_dropout: float = 0.8
    """Chance of a feature to be dropped in a training step."""
    decoder_dropout: float = 0.2
    """Chance of an entry of a pair's product to be dropped in a training step."""
    batch: int = 1024
    """Links that a step predicts, and passes no messages along."""
    weight_decay: float = 1e-5
    """Strength of the L2 penalty on the weights."""

    RANGES: ClassVar[Mapping[str, Range]] = {
        "hidden": Range(low=2, high=65536),
        "batch": Range(low=1, high=10_000_000),
    }


class MaskedGCN(PairNetwork):
    r"""One graph convolution, then a network on the product of two nodes (Kipf, Welling, 2017).

    $z = \mathrm{ELU}(\hat A X W + b)$ and $\mathrm{MLP}(z_u \odot z_v)$: the network of CGCL to
    the last weight. Only the training differs. CGCL hides one half of the links and predicts it
    from the other; here a batch at a time is hidden and predicted from all the rest.
    """

    def __init__(self, num_features: int, settings: MaskedGCNSettings) -> None:
        """Create the weights.

        Args:
            num_features: Number of features per node, d.
            settings: Width, dropout and the size of a batch.
        """
        super().__init__()
        self._batch = settings.batch
        self.convolve = GCNEncoder(num_features, settings.hidden, settings.input_dropout)
        self.decode = PairDecoder(settings.hidden, settings.decoder_dropout)

    def encode(self, known: Known) -> Tensor:
        """Return one vector per node, [n, hidden], from features and these links alone."""
        return self.convolve(known.features, symmetric(known.links))

    def batches(self, known: Known, epoch: Epoch) -> Iterator[MaskedBatch]:
        """Yield some links at a time, with all others to see."""
        return masked_batches(known, epoch, self._batch)


GCN = Method(
    title="GCN, targets hidden",
    settings=MaskedGCNSettings,
    build=MaskedGCN,
    search=CGCL_SEARCH | {"batch": (1024, 4096, 16384)},
)
"""GCN with hidden targets: CGCL's encoder and decoder, trained on batches of links."""


@dataclass(frozen=True)
class FeaturesMLPSettings(TrainedSettings):
    """The settings of a features-only network."""

    weight_decay: float = 1e-5
    """Strength of the L2 penalty on the weights."""
    hidden: int = 128
    """Width of the embeddings; the decoder's hidden layer has half of it."""
    input_dropout: float = 0.8
    """Chance of a feature to be dropped in a training step."""
    decoder_dropout: float = 0.2
    """Chance of an entry of a pair's product to be dropped in a training step."""

    RANGES: ClassVar[Mapping[str, Range]] = {"hidden": Range(low=2, high=65536)}


class FeaturesMLP(PairNetwork):
    r"""Scores a pair by the features of its two ends: $\mathrm{MLP}(z_u \odot z_v)$.

    $z = \mathrm{ELU}(x W + b)$: the encoder of CGCL without its links, under the same decoder. So
    no link is needed for a score, and none can leak into one. Where features are made of links,
    each epoch predicts half of the links from the features that the others give.
    """

    def __init__(self, num_features: int, settings: FeaturesMLPSettings) -> None:
        """Create the weights.

        Args:
            num_features: Number of features per node, d.
            settings: Widths and dropout.
        """
        super().__init__()
        self.input_dropout = settings.input_dropout
        self.weight = nn.Parameter(torch.empty(num_features, settings.hidden))
        self.bias = nn.Parameter(torch.zeros(settings.hidden))
        nn.init.xavier_uniform_(self.weight)
        self.decode = PairDecoder(settings.hidden, settings.decoder_dropout)

    def encode(self, known: Known) -> Tensor:
        """Return one vector per node, [n, hidden]; links only where features are made of them."""
        x = known.features
        if self.training:
            x = dropout(x, self.input_dropout, None)
        return functional.elu(product(x, self.weight) + self.bias)

    def batches(self, known: Known, epoch: Epoch) -> Iterator[MaskedBatch]:
        """Yield all links at once; half of them if the others have to make the features."""
        if known.structure is None:
            yield replace(visible_links(known, epoch), seen=known.links[:, :0])
        else:
            yield from hidden_links(known, epoch, 0.5, size=max(known.links.shape[1], 1))


MLP = Method(
    title="Features only (MLP)",
    settings=FeaturesMLPSettings,
    build=FeaturesMLP,
    search=CGCL_SEARCH | {"hidden": (64, 128, 256)},
)
"""A network that sees features only: what is won by links shows against it."""
