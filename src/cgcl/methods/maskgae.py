"""MaskGAE with edge-wise masking (Li et al., 2023); the CGCL paper calls it MGAE."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from cgcl.methods.gcn_layer import GCNLayer
from cgcl.methods.hidden_links import hidden_links
from cgcl.methods.method import Epoch, Known, Learner, Method
from cgcl.methods.scoring import DecoderScorer, evaluating
from cgcl.methods.settings import TrainedSettings
from cgcl.model import PairDecoder, consistency_loss, symmetric
from cgcl.model.dropout import dropout
from cgcl.settings import Range

__all__ = ["METHOD", "MaskGAE", "MaskGAESettings", "degree_loss", "degrees"]


@dataclass(frozen=True)
class MaskGAESettings(TrainedSettings):
    """The settings of MaskGAE, as its authors predict links with it."""

    epochs: int = 500
    """Number of epochs."""
    weight_decay: float = 5e-5
    """Strength of the L2 penalty on the weights."""
    clip: float = 1.0
    """Longest gradient that a step may follow; longer ones are shortened. 0 for no limit."""
    hidden: int = 128
    """Width of the embeddings; the hidden layers of both decoders have half of it."""
    input_dropout: float = 0.8
    """Chance of a feature to be dropped in a training step."""
    decoder_dropout: float = 0.2
    """Chance of an entry to be dropped in the decoders in a training step."""
    mask: float = 0.7
    """Share of the links that an epoch hides and predicts from the others."""
    degree_weight: float = 0.003
    """What the loss on degrees counts beside the loss on links, the paper's alpha."""
    batch: int = 65536
    """How many hidden links a step predicts at most."""

    RANGES: ClassVar[Mapping[str, Range]] = {
        "hidden": Range(low=2, high=65536),
        "input_dropout": Range(low=0, below=1),
        "decoder_dropout": Range(low=0, below=1),
        "mask": Range(above=0, below=1),
        "degree_weight": Range(low=0, high=1e6),
        "batch": Range(low=1, high=2**31),
    }


class MaskGAE(Learner):
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
        super().__init__()
        self._settings = settings
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

    def encode(self, known: Known) -> Tensor:
        """Return one vector per node, [n, hidden]."""
        x = known.features
        if self.training:
            x = dropout(x, self._settings.input_dropout, None)
        return functional.elu(self.normalise(self.convolve(x, symmetric(known.links))))

    def steps(self, known: Known, epoch: Epoch) -> Iterator[Tensor]:
        """Yield a loss for each batch of the hidden links."""
        settings = self._settings
        for batch in hidden_links(known, epoch, settings.mask, settings.batch):
            z = self.encode(known.with_links(batch.seen))
            loss = consistency_loss(self.decode(z, batch.targets), self.decode(z, batch.negatives))
            hidden = degrees(known.links, known.num_nodes) - degrees(batch.seen, known.num_nodes)
            yield loss + settings.degree_weight * degree_loss(self.guess_degrees(z), hidden)

    def scorer(self, known: Known) -> DecoderScorer:
        """Return the decoder on embeddings that all these links give."""
        with evaluating(self):
            z = self.encode(known)
        return DecoderScorer(self.decode, z)


def degrees(links: Tensor, num_nodes: int) -> Tensor:
    """Count the links of each node, int64 [n].

    Args:
        links: Each link once, int64 [2, m].
        num_nodes: Number of nodes, n.
    """
    return torch.bincount(links.flatten(), minlength=num_nodes)


def degree_loss(guessed: Tensor, degree: Tensor) -> Tensor:
    r"""Return $L_{degrees} = \frac1n \sum_u (g_u - \deg_u)^2$.

    Args:
        guessed: What the network says of each node, $g$, [n, 1].
        degree: How many hidden links each node has, [n].
    """
    return functional.mse_loss(guessed.squeeze(1), degree.to(guessed.dtype))


METHOD = Method(
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
