"""NCN: two nodes, and the neighbours that they share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from cgcl.graph.adjacency import Adjacency, blocks_of
from cgcl.methods.masking import masked_batches
from cgcl.methods.method import Epoch, Known, Learner, Method
from cgcl.methods.scoring import block_size, evaluating
from cgcl.methods.settings import TrainedSettings
from cgcl.model import consistency_loss, propagate, symmetric
from cgcl.model.ops import dropout, product
from cgcl.settings import Range

# Fetching and multiplying an entry of two embeddings, and looking up one neighbour, in operations
# of the layers' products.
_FETCH = 20.0
_LOOK_UP = 2000.0
# How many neighbours are looked up at once: 2^20 take about 50 MB.
_BUDGET = 2**20


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
    """Learning rate of Adam."""
    epochs: int = 100
    """Number of epochs; each takes a step per batch of links."""
    evaluate_every: int = 5
    """Epochs between two measurements on the validation links."""

    RANGES: ClassVar[Mapping[str, Range]] = {
        "hidden": Range(low=1, high=65536),
        "layers": Range(low=1, high=16),
        "head_layers": Range(low=1, high=16),
        "batch": Range(low=1, high=10_000_000),
    }


class NCN(Learner):
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
        super().__init__()
        self._settings = settings
        self.project = nn.Linear(num_features, settings.hidden)
        self.shares = nn.Parameter(torch.full((settings.layers,), 1 / settings.layers))
        self.decode = SharedNeighbourDecoder(
            settings.hidden, settings.head_layers, settings.decoder_dropout
        )

    def encode(self, known: Known) -> Tensor:
        """Return one vector per node, [n, hidden], from features and these links alone."""
        settings, x = self._settings, known.features
        if self.training:
            x = dropout(x, settings.input_dropout, None)
        h = product(x, self.project.weight.T) + self.project.bias
        h = functional.dropout(h, settings.encoder_dropout, self.training)
        edge_index = symmetric(known.links)
        reached: list[Tensor] = []
        for _ in range(settings.layers):
            h = propagate(h, edge_index)
            reached.append(h)
        reached[-1] = functional.dropout(h, settings.embedding_dropout, self.training)
        return (self.shares.view(-1, 1, 1) * torch.stack(reached)).sum(dim=0)

    def steps(self, known: Known, epoch: Epoch) -> Iterator[Tensor]:
        """Yield a loss per batch of links, which are hidden from all that is computed."""
        for batch in masked_batches(known, epoch, self._settings.batch):
            seen = known.with_links(batch.seen)
            h = self.encode(seen)
            lists = Adjacency.from_pairs(seen.links, seen.num_nodes)
            yield consistency_loss(
                self._logits(h, lists, batch.targets), self._logits(h, lists, batch.negatives)
            )

    def scorer(self, known: Known) -> NCNScorer:
        """Return the decoder on the embeddings and neighbourhoods that all these links give."""
        with evaluating(self):
            h = self.encode(known)
        return NCNScorer(self.decode, h, Adjacency.from_pairs(known.links, known.num_nodes))

    def _logits(self, h: Tensor, lists: Adjacency, pairs: Tensor) -> Tensor:
        """Return the logits of some pairs in training, [p]."""
        places, nodes = lists.common_neighbours(pairs)
        kept = torch.rand(nodes.shape, device=h.device) >= self._settings.neighbour_dropout
        # Only few nodes are anyone's common neighbour: r is not computed for the others.
        used, which = torch.unique(nodes[kept], return_inverse=True)
        values = self.decode.refined(h.index_select(0, used))
        sums = shared_sum(places[kept], which, values, pairs.shape[1])
        return self.decode(h, pairs, sums)


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
        self.refine = nn.Sequential(  # r
            nn.Linear(hidden, hidden), nn.Dropout(dropout), nn.ReLU(), _layer(hidden, dropout)
        )
        self.from_shared = nn.Sequential(  # g
            nn.Linear(hidden, hidden), nn.Dropout(dropout), nn.ReLU(), _layer(hidden, dropout)
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
    shared = torch.sparse_coo_tensor(
        torch.stack([places, nodes]),
        torch.ones(nodes.shape, dtype=values.dtype, device=values.device),
        (num_pairs, values.shape[0]),
        check_invariants=False,
        is_coalesced=True,
    )
    return torch.sparse.mm(shared, values)


class NCNScorer:
    """Scores pairs by their embeddings and by the neighbours that they share."""

    cost_per_node = 0.0
    """Every pair is scored by itself."""

    def __init__(self, decoder: SharedNeighbourDecoder, h: Tensor, lists: Adjacency) -> None:
        """Compute once what every node counts.

        Args:
            decoder: The decoder; dropout in it is off while it scores.
            h: Embeddings of all nodes, [n, hidden].
            lists: The neighbours of all nodes.
        """
        self._decoder = decoder
        self._h = h
        self._lists = lists
        with evaluating(decoder):
            self._values = decoder.refined(h)

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return self._h.shape[0]

    @property
    def cost_per_pair(self) -> float:
        """About how many operations one pair takes: layers, fetching, looking up neighbours."""
        width, walked = self._h.shape[1], self._lists.indices.numel() / max(self.num_nodes, 1)
        return self._decoder.operations + _FETCH * width + _LOOK_UP * walked

    def logits(self, pairs: Tensor) -> Tensor:
        """Return the logits of pairs of node numbers, float32 [p] on the CPU."""
        pairs, size = pairs.to(self._h.device), block_size(self._h.shape[1], self._h.device)
        fewer = self._lists.degree.index_select(0, pairs.flatten()).view(2, -1).amin(dim=0)
        with evaluating(self._decoder):
            blocks = [
                self._block_logits(pairs[:, block]).cpu()
                for block in blocks_of(fewer.cpu().numpy(), _BUDGET, size)
            ]
        return torch.cat(blocks) if blocks else torch.empty(0)

    def factors(self) -> None:
        """There are none: common neighbours are no function of one vector per node."""
        return

    def _block_logits(self, pairs: Tensor) -> Tensor:
        places, nodes = self._lists.common_neighbours(pairs)
        sums = shared_sum(places, nodes, self._values, pairs.shape[1])
        return self._decoder(self._h, pairs, sums)


METHOD = Method(
    title="NCN",
    settings=NCNSettings,
    build=NCN,
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
