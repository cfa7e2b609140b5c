"""CGCL: two views of the links, each reconstructed from the other (Chen et al.)."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from cgcl.methods.cgcl_settings import PRESETS, CGCLSettings
from cgcl.methods.draws import draw
from cgcl.methods.method import EVERY_GRAPH, Epoch, Known, Learner, Method
from cgcl.methods.scoring import DecoderScorer, decode_pairs, embed
from cgcl.metrics import consistency_terms
from cgcl.model import CGCL, View, symmetric

__all__ = ["METHOD", "CrossViewLearner"]


class CrossViewLearner(CGCL, Learner):
    """Algorithm 1: each epoch draws two views and reconstructs either from the other."""

    def __init__(self, num_features: int, settings: CGCLSettings) -> None:
        """Create the network.

        Args:
            num_features: Number of features per node, d.
            settings: The network, and how its views are drawn.
        """
        super().__init__(
            num_features,
            settings.hidden,
            input_dropout=settings.input_dropout,
            decoder_dropout=settings.decoder_dropout,
            product=settings.product,
            last_layer=settings.last_layer,
            targets=settings.targets,
        )
        self._settings = settings
        # From the start of the seed, wherever building the layers has left the global generator.
        self.reset_parameters(torch.Generator().manual_seed(torch.initial_seed()))

    def steps(self, known: Known, epoch: Epoch) -> Iterator[Tensor]:
        """Yield L_1 and L_2."""
        drawn = draw(known, epoch, self._settings)
        coins = epoch.stream("dropout", known.device)
        x = (known.features_along(seen.edge_index) for seen, _ in drawn.views.turns())
        yield from self.losses(x, drawn.views, drawn.negatives, coins)

    def scorer(self, known: Known) -> DecoderScorer:
        """Return the decoder on embeddings that all these links give."""
        return DecoderScorer(self.decode, self.embedded(known, symmetric(known.links)))

    def embedded(self, known: Known, edge_index: Tensor) -> Tensor:
        """Return the embeddings that some links give, without dropout, [n, d_v]."""
        return embed(self, known.features_along(edge_index), edge_index)

    def track(self, known: Known, epoch: Epoch) -> dict[str, float]:
        """Measure Eq. 10-11 over all pairs that this epoch scored."""
        drawn = draw(known, epoch, self._settings)
        view_1, view_2 = drawn.views.view_1, drawn.views.view_2
        pairs = torch.cat([known.links, *drawn.negatives], dim=1).cpu()
        entries = [_contains(view, pairs, known.num_nodes) for view in (view_1, view_2)]
        reconstructions = [
            torch.sigmoid(decode_pairs(self, self.embedded(known, seen.edge_index), pairs))
            for seen in (view_2, view_1)  # A~_1 is reconstructed from A_2   (Eq. 4)
        ]
        return consistency_terms(*entries, *reconstructions)


def _contains(view: View, pairs: Tensor, num_nodes: int) -> Tensor:
    """Return 1.0 where a pair is a link of the view, else 0.0."""
    low, high = view.edge_index.min(dim=0).values, view.edge_index.max(dim=0).values
    links = (low * num_nodes + high).cpu()
    return torch.isin(pairs[0] * num_nodes + pairs[1], links).float()


METHOD = Method(
    title="CGCL",
    settings=CGCLSettings,
    build=CrossViewLearner,
    authors={EVERY_GRAPH: PRESETS["paper"]},
    search={
        "lr": (0.001, 0.005, 0.01),
        "hidden": (64, 128, 256, 512),
        "input_dropout": (0.2, 0.5, 0.8),
        "weight_decay": (0.0, 1e-5, 1e-4),
        "epochs": (200, 400, 800),
    },
)
