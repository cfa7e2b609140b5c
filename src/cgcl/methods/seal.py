"""SEAL: a pair's surroundings decide whether it is linked (Zhang and Chen, NeurIPS 2018)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor, nn
from torch.nn import functional

from cgcl.graph.adjacency import Numbers
from cgcl.methods.method import Epoch, Method, PairScorer, TrainingGraph
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
from cgcl.model.ops import Rows, row_sums
from cgcl.seeds import stream

LARGEST_LABEL = 999
"""Nodes that lie further away share this label; the authors' table of labels is as long."""

_MOST_SORTED = 256
# Nodes of subgraphs that go through the network together when pairs are scored.
_SCORED_NODES, _SCORED_NODES_GPU = 2**13, 2**17
# With fewer pairs a matrix product takes another way, and the last bits of a score with it.
_FEWEST_SCORED = 16
# Operations that cutting out and labelling takes for a pair and for each node around it, and what
# one of the network's multiplications amounts to; measured.
_PER_PAIR, _PER_NODE, _PER_MULTIPLICATION = 1e5, 2e4, 4.0
_SAMPLED_PAIRS = 64
# On a CPU, fetching what is multiplied takes so many times as long as multiplying it.
_PER_FETCHED = 8
# The network of the authors: channels, width and the fewest nodes that are sorted.
_CHANNELS = (16, 32)
_KERNEL = 5
_DENSE = 128
_FEWEST_SORTED = 10


@dataclass(frozen=True)
class SEALSettings(SubgraphSettings):
    """The settings of SEAL."""

    lr: float = 1e-4
    batch: int = 32
    """Pairs per step, links and unlinked ones together."""
    hidden: int = 32
    """Width of the graph convolutions and of the vectors that stand for labels."""
    layers: int = 3
    """Graph convolutions before the one of a single channel."""
    use_features: bool = True
    """Whether features are looked at besides labels."""

    @property
    def caps(self) -> str:
        """What is left out to stay affordable."""
        return self.caps_beside(f"width {self.hidden}")

    @property
    def most_sorted(self) -> int:
        """How many nodes of a subgraph can be sorted at most."""
        largest = 2 + self.hops * self.nodes_per_hop if self.nodes_per_hop else _MOST_SORTED
        return min(max(largest, 10), _MOST_SORTED)


def drnl_labels(subgraphs: Subgraphs) -> Tensor:
    r"""Return the label of every node, int64 [t].

    $f(i) = 1 + \min(d_x, d_y) + \lfloor d/2 \rfloor (\lfloor d/2 \rfloor + d \bmod 2 - 1)$ with
    $d = d_x + d_y$ (Zhang and Chen, NeurIPS 2018, Eq. 3): $d_x$ is the distance to the source on
    ways that avoid the target, and $d_y$ the other way round. Both ends have label 1, and a node
    that does not reach both of them has label 0.

    Args:
        subgraphs: What to label.
    """
    source, target = subgraphs.start[:-1], subgraphs.start[:-1] + 1
    to_source = _distances(subgraphs, source, avoiding=target)
    to_target = _distances(subgraphs, target, avoiding=source)
    both = to_source + to_target
    half = both // 2
    label = 1 + torch.minimum(to_source, to_target) + half * (half + both % 2 - 1)
    label = label.clamp(max=LARGEST_LABEL)
    label[(to_source < 0) | (to_target < 0)] = 0
    label[source] = 1
    label[target] = 1
    return label


def _distances(subgraphs: Subgraphs, begin: Tensor, avoiding: Tensor) -> Tensor:
    """Return the links between each node and the beginning of its subgraph, -1 for no way.

    All subgraphs are searched at once, one link further in each turn.

    Args:
        subgraphs: Where to go.
        begin: One node of each subgraph, int64 [p].
        avoiding: A node of each subgraph that no way leads through, int64 [p].
    """
    distance = torch.full_like(subgraphs.nodes, -1).scatter_(0, begin, 0)
    is_closed = torch.zeros_like(distance, dtype=torch.bool).scatter_(0, avoiding, True)
    here, there = subgraphs.edge_index
    closed = is_closed.index_select(0, here) | is_closed.index_select(0, there)
    ahead, turn = (~closed).nonzero().squeeze(1), 0
    while True:
        turn += 1
        here, there = here.index_select(0, ahead), there.index_select(0, ahead)
        is_next = distance.index_select(0, here) == turn - 1
        found = there.index_select(0, is_next.nonzero().squeeze(1))
        if found.numel() == 0:
            return distance
        distance.scatter_(0, found, turn)
        ahead = (distance.index_select(0, there) < 0).nonzero().squeeze(1)


@dataclass(frozen=True, eq=False)
class Batch:
    """The labelled subgraphs of b pairs, one after the other, on the device to compute on."""

    nodes: Tensor
    """Node numbers, int32 [t]."""
    labels: Tensor
    """Double-radius labels, int32 [t]."""
    owner: Tensor
    """Which pair each node belongs to, int64 [t]; it never falls."""
    start: Tensor
    """Where each subgraph begins, int64 [b + 1]."""
    adjacency: Rows
    r"""$\hat A$ of all subgraphs, which is symmetric, by places in `nodes`."""
    bounds: Numbers
    """Where the nodes and the entries of each subgraph begin, on the CPU, [2, b + 1]."""

    def part(self, first: int, last: int) -> Batch:
        """Return some of the pairs, the first up to before the last, without waiting for a GPU."""
        (node, end), (entry, last_entry) = self.bounds[:, [first, last]].tolist()
        return Batch(
            nodes=self.nodes[node:end],
            labels=self.labels[node:end],
            owner=self.owner[node:end],
            start=self.start[first : last + 1] - node,
            adjacency=self.adjacency.part(slice(node, end), slice(entry, last_entry), node),
            bounds=self.bounds[:, first : last + 1] - self.bounds[:, [first]],
        )


class LabelledSubgraphs(Surroundings):
    """Many labelled subgraphs in little room."""

    kind = "labelled-3"

    def __init__(self, arrays: Arrays, device: torch.device | str = "cpu") -> None:
        """Take the arrays that `packed` makes to where they are computed on."""
        super().__init__(arrays, device)
        self._bounds = np.stack([starts_of(arrays["size"]), starts_of(arrays["entries"])])
        self.room = arrays["size"] + arrays["entries"]
        names = ("nodes", "labels", "degree", "neighbours")
        self._stored = {name: torch.from_numpy(arrays[name]).to(device) for name in names}

    @classmethod
    def packed(cls, subgraphs: Subgraphs, rule: Any) -> Arrays:  # noqa: ANN401, ARG003
        """Return arrays of small numbers; a neighbour is its place in the subgraph.

        Every node counts as its own neighbour, the last one.
        """
        owner, start = subgraphs.owner, subgraphs.start
        each = torch.arange(owner.numel(), device=owner.device)
        here, there = subgraphs.edge_index
        degree, size = torch.bincount(here, minlength=owner.numel()) + 1, start.diff()
        neighbours = owner.new_empty(here.numel() + each.numel())
        neighbours[torch.arange(here.numel(), device=owner.device) + here] = there
        neighbours[degree.cumsum(0) - 1] = each
        neighbours -= start.index_select(0, owner).repeat_interleave(degree)
        small = torch.int16 if int(size.max()) < torch.iinfo(torch.int16).max else torch.int32
        found = {
            "nodes": subgraphs.nodes.int(),
            "labels": drnl_labels(subgraphs).short(),
            "degree": degree.to(small),
            "neighbours": neighbours.to(small),
            "size": size,
            "entries": functional.pad(degree.cumsum(0), (1, 0)).index_select(0, start).diff(),
        }
        return {name: own.cpu().numpy() for name, own in found.items()}

    @property
    def sizes(self) -> Tensor:
        """Number of nodes of each subgraph, int64 [p]."""
        return torch.from_numpy(self.arrays["size"])

    def fetched(self, which: Tensor) -> Batch:
        """Return some of the subgraphs; nothing waits for a GPU.

        Args:
            which: Their numbers, int64 [b], on the CPU.
        """
        stored, chosen = self._stored, which.numpy()
        sizes = np.stack([self.arrays["size"][chosen], self.arrays["entries"][chosen]])
        bounds = np.stack([starts_of(own) for own in sizes])
        shifts = self._bounds[:, chosen] - bounds[:, :-1]
        (start,) = self.placed(bounds[0])
        (nodes_of, entries_of), (node_shift, entry_shift) = self.placed(sizes, shifts)
        pair, (t, e) = torch.arange(chosen.size, device=self.device), bounds[:, -1].tolist()
        owner = pair.repeat_interleave(nodes_of, output_size=t)
        places = torch.arange(t, device=self.device) + node_shift.index_select(0, owner)
        nodes, labels, degree = (
            stored[name].index_select(0, places) for name in ("nodes", "labels", "degree")
        )
        entry_owner = pair.repeat_interleave(entries_of, output_size=e)
        places = torch.arange(e, device=self.device) + entry_shift.index_select(0, entry_owner)
        neighbours = stored["neighbours"].index_select(0, places)
        neighbours = neighbours + start.index_select(0, entry_owner)
        degree = degree.long()
        scale = degree.float().rsqrt()  # D~^(-1/2), [t]
        weight = scale.repeat_interleave(degree, output_size=e) * scale.index_select(0, neighbours)
        adjacency = Rows(degree.cumsum(0) - degree, neighbours, weight)
        return Batch(nodes, labels.int(), owner, start, adjacency, bounds)

    def batches(self, num_nodes: int, fewest: int) -> Iterator[tuple[Batch, int]]:
        """Yield all subgraphs in order in batches, and how many each has.

        Args:
            num_nodes: About how many nodes a batch has.
            fewest: How many subgraphs a batch has at least. If too few are left, copies of the
                last one fill the batch; they do not count.
        """
        start, first = self._bounds[0], 0
        while first < start.size - 1:
            full = int(np.searchsorted(start, start[first] + num_nodes, side="right")) - 1
            last = min(max(full, first + fewest), start.size - 1)
            count = last - first
            which = (first + torch.arange(max(count, fewest))).clamp(max=last - 1)
            yield self.fetched(which), count
            first = last


def sort_pooled(value: Tensor, owner: Tensor, start: Tensor, size: int) -> Tensor:
    """Return the nodes of each graph with the largest values, in falling order, [b, size].

    A graph with fewer nodes is filled up with t, a number past the last node; of equal nodes the
    earlier one comes first.

    Args:
        value: One for each node, [t].
        owner: Which graph each belongs to, int64 [t]; it never falls.
        start: Where each graph begins, int64 [b + 1].
        size: How many nodes of each are kept.
    """
    by_value = value.argsort(descending=True, stable=True)
    order = by_value.index_select(0, owner.index_select(0, by_value).argsort(stable=True))
    place = start[:-1, None] + torch.arange(size, device=value.device)
    kept = order.index_select(0, place.clamp(max=owner.numel() - 1).flatten()).view_as(place)
    return kept.masked_fill(place >= start[1:, None], owner.numel())


class DGCNN(nn.Module):
    r"""DGCNN (Zhang et al., AAAI 2018): one number for each labelled subgraph.

    Layers of graph convolutions, $H_{l+1} = \tanh(\hat A H_l W_l + b_l)$, the last one of a single
    channel; all their outputs side by side; the first k nodes by the last channel; a convolution
    over each node, pooling, a convolution over five, and two dense layers.

    k is only known when the training links are. The dense layer is therefore made for the largest
    k that can be, a matrix for each place, and the matrices beyond k are never touched.
    """

    sorted_nodes: Tensor

    def __init__(self, num_features: int, hidden: int, layers: int, most_sorted: int) -> None:
        """Create the weights.

        Args:
            num_features: Features of each node, d; 0 for labels only.
            hidden: Width of the layers and of the labels' vectors.
            layers: Graph convolutions before the one of a single channel.
            most_sorted: The largest k.
        """
        super().__init__()
        widths = [hidden] * layers + [1]
        self.label = nn.Parameter(torch.empty(LARGEST_LABEL + 1, hidden))
        self.features = nn.Parameter(torch.empty(num_features, hidden)) if num_features else None
        self.weights = nn.ParameterList(nn.Parameter(torch.empty(hidden, w)) for w in widths)
        self.biases = nn.ParameterList(nn.Parameter(torch.zeros(w)) for w in widths)
        self.per_node = nn.Linear(hidden * layers + 1, _CHANNELS[0])
        self.per_five = nn.Conv1d(*_CHANNELS, _KERNEL)
        self.dense = nn.ParameterList(
            nn.Parameter(torch.empty(_DENSE, _CHANNELS[1])) for _ in range(_remaining(most_sorted))
        )
        self.dense_bias = nn.Parameter(torch.empty(_DENSE))
        self.score = nn.Linear(_DENSE, 1)
        # k, or 0 as long as it is not chosen
        self.register_buffer("sorted_nodes", torch.zeros((), dtype=torch.int64))
        self._most_sorted = most_sorted
        self._reset(num_features)

    def _reset(self, num_features: int) -> None:
        """Draw the weights as the layers of PyTorch and PyTorch Geometric do."""
        nn.init.normal_(self.label)
        for weight in self.weights:
            nn.init.xavier_uniform_(weight)
        # The first layer takes label and features side by side: one matrix, drawn as such.
        hidden = self.label.shape[1]
        bound = math.sqrt(6 / (hidden + num_features + self.weights[0].shape[1]))
        nn.init.uniform_(self.weights[0], -bound, bound)
        if self.features is not None:
            nn.init.uniform_(self.features, -bound, bound)
        bound = 1 / math.sqrt(_CHANNELS[1])
        for weight in (*self.dense, self.dense_bias):
            nn.init.uniform_(weight, -bound, bound)

    @property
    def multiplications_per_node(self) -> float:
        """How many multiplications one node of a subgraph takes, about."""
        convolutions = sum(weight.numel() for weight in self.weights)
        return convolutions + self.per_node.weight.numel()

    @torch.no_grad()
    def choose_sorted_nodes(self, sizes: Tensor) -> None:
        """Let k be the size that 60 % of the subgraphs do not exceed, and ten at least.

        Args:
            sizes: Number of nodes of each subgraph to learn from, int64 [p].
        """
        place = max(math.ceil(0.6 * sizes.numel()) - 1, 0)
        size = int(sizes.sort().values[place]) if sizes.numel() else 0
        self.sorted_nodes.fill_(min(max(size, _FEWEST_SORTED), self._most_sorted))
        # The first weights of a dense layer shrink with the number of its inputs.
        scale = 1 / math.sqrt(_remaining(int(self.sorted_nodes)))
        for weight in (*self.dense, self.dense_bias):
            weight.mul_(scale)

    @property
    def size(self) -> int:
        """How many nodes are kept of a subgraph, k."""
        return int(self.sorted_nodes) or _FEWEST_SORTED

    def label_products(self) -> Tensor:
        """Return what the first layer makes of each label, [labels, hidden]."""
        return self.label @ self.weights[0]

    def forward(self, batch: Batch, first: Tensor, size: int) -> Tensor:
        """Return the logit of each pair, [b].

        Args:
            batch: The labelled subgraphs.
            first: Each node's label and features times the first layer's weights, [t, hidden].
            size: k, which `size` says; whoever asks for it waits for a GPU.
        """
        h, outputs = first, list[Tensor]()
        for weight, bias in zip(self.weights, self.biases, strict=True):
            h = _product(h, weight) if outputs else h
            # D~^(-1/2) (A + I) D~^(-1/2) H
            h = torch.tanh(row_sums(h, batch.adjacency, batch.adjacency) + bias)
            outputs.append(h)
        h = torch.cat(outputs, dim=1)
        # Pooling pairs leaves out what is odd.
        kept = sort_pooled(h.detach()[:, -1], batch.owner, batch.start, size // 2 * 2)
        # A place without a node counts as zeros; the layer after the pooling makes its bias of it.
        channels = torch.cat([self.per_node(h), self.per_node.bias.unsqueeze(0)])
        h = functional.relu(channels).index_select(0, kept.flatten())
        h = h.view(kept.shape[0], -1, 2, _CHANNELS[0]).amax(dim=2)  # [b, k / 2, 16]
        around = h.unfold(1, _KERNEL, 1).flatten(2)  # [b, places, 16 * 5]
        per_five = self.per_five
        h = functional.relu(functional.linear(around, per_five.weight.flatten(1), per_five.bias))
        dense = torch.cat([self.dense[place] for place in range(h.shape[1])])  # [places * 128, 32]
        dense = dense.view(-1, _DENSE, _CHANNELS[1]).transpose(0, 1).flatten(1)
        h = functional.relu(functional.linear(h.flatten(1), dense, self.dense_bias))
        h = functional.dropout(h, 0.5, self.training)
        return (_product(h, self.score.weight.T) + self.score.bias).squeeze(1)


def _product(h: Tensor, weight: Tensor) -> Tensor:
    """Return `h @ weight`, each row to the same last bit whatever rows there are besides.

    A product with a single column is computed in another way for every number of rows.
    """
    return h @ weight if weight.shape[1] > 1 else (h * weight.T).sum(dim=1, keepdim=True)


def _remaining(sorted_nodes: int) -> int:
    """Return how many places are left of k after pooling pairs and a convolution over five."""
    return sorted_nodes // 2 - _KERNEL + 1


class FeatureRows:
    """The features, row by row: what the nodes of a batch are multiplied with."""

    def __init__(self, x: Tensor) -> None:
        """Take the features, [n, d], dense or coalesced sparse COO."""
        self._x = x
        if x.is_sparse:
            entries = x.values().cpu().numpy(), x.indices().cpu().numpy()
            self._matrix = csr_array(entries, shape=x.shape)

    @cached_property
    def _all(self) -> tuple[Rows, Rows]:
        return _both_ways(self._matrix, self._x.device)

    def times(self, nodes: Tensor, weight: Tensor) -> Tensor:
        """Return the product of some rows with `weight`, [t, hidden].

        Args:
            nodes: Which rows, int32 or int64 [t].
            weight: One row per feature, [d, hidden].
        """
        if not self._x.is_sparse:
            return self._x.index_select(0, nodes) @ weight
        # Fetching entries takes as long as multiplying many times as many; a GPU need not ask.
        if weight.device.type != "cpu" or _PER_FETCHED * nodes.numel() >= self._x.shape[0]:
            return row_sums(weight, *self._all).index_select(0, nodes)
        chosen = csr_array(self._matrix[nodes.numpy()])
        return row_sums(weight, *_both_ways(chosen, weight.device))


def _both_ways(matrix: csr_array, device: torch.device) -> tuple[Rows, Rows]:
    """Return the rows of a matrix, and those of its transpose."""
    one, other = (
        Rows.of(np.diff(m.indptr), m.indices.astype(np.int64), m.data, device)
        for m in (matrix, csr_array(matrix.T))
    )
    return one, other


class SEAL(SubgraphLearner):
    """Classifies the labelled subgraph around a pair as that of a link or not.

    A subgraph is cut out of all known links but the one between the pair itself, if there is one:
    so no link is predicted from itself. Where features are made of links, at most half of the links
    are examples, and the others make the features. This follows the authors' code with these
    differences: subgraphs have fewer hops and the network is narrower by default; which nodes a
    full hop keeps follows from the pair alone; the sort pooling keeps 256 nodes at most, and of
    equal ones the earlier; labels beyond the table share its last entry.
    """

    surroundings = LabelledSubgraphs
    in_order = True

    def __init__(self, num_features: int, settings: SEALSettings) -> None:
        """Create the weights.

        Args:
            num_features: Number of features per node, d.
            settings: The network, and how subgraphs are cut out.
        """
        super().__init__(settings)
        self.network = DGCNN(
            num_features if settings.use_features else 0,
            settings.hidden,
            settings.layers,
            settings.most_sorted,
        )

    def steps(self, known: TrainingGraph, epoch: Epoch) -> Iterator[Tensor]:
        """Yield a loss for each batch of links and as many unlinked pairs, shuffled together."""
        if int(self.network.sorted_nodes) == 0:
            subgraphs = self.examples_of(known, epoch.seed).surroundings
            self.network.choose_sorted_nodes(subgraphs.sizes)
        yield from super().steps(known, epoch)

    def prepared(self, seen: TrainingGraph, surroundings: Any) -> FeatureRows | None:  # noqa: ANN401, ARG002
        """Return the features, if any are looked at."""
        return FeatureRows(seen.features) if self.settings.use_features else None

    def logits(self, examples: Examples, batches: Sequence[Tensor]) -> Iterator[Tensor]:
        """Yield the logits of the examples of each step."""
        network, size = self.network, self.network.size
        for batch in examples.surroundings.in_turn(batches):
            first = network.label_products().index_select(0, batch.labels)
            if network.features is not None:
                first = first + examples.features.times(batch.nodes, network.features)
            yield network(batch, first, size)

    def scorer(self, known: TrainingGraph) -> SEALScorer:
        """Return what cuts out the surroundings of pairs in these links and scores them."""
        return SEALScorer(self, known)


class SEALScorer(PairScorer):
    """Scores a pair by its surroundings."""

    def __init__(self, learner: SEAL, known: TrainingGraph) -> None:
        """Take the trained network and what may be looked at."""
        self.num_nodes = known.num_nodes
        self._learner, self._known = learner, known
        with evaluating(learner):
            # Multiplied once with what every score needs.
            network, features = learner.network, learner.prepared(known, None)
            self._labels, self._features, self._size = network.label_products(), None, network.size
            if features is not None and network.features is not None:
                nodes = torch.arange(known.num_nodes, device=known.device)
                self._features = features.times(nodes, network.features)

    @property
    def cost_per_pair(self) -> float:
        """About how many operations one pair takes: its surroundings, times the network."""
        return _PER_PAIR + self._nodes_per_pair * (
            _PER_NODE + _PER_MULTIPLICATION * self._learner.network.multiplications_per_node
        )

    @cached_property
    def _nodes_per_pair(self) -> float:
        """The mean size of a subgraph, by a sample of pairs that is always the same."""
        pairs = torch.randint(
            self.num_nodes, (2, _SAMPLED_PAIRS), generator=stream(0, "sample of subgraphs")
        )
        blocks = self._learner.blocks(pairs, self._known)
        return sum(float(block.sizes.sum()) for block in blocks) / _SAMPLED_PAIRS

    def logits(self, pairs: Tensor) -> Tensor:
        """Return the logits of pairs of node numbers, float32 [p] on the CPU."""
        network, device = self._learner.network, self._known.device
        nodes = _SCORED_NODES if device.type == "cpu" else _SCORED_NODES_GPU
        with evaluating(network):
            scores = [
                network(batch, self._first(batch), self._size)[:count].cpu()
                for block in self._learner.blocks(pairs, self._known)
                for batch, count in block.batches(nodes, _FEWEST_SCORED)
            ]
        return torch.cat(scores) if scores else torch.empty(0)

    def _first(self, batch: Batch) -> Tensor:
        first = self._labels.index_select(0, batch.labels)
        if self._features is not None:
            first += self._features.index_select(0, batch.nodes)
        return first


METHOD = Method(
    title="SEAL",
    settings=SEALSettings,
    build=SEAL,
    # Theirs are 3 hops, and a width of 256 on Cora and CiteSeer: more than a processor can do.
    # On CiteSeer they look at no features.
    authors={"cora": {"hops": 2}, "citeseer": {"hops": 2, "use_features": False}},
    search={
        "lr": (1e-4, 3e-4, 1e-3),
        "hops": (1, 2),
        "hidden": (32, 64),
        "layers": (2, 3),
        "use_features": (True, False),
    },
)
