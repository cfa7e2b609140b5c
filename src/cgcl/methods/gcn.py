"""GCN with hidden targets: CGCL's encoder and decoder, trained on batches of links."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from cgcl.methods.masking import masked_batches
from cgcl.methods.method import Epoch, Known, Learner, Method
from cgcl.methods.scoring import DecoderScorer, evaluating
from cgcl.methods.settings import TrainedSettings
from cgcl.model import GCNEncoder, PairDecoder, consistency_loss, symmetric
from cgcl.settings import Range

__all__ = ["METHOD", "MaskedGCN", "MaskedGCNSettings"]


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
        "input_dropout": Range(low=0, below=1),
        "decoder_dropout": Range(low=0, below=1),
        "batch": Range(low=1, high=10_000_000),
    }


class MaskedGCN(Learner):
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
        z: Tensor = self.convolve(known.features, symmetric(known.links))
        return z

    def steps(self, known: Known, epoch: Epoch) -> Iterator[Tensor]:
        """Yield a loss per batch of links, which are hidden from the encoder meanwhile."""
        for batch in masked_batches(known, epoch, self._batch):
            z = self.encode(known.with_links(batch.seen))
            yield consistency_loss(self.decode(z, batch.targets), self.decode(z, batch.negatives))

    def scorer(self, known: Known) -> DecoderScorer:
        """Return the decoder on embeddings that all these links give."""
        with evaluating(self):
            z = self.encode(known)
        return DecoderScorer(self.decode, z)


METHOD = Method(
    title="GCN, targets hidden",
    settings=MaskedGCNSettings,
    build=MaskedGCN,
    search={
        "lr": (0.001, 0.005, 0.01),
        "hidden": (64, 128, 256, 512),
        "input_dropout": (0.2, 0.5, 0.8),
        "weight_decay": (0.0, 1e-5, 1e-4),
        "batch": (1024, 4096, 16384),
    },
)
