"""S3GRL: a subgraph is simplified to a few rows of features, and a small network learns them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from cgcl.methods.diffusion import (
    Diffusion,
    KeptRows,
    Surroundings,
    diffuse,
    expected_looks,
    stored_diffusion,
)
from cgcl.methods.examples import example_count, features_without
from cgcl.methods.method import EVERY_GRAPH, Epoch, Known, Learner, Method
from cgcl.methods.remembered import Remembered
from cgcl.methods.scoring import evaluating
from cgcl.methods.settings import TrainedSettings
from cgcl.methods.subgraphs import Adjacency
from cgcl.model.product import product
from cgcl.seeds import stream
from cgcl.settings import Range

__all__ = ["METHOD", "S3GRL", "S3GRLScorer", "S3GRLSettings"]

# Features of training rows that take no more than this are computed once and held; of more, those
# of each batch are computed again in every epoch.
_HELD_BYTES = 2 * 2**30
_ROWS_AT_ONCE = 4096
# The last layers always score so many pairs at once, padded if there are fewer: the shape of a
# product decides the order of its sums.
_SCORED_PAIRS = 256
# Surroundings of at most so many pairs are computed together, and the last two lists that are no
# longer are remembered: training asks for its validation pairs again and again.
_BLOCK_PAIRS = 2**14
_REMEMBERED = 2
# What a pair takes in any case, and for every neighbour that is looked at to cut it out; measured
# on four graphs with one to three hops, it is right within a factor of about two.
_PAIR_OPERATIONS = 1e6
_LOOK_OPERATIONS = 600.0


@dataclass(frozen=True)
class S3GRLSettings(TrainedSettings):
    """The settings of S3GRL."""

    lr: float = 3e-4
    """Learning rate of Adam."""
    epochs: int = 50
    """Number of epochs."""
    evaluate_every: int = 1
    """Epochs between two measurements on the validation links."""
    hidden: int = 256
    """Width of the network."""
    dropout: float = 0.5
    """Chance of a hidden entry to be dropped in a training step."""
    batch: int = 128
    """Pairs in a training step, linked and unlinked ones together."""
    powers: int = 3
    """How many steps features are passed along links: the highest power of the adjacency."""
    hops: int = 3
    """How far from the nearer end of a pair its surroundings reach."""
    nodes_per_hop: int = 100
    """How many nodes a hop adds to the surroundings at most; 0 for no limit."""
    share: float = 1.0
    """Share of the training links that serve as examples; all of them are seen around a pair."""

    RANGES: ClassVar[Mapping[str, Range]] = {
        "hidden": Range(low=1, high=65536),
        "dropout": Range(low=0, below=1),
        "batch": Range(low=2, high=10_000_000),
        "powers": Range(low=1, high=16),
        "hops": Range(low=1, high=16),
        "nodes_per_hop": Range(low=0, high=10_000_000),
        "share": Range(above=0, high=1),
    }

    @property
    def surroundings(self) -> Surroundings:
        """What is looked at around a pair."""
        return Surroundings(self.hops, self.nodes_per_hop, self.powers)

    @property
    def caps(self) -> str:
        """What is left out to stay affordable, for tables."""
        parts = [_counted(self.hops, "hop"), _counted(self.powers, "power")]
        if self.nodes_per_hop:
            parts.append(f"at most {_counted(self.nodes_per_hop, 'node')} a hop")
        if self.share < 1:
            parts.append(f"{100 * self.share:g} % of the training links")
        return ", ".join(parts)


class S3GRL(Learner):
    r"""PoS Plus of "Simplifying Subgraph Representation Learning" (Louis et al., 2023).

    A pair (u, v) is seen as the rows of $[\ell \mid X], \hat A [\ell \mid X], \dots,
    \hat A^K [\ell \mid X]$ that belong to u, to v and to the neighbours they share; $\hat A$ is
    the normalised adjacency of its surroundings without the link u-v. With the powers of a row
    side by side in $r$, and $g$ = ReLU, batch norm, dropout,

    $h = g(W r + b)$, $\quad z = [h_u \odot h_v \mid \mathrm{mean}_{w \in N(u) \cap N(v)} h_w]$,
    $\quad \mathrm{logit} = W_2\, g(W_1 z + b_1) + b_2$.

    A pair without shared neighbours has a mean of 0. This follows the authors' code with one
    difference: a hop adds `nodes_per_hop` nodes at most. Where features are made of links, at most
    half of the links are examples, and the others make the features.
    """

    def __init__(self, num_features: int, settings: S3GRLSettings) -> None:
        """Create the weights.

        Args:
            num_features: Number of features per node, d.
            settings: The network, and how much of a pair's surroundings it sees.
        """
        super().__init__()
        self.settings = settings
        hidden = settings.hidden
        self.layer_0 = nn.Linear((settings.powers + 1) * (num_features + 1), hidden)
        self.norm_0 = nn.BatchNorm1d(hidden)
        self.layer_1 = nn.Linear(2 * hidden, hidden)
        self.norm_1 = nn.BatchNorm1d(hidden)
        self.layer_2 = nn.Linear(hidden, 1)
        self._examples: Remembered[_Examples] = Remembered()
        self._asked: Remembered[list[_Asked]] = Remembered()

    def pool(self, rows: Tensor, kept: KeptRows) -> Tensor:
        """Return the product of each pair's ends beside the mean of what they share, [q, 2 hidden].

        Args:
            rows: What the first layer makes of each kept row, [2q + s, hidden].
            kept: Whose they are.
        """
        h = self._activated(rows, self.norm_0)
        source, target, shared = h.split([kept.num_pairs, kept.num_pairs, kept.owner.numel()])
        return torch.cat([source * target, _means(shared, kept)], dim=1)

    def decode(self, z: Tensor) -> Tensor:
        """Return logits, [q], of what `pool` made of pairs."""
        return self.layer_2(self._activated(self.layer_1(z), self.norm_1)).squeeze(1)

    def weights_by_power(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the first layer's weights of labels, [K + 1, hidden], and its products with x.

        Args:
            x: Features of all nodes, [n, d], dense or coalesced sparse COO.

        Returns:
            Weights of labels, [K + 1, hidden], and features times weights, [K + 1, n, hidden].
        """
        hidden, powers = self.settings.hidden, self.settings.powers
        weight = self.layer_0.weight.T.reshape(powers + 1, -1, hidden)
        label, rest = weight[:, 0], weight[:, 1:]
        return label, torch.stack([product(x, one) for one in rest])

    def _activated(self, h: Tensor, norm: nn.BatchNorm1d) -> Tensor:
        return functional.dropout(norm(h.relu()), self.settings.dropout, self.training)

    def steps(self, known: Known, epoch: Epoch) -> Iterator[Tensor]:
        """Yield the loss of each batch of linked and unlinked pairs.

        The unlinked pairs are drawn once a run, as many as there are links: new ones would need
        new surroundings in every epoch.
        """
        examples = self._examples_of(known, epoch.seed)
        count = examples.targets.numel()
        order = torch.randperm(count, generator=epoch.stream("batches"))
        # Even parts: batch norm cannot do with a last batch of one.
        for chosen in order.tensor_split(-(-count // self.settings.batch)):
            kept = examples.diffusion.rows_of(chosen)
            logits = self.decode(self.pool(self.layer_0(examples.features(kept.rows)), kept))
            wanted = examples.targets.index_select(0, chosen).to(known.device)
            yield functional.binary_cross_entropy_with_logits(logits, wanted)

    def _examples_of(self, known: Known, seed: int) -> _Examples:
        """Return the pairs to learn from; they are the same in every epoch."""
        examples = self._examples.get(known)
        if examples is None or examples.seed != seed:
            examples = self._examples[known] = _Examples(known, seed, self.settings)
        return examples

    def scorer(self, known: Known) -> S3GRLScorer:
        """Return what scores pairs; the surroundings of each are looked up among these links."""
        return S3GRLScorer(self, known)

    def diffusion_of(self, pairs: Tensor, known: Known, adjacency: Adjacency) -> Diffusion:
        """Return what `diffuse` returns; the last two lists of pairs are remembered.

        Args:
            pairs: Node numbers, int64 [2, p].
            known: What may be looked at.
            adjacency: Its links.
        """
        remembered = self._asked.get(known, [])
        for asked in remembered:
            if torch.equal(asked.pairs, pairs):
                return asked.diffusion
        found = diffuse(adjacency, pairs, self.settings.surroundings)
        self._asked[known] = [*remembered, _Asked(pairs, found)][-_REMEMBERED:]
        return found


def _means(shared: Tensor, kept: KeptRows) -> Tensor:
    """Return the mean over the shared neighbours of each pair, 0 if there are none, [q, hidden]."""
    owner = kept.owner
    weight = 1 / torch.bincount(owner, minlength=kept.num_pairs).to(shared.dtype)
    means = torch.sparse_coo_tensor(
        torch.stack([owner, torch.arange(owner.numel())]),
        weight.index_select(0, owner),
        (kept.num_pairs, owner.numel()),
        is_coalesced=True,
        check_invariants=False,
    )
    return product(means.to(shared.device), shared)


@dataclass(frozen=True, eq=False)
class _Asked:
    """Pairs that were scored, [2, p], and what is known of their surroundings."""

    pairs: Tensor
    diffusion: Diffusion


class _Examples:
    """The pairs that are learned from, linked and unlinked, and their features."""

    def __init__(self, known: Known, seed: int, settings: S3GRLSettings) -> None:
        """Draw them; they follow from the links and the seed."""
        self.seed = seed
        links, total = known.links, known.links.shape[1]
        count = example_count(known, settings.share)
        drawn = torch.arange(total)
        if count < total:
            drawn = torch.randperm(total, generator=stream(seed, "examples"))[:count]
            links = links.index_select(1, drawn.to(links.device))
        negatives = known.unlinked.draw(count, stream(seed, "negatives", device=known.device))
        self.targets = torch.cat([torch.ones(count), torch.zeros(negatives.shape[1])])
        self.diffusion = stored_diffusion(
            known.links,
            known.num_nodes,
            torch.cat([links, negatives], dim=1),
            settings.surroundings,
        )
        self._x = _dense(features_without(known, drawn))
        width = (settings.powers + 1) * (self._x.shape[1] + 1)
        self._held = (
            self._all_features(width)
            if self.diffusion.num_rows * width * self._x.element_size() <= _HELD_BYTES
            else None
        )

    def features(self, rows: Tensor) -> Tensor:
        """Return the features of some rows, [q, width]."""
        if self._held is None:
            return self.diffusion.features(rows, self._x)
        return self._held.index_select(0, rows.to(self._held.device))

    def _all_features(self, width: int) -> Tensor:
        features = self._x.new_empty(self.diffusion.num_rows, width)
        for rows in torch.arange(self.diffusion.num_rows).split(_ROWS_AT_ONCE):
            features[rows[0] : rows[-1] + 1] = self.diffusion.features(rows, self._x)
        return features


class S3GRLScorer:
    """Scores pairs by their surroundings in some known links."""

    cost_per_node = 0.0
    """Every pair is scored by itself."""

    def __init__(self, learner: S3GRL, known: Known) -> None:
        """Take the trained network and what may be looked at."""
        self.num_nodes = known.num_nodes
        self._learner = learner
        self._known = known
        with evaluating(learner):
            # Multiplied once with what every score needs.
            self._label, self._x = learner.weights_by_power(known.features)

    @cached_property
    def _adjacency(self) -> Adjacency:
        return Adjacency(self._known.links, self.num_nodes)

    @cached_property
    def cost_per_pair(self) -> float:
        """About how many operations one pair takes, most of them to cut out its surroundings."""
        looks = expected_looks(self._adjacency.degree, self._learner.settings.surroundings)
        return _PAIR_OPERATIONS + _LOOK_OPERATIONS * looks

    def logits(self, pairs: Tensor) -> Tensor:
        """Return the logits of pairs of node numbers, float32 [p] on the CPU."""
        if pairs.shape[1] == 0:
            return torch.empty(0)
        low, high = pairs.cpu().aminmax(dim=0)
        codes, place = torch.unique(low * self.num_nodes + high, return_inverse=True)
        with evaluating(self._learner):
            blocks = [self._scores(block) for block in codes.split(_BLOCK_PAIRS)]
        return torch.cat(blocks).index_select(0, place)

    def factors(self) -> None:
        """There are none: the score is no function of one vector per node."""
        return

    def _scores(self, codes: Tensor) -> Tensor:
        ends = torch.stack([codes // self.num_nodes, codes % self.num_nodes])
        learner = self._learner
        diffusion = learner.diffusion_of(ends, self._known, self._adjacency)
        scores = []
        for chosen in torch.arange(codes.numel()).split(_SCORED_PAIRS):
            kept = diffusion.rows_of(chosen)
            rows = diffusion.times(kept.rows, self._label, self._x) + learner.layer_0.bias
            z = functional.pad(learner.pool(rows, kept), (0, 0, 0, _SCORED_PAIRS - kept.num_pairs))
            scores.append(learner.decode(z)[: kept.num_pairs].cpu())
        return torch.cat(scores)


def _dense(x: Tensor) -> Tensor:
    return x.to_dense() if x.is_sparse else x


def _counted(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


METHOD = Method(
    title="S3GRL",
    settings=S3GRLSettings,
    build=S3GRL,
    # The authors take smaller steps on smaller batches, which takes longer. They look at all nodes
    # within three hops; in graphs denser than these that is most of the graph.
    authors={
        EVERY_GRAPH: {"lr": 1e-4, "batch": 32},
        **{name: {"nodes_per_hop": 0} for name in ("cora", "citeseer", "pubmed")},
    },
    search={
        "lr": (1e-4, 3e-4, 1e-3),
        "hidden": (128, 256, 512),
        "dropout": (0.2, 0.5, 0.7),
        "weight_decay": (0.0, 1e-5, 1e-4),
    },
)
