"""Networks on the embeddings of a pair's two ends: GraphSAGE, a GCN, one without links, and NCN."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from cgcl.graph.adjacency import Adjacency
from cgcl.methods.method import (
    Epoch,
    Learner,
    MaskedBatch,
    Method,
    PairScorer,
    TrainingGraph,
    hidden_links,
    masked_batches,
    visible_links,
)
from cgcl.methods.scoring import DecoderScorer, EmbeddingScorer, evaluating
from cgcl.methods.settings import CGCL_SEARCH, PaperSettings, TrainedSettings
from cgcl.model import GCNEncoder, PairDecoder, consistency_loss
from cgcl.model.ops import dropout, sparse, spmm
from cgcl.settings import Range

# Looking up one neighbour, in operations of the layers' products.
_LOOK_UP = 2000.0


class PairNetwork(Learner):
    """Embeds the nodes, and decodes the embeddings of pairs: what most networks share."""

    decode: Any
    """Takes embeddings and pairs, and returns a logit for each pair."""

    def __init__(self, settings: Any) -> None:  # noqa: ANN401
        """Take the settings; the weights are the method's business."""
        super().__init__()
        self.settings = settings

    def encode(self, known: TrainingGraph) -> Tensor:
        """Return one vector per node, [n, any], from features and these links alone."""
        raise NotImplementedError

    def batches(self, known: TrainingGraph, epoch: Epoch) -> Iterator[MaskedBatch]:
        """Yield what each step predicts, and what it may look at: all other links."""
        return masked_batches(known, epoch, self.settings.batch)

    def logits(self, z: Tensor, seen: TrainingGraph, pairs: Tensor) -> Tensor:  # noqa: ARG002
        """Return the logits of some pairs in training, [p], from what `encode` made of `seen`."""
        return self.decode(z, pairs)

    def extra_loss(self, z: Tensor, known: TrainingGraph, seen: TrainingGraph) -> Tensor | float:  # noqa: ARG002
        """Return what a step's loss has besides the cross-entropy of its pairs."""
        return 0.0

    def steps(self, known: TrainingGraph, epoch: Epoch) -> Iterator[Tensor]:
        """Yield the loss of each batch, whose links are hidden from the encoder meanwhile."""
        for batch in self.batches(known, epoch):
            seen = known.with_links(batch.seen)
            z = self.encode(seen)
            logits = self.logits(z, seen, torch.cat([batch.targets, batch.negatives], dim=1))
            count = batch.targets.shape[1]
            loss = consistency_loss(logits[:count], logits[count:])
            yield loss + self.extra_loss(z, known, seen)

    def scorer(self, known: TrainingGraph) -> PairScorer:
        """Return the decoder on embeddings that all these links give."""
        with evaluating(self):
            z = self.encode(known)
        if isinstance(self.decode, PairDecoder):
            return DecoderScorer(self.decode, z)
        return EmbeddingScorer(self.decode, z, self.decode, self.decode.operations)

    def dropped(self, x: Tensor, probability: float) -> Tensor:
        """Return features of which some are dropped while training."""
        return dropout(x, probability, None) if self.training else x


def propagated(h: Tensor, known: TrainingGraph) -> Tensor:
    r"""Return $\tilde D^{-1/2} (A + I) \tilde D^{-1/2} H$: what `cgcl.model.propagate` does.

    But rows are built once for many products, whose gradient is the same product.

    Args:
        h: One row per node, [n, any].
        known: The links to pass it along.
    """
    scale = (known.adjacency.degree + 1).to(h.dtype).rsqrt().unsqueeze(1)  # D~^(-1/2), [n, 1]
    h = scale * h
    return scale * (known.neighbour_sums(h) + h)


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
        self.bias = nn.Parameter(torch.zeros(out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new weights, as PyTorch Geometric does."""
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x: Tensor, known: TrainingGraph) -> Tensor:
        """Return one row per node, [n, out_channels].

        Args:
            x: One row per node, [n, in_channels], dense or coalesced sparse COO.
            known: The links to pass messages along.
        """
        return propagated(spmm(x, self.weight), known) + self.bias


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

    def forward(self, x: Tensor, known: TrainingGraph) -> Tensor:
        """Return one row per node, [n, out_channels]; the mean over no neighbours is zero.

        Args:
            x: One row per node, [n, in_channels], dense or coalesced sparse COO.
            known: The links to take the mean along.
        """
        near, own = (spmm(x, lin.weight.T) for lin in (self.lin_l, self.lin_r))
        share = 1 / known.adjacency.degree.clamp(min=1).to(near.dtype)  # [n]
        return share.unsqueeze(1) * known.neighbour_sums(near) + own + self.lin_l.bias


def row_shares(x: Tensor) -> Tensor:
    """Return the features with each row divided by the sum of its magnitudes, if that is not 0.

    Args:
        x: Features, [n, d], dense or coalesced sparse COO.
    """
    ones = torch.ones(x.shape[1], 1, dtype=x.dtype, device=x.device)
    total = spmm(x.abs(), ones)  # [n, 1]
    total = torch.where(total > 0, total, torch.ones_like(total))
    if not x.is_sparse:
        return x / total
    values = x.values() / total.squeeze(1).index_select(0, x.indices()[0])
    return sparse(x.indices(), values, x.shape, is_coalesced=True)


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
    epochs: int = 100
    """Number of epochs; each takes a step per batch of links."""
    evaluate_every: int = 5
    clip: float = 1.0

    RANGES: ClassVar[Mapping[str, Range]] = {"decoder_layers": Range(low=1, high=16)}


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
        super().__init__(settings)
        widths = [num_features] + [settings.hidden] * settings.layers
        self.convs = nn.ModuleList(SAGELayer(width, settings.hidden) for width in widths[:-1])
        self.decode = ProductDecoder(settings.hidden, settings.decoder_layers, settings.dropout)

    def encode(self, known: TrainingGraph) -> Tensor:
        """Return one vector per node, [n, hidden], from features and these links alone."""
        settings = self.settings
        x = row_shares(known.features) if settings.row_normalised else known.features
        h = self.dropped(x, settings.input_dropout)
        for depth, conv in enumerate(self.convs):
            if depth:
                h = functional.dropout(torch.relu(h), settings.dropout, self.training)
            h = conv(h, known)
        return h


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
class MaskedGCNSettings(PaperSettings):
    """The settings of a GCN whose targets are hidden from it."""

    batch: int = 1024
    """Links that a step predicts, and passes no messages along."""


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
        super().__init__(settings)
        self.convolve = GCNEncoder(num_features, settings.hidden, settings.input_dropout)
        self.decode = PairDecoder(settings.hidden, settings.decoder_dropout)

    def encode(self, known: TrainingGraph) -> Tensor:
        """Return one vector per node, [n, hidden], from features and these links alone."""
        return self.convolve.along(known.features, lambda h: propagated(h, known))


GCN = Method(
    title="GCN, targets hidden",
    settings=MaskedGCNSettings,
    build=MaskedGCN,
    search=CGCL_SEARCH | {"batch": (1024, 4096, 16384)},
)
"""GCN with hidden targets: CGCL's encoder and decoder, trained on batches of links."""


@dataclass(frozen=True)
class FeaturesMLPSettings(PaperSettings):
    """The settings of a features-only network."""


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
        super().__init__(settings)
        self.weight = nn.Parameter(torch.empty(num_features, settings.hidden))
        self.bias = nn.Parameter(torch.zeros(settings.hidden))
        nn.init.xavier_uniform_(self.weight)
        self.decode = PairDecoder(settings.hidden, settings.decoder_dropout)

    def encode(self, known: TrainingGraph) -> Tensor:
        """Return one vector per node, [n, hidden]; links only where features are made of them."""
        x = self.dropped(known.features, self.settings.input_dropout)
        return functional.elu(spmm(x, self.weight) + self.bias)

    def batches(self, known: TrainingGraph, epoch: Epoch) -> Iterator[MaskedBatch]:
        """Yield all links at once; half of them if the others have to make the features."""
        if known.structure is None:
            yield replace(visible_links(known, epoch), seen=known.links[:, :0])
        else:
            yield from hidden_links(known, epoch, 0.5)


MLP = Method(
    title="Features only (MLP)",
    settings=FeaturesMLPSettings,
    build=FeaturesMLP,
    search=CGCL_SEARCH | {"hidden": (64, 128, 256)},
)
"""A network that sees features only: what is won by links shows against it."""


@dataclass(frozen=True)
class NCNSettings(TrainedSettings):
    """The settings of NCN."""

    hidden: int = 256
    """Width of the embeddings and of every layer of the decoder."""
    layers: int = 1
    """Number of propagation steps: how many links away a node looks."""
    head_layers: int = 1
    """Number of hidden layers after the product and the common neighbours are added."""
    input_dropout: float = 0.3
    """Chance of a feature to be dropped in a training step."""
    encoder_dropout: float = 0.1
    """Chance of an entry to be dropped before it is passed along links, in a training step."""
    embedding_dropout: float = 0.0
    """Chance of an entry to be dropped after the last propagation, in a training step."""
    decoder_dropout: float = 0.05
    """Chance of an entry to be dropped after a layer of the decoder, in a training step."""
    neighbour_dropout: float = 0.0
    """Chance of a common neighbour to be left out of the sum in a training step."""
    batch: int = 2048
    """Links that a step predicts, and neither passes messages along nor counts neighbours by."""
    lr: float = 0.0044
    epochs: int = 100
    """Number of epochs; each takes a step per batch of links."""
    evaluate_every: int = 5

    RANGES: ClassVar[Mapping[str, Range]] = {"head_layers": Range(low=1, high=16)}


class NCN(PairNetwork):
    r"""Neural common neighbour (Wang et al., 2024): $h_u \odot h_v$ and $\sum_w h_w$.

    The embeddings are linear in the features, $h = \sum_k \alpha_k \hat A^k (X W + b)$, with a
    learned weight for each number of propagation steps. A pair (u, v) scores

    $\mathrm{MLP}(f(h_u \odot h_v) + \beta\, g(\sum_{w \in N(u) \cap N(v)} (h_w + r(h_w))))$

    with f, g and r small networks. A training step hides its links from both: from the
    propagation and from the neighbourhoods.

    This follows the authors' code with three differences. Encoder and decoder have one learning
    rate. Common neighbours are dropped one by one, where they drop links and with them common
    neighbours. The weights of the steps start equal, where theirs start at random.
    """

    def __init__(self, num_features: int, settings: NCNSettings) -> None:
        """Create the weights.

        Args:
            num_features: Number of features per node, d.
            settings: Widths, depths, dropout and the size of a batch.
        """
        super().__init__(settings)
        self.project = nn.Linear(num_features, settings.hidden)
        self.shares = nn.Parameter(torch.full((settings.layers,), 1 / settings.layers))
        self.decode = SharedNeighbourDecoder(
            settings.hidden, settings.head_layers, settings.decoder_dropout
        )

    def encode(self, known: TrainingGraph) -> Tensor:
        """Return one vector per node, [n, hidden], from features and these links alone."""
        settings = self.settings
        x = self.dropped(known.features, settings.input_dropout)
        h = spmm(x, self.project.weight.T) + self.project.bias
        h = functional.dropout(h, settings.encoder_dropout, self.training)
        reached: list[Tensor] = []
        for _ in range(settings.layers):
            h = propagated(h, known)
            reached.append(h)
        reached[-1] = functional.dropout(h, settings.embedding_dropout, self.training)
        return (self.shares.view(-1, 1, 1) * torch.stack(reached)).sum(dim=0)

    def logits(self, z: Tensor, seen: TrainingGraph, pairs: Tensor) -> Tensor:
        """Return the logits of some pairs in training, [p]; no target is anyone's neighbour."""
        places, nodes = seen.adjacency.common_neighbours(pairs)
        if self.settings.neighbour_dropout:
            kept = torch.rand(nodes.shape, device=z.device) >= self.settings.neighbour_dropout
            places, nodes = places[kept], nodes[kept]
        z_shared = z
        if not z.is_cuda:  # only few nodes are anyone's: a CPU has nothing to spare for the others
            used, nodes = torch.unique(nodes, return_inverse=True)
            z_shared = z.index_select(0, used)
        sums = shared_sum(places, nodes, self.decode.refined(z_shared), pairs.shape[1])
        return self.decode(z, pairs, sums)

    def scorer(self, known: TrainingGraph) -> NCNScorer:
        """Return the decoder on the embeddings and neighbourhoods that all these links give."""
        with evaluating(self):
            h = self.encode(known)
        return NCNScorer(self.decode, h, known.adjacency)


class SharedNeighbourDecoder(nn.Module):
    r"""$\mathrm{MLP}(f(h_u \odot h_v) + \beta\, g(s_{uv}))$, $s_{uv}$ the sum over neighbours."""

    def __init__(self, hidden: int, head_layers: int, dropout: float) -> None:
        """Create the weights.

        Args:
            hidden: Width of the embeddings and of every layer.
            head_layers: Number of hidden layers after the two parts are added.
            dropout: Chance of an entry to be dropped after a layer while training.
        """
        super().__init__()
        self.refine, self.from_shared = (  # r, g
            nn.Sequential(
                nn.Linear(hidden, hidden), nn.Dropout(dropout), nn.ReLU(), _layer(hidden, dropout)
            )
            for _ in range(2)
        )
        self.from_product = _layer(hidden, dropout)  # f
        self.weight_of_shared = nn.Parameter(torch.ones(1))  # beta
        self.head = nn.Sequential(*(_layer(hidden, dropout) for _ in range(head_layers)))
        self.last = nn.Linear(hidden, 1)

    @property
    def operations(self) -> float:
        """How many multiplications and additions one pair takes."""
        width = self.last.in_features
        return 2.0 * width * (width * (3 + len(self.head)) + 1)

    def refined(self, h: Tensor) -> Tensor:
        """Return what each node counts if it is shared, $h + r(h)$, [any, hidden]."""
        return h + self.refine(h)

    def forward(self, h: Tensor, pairs: Tensor, sums: Tensor) -> Tensor:
        """Return one logit per pair, [p].

        Args:
            h: Embeddings, [n, hidden].
            pairs: Node numbers, int64 [2, p].
            sums: What the common neighbours of each pair add up to, [p, hidden].
        """
        product = h.index_select(0, pairs[0]) * h.index_select(0, pairs[1])
        both = self.from_product(product) + self.weight_of_shared * self.from_shared(sums)
        return self.last(self.head(both)).squeeze(1)


def _layer(hidden: int, dropout: float) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(hidden, hidden), nn.LayerNorm(hidden), nn.Dropout(dropout), nn.ReLU()
    )


def shared_sum(places: Tensor, nodes: Tensor, values: Tensor, num_pairs: int) -> Tensor:
    r"""Return $\sum_{w \in N(u) \cap N(v)} values_w$ for each pair (u, v), [p, any].

    Args:
        places: The pair's place, for each neighbour that a pair shares, int64 [any], sorted.
        nodes: That neighbour, int64 [any], sorted within a pair.
        values: What each node counts, [n, any].
        num_pairs: Number of pairs, p.
    """
    ones, shape = values.new_ones(nodes.shape), (num_pairs, values.shape[0])
    shared = sparse(torch.stack([places, nodes]), ones, shape, is_coalesced=True)
    return torch.sparse.mm(shared, values)


class NCNScorer(EmbeddingScorer):
    """Scores pairs by their embeddings and by the neighbours that they share."""

    def __init__(self, decoder: SharedNeighbourDecoder, h: Tensor, lists: Adjacency) -> None:
        """Compute once what every node counts.

        Args:
            decoder: The decoder; dropout in it is off while it scores.
            h: Embeddings of all nodes, [n, hidden].
            lists: The neighbours of all nodes.
        """
        looked_up = _LOOK_UP * lists.indices.numel() / max(h.shape[0], 1)
        super().__init__(decoder, h, self._decoded, decoder.operations + looked_up)
        self._decoder, self._lists = decoder, lists
        with evaluating(decoder):
            self._values = decoder.refined(h)

    def _decoded(self, h: Tensor, pairs: Tensor) -> Tensor:
        sums = shared_sum(*self._lists.common_neighbours(pairs), self._values, pairs.shape[1])
        return self._decoder(h, pairs, sums)


NCN_METHOD = Method(
    title="NCN",
    settings=NCNSettings,
    build=NCN,
    version=2,
    # The commands in the authors' repository, which are for 70/10/20 splits and Hits@100. They
    # have a learning rate for the encoder and one for the decoder: lr is their geometric mean.
    # The defaults are those for PubMed.
    # They drop 0.4 of the links on Cora before they look for common neighbours, so that 0.36 of
    # these remain.
    authors={
        "cora": {
            "input_dropout": 0.7,
            "encoder_dropout": 0.05,
            "embedding_dropout": 0.3,
            "neighbour_dropout": 0.64,
            "batch": 1152,
            "lr": 0.0032,
        },
        "citeseer": {
            "head_layers": 2,
            "input_dropout": 0.4,
            "encoder_dropout": 0.75,
            "decoder_dropout": 0.55,
            "batch": 384,
            "lr": 0.0081,
        },
    },
    search={
        "lr": (0.001, 0.003, 0.01),
        "layers": (1, 2, 3),
        "input_dropout": (0.3, 0.5, 0.7),
        "decoder_dropout": (0.05, 0.3, 0.5),
        "weight_decay": (0.0, 1e-5, 1e-4),
    },
)
"""NCN: two nodes, and the neighbours that they share."""
