"""S3GRL: a subgraph is simplified to a few rows of features, and a small network learns them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import csr_array, vstack
from torch import Tensor, nn
from torch.nn import functional

from cgcl.graph.adjacency import Adjacency, Numbers, ranges
from cgcl.graph.pairs import decode, encode
from cgcl.methods.method import EVERY_GRAPH, Method, PairwiseScorer, TrainingGraph
from cgcl.methods.scoring import evaluating
from cgcl.methods.subgraphs import (
    Arrays,
    Examples,
    SubgraphLearner,
    Subgraphs,
    SubgraphSettings,
    cached,
    counted,
    extract,
    starts_of,
)
from cgcl.model.ops import sparse, spmm
from cgcl.settings import Range

# Features of training rows that take no more than this are computed once and held; of more, those
# of each batch are computed again in every epoch.
_HELD_BYTES = 2 * 2**30
_ROWS_AT_ONCE = 4096
# The last layers always score so many pairs at once, padded if there are fewer: the shape of a
# product decides the order of its sums.
_SCORED_PAIRS = 256
# Surroundings of at most so many pairs are computed, and remembered, together.
_BLOCK_PAIRS = 2**14
# Subgraphs of so many pairs are in memory at once; with 300 nodes each they take about 100 MB.
_DIFFUSED_PAIRS = 1024
# What a pair takes in any case, and for every neighbour that is looked at to cut it out; measured
# on four graphs with one to three hops, it is right within a factor of about two.
_PAIR_OPERATIONS = 1e6
_LOOK_OPERATIONS = 600.0


@dataclass(frozen=True, eq=False)
class Diffusion:
    """The kept rows of the powers 1, ..., K for p pairs, on the CPU.

    A pair's rows lie together: its source, its target, then the neighbours they share. An entry
    says how much of a node arrives at the row's node within k steps.
    """

    size: Tensor
    """How many rows each pair has, int64 [p]."""
    nodes: Tensor
    """The node of each row, int32 [r]."""
    labels: Tensor
    r"""$\hat A^k \ell$ for k = 0, ..., K: what arrives from the two ends, float32 [r, K + 1]."""
    entry_size: Tensor
    """How many entries each row has, int64 [r K]: its K powers one after the other."""
    reached: Tensor
    """The node of each entry, int32 [e]."""
    weights: Tensor
    """What each entry is worth, float32 [e]."""

    @property
    def num_rows(self) -> int:
        """Number of rows, r."""
        return self.nodes.numel()

    @property
    def powers(self) -> int:
        """The highest power, K."""
        return self.labels.shape[1] - 1

    @cached_property
    def start(self) -> Numbers:
        """Where the rows of each pair begin, [p + 1]."""
        return starts_of(self.size.numpy())

    @cached_property
    def _entry_start(self) -> Numbers:
        return starts_of(self.entry_size.numpy())

    def rows_of(self, pairs: Tensor) -> tuple[Tensor, Tensor]:
        """Return the rows of some pairs: all sources, all targets, then all shared neighbours.

        Args:
            pairs: Numbers of pairs, int64 [q].

        Returns:
            Places among the rows, int64 [2q + s], and which of the pairs each shared neighbour
            belongs to, int64 [s]; it never falls.
        """
        chosen = pairs.cpu().numpy()
        source = self.start[chosen]
        owner, shared = ranges(source + 2, self.start[chosen + 1] - source - 2)
        rows = np.concatenate([source, source + 1, shared])
        return torch.from_numpy(rows), torch.from_numpy(owner)

    def features(self, rows: Tensor, x: Tensor) -> Tensor:
        r"""Return rows of $[\ell \mid X], \hat A [\ell \mid X], \dots, \hat A^K [\ell \mid X]$.

        Args:
            rows: Which rows, int64 [q], on the CPU.
            x: Dense features of all nodes, float32 [n, d], on the device to compute on.

        Returns:
            One row each, the powers side by side, float32 [q, (K + 1) (d + 1)].
        """
        size, places = self._entries(rows)
        features = x.new_empty(rows.numel(), self.powers + 1, x.shape[1] + 1)
        features[:, :, 0] = self.labels.index_select(0, rows).to(x.device)
        features[:, 0, 1:] = x.index_select(0, self._nodes_of(rows).to(x.device))
        features[:, 1:, 1:] = _weighted_sums(
            x,
            self.reached.index_select(0, places).long(),
            self.weights.index_select(0, places),
            size.reshape(-1),
        ).view(-1, self.powers, x.shape[1])
        return features.view(rows.numel(), -1)

    def times(self, rows: Tensor, label: Tensor, x: Tensor) -> Tensor:
        r"""Return rows of $\sum_{k=0}^K \hat A^k [\ell \mid X] W_k$, from products with $X$.

        As $(\hat A^k X) W_k = \hat A^k (X W_k)$, this is `features` times the weights, but with
        few sums. A row's numbers do not depend on the rows it is asked with.

        Args:
            rows: Which rows, int64 [q], on the CPU.
            label: The weights of the labels for each power, [K + 1, hidden].
            x: All nodes' features times the weights for each power, [K + 1, n, hidden].

        Returns:
            One row each, [q, hidden].
        """
        num_nodes, width = x.shape[1:]
        size, places = self._entries(rows)
        power = np.tile(np.arange(1, self.powers + 1), rows.numel())
        at = torch.from_numpy(np.repeat(power * num_nodes, size.reshape(-1)))
        arrived = _weighted_sums(
            x.reshape(-1, width),
            self.reached.index_select(0, places) + at,
            self.weights.index_select(0, places),
            size.sum(axis=1),
        )
        labels = self.labels.index_select(0, rows).to(x.device)
        own = x[0].index_select(0, self._nodes_of(rows).to(x.device))
        return arrived + own + (labels.unsqueeze(2) * label).sum(dim=1)

    def _nodes_of(self, rows: Tensor) -> Tensor:
        return self.nodes.index_select(0, rows).long()

    def _entries(self, rows: Tensor) -> tuple[Numbers, Tensor]:
        """Return how many entries each row has for each power, [q, K], and where they are."""
        start = self._entry_start
        which = rows.numpy()[:, None] * self.powers + np.arange(self.powers)
        size = start[which + 1] - start[which]
        _, places = ranges(start[which[:, 0]], size.sum(axis=1))
        return size, torch.from_numpy(places)


def _weighted_sums(table: Tensor, places: Tensor, weights: Tensor, size: Numbers) -> Tensor:
    """Return sums of weighted rows of a table, one for each stretch of so many places."""
    return functional.embedding_bag(
        places.to(table.device),
        table,
        torch.from_numpy(starts_of(size)).to(table.device),
        mode="sum",
        per_sample_weights=weights.to(table.device),
        include_last_offset=True,
    )


def diffuse(adjacency: Adjacency, pairs: Tensor, settings: S3GRLSettings) -> Diffusion:
    """Return the kept rows of each pair; they do not depend on the pairs beside it.

    Args:
        adjacency: The links to go along; one between a pair's own ends is not seen.
        pairs: Node numbers, int64 [2, p]; (u, v) and (v, u) give the same.
        settings: What is looked at, and the highest power of the adjacency.
    """
    blocks = [
        _diffuse_block(extract(adjacency, block, settings), settings.powers)
        for block in pairs.cpu().split(_DIFFUSED_PAIRS, dim=1)
    ]
    names = [own.name for own in fields(Diffusion)]
    return Diffusion(*(torch.cat([getattr(own, name) for own in blocks]) for name in names))


def stored_diffusion(known: TrainingGraph, pairs: Tensor, settings: S3GRLSettings) -> Diffusion:
    """Return what `diffuse` returns, from disk if it was computed before."""

    def compute() -> Arrays:
        found = diffuse(known.adjacency, pairs, settings)
        return {own.name: getattr(found, own.name).numpy() for own in fields(found)}

    limits = (settings.hops, settings.nodes_per_hop, settings.powers)
    arrays = cached("s3grl-2", [known.links, known.num_nodes, pairs, *limits], compute)
    return Diffusion(**{name: torch.from_numpy(array) for name, array in arrays.items()})


def expected_looks(degree: Numbers, settings: SubgraphSettings) -> float:
    """Return about how many neighbours are looked at to cut out an average pair.

    Args:
        degree: The number of links of each node, int64 [n].
        settings: What is looked at.
    """
    mean = float(degree.mean()) if degree.size else 0.0
    # A neighbour's mean degree: nodes with many links are neighbours of many.
    onward = float((degree**2).mean()) / mean if mean else 0.0
    looks = new = 2.0 * mean
    for _ in range(settings.hops):
        ring = min(new, float(degree.size), settings.nodes_per_hop or np.inf)
        new = ring * onward
        looks += new
    # Once to find the nodes, and once to find the links between them.
    return 2.0 * looks


def _diffuse_block(subgraphs: Subgraphs, powers: int) -> Diffusion:
    nodes, owner = subgraphs.nodes.numpy(), subgraphs.owner.numpy()
    is_end, is_kept = _kept(subgraphs)
    kept = is_kept.nonzero()[0]
    once = _normalised(subgraphs)
    found = [csr_array(once[kept])]  # the kept rows of A^, A^2, ...
    for _ in range(powers - 1):
        found.append(csr_array(found[-1] @ once))
    # From all rows of a power together to all powers of a row together.
    order = np.arange(powers * kept.size).reshape(powers, kept.size).T.reshape(-1)
    entries = csr_array(csr_array(vstack(found))[order])
    label = is_end.astype(np.float32)
    arrived = (entries @ label).reshape(kept.size, powers)
    count = np.bincount(owner[kept], minlength=subgraphs.num_pairs)
    return Diffusion(
        size=torch.from_numpy(count),
        nodes=torch.from_numpy(nodes[kept].astype(np.int32)),
        labels=torch.from_numpy(np.concatenate([label[kept, None], arrived], axis=1)),
        entry_size=torch.from_numpy(np.diff(entries.indptr).astype(np.int64)),
        reached=torch.from_numpy(nodes[entries.indices].astype(np.int32)),
        weights=torch.from_numpy(entries.data),
    )


def _normalised(subgraphs: Subgraphs) -> csr_array:
    r"""Return $\hat A$ of all subgraphs, one block of the diagonal each, float32 [t, t]."""
    total = subgraphs.nodes.numel()
    loops = np.arange(total)
    source, target = np.concatenate([subgraphs.edge_index.numpy(), [loops, loops]], axis=1)
    scale = 1 / np.sqrt(np.bincount(source, minlength=total))  # D~^(-1/2); no degree is 0
    weight = (scale[source] * scale[target]).astype(np.float32)
    return csr_array((weight, (source, target)), shape=(total, total))


def _kept(subgraphs: Subgraphs) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return which nodes are ends of their pair, and which of them are kept: also those between."""
    total, source = subgraphs.nodes.numel(), subgraphs.start.numpy()[:-1]
    end = np.zeros(total)
    end[source], end[source + 1] = 1, 2
    here, there = subgraphs.edge_index.numpy()
    near = np.bincount(there, end[here], total)  # 1 + 2 where both ends are neighbours
    return end > 0, (end > 0) | (near == 3)


@dataclass(frozen=True)
class S3GRLSettings(SubgraphSettings):
    """The settings of S3GRL."""

    lr: float = 3e-4
    hops: int = 3
    hidden: int = 256
    """Width of the network."""
    dropout: float = 0.5
    """Chance of a hidden entry to be dropped in a training step."""
    batch: int = 128
    """Pairs in a training step, linked and unlinked ones together."""
    powers: int = 3
    """How many steps features are passed along links: the highest power of the adjacency."""

    RANGES: ClassVar[Mapping[str, Range]] = {
        "batch": Range(low=2, high=10_000_000),
        "powers": Range(low=1, high=16),
    }

    @property
    def caps(self) -> str:
        """What is left out to stay affordable, for tables."""
        return self.caps_beside(counted(self.powers, "power"))


class S3GRL(SubgraphLearner["_Examples", Diffusion]):
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
        super().__init__(settings, _Examples)
        hidden = settings.hidden
        self.layer_0 = nn.Linear((settings.powers + 1) * (num_features + 1), hidden)
        self.norm_0 = nn.BatchNorm1d(hidden)
        self.layer_1 = nn.Linear(2 * hidden, hidden)
        self.norm_1 = nn.BatchNorm1d(hidden)
        self.layer_2 = nn.Linear(hidden, 1)

    def pool(self, rows: Tensor, owner: Tensor) -> Tensor:
        """Return the product of each pair's ends beside the mean of what they share, [q, 2 hidden].

        Args:
            rows: What the first layer makes of each kept row, [2q + s, hidden].
            owner: Which pair each shared neighbour belongs to, int64 [s].
        """
        h, num_shared = self._activated(rows, self.norm_0), owner.numel()
        num_pairs = (h.shape[0] - num_shared) // 2
        source, target, shared = h.split([num_pairs, num_pairs, num_shared])
        return torch.cat([source * target, _means(shared, owner, num_pairs)], dim=1)

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
        return label, torch.stack([spmm(x, one) for one in rest])

    def _activated(self, h: Tensor, norm: nn.BatchNorm1d) -> Tensor:
        return functional.dropout(norm(h.relu()), self.settings.dropout, self.training)

    def batches(self, order: Tensor) -> Sequence[Tensor]:
        """Return the numbers of the examples of each step."""
        # Even parts: batch norm cannot do with a last batch of one.
        return order.tensor_split(-(-order.numel() // self.settings.batch))

    def logits(self, examples: _Examples, chosen: Tensor) -> Tensor:
        """Return the logits of some examples while training."""
        rows, owner = examples.diffusion.rows_of(chosen)
        return self.decode(self.pool(self.layer_0(examples.features(rows)), owner))

    def scorer(self, known: TrainingGraph) -> S3GRLScorer:
        """Return what scores pairs; the surroundings of each are looked up among these links."""
        return S3GRLScorer(self, known)

    def diffusion_of(self, pairs: Tensor, known: TrainingGraph) -> Diffusion:
        """Return what `diffuse` returns; the last two lists of pairs are remembered.

        Args:
            pairs: Node numbers, int64 [2, p].
            known: What may be looked at.
        """
        asked = self.asked_of(known)
        found = asked.find(pairs)
        if found is None:
            found = diffuse(known.adjacency, pairs, self.settings)
            asked.keep(pairs, found)
        return found


def _means(shared: Tensor, owner: Tensor, num_pairs: int) -> Tensor:
    """Return the mean over the shared neighbours of each pair, 0 if there are none, [q, hidden]."""
    weight = 1 / torch.bincount(owner, minlength=num_pairs).to(shared.dtype)
    places, shape = torch.stack([owner, torch.arange(owner.numel())]), (num_pairs, owner.numel())
    means = sparse(places, weight.index_select(0, owner), shape, is_coalesced=True)
    return spmm(means.to(shared.device), shared)


class _Examples(Examples):
    """The pairs that are learned from, linked and unlinked, and the features of their rows."""

    def __init__(self, known: TrainingGraph, seed: int, settings: S3GRLSettings) -> None:
        super().__init__(known, seed, settings.share, in_order=False)
        assert self.x is not None
        self.diffusion = stored_diffusion(known, self.pairs, settings)
        self._x = self.x.to_dense() if self.x.is_sparse else self.x
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


class S3GRLScorer(PairwiseScorer):
    """Scores pairs by their surroundings in some known links."""

    def __init__(self, learner: S3GRL, known: TrainingGraph) -> None:
        """Take the trained network and what may be looked at."""
        self.num_nodes = known.num_nodes
        self._learner, self._known = learner, known
        with evaluating(learner):
            # Multiplied once with what every score needs.
            self._label, self._x = learner.weights_by_power(known.features)

    @cached_property
    def cost_per_pair(self) -> float:
        """About how many operations one pair takes, most of them to cut out its surroundings."""
        degree = self._known.adjacency.degree.cpu().numpy()
        looks = expected_looks(degree, self._learner.settings)
        return _PAIR_OPERATIONS + _LOOK_OPERATIONS * looks

    def logits(self, pairs: Tensor) -> Tensor:
        """Return the logits of pairs of node numbers, float32 [p] on the CPU."""
        if pairs.shape[1] == 0:
            return torch.empty(0)
        codes, place = torch.unique(
            encode(pairs[0].cpu(), pairs[1].cpu(), self.num_nodes), return_inverse=True
        )
        with evaluating(self._learner):
            blocks = [self._scores(block) for block in codes.split(_BLOCK_PAIRS)]
        return torch.cat(blocks).index_select(0, place)

    def _scores(self, codes: Tensor) -> Tensor:
        ends, learner = decode(codes, self.num_nodes), self._learner
        diffusion = learner.diffusion_of(ends, self._known)
        scores = []
        for chosen in torch.arange(codes.numel()).split(_SCORED_PAIRS):
            rows, owner = diffusion.rows_of(chosen)
            h = diffusion.times(rows, self._label, self._x) + learner.layer_0.bias
            count = chosen.numel()
            z = functional.pad(learner.pool(h, owner), (0, 0, 0, _SCORED_PAIRS - count))
            scores.append(learner.decode(z)[:count].cpu())
        return torch.cat(scores)


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
