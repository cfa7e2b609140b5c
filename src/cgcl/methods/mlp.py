"""A network that sees features only: what is won by links shows against it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from cgcl.methods.hidden_links import hidden_links
from cgcl.methods.masking import MaskedBatch
from cgcl.methods.method import Epoch, Known, Learner, Method
from cgcl.methods.scoring import DecoderScorer, evaluating
from cgcl.methods.settings import TrainedSettings
from cgcl.model import PairDecoder, consistency_loss
from cgcl.model.dropout import dropout
from cgcl.model.product import product
from cgcl.settings import Range

__all__ = ["METHOD", "FeaturesMLP", "FeaturesMLPSettings"]


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

    RANGES: ClassVar[Mapping[str, Range]] = {
        "hidden": Range(low=2, high=65536),
        "input_dropout": Range(low=0, below=1),
        "decoder_dropout": Range(low=0, below=1),
    }


class FeaturesMLP(Learner):
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

    def encode(self, x: Tensor) -> Tensor:
        """Return one vector per node, [n, hidden]."""
        if self.training:
            x = dropout(x, self.input_dropout, None)
        return functional.elu(product(x, self.weight) + self.bias)

    def steps(self, known: Known, epoch: Epoch) -> Iterator[Tensor]:
        """Yield one loss: training links against as many unlinked pairs."""
        for batch in _batches(known, epoch):
            z = self.encode(known.with_links(batch.seen).features)
            yield consistency_loss(self.decode(z, batch.targets), self.decode(z, batch.negatives))

    def scorer(self, known: Known) -> DecoderScorer:
        """Return what scores pairs; links are looked at only where features are made of them."""
        with evaluating(self):
            z = self.encode(known.features)
        return DecoderScorer(self.decode, z)


def _batches(known: Known, epoch: Epoch) -> Iterator[MaskedBatch]:
    """Yield all links at once; half of them if the others have to make the features."""
    links, count = known.links, known.links.shape[1]
    if known.structure is not None:
        yield from hidden_links(known, epoch, 0.5, size=max(count, 1))
        return
    negatives = known.unlinked.draw(count, epoch.stream("negatives", known.device))
    yield MaskedBatch(targets=links, negatives=negatives, seen=links)


METHOD = Method(
    title="Features only (MLP)",
    settings=FeaturesMLPSettings,
    build=FeaturesMLP,
    search={
        "lr": (0.001, 0.005, 0.01),
        "hidden": (64, 128, 256),
        "input_dropout": (0.2, 0.5, 0.8),
        "weight_decay": (0.0, 1e-5, 1e-4),
    },
)
