"""Auto-encoders, which hide links and reconstruct them: VGAE, MaskGAE and S2GAE."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from cgcl.methods.method import (
    Epoch,
    Learner,
    MaskedBatch,
    Method,
    TrainingGraph,
    hidden_links,
    visible_links,
)
from cgcl.methods.networks import GCNLayer, PairNetwork, SAGELayer, row_shares
from cgcl.methods.scoring import InnerProductScorer, evaluating
from cgcl.methods.settings import PaperSettings, TrainedSettings
from cgcl.model import PairDecoder, consistency_loss
from cgcl.settings import Range

# A Gaussian may be so wide at most: the logarithm of its deviation, as in PyTorch Geometric.
_WIDEST = 10


@dataclass(frozen=True)
class VGAESettings(TrainedSettings):
    """The settings of VGAE; widths, learning rate and epochs are its authors'."""

    hidden: int = 32
    """Width of the first graph convolution."""
    embedding: int = 16
    """Width of the embeddings."""
    mask: float = 0.7
    """Share of the links that an epoch hides and predicts from the others."""
    row_normalised: bool = False
    """Divide the features of each node by their sum, as PyTorch Geometric's example does. The
    authors do not, and it takes two to four times as many epochs."""
    visible_targets: bool = False
    """Pass messages along all links and predict all of them, as the authors do; nothing is hidden
    then. A link that is seen is easy to predict, so less is learned about new ones."""

    RANGES: ClassVar[Mapping[str, Range]] = {"embedding": Range(low=1, high=65536)}


class VGAELearner(Learner):
    r"""Embeds each node as a Gaussian and scores a pair by $\mu_u^\top \mu_v$.

    $H = \mathrm{ReLU}(\hat A X W_0)$, $\mu = \hat A H W_\mu$, $\log\sigma = \hat A H W_\sigma$,
    $z = \mu + \sigma \odot \varepsilon$. The loss is the cross-entropy of the links and as many
    unlinked pairs by $z_u^\top z_v$, and 1/n of the mean divergence of the Gaussians from the
    standard one.

    It follows the authors with three differences. The links that a step predicts are hidden from
    it. As many unlinked pairs are drawn as there are links to predict, as in PyTorch Geometric's
    example; the authors take all of them and give the links more weight. And the best epoch by
    validation is kept, not the last one.
    """

    def __init__(self, num_features: int, settings: VGAESettings) -> None:
        """Create the weights.

        Args:
            num_features: Number of features per node, d.
            settings: Widths, and what is hidden.
        """
        super().__init__()
        self._settings = settings
        self.decode = _InnerProduct()
        hidden, embedding = settings.hidden, settings.embedding
        shapes = ((num_features, hidden), (hidden, embedding), (hidden, embedding))
        layers = [GCNLayer(*shape) for shape in shapes]
        for layer in layers:
            layer.reset_parameters()  # PyTorch Geometric draws twice: a seed keeps its weights
        named = zip(("first", "mean", "log_deviation"), layers, strict=True)
        # Saved models have the encoder below a network.
        self.network = nn.ModuleDict({"encoder": nn.ModuleDict(dict(named))})

    def encode(self, known: TrainingGraph) -> tuple[Tensor, Tensor]:
        r"""Return the mean and the logarithm of the deviation of each node, both [n, embedding]."""
        x = row_shares(known.features) if self._settings.row_normalised else known.features
        first, mean, log_deviation = self.network["encoder"].children()
        h = torch.relu(first(x, known))
        return mean(h, known), log_deviation(h, known).clamp(max=_WIDEST)

    def steps(self, known: TrainingGraph, epoch: Epoch) -> Iterator[Tensor]:
        """Yield one loss: the hidden links against as many unlinked pairs, and the divergence."""
        for batch in self._batches(known, epoch):
            mean, log_deviation = self.encode(known.with_links(batch.seen))
            z = mean
            if self.training:
                z = mean + torch.randn_like(log_deviation) * torch.exp(log_deviation)
            loss = consistency_loss(self.decode(z, batch.targets), self.decode(z, batch.negatives))
            yield loss + divergence(mean, log_deviation) / known.num_nodes

    def scorer(self, known: TrainingGraph) -> InnerProductScorer:
        """Return the inner product of the means that these links give."""
        with evaluating(self):
            mean, _ = self.encode(known)
        return InnerProductScorer(mean, mean, mean.new_zeros(mean.shape[0]))

    def _batches(self, known: TrainingGraph, epoch: Epoch) -> Iterator[MaskedBatch]:
        """Yield the links to predict and those to see: one batch, however many they are."""
        if self._settings.visible_targets:
            yield visible_links(known, epoch)
        else:
            yield from hidden_links(known, epoch, self._settings.mask)


class _InnerProduct(nn.Module):
    def forward(self, z: Tensor, pairs: Tensor) -> Tensor:
        return (z.index_select(0, pairs[0]) * z.index_select(0, pairs[1])).sum(dim=1)


def divergence(mean: Tensor, log_deviation: Tensor) -> Tensor:
    r"""Return the mean divergence of the nodes' Gaussians from the standard one.

    $-\frac12 \sum_k (1 + 2 \log\sigma_k - \mu_k^2 - \sigma_k^2)$, as in PyTorch Geometric's `VGAE`.

    Args:
        mean: $\mu$, [n, any].
        log_deviation: $\log\sigma$, [n, any].
    """
    return -0.5 * torch.mean(
        torch.sum(1 + 2 * log_deviation - mean**2 - log_deviation.exp() ** 2, dim=1)
    )


VGAE = Method(
    title="VGAE",
    settings=VGAESettings,
    build=VGAELearner,
    search={
        "lr": (0.001, 0.005, 0.01),
        "hidden": (32, 64, 128),
        "embedding": (16, 32, 64),
        "mask": (0.1, 0.3, 0.5, 0.7),
        "epochs": (200, 400, 800),
    },
)
"""VGAE: a variational graph auto-encoder (Kipf and Welling, 2016)."""


@dataclass(frozen=True)
class MaskGAESettings(PaperSettings):
    """The settings of MaskGAE, as its authors predict links with it."""

    epochs: int = 500
    weight_decay: float = 5e-5
    clip: float = 1.0
    mask: float = 0.7
    """Share of the links that an epoch hides and predicts from the others."""
    degree_weight: float = 0.003
    """What the loss on degrees counts beside the loss on links, the paper's alpha."""
    batch: int = 65536
    """How many hidden links a step predicts at most."""

    RANGES: ClassVar[Mapping[str, Range]] = {"degree_weight": Range(low=0, high=1e6)}


class MaskGAE(PairNetwork):
    r"""Hides most links and reconstructs them, and how many each node has lost.

    $Z = \mathrm{ELU}(\mathrm{BatchNorm}(\hat A_{seen} X W + b))$; a pair's logit is
    $\mathrm{MLP}(z_u \odot z_v)$, and a second network guesses from $z_u$ how many links of u are
    hidden. $L = L_{links} + \alpha L_{degrees}$.

    It follows the authors with one difference: they hide each direction of a link by its own
    coin and then add the missing directions. With a mask of 0.7 half of the links are seen that
    way, 30 % of the hidden ones among them. Here a link is hidden in both directions, as their
    text has it.
    """

    def __init__(self, num_features: int, settings: MaskGAESettings) -> None:
        """Create the weights.

        Args:
            num_features: Number of features per node, d.
            settings: Widths, dropout, and what is hidden.
        """
        super().__init__(settings)
        self.convolve = GCNLayer(num_features, settings.hidden)
        # Its running mean and deviation are buffers: they are kept and stored with the weights.
        self.normalise = nn.BatchNorm1d(settings.hidden)
        self.decode = PairDecoder(settings.hidden, settings.decoder_dropout)
        self.guess_degrees = nn.Sequential(
            nn.Linear(settings.hidden, settings.hidden // 2),
            nn.Dropout(settings.decoder_dropout),
            nn.ReLU(),
            nn.Linear(settings.hidden // 2, 1),
            nn.ReLU(),
        )

    def encode(self, known: TrainingGraph) -> Tensor:
        """Return one vector per node, [n, hidden]."""
        x = self.dropped(known.features, self.settings.input_dropout)
        return functional.elu(self.normalise(self.convolve(x, known)))

    def batches(self, known: TrainingGraph, epoch: Epoch) -> Iterator[MaskedBatch]:
        """Yield the hidden links, some at a time."""
        return hidden_links(known, epoch, self.settings.mask, self.settings.batch)

    def extra_loss(self, z: Tensor, known: TrainingGraph, seen: TrainingGraph) -> Tensor:
        r"""Return $\alpha L_{degrees} = \frac{\alpha}{n} \sum_u (g_u - \deg_u)^2$."""
        guessed = self.guess_degrees(z).squeeze(1)
        hidden = known.adjacency.degree - seen.adjacency.degree
        loss = functional.mse_loss(guessed, hidden.to(guessed.dtype))
        return self.settings.degree_weight * loss


MASKGAE = Method(
    title="MaskGAE",
    settings=MaskGAESettings,
    build=MaskGAE,
    authors={"pubmed": {"input_dropout": 0.2}},
    search={
        "lr": (0.001, 0.005, 0.01),
        "hidden": (64, 128, 256),
        "input_dropout": (0.2, 0.5, 0.8),
        "mask": (0.3, 0.5, 0.7),
        "degree_weight": (0.0, 0.001, 0.003, 0.01),
    },
)
"""MaskGAE with edge-wise masking (Li et al., 2023); the CGCL paper calls it MGAE."""


@dataclass(frozen=True)
class S2GAESettings(TrainedSettings):
    """The settings of S2GAE, as its authors predict links with it."""

    evaluate_every: int = 1
    clip: float = 1.0
    hidden: int = 128
    """Width of each graph convolution."""
    layers: int = 2
    """Number of graph convolutions."""
    decoder_hidden: int = 256
    """Width of the decoder's hidden layer."""
    encoder: Literal["gcn", "sage"] = "gcn"
    """How a layer takes in neighbours: as a GCN or as GraphSAGE. The authors' script has both."""
    dropout: float = 0.5
    """Chance of an entry to be dropped between two layers in a training step."""
    mask: float = 0.7
    """Share of the links that an epoch hides and predicts from the others."""
    batch: int = 65536
    """How many hidden links a step predicts at most."""

    RANGES: ClassVar[Mapping[str, Range]] = {
        "layers": Range(low=1, high=8),
        "decoder_hidden": Range(low=1, high=65536),
    }


class S2GAE(PairNetwork):
    r"""Hides most links and reconstructs them from what every layer says of their ends.

    $H^{(0)} = X$, $H^{(k)} = \mathrm{ReLU}(\hat A_{seen} H^{(k-1)} W_k + b_k)$; the decoder sees
    the products of all layers of one end with all layers of the other. A GraphSAGE layer may stand
    in for the graph convolution.

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
        super().__init__(settings)
        widths = [num_features] + [settings.hidden] * settings.layers
        layer = SAGELayer if settings.encoder == "sage" else GCNLayer
        self.convolve = nn.ModuleList(layer(before, after) for before, after in pairwise(widths))
        self.decode = CrossCorrelationDecoder(
            settings.layers, settings.hidden, settings.decoder_hidden, settings.dropout
        )

    def encode(self, known: TrainingGraph) -> Tensor:
        """Return what the layers say of each node, one beside the other, [n, layers * hidden]."""
        h = known.features
        outputs: list[Tensor] = []
        for number, convolve in enumerate(self.convolve, start=1):
            h = torch.relu(convolve(h, known))
            if number < len(self.convolve):
                h = functional.dropout(h, self.settings.dropout, self.training)
            outputs.append(h)
        return torch.cat(outputs, dim=1)

    def batches(self, known: TrainingGraph, epoch: Epoch) -> Iterator[MaskedBatch]:
        """Yield the hidden links, some at a time."""
        return hidden_links(known, epoch, self.settings.mask, self.settings.batch)


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

    @property
    def operations(self) -> float:
        """How many multiplications and additions one pair takes: a product for each order."""
        return 4.0 * self.layer_1.in_features * self.layer_1.out_features

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


S2GAE_METHOD = Method(
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
"""S2GAE: hidden links, reconstructed from all layers of the encoder (Tan et al., 2023)."""
