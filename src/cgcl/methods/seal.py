"""SEAL: a pair's surroundings decide whether it is linked (Zhang and Chen, NeurIPS 2018)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from cgcl.methods.dgcnn import DGCNN, Rows, row_sums
from cgcl.methods.examples import example_count, features_without
from cgcl.methods.labelled import Batch, LabelledSubgraphs, SubgraphRule, SubgraphsAround
from cgcl.methods.method import Epoch, Known, Learner, Method
from cgcl.methods.remembered import Remembered
from cgcl.methods.scoring import evaluating
from cgcl.methods.settings import TrainedSettings
from cgcl.methods.subgraphs import Numbers, places_of
from cgcl.seeds import stream
from cgcl.settings import Range

__all__ = ["METHOD", "SEAL", "FeatureRows", "SEALScorer", "SEALSettings"]

Values = npt.NDArray[np.float32]

_MOST_SORTED = 256
# Nodes of subgraphs that go through the network together when pairs are scored.
_SCORED_NODES = 2**13
# With fewer pairs a matrix product takes another way, and the last bits of a score with it.
_FEWEST_SCORED = 16
# Operations that cutting out and labelling takes for a pair and for each node around it, and what
# one of the network's multiplications amounts to; measured.
_PER_PAIR, _PER_NODE, _PER_MULTIPLICATION = 1e5, 2e4, 4.0
_SAMPLED_PAIRS = 64


@dataclass(frozen=True)
class SEALSettings(TrainedSettings):
    """The settings of SEAL."""

    lr: float = 1e-4
    """Learning rate of Adam."""
    epochs: int = 50
    """Number of epochs."""
    evaluate_every: int = 1
    """Epochs between two measurements on the validation links."""
    batch: int = 32
    """Pairs per step, links and unlinked ones together."""
    hops: int = 1
    """How far from the nearer end of a pair a node of its subgraph may lie."""
    nodes_per_hop: int = 100
    """How many nodes a hop adds to a subgraph at most; 0 for no limit."""
    hidden: int = 32
    """Width of the graph convolutions and of the vectors that stand for labels."""
    layers: int = 3
    """Graph convolutions before the one of a single channel."""
    use_features: bool = True
    """Whether features are looked at besides labels."""
    share: float = 1.0
    """Share of the training links that serve as examples; all of them are seen around a pair."""

    RANGES: ClassVar[Mapping[str, Range]] = {
        "batch": Range(low=1, high=1_000_000),
        "hops": Range(low=1, high=10),
        "nodes_per_hop": Range(low=0, high=1_000_000),
        "hidden": Range(low=1, high=4096),
        "layers": Range(low=1, high=20),
        "share": Range(above=0, high=1),
    }

    @property
    def caps(self) -> str:
        """What is left out to stay affordable."""
        hops = "1 hop" if self.hops == 1 else f"{self.hops} hops"
        parts = [hops, f"width {self.hidden}"]
        if self.nodes_per_hop:
            parts.append(f"at most {self.nodes_per_hop:,} nodes a hop")
        if self.share < 1:
            parts.append(f"{100 * self.share:g} % of the training links")
        return ", ".join(parts)

    @property
    def rule(self) -> SubgraphRule:
        """How a pair's surroundings are cut out."""
        return SubgraphRule(self.hops, self.nodes_per_hop)

    @property
    def most_sorted(self) -> int:
        """How many nodes of a subgraph can be sorted at most."""
        largest = 2 + self.hops * self.nodes_per_hop if self.nodes_per_hop else _MOST_SORTED
        return min(max(largest, 10), _MOST_SORTED)


class FeatureRows:
    """The features, row by row: what the nodes of a batch are multiplied with."""

    def __init__(self, x: Tensor) -> None:
        """Take the features, [n, d], dense or coalesced sparse COO."""
        self._x = x
        if x.is_sparse:
            row, column = x.indices().cpu().numpy()
            self._column, self._value = column, x.values().cpu().numpy()
            self._count = np.bincount(row, minlength=x.shape[0])
            self._start = np.cumsum(self._count) - self._count

    def times(self, nodes: Tensor, weight: Tensor) -> Tensor:
        """Return the product of some rows with `weight`, [t, hidden].

        Args:
            nodes: Which rows, int64 [t], on the CPU.
            weight: One row per feature, [d, hidden].
        """
        if not self._x.is_sparse:
            return self._x.index_select(0, nodes.to(self._x.device)) @ weight
        which = nodes.numpy()
        count = self._count[which]
        row, places = places_of(self._start[which], count)
        column, value = self._column[places], self._value[places]
        # Sorting 16-bit numbers is a matter of two passes.
        narrow = column.astype(np.uint16) if weight.shape[0] <= 2**16 else column
        order = np.argsort(narrow, kind="stable")
        per_column = np.bincount(column, minlength=weight.shape[0])
        device = weight.device
        return row_sums(
            weight,
            _rows(np.cumsum(count) - count, column, value, device),
            _rows(np.cumsum(per_column) - per_column, row[order], value[order], device),
        )


def _rows(start: Numbers, index: Numbers, weight: Values, device: torch.device) -> Rows:
    return Rows(*(torch.from_numpy(array).to(device) for array in (start, index, weight)))


class SEAL(Learner):
    """Classifies the labelled subgraph around a pair as that of a link or not.

    A subgraph is cut out of all known links but the one between the pair itself, if there is one:
    so no link is predicted from itself. Where features are made of links, at most half of the links
    are examples, and the others make the features. This follows the authors' code with these
    differences: subgraphs have fewer hops and the network is narrower by default; which nodes a
    full hop keeps follows from the pair alone; the sort pooling keeps 256 nodes at most, and of
    equal ones the earlier; labels beyond the table share its last entry.
    """

    def __init__(self, num_features: int, settings: SEALSettings) -> None:
        """Create the weights.

        Args:
            num_features: Number of features per node, d.
            settings: The network, and how subgraphs are cut out.
        """
        super().__init__()
        self._settings = settings
        self.network = DGCNN(
            num_features if settings.use_features else 0,
            settings.hidden,
            settings.layers,
            settings.most_sorted,
        )
        self._prepared: _Examples | None = None
        self._around: Remembered[SubgraphsAround] = Remembered()

    def steps(self, known: Known, epoch: Epoch) -> Iterator[Tensor]:
        """Yield a loss for each batch of links and as many unlinked pairs, shuffled together.

        The unlinked pairs are drawn once for all epochs, as the authors do: subgraphs are cut out
        once.
        """
        examples = self._examples(known, epoch.seed)
        if int(self.network.sorted_nodes) == 0:
            self.network.choose_sorted_nodes(examples.subgraphs.sizes)
        count = examples.is_link.numel()
        order = torch.randperm(count, generator=epoch.stream("batches"))
        for which in order.split(self._settings.batch):
            batch = examples.subgraphs.batch(which).to(known.device)
            wanted = examples.is_link.index_select(0, which).to(known.device)
            logits = self.network(batch, self._multiplied(examples.features, batch.nodes))
            yield functional.binary_cross_entropy_with_logits(logits, wanted)

    def scorer(self, known: Known) -> SEALScorer:
        """Return what cuts out the surroundings of pairs in these links and scores them."""
        with evaluating(self):
            features = FeatureRows(known.features) if self._settings.use_features else None
            projected = self._multiplied(features, torch.arange(known.num_nodes))
        around = self._around.get(known)
        if around is None:
            rule = self._settings.rule
            around = self._around[known] = SubgraphsAround(known.links, known.num_nodes, rule)
        return SEALScorer(self.network, around, projected, known.device)

    def _multiplied(self, features: FeatureRows | None, nodes: Tensor) -> Tensor | None:
        """Return the features of nodes times the first layer's weights, if any are looked at."""
        if features is None or self.network.features is None:
            return None
        return features.times(nodes, self.network.features)

    def _examples(self, known: Known, seed: int) -> _Examples:
        """Return the pairs to learn from; they are the same in every epoch."""
        if self._prepared is None or not self._prepared.are_from(known, seed):
            self._prepared = _Examples(known, seed, self._settings)
        return self._prepared


class _Examples:
    """Links and unlinked pairs with their subgraphs."""

    def __init__(self, known: Known, seed: int, settings: SEALSettings) -> None:
        """Draw them; they follow from the links and the seed."""
        self._known, self._seed = known, seed
        order = torch.randperm(known.links.shape[1], generator=stream(seed, "examples"))
        count = example_count(known, settings.share)
        links = known.links.index_select(1, order[:count].sort().values.to(known.device))
        unlinked = known.unlinked.draw(count, stream(seed, "negatives", 0, known.device))
        self.is_link = torch.cat([torch.ones(links.shape[1]), torch.zeros(unlinked.shape[1])])
        features = features_without(known, order[:count]) if settings.use_features else None
        self.features = None if features is None else FeatureRows(features)
        self.subgraphs = LabelledSubgraphs.kept(
            known.links, known.num_nodes, torch.cat([links, unlinked], dim=1), settings.rule
        )

    def are_from(self, known: Known, seed: int) -> bool:
        """Say whether these are the examples of that graph and seed."""
        return known is self._known and seed == self._seed


class SEALScorer:
    """Scores a pair by its surroundings."""

    cost_per_node = 0.0
    """Every pair is scored by itself."""

    def __init__(
        self,
        network: DGCNN,
        around: SubgraphsAround,
        projected: Tensor | None,
        device: torch.device,
    ) -> None:
        """Take the network and what surrounds pairs.

        Args:
            network: What scores labelled subgraphs.
            around: Cuts out subgraphs.
            projected: All nodes' features times the first layer's weights, [n, hidden], or None.
            device: Where to compute.
        """
        self._network = network
        self._projected = projected
        self._around = around
        self._device = device

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return self._around.num_nodes

    @property
    def cost_per_pair(self) -> float:
        """About how many operations one pair takes: its surroundings, times the network."""
        return _PER_PAIR + self._nodes_per_pair * (
            _PER_NODE + _PER_MULTIPLICATION * self._network.multiplications_per_node
        )

    @cached_property
    def _nodes_per_pair(self) -> float:
        """The mean size of a subgraph, by a sample of pairs that is always the same."""
        pairs = torch.randint(
            self.num_nodes, (2, _SAMPLED_PAIRS), generator=stream(0, "sample of subgraphs")
        )
        blocks = self._around.blocks(pairs)
        return sum(float(block.sizes.sum()) for block in blocks) / _SAMPLED_PAIRS

    def logits(self, pairs: Tensor) -> Tensor:
        """Return the logits of pairs of node numbers, float32 [p] on the CPU."""
        with evaluating(self._network):
            blocks = [
                self._network(batch.to(self._device), self._features_of(batch))[:count].cpu()
                for block in self._around.blocks(pairs)
                for batch, count in block.batches(_SCORED_NODES, _FEWEST_SCORED)
            ]
        return torch.cat(blocks) if blocks else torch.empty(0)

    def factors(self) -> None:
        """There are none: a pair's surroundings are no function of one vector per node."""
        return

    def _features_of(self, batch: Batch) -> Tensor | None:
        if self._projected is None:
            return None
        return self._projected.index_select(0, batch.nodes.to(self._device))


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
