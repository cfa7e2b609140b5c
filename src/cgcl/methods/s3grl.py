"""S3GRL: a subgraph is simplified to a few rows of features, and a small network learns them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import csr_array, vstack
from torch import Tensor, nn
from torch.nn import functional

from cgcl.graph.adjacency import Numbers, ranges
from cgcl.graph.pairs import decode, encode
from cgcl.methods.method import EVERY_GRAPH, Method, PairScorer, TrainingGraph
from cgcl.methods.scoring import evaluating
from cgcl.methods.subgraphs import (
    Arrays,
    Examples,
    SubgraphLearner,
    Subgraphs,
    SubgraphSettings,
    Surroundings,
    starts_of,
)
from cgcl.model.ops import Rows, row_sums, spmm
from cgcl.settings import Range
from cgcl.wording import counted

# Features of training rows that take no more than this are computed once and held; of more, those
# of each batch are computed again in every epoch.
_HELD_BYTES = 2 * 2**30
_ROWS_AT_ONCE = 4096
# The last layers always score so many pairs at once, padded if there are fewer: the shape of a
# product decides the order of its sums.
_SCORED_PAIRS = 256
# What a pair takes in any case, and for every neighbour that is looked at to cut it out; measured
# on four graphs with one to three hops, it is right within a factor of about two.
_PAIR_OPERATIONS = 1e6
_LOOK_OPERATIONS = 600.0


@dataclass(frozen=True, eq=False)
class KeptRows:
    """Rows of q pairs, pair after pair: its source, its target, the neighbours they share."""

    places: Tensor
    """Their places among all rows, int64 [r], on the CPU."""
    fetched: Tensor
    """The same on the device to compute on."""
    owner: Tensor
    """Which pair each belongs to, int64 [r]."""
    shares: Rows
    """What takes the mean over the shared neighbours of each pair, [q, r]; 0 if there are none."""
    start: Numbers
    """Where each pair begins, on the CPU, [q + 1]."""

    def part(self, first: int, last: int) -> KeptRows:
        """Return some of the pairs, the first up to before the last, without waiting for a GPU."""
        rows = slice(*self.start[[first, last]].tolist())
        return KeptRows(
            places=self.places[rows],
            fetched=self.fetched[rows],
            owner=self.owner[rows] - first,
            shares=self.shares.part(slice(first, last), rows, rows.start),
            start=self.start[first : last + 1] - rows.start,
        )

    def means(self, h: Tensor) -> Tensor:
        """Return the mean over the shared neighbours of each pair, [q, hidden], of rows."""
        each = torch.arange(self.owner.numel(), device=h.device)
        return row_sums(h, self.shares, Rows(each, self.owner, self.shares.weight))


class Diffusion(Surroundings):
    """The kept rows of the powers 1, ..., K for p pairs, on the CPU.

    A pair's rows lie together: its source, its target, then the neighbours they share. An entry
    says how much of a node arrives at the row's node within k steps.
    """

    kind = "s3grl-2"
    remembered_bytes = 2**30

    def __init__(self, arrays: Arrays, device: torch.device | str = "cpu") -> None:
        """Take the arrays that `packed` makes, and where they are computed on."""
        super().__init__(arrays, device)
        self.room = arrays["size"]
        self.start, self._entry_start = starts_of(arrays["size"]), starts_of(arrays["entry_size"])
        self.num_rows, self.powers = len(arrays["labels"]), arrays["labels"].shape[1] - 1

    @classmethod
    def packed(cls, subgraphs: Subgraphs, rule: S3GRLSettings) -> Arrays:
        r"""Return the kept rows of each pair; they do not depend on the pairs beside it.

        Returns:
            How many rows each pair has, int64 [p]; the node of each row, int32 [r]; what arrives
            there from the two ends, $\hat A^k \ell$ for k = 0, ..., K, float32 [r, K + 1]; how
            many entries each row has, its K powers one after the other, int64 [r K]; the node of
            each entry, int32 [e], and what it is worth, float32 [e].
        """
        subgraphs = subgraphs.cpu()
        nodes, owner, powers = subgraphs.nodes.numpy(), subgraphs.owner.numpy(), rule.powers
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
        return {
            "size": np.bincount(owner[kept], minlength=subgraphs.start.numel() - 1),
            "nodes": nodes[kept].astype(np.int32),
            "labels": np.concatenate([label[kept, None], arrived], axis=1),
            "entry_size": np.diff(entries.indptr).astype(np.int64),
            "reached": nodes[entries.indices].astype(np.int32),
            "weights": entries.data,
        }

    def fetched(self, which: Tensor) -> KeptRows:
        """Return the rows of some pairs.

        Args:
            which: Numbers of pairs, int64 [q], on the CPU.
        """
        chosen = which.numpy()
        size = self.arrays["size"][chosen]
        owner, places = ranges(self.start[chosen], size)
        start = starts_of(size)
        share = np.zeros(size.size, dtype=np.float32)
        np.divide(1, size - 2, out=share, where=size > 2)
        weight = share[owner]
        weight[start[:-1]] = weight[start[:-1] + 1] = 0
        rows, own, *mean = self.placed(places, owner, start[:-1], np.arange(owner.size), weight)
        return KeptRows(torch.from_numpy(places), rows, own, Rows(*mean), start)

    def features(self, rows: Tensor, x: Tensor) -> Tensor:
        r"""Return rows of $[\ell \mid X], \hat A [\ell \mid X], \dots, \hat A^K [\ell \mid X]$.

        Args:
            rows: Which rows, int64 [q], on the CPU.
            x: Dense features of all nodes, float32 [n, d], on the device to compute on.

        Returns:
            One row each, the powers side by side, float32 [q, (K + 1) (d + 1)].
        """
        size, reached, weights = self._entries(rows)
        features = x.new_empty(rows.numel(), self.powers + 1, x.shape[1] + 1)
        features[:, :, 0] = self._of("labels", rows).to(x.device)
        features[:, 0, 1:] = x.index_select(0, self._of("nodes", rows).long().to(x.device))
        sums = Rows.of(size.reshape(-1), reached, weights, x.device).times(x)
        features[:, 1:, 1:] = sums.view(-1, self.powers, x.shape[1])
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
        size, reached, weights = self._entries(rows)
        power = np.tile(np.arange(1, self.powers + 1), rows.numel())
        places = reached + np.repeat(power * num_nodes, size.reshape(-1))
        rows_of = Rows.of(size.sum(axis=1), places, weights, x.device)
        arrived = rows_of.times(x.reshape(-1, width))
        labels = self._of("labels", rows).to(x.device)
        own = x[0].index_select(0, self._of("nodes", rows).long().to(x.device))
        return arrived + own + (labels.unsqueeze(2) * label).sum(dim=1)

    def _of(self, name: str, rows: Tensor) -> Tensor:
        return torch.from_numpy(self.arrays[name][rows.numpy()])

    def _entries(self, rows: Tensor) -> tuple[Numbers, Numbers, npt.NDArray[np.float32]]:
        """Return how many entries each row has for each power, [q, K]; their nodes and weights."""
        start = self._entry_start
        which = rows.numpy()[:, None] * self.powers + np.arange(self.powers)
        size = start[which + 1] - start[which]
        _, places = ranges(start[which[:, 0]], size.sum(axis=1))
        arrays = self.arrays
        return size, arrays["reached"][places].astype(np.int64), arrays["weights"][places]


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
    def limits(self) -> tuple[int, ...]:
        """All settings that decide what is kept of the surroundings of a pair."""
        return *super().limits, self.powers

    @property
    def caps(self) -> str:
        """What is left out to stay affordable, for tables."""
        return self.caps_beside(counted(self.powers, "power"))


class S3GRL(SubgraphLearner):
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

    surroundings = Diffusion
    in_order = False

    def __init__(self, num_features: int, settings: S3GRLSettings) -> None:
        """Create the weights.

        Args:
            num_features: Number of features per node, d.
            settings: The network, and how much of a pair's surroundings it sees.
        """
        super().__init__(settings)
        hidden = settings.hidden
        self.layer_0 = nn.Linear((settings.powers + 1) * (num_features + 1), hidden)
        self.norm_0 = nn.BatchNorm1d(hidden)
        self.layer_1 = nn.Linear(2 * hidden, hidden)
        self.norm_1 = nn.BatchNorm1d(hidden)
        self.layer_2 = nn.Linear(hidden, 1)

    def pool(self, h: Tensor, rows: KeptRows) -> Tensor:
        """Return the product of each pair's ends beside the mean of what they share, [q, 2 hidden].

        Args:
            h: What the first layer makes of each kept row, [r, hidden].
            rows: Whose they are.
        """
        h, source = self._activated(h, self.norm_0), rows.shares.start
        ends = h.index_select(0, source) * h.index_select(0, source + 1)
        return torch.cat([ends, rows.means(h)], dim=1)

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

    def prepared(
        self, seen: TrainingGraph, surroundings: Diffusion
    ) -> Callable[[KeptRows], Tensor]:
        """Return what gives the features of some rows, [q, width]."""
        x, count = seen.features.to_dense(), surroundings.num_rows
        width = (self.settings.powers + 1) * (x.shape[1] + 1)
        if count * width * x.element_size() > _HELD_BYTES:
            return lambda rows: surroundings.features(rows.places, x)
        held = x.new_empty(count, width)
        for rows in torch.arange(count).split(_ROWS_AT_ONCE):
            held[rows[0] : rows[-1] + 1] = surroundings.features(rows, x)
        return lambda rows: held.index_select(0, rows.fetched)

    def logits(self, examples: Examples, batches: Sequence[Tensor]) -> Iterator[Tensor]:
        """Yield the logits of the examples of each step while training."""
        for rows in examples.surroundings.in_turn(batches):
            yield self.decode(self.pool(self.layer_0(examples.features(rows)), rows))

    def scorer(self, known: TrainingGraph) -> S3GRLScorer:
        """Return what scores pairs; the surroundings of each are looked up among these links."""
        return S3GRLScorer(self, known)


class S3GRLScorer(PairScorer):
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
            blocks = self._learner.blocks(decode(codes, self.num_nodes), self._known)
            scores = torch.cat([score for block in blocks for score in self._scores(block)])
        return scores.index_select(0, place)

    def _scores(self, diffusion: Diffusion) -> Iterator[Tensor]:
        """Yield the logits of the pairs of a block, some at a time."""
        learner = self._learner
        for chosen in torch.arange(diffusion.start.size - 1).split(_SCORED_PAIRS):
            rows = diffusion.fetched(chosen)
            h = diffusion.times(rows.places, self._label, self._x) + learner.layer_0.bias
            count = chosen.numel()
            z = functional.pad(learner.pool(h, rows), (0, 0, 0, _SCORED_PAIRS - count))
            yield learner.decode(z)[:count].cpu()


METHOD = Method(
    title="S3GRL",
    version=2,
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
