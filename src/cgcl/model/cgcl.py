"""Algorithm 1 of the paper, on one screen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor, nn

from cgcl.model.decoder import LastLayer, PairDecoder, Product, Targets, consistency_loss
from cgcl.model.encoder import GCNEncoder
from cgcl.model.views import Views


class CGCL(nn.Module):
    r"""Cross-view graph consistency learning (Chen et al.).

    Two complementary views of the known links are drawn; what is encoded from one view must
    reconstruct the other:

    $\tilde A_1 = f(X, A_2)$, $\tilde A_2 = f(X, A_1)$   (Eq. 4)

    where $f$ is the shared encoder followed by the shared decoder. Where the paper's text, its
    authors' code and this project differ, docs/paper-to-code.md has a row.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int = 512,
        *,
        input_dropout: float = 0.8,
        decoder_dropout: float = 0.2,
        product: Product = "hadamard",
        last_layer: LastLayer = "linear",
        targets: Targets = "hard",
    ) -> None:
        """Create encoder and decoder.

        Args:
            in_channels: Number of features per node, d.
            hidden_channels: Width of the embeddings, d_v; the decoder's hidden layer has half.
            input_dropout: Chance of a feature to be dropped while training.
            decoder_dropout: Chance of an entry of a pair's product to be dropped.
            product: `hadamard`, or `inner` for Eq. 6 by the letter.
            last_layer: `linear`, or `relu` for the text below Eq. 7 by the letter.
            targets: `hard`, or `sigmoid` for Eq. 8 by the letter.
        """
        super().__init__()
        self.targets: Targets = targets
        self.encode = GCNEncoder(in_channels, hidden_channels, input_dropout)
        self.decode = PairDecoder(hidden_channels, decoder_dropout, product, last_layer)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw new weights."""
        self.encode.reset_parameters(generator)
        self.decode.reset_parameters(generator)

    def losses(
        self,
        x: Tensor | Iterable[Tensor],
        views: Views,
        negatives: Sequence[Tensor],
        generator: torch.Generator | None = None,
    ) -> Iterator[Tensor]:
        """Yield $L_v$ for v = 1, 2; the caller steps the optimizer after each (lines 3-10).

        Args:
            x: Features, [n, d], dense or coalesced sparse COO; those of each turn if they are made
                of the links that it sees.
            views: The two views drawn for this epoch (line 2).
            negatives: For each turn as many unlinked pairs as there are links to reconstruct,
                int64 [2, m_i] (line 6).
            generator: Source of the dropout coins.
        """
        features = [x] * len(negatives) if isinstance(x, Tensor) else x
        turns = zip(views.passes(), features, negatives, strict=True)
        for (seen, hidden), x_v, unlinked in turns:  # lines 3-4
            if hidden.num_pairs == 0:  # a tiny graph may leave a view empty
                continue
            z = self.encode(x_v, seen.edge_index, generator)  # line 5, Eq. 5: [n, d_v]
            positive = self.decode(z, hidden.pairs, generator)  # lines 7-8, Eq. 6-7: [m_i]
            negative = self.decode(z, unlinked, generator)  # [m_i]
            yield consistency_loss(positive, negative, self.targets)  # line 9, Eq. 8

    def forward(self, x: Tensor, edge_index: Tensor, pairs: Tensor) -> Tensor:
        """Return the logits of `pairs`, encoded from all known links (lines 12-14), [p]."""
        return self.decode(self.encode(x, edge_index), pairs)
