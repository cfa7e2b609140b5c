"""VGAE: a variational graph auto-encoder (Kipf and Welling, 2016)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch_geometric.nn import VGAE
from torch_geometric.nn.models.autoencoder import MAX_LOGSTD

from cgcl.methods.gcn_layer import GCNLayer
from cgcl.methods.hidden_links import hidden_links
from cgcl.methods.masking import MaskedBatch
from cgcl.methods.method import Epoch, Known, Learner, Method
from cgcl.methods.row_shares import row_shares
from cgcl.methods.scoring import InnerProductScorer, evaluating
from cgcl.methods.settings import TrainedSettings
from cgcl.model import consistency_loss, symmetric
from cgcl.settings import Range

__all__ = ["METHOD", "VGAELearner", "VGAESettings"]


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

    RANGES: ClassVar[Mapping[str, Range]] = {
        "hidden": Range(low=1, high=65536),
        "embedding": Range(low=1, high=65536),
        "mask": Range(above=0, below=1),
    }


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
        self.network = VGAE(
            _GaussianEncoder(num_features, settings.hidden, settings.embedding), _InnerProduct()
        )

    def encode(self, known: Known) -> tuple[Tensor, Tensor]:
        r"""Return the mean and the logarithm of the deviation of each node, both [n, embedding]."""
        x = known.features
        if self._settings.row_normalised:
            x = row_shares(x)
        mean, log_deviation = self.network.encoder(x, symmetric(known.links))
        return mean, log_deviation.clamp(max=MAX_LOGSTD)

    def steps(self, known: Known, epoch: Epoch) -> Iterator[Tensor]:
        """Yield one loss: the hidden links against as many unlinked pairs, and the divergence."""
        for batch in self._batches(known, epoch):
            mean, log_deviation = self.encode(known.with_links(batch.seen))
            z = self.network.reparametrize(mean, log_deviation)
            reconstruction = consistency_loss(
                self.network.decode(z, batch.targets), self.network.decode(z, batch.negatives)
            )
            divergence = self.network.kl_loss(mean, log_deviation)
            yield reconstruction + divergence / known.num_nodes

    def scorer(self, known: Known) -> InnerProductScorer:
        """Return the inner product of the means that these links give."""
        with evaluating(self):
            mean, _ = self.encode(known)
        return InnerProductScorer(mean, mean, mean.new_zeros(mean.shape[0]))

    def _batches(self, known: Known, epoch: Epoch) -> Iterator[MaskedBatch]:
        """Yield the links to predict and those to see: one batch, however many they are."""
        links, count = known.links, known.links.shape[1]
        if not self._settings.visible_targets:
            yield from hidden_links(known, epoch, self._settings.mask, size=max(count, 1))
            return
        negatives = known.unlinked.draw(count, epoch.stream("negatives", known.device))
        yield MaskedBatch(targets=links, negatives=negatives, seen=links)


class _GaussianEncoder(nn.Module):
    """Two graph convolutions; the second gives the means and the logarithms of the deviations."""

    def __init__(self, num_features: int, hidden: int, embedding: int) -> None:
        super().__init__()
        self.first = GCNLayer(num_features, hidden)
        self.mean = GCNLayer(hidden, embedding)
        self.log_deviation = GCNLayer(hidden, embedding)

    def forward(self, x: Tensor, edge_index: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.relu(self.first(x, edge_index))
        return self.mean(h, edge_index), self.log_deviation(h, edge_index)


class _InnerProduct(nn.Module):
    """PyTorch Geometric's own gathers by `z[index]`, whose gradients differ from run to run."""

    def forward(self, z: Tensor, pairs: Tensor) -> Tensor:
        return (z.index_select(0, pairs[0]) * z.index_select(0, pairs[1])).sum(dim=1)


METHOD = Method(
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
