"""What a method is to the rest of the package: something that learns, and then scores pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from cgcl.errors import FeatureError
from cgcl.graph import Graph
from cgcl.graph.adjacency import Adjacency
from cgcl.graph.features import Structure, placed
from cgcl.methods.settings import MethodSettings
from cgcl.model import symmetric
from cgcl.model.ops import LinearMap, Rows
from cgcl.seeds import stream
from cgcl.split import NegativeSampler

EVERY_GRAPH = "*"
"""Where a method keeps the settings that its authors use on every graph."""


class PairScorer(Protocol):
    """Scores any pairs of nodes.

    What scores a node with all nodes faster than pair by pair may offer that, too: a method
    `rows(nodes: Tensor) -> Tensor`, the logits of those nodes with every node but for rounding,
    float [r, n] on the device that it computes on, and a number `cost_in_rows`, about how many
    operations an entry takes there, if that is not `cost_per_pair`. Entries for a node with itself
    are not looked at. What can say by how much such an entry differs from `logits` at most, as
    `rounding`, is only asked for the `logits` of pairs that may be among the best; `rows` then
    takes `partners: Tensor`, too, some of all nodes.
    """

    num_nodes: int
    """Number of nodes."""

    @property
    def cost_per_pair(self) -> float:
        """About how many operations one pair takes, of which two CPU cores do 4e10 a second.

        Whoever scores a million pairs a second says 4e4. It decides the way to search and must
        not depend on the clock.
        """

    @property
    def cost_per_node(self) -> float:
        """How many more operations each different first end takes, however many pairs it has.

        0 for what scores every pair by itself.
        """
        return 0.0

    def logits(self, pairs: Tensor) -> Tensor:
        """Return a number for each pair, float32 [p] on the CPU, higher for likelier links.

        It does not depend on the order of a pair's ends, nor on which pairs it is asked with.

        Args:
            pairs: Node numbers, int64 [2, p]; p may be large, memory must stay bounded.
        """

    def factors(self) -> tuple[Tensor, Tensor] | None:
        """Return left and right, float [n, k], such that `left @ right.T` orders pairs alike.

        It only proposes candidates, so it need not be exact. None if there is no such thing.
        """
        return None


@dataclass(frozen=True, eq=False)
class TrainingGraph:
    """What a method may look at: the nodes, some links, features. Held-out links are not in it."""

    num_nodes: int
    links: Tensor
    """Each link once, the smaller node first, int64 [2, m], on the device to compute on."""
    x: Tensor | Structure | None = None
    """Features, [n, d], dense or coalesced sparse COO, or how they are made of links; None if the
    method needs none."""
    sides: Tensor | None = None
    """The side of every node of a bipartite graph, bool [n], or None."""

    @classmethod
    def on(
        cls,
        device: torch.device,
        num_nodes: int,
        links: Tensor,
        x: Tensor | Structure | None = None,
        sides: Tensor | None = None,
    ) -> TrainingGraph:
        """Return what may be looked at where it is computed on."""
        if x is not None:
            x = x.to(device) if isinstance(x, Structure) else placed(x, device)
        return cls(num_nodes, links.to(device), x, sides)

    @property
    def structure(self) -> Structure | None:
        """How features are made of links, if the graph brings none of its own."""
        return self.x if isinstance(self.x, Structure) else None

    @property
    def num_features(self) -> int:
        """Number of features per node, d; 0 if there are none."""
        if self.x is None:
            return 0
        return self.x.num_features if isinstance(self.x, Structure) else self.x.shape[1]

    @cached_property
    def features(self) -> Tensor:
        """The features, for a method that cannot do without; made of these links if need be.

        Raises:
            FeatureError: There are none.
        """
        return self.features_along(symmetric(self.links))

    def features_along(self, edge_index: Tensor) -> Tensor:
        """Return the features for messages along some links: made of these links if need be.

        Args:
            edge_index: From row 0 to row 1, int64 [2, e].

        Raises:
            FeatureError: There are none.
        """
        if self.x is None:
            raise FeatureError("This method needs features, and the graph has none.")
        if isinstance(self.x, Structure):
            return placed(self.x.features(edge_index), self.device)
        return self.x

    @property
    def device(self) -> torch.device:
        """Where to compute."""
        return self.links.device

    @cached_property
    def adjacency(self) -> Adjacency:
        """The neighbours of every node."""
        return Adjacency.from_pairs(self.links, self.num_nodes)

    def neighbour_sums(self, h: Tensor) -> Tensor:
        """Return $A H$: for each node the sum of its neighbours' rows, [n, any]."""
        # A is its own transpose, so the gradient is the same product.
        return LinearMap.apply(h, self._product, self._product)

    @cached_property
    def _product(self) -> Callable[[Tensor], Tensor]:
        near = self.adjacency
        if near.indices.is_cuda and not torch.are_deterministic_algorithms_enabled():
            return partial(
                torch.sparse.mm, near.to_torch(torch.ones_like(near.indices, dtype=torch.float32))
            )
        return Rows(near.indptr[:-1], near.indices).times

    @cached_property
    def unlinked(self) -> NegativeSampler:
        """The pairs that are no link in here: where counter-examples are drawn from.

        Held-out links are among them: avoiding those would tell which pairs they are.
        """
        return NegativeSampler(self.links, self.num_nodes, self.sides)

    def with_links(self, links: Tensor) -> TrainingGraph:
        """Return the same nodes with other links, and structural features made of these."""
        return replace(self, links=links)

    def without(self, chosen: Tensor) -> Tensor:
        """Return all links but some, int64 [2, any], by the numbers of those."""
        is_left = torch.ones(self.links.shape[1], dtype=torch.bool, device=self.device)
        is_left[chosen] = False
        return self.links[:, is_left]


T = TypeVar("T")


class Remembered(WeakKeyDictionary[TrainingGraph, T]):
    """By graph, what would be computed again; it keeps no graph alive.

    A copy of its owner in another process starts with nothing.
    """

    def __reduce__(self) -> tuple[type[Remembered[T]], tuple[()]]:
        """Say how to make it anew: empty."""
        return type(self), ()


class Ranks(NamedTuple):
    """Which of how many processes this is that train one model together."""

    rank: int = 0
    count: int = 1


@dataclass(frozen=True)
class Epoch:
    """One epoch, and where its random numbers come from."""

    number: int
    """1 for the first."""
    seed: int
    """The seed of the whole run."""
    ranks: Ranks = field(default_factory=Ranks)
    """Whose part of each batch is asked for here."""

    def stream(self, purpose: str, device: torch.device | str = "cpu") -> torch.Generator:
        """Return the generator for one purpose of this epoch."""
        return stream(self.seed, purpose, self.number, device)


@dataclass(frozen=True, eq=False)
class MaskedBatch:
    """What one step predicts and what it may look at; all int64 [2, any]."""

    targets: Tensor
    """Links to predict."""
    negatives: Tensor
    """As many pairs that are no link."""
    seen: Tensor
    """The links to pass messages along, each once: none of them is a target."""


def masked_batches(known: TrainingGraph, epoch: Epoch, size: int) -> Iterator[MaskedBatch]:
    """Yield batches that cover all links once, in random order, each with all others to see.

    A batch takes half of the links at most, so that some are always left to be seen.

    Args:
        known: The links to learn from.
        epoch: Which epoch it is.
        size: How many links to predict at once.
    """
    generator, count = epoch.stream("negatives", known.device), known.links.shape[1]
    order, size = _shuffled(known, epoch, "batches"), max(1, min(size, count // 2))
    for start in range(0, count, size):
        others = torch.cat([order[:start], order[start + size :]])
        yield _batch(known, order[start : start + size], others, generator)


def hidden_links(
    known: TrainingGraph, epoch: Epoch, share: float, size: int | None = None
) -> Iterator[MaskedBatch]:
    """Hide a random share of the links and yield them in batches, all with the same seen links.

    A link is hidden in both directions. At least one is hidden and, if there are two, at least
    one is seen.

    Args:
        known: The links to learn from.
        epoch: Which epoch it is.
        share: Share of the links to hide.
        size: How many hidden links to predict at once; None for all.
    """
    count = known.links.shape[1]
    number = min(max(round(share * count), 1), max(count - 1, 1))
    hidden, others = _shuffled(known, epoch, "hidden").tensor_split([number])
    generator = epoch.stream("negatives", known.device)
    for chosen in hidden.split(size or max(number, 1)):
        yield _batch(known, chosen, others, generator)


def visible_links(known: TrainingGraph, epoch: Epoch) -> MaskedBatch:
    """Return all links to predict, all of them to see: for what does not look, or may."""
    negatives = known.unlinked.draw(known.links.shape[1], epoch.stream("negatives", known.device))
    return MaskedBatch(known.links, negatives, known.links)


def _shuffled(known: TrainingGraph, epoch: Epoch, purpose: str) -> Tensor:
    generator = epoch.stream(purpose, known.device)
    return torch.randperm(known.links.shape[1], generator=generator, device=known.device)


def _batch(
    known: TrainingGraph, chosen: Tensor, others: Tensor, generator: torch.Generator
) -> MaskedBatch:
    negatives = known.unlinked.draw(chosen.numel(), generator)
    targets, seen = (known.links.index_select(1, own) for own in (chosen, others))
    return MaskedBatch(targets, negatives, seen)


class Learner(nn.Module):
    """A method with its weights: how they are trained, and how they score.

    It never sees a held-out link. While it is built and while an epoch runs, torch's global
    generators follow from the seed: ordinary layers and dropout are repeatable as they are.
    """

    added: ClassVar[frozenset[str]] = frozenset()
    """Tensors that files of earlier versions lack: they stay as they are created."""

    def steps(self, known: TrainingGraph, epoch: Epoch) -> Iterator[Tensor]:  # noqa: ARG002
        """Yield the loss of each step of an epoch; the trainer steps the optimizer after each.

        No link that a step predicts may be among those it passes messages along, nor in its
        features: `known.with_links(seen)` has those of the links that are seen.

        Args:
            known: The links to learn from.
            epoch: Which epoch it is.
        """
        yield from ()

    def scorer(self, known: TrainingGraph) -> PairScorer:
        """Return what scores pairs by these links, with dropout off and no gradients.

        Args:
            known: What may be looked at; more links, or more nodes, than were learned from.
        """
        raise NotImplementedError

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:  # noqa: ANN401
        """Take over weights; what was added since they were saved stays as it is."""
        own = super().state_dict()
        added = {name: own[name] for name in self.added}
        return super().load_state_dict({**added, **state_dict}, strict, assign)

    def track(self, known: TrainingGraph, epoch: Epoch) -> dict[str, float] | None:  # noqa: ARG002
        """Return figures to write down at an evaluation, if the method has any."""
        return None


@dataclass(frozen=True)
class Method:
    """One way to predict links, as the table of methods knows it."""

    title: str
    """How people call it, such as `GraphSAGE`."""
    settings: type[MethodSettings]
    """What it can be told; the defaults are for any graph."""
    build: Callable[[int, Any], Learner]
    """Make it for so many features, with these settings."""
    needs_features: bool = True
    """Whether it looks at features; without any in the graph they are made from its links."""
    authors: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By graph, or `EVERY_GRAPH`: where its authors' settings differ from the defaults."""
    search: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """What to try for each setting that is worth tuning."""
    rule: Callable[[Graph, str], dict[str, Any]] | None = None
    """For a graph and a preset of the method's own: what it chooses where nothing is given."""
    ruled: frozenset[str] = frozenset()
    """The settings that the rule chooses."""
    works_across_sides: bool = True
    """Whether it says anything about two nodes on different sides of a bipartite graph."""
    exceptions: frozenset[str] = frozenset()
    """Checks of `cgcl.testing` that it cannot keep by its nature."""
    version: int = 1
    """Raised when the same run comes to give other numbers: what was made before is older then."""

    def settings_for(self, graph: Graph, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings for a graph: what is given, else what the rule chooses.

        Args:
            graph: The graph to learn from.
            given: Settings by name; None for what is left to the rule.
        """
        told = {n: value for n, value in given.items() if value is not None or n not in self.ruled}
        if self.rule is None:
            return told
        preset = told.get("preset", getattr(self.settings, "preset", ""))
        return {**self.rule(graph, preset), **told}

    def authors_settings(self, graph: str) -> dict[str, Any]:
        """Return where its authors' settings for a graph differ from the defaults."""
        return {**self.authors.get(EVERY_GRAPH, {}), **self.authors.get(graph, {})}
