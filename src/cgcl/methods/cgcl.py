"""CGCL: two views of the links, each reconstructed from the other (Chen et al.)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from cgcl.counter_rng import base_key, epoch_key, permuted, words, words_below
from cgcl.errors import FeatureError
from cgcl.graph.pairs import encode, is_in
from cgcl.methods.method import EVERY_GRAPH, Epoch, Learner, Method, Remembered, TrainingGraph
from cgcl.methods.minibatch import FeatureRows, neighbourhood
from cgcl.methods.scoring import DecoderScorer, decode_pairs, embed
from cgcl.methods.settings import CGCL_SEARCH, PRESETS, CGCLSettings
from cgcl.metrics import consistency_terms
from cgcl.model import CGCL, View, Views, consistency_loss, divide, symmetric
from cgcl.split import NegativeSampler

VIEWS = "views"
"""The purpose of the coins that divide the links."""
NEGATIVES = ("negatives 1", "negatives 2")
"""The purpose of the counter-examples of each turn."""
BATCHES = "batches"
"""The purpose of the order in which batches take the links."""


@dataclass(frozen=True, eq=False)
class Draw:
    """The random choices of one epoch, made before anything is computed."""

    views: Views
    negatives: list[Tensor]
    """For each turn of the views as many unlinked pairs as there are links to reconstruct."""


def draw(known: TrainingGraph, epoch: Epoch, settings: CGCLSettings) -> Draw:
    """Return what chance decides in an epoch; the same epoch always gives the same draw.

    The coin of a link is a hash of seed, epoch and the link's two ends, and so are the
    counter-examples: every engine, device and worker draws the same.

    Args:
        known: The training links.
        epoch: Which epoch it is.
        settings: Says how views are drawn and what counter-examples avoid.

    Raises:
        SplitError: Every pair of nodes is linked, so there are no counter-examples.
    """
    views = divide(known.links, settings.views, *tossed(known.links, epoch, settings.seen))
    negatives = [
        _avoiding(hidden, known, settings).draw_hashed(hidden.num_pairs, _key(epoch, purpose))
        for (_, hidden), purpose in zip(views.passes(), NEGATIVES, strict=False)
    ]
    return Draw(views, negatives)


def tossed(links: Tensor, epoch: Epoch, seen: float = 0.5) -> tuple[Tensor, Tensor]:
    """Return a coin for each direction of each link, bool [m] there and bool [m] back.

    Args:
        links: Each link once, int64 [2, m].
        epoch: Which epoch it is.
        seen: Chance of a coin to be True.
    """
    key, (low, high) = view_key(epoch), links
    limit = words_below(seen)
    return words(key, low, high) < limit, words(key, high, low) < limit


def view_key(epoch: Epoch) -> int:
    """Return the key of the coins that divide the links."""
    return _key(epoch, VIEWS)


def _key(epoch: Epoch, purpose: str) -> int:
    return epoch_key(base_key(epoch.seed, purpose), epoch.number)


def _avoiding(hidden: View, known: TrainingGraph, settings: CGCLSettings) -> NegativeSampler:
    if settings.negatives == "train":
        return known.unlinked
    return NegativeSampler(hidden.pairs, known.num_nodes, known.sides)


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
        self._features: Remembered[FeatureRows] = Remembered()
        # From the start of the seed, wherever building the layers has left the global generator.
        self.reset_parameters(torch.Generator().manual_seed(torch.initial_seed()))

    def steps(self, known: TrainingGraph, epoch: Epoch) -> Iterator[Tensor]:
        """Yield L_1 and L_2, or the loss of each batch."""
        if self._settings.batch:
            yield from self._batch_losses(known, epoch)
            return
        drawn = draw(known, epoch, self._settings)
        coins = epoch.stream("dropout", known.device)
        x = (known.features_along(seen.edge_index) for seen, _ in drawn.views.passes())
        yield from self.losses(x, drawn.views, drawn.negatives, coins)

    def _batch_losses(self, known: TrainingGraph, epoch: Epoch) -> Iterator[Tensor]:
        """Yield what L_1 and L_2 are on some links of both views at a time, each link once.

        The views, and what a node hears in each, are those of whole steps: a batch chooses only
        which of the hidden links are asked for.
        """
        rank, ranks = epoch.ranks
        purpose = f"dropout {rank}" if rank else "dropout"
        features, coins = self._features_of(known), epoch.stream(purpose, known.device)
        is_first, _ = tossed(known.links, epoch, self._settings.seen)
        ends = known.links[:, is_first].flatten()
        first = torch.bincount(ends, minlength=known.num_nodes)  # links of each node in view 1
        degrees, count = (first, known.adjacency.degree - first), known.links.shape[1]
        for batch in torch.arange(count, device=known.device).split(self._settings.batch):
            slots = batch.tensor_split(ranks)[rank]
            chosen = permuted(slots, count, _key(epoch, BATCHES))
            links, in_first = (own.index_select(-1, chosen) for own in (known.links, is_first))
            first = int(slots[0]) if slots.numel() else 0
            negatives = known.unlinked.draw_hashed(slots.numel(), _key(epoch, NEGATIVES[0]), first)
            sides: list[tuple[Tensor, ...]] = []
            for is_view_1, asked in ((True, ~in_first), (False, in_first)):  # encode 1, ask for 2
                pairs = torch.cat([links[:, asked], negatives[:, asked]], dim=1)
                nodes, ends = torch.unique(pairs, return_inverse=True)
                around = neighbourhood(
                    known.adjacency, nodes, degrees[not is_view_1], self._coin(epoch, is_view_1)
                )
                z = self.encode.along(features.of(around.nodes), around.sums, coins)
                sides.append(self.decode(z, ends, coins).tensor_split(2))
            positive, negative = map(torch.cat, zip(*sides, strict=True))
            if not slots.numel():  # the last batch has fewer links than there are ranks
                yield 0.0 * (positive.sum() + negative.sum())
                continue
            # So that the mean over ranks is that over the whole batch.
            share = ranks * slots.numel() / batch.numel()
            yield share * consistency_loss(positive, negative, self.targets)

    def _coin(self, epoch: Epoch, is_first: bool) -> Callable[[Tensor, Tensor], Tensor]:
        """Return what tells whether links are in a view, by their ends."""
        key, limit = view_key(epoch), words_below(self._settings.seen)
        return lambda low, high: (words(key, low, high) < limit) == is_first

    def _features_of(self, known: TrainingGraph) -> FeatureRows:
        if known.structure is not None:
            raise FeatureError(
                "`batch` needs features of the nodes, and the graph has none: they would be made "
                "anew of all links for every batch.\nLeave `batch` out, or give features."
            )
        if known not in self._features:
            self._features[known] = FeatureRows(known.features)
        return self._features[known]

    def scorer(self, known: TrainingGraph) -> DecoderScorer:
        """Return the decoder on embeddings that all these links give."""
        return DecoderScorer(self.decode, self.embedded(known, symmetric(known.links)))

    def embedded(self, known: TrainingGraph, edge_index: Tensor) -> Tensor:
        """Return the embeddings that some links give, without dropout, [n, d_v]."""
        return embed(self, known.features_along(edge_index), edge_index)

    def track(self, known: TrainingGraph, epoch: Epoch) -> dict[str, float]:
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
    low, high = view.edge_index.cpu()
    links = encode(low, high, num_nodes).sort().values
    return is_in(encode(pairs[0], pairs[1], num_nodes), links).float()


METHOD = Method(
    title="CGCL",
    settings=CGCLSettings,
    build=CrossViewLearner,
    authors={EVERY_GRAPH: PRESETS["paper"]},
    search=CGCL_SEARCH | {"epochs": (200, 400, 800)},
)
