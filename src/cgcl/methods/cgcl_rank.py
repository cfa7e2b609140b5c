"""CGCL that ranks: the paper's two views, and a softmax over all nodes and all pairs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional

from cgcl.counter_rng import words, words_below
from cgcl.graph.adjacency import Adjacency
from cgcl.graph.pairs import encode_ordered
from cgcl.methods.cgcl import view_key
from cgcl.methods.method import Epoch, Learner, Method, Remembered, TrainingGraph
from cgcl.methods.scoring import InnerProductScorer, evaluating
from cgcl.methods.settings import CGCL_SEARCH, RULED, RankSettings, chosen_for
from cgcl.model.ranker import RankingDecoder, RankingEncoder, signatures
from cgcl.model.softmax import NOTHING, Excluded, Workspace, row_logsumexp, softmax_loss


class RankingLearner(Learner):
    r"""Cross-view consistency learning for the top of the list.

    As in the paper, each epoch divides the known links into two views and reconstructs either
    from the other (Algorithm 1). Where the paper asks each hidden link to score above one random
    pair (Eq. 8), here it must stand out from all nodes that its ends are not linked to, and from
    all pairs.
    """

    added = frozenset({"offset"})

    def __init__(self, num_features: int, settings: RankSettings) -> None:
        """Create the network.

        Args:
            num_features: Number of features per node, d.
            settings: The network, and what it is asked.
        """
        super().__init__()
        self._settings = settings
        self.encode = RankingEncoder(
            num_features,
            settings.hidden,
            settings.layers,
            self_term=settings.self_term,
            input_dropout=settings.input_dropout,
            hidden_dropout=settings.hidden_dropout,
        )
        self.decode = RankingDecoder(
            settings.hidden,
            settings.decoder_dropout,
            norm=settings.norm,
            popularity=settings.popularity,
            negative_share=settings.negative_share,
            signatures=settings.signatures > 0,
        )
        self._trained = dict(self.named_parameters())
        self.offset: Tensor
        """A softmax does not mind what is added to all scores. This much is taken from each, so
        that zero is where the softmax over all pairs, dealing out all known links, deals out one:
        people can tell scores there apart. It follows the training as the average does."""
        self.register_buffer("offset", torch.zeros(()))
        if settings.average:
            for name, weight in self._trained.items():
                self.register_buffer(_average_of(name), weight.detach().clone())
        self._workspaces = (Workspace(), Workspace())
        self._prepared: Remembered[Prepared] = Remembered()

    def steps(self, known: TrainingGraph, epoch: Epoch) -> Iterator[Tensor]:
        """Yield L_1 and L_2."""
        prepared = self.prepare(known)
        # At first the average is over the steps so far: it must not remember where it began.
        step = 1 - min(self._settings.average, 1 - 1 / (2 * epoch.number))
        # The two steps hide the two ends of the same coins: no link is hidden twice in an epoch.
        coins, share = words(view_key(epoch), *known.links), self._settings.target_share
        for is_seen in (coins < words_below(1 - share), coins >= words_below(share)):
            left, right, p = self.decode(*self._embed(known, prepared, is_seen))
            links = known.links[:, ~is_seen]
            scores = scores_of(left, right, p, links)
            sums, stands_for = self.log_sums(left, right, p, prepared)
            loss = softmax_loss(scores, links, sums, self._settings.row_share, stands_for)
            with torch.no_grad():
                weighted = sums if stands_for is None else sums + stands_for.log()
                total = torch.logsumexp(weighted, 0)
            yield loss
            self._follow(step, total, prepared.num_links)

    def scorer(self, known: TrainingGraph) -> InnerProductScorer:
        """Return inner products of embeddings that all these links give, less the offset."""
        with self.finished():
            left, right, p = self(known)
            return InnerProductScorer(left, right, p - self.offset / 2)

    def forward(self, known: TrainingGraph) -> tuple[Tensor, Tensor, Tensor]:
        """Return what the decoder makes of all these links."""
        return self.decode(*self._embed(known, self.prepare(known), None))

    @property
    def num_signatures(self) -> int:
        """Random numbers per node that estimate what two nodes share."""
        return self._settings.signatures

    @contextmanager
    def finished(self) -> Iterator[None]:
        """Take the averaged weights, and switch dropout and gradients off, for a while."""
        with evaluating(self):
            self._swap()
            try:
                yield
            finally:
                self._swap()

    def inputs(self, known: TrainingGraph) -> tuple[Tensor, Tensor]:
        """Return what the encoder makes of features, and what a link adds to it, [n, any] each.

        The second says for each node what a link to it adds to the first at the link's other end:
        zeros where features tell of no links.
        """
        structure = known.structure
        if structure is None:
            found = self.encode.inputs(known.features)
            return found, torch.zeros_like(found)
        linked, speaking = self.prepare(known).linked(None, None), structure.feature_of_node
        return self.encode.inputs_of_links(linked, speaking), self.encode.of_neighbours(speaking)

    def _embed(
        self, known: TrainingGraph, prepared: Prepared, is_seen: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Return embeddings, [n, d_v], and signatures, [n, k], if there are any."""
        adjacency, structure = prepared.adjacency(is_seen), known.structure
        if structure is None:
            z = self.encode(known.features, adjacency)
        else:
            kept = None
            if self.training:
                ones = torch.ones(prepared.num_links + 1, device=known.device)
                kept = functional.dropout(ones, self._settings.input_dropout)
            linked = prepared.linked(is_seen, kept)
            z = self.encode.of_links(linked, structure.feature_of_node, adjacency)
        count = self._settings.signatures
        return z, signatures(prepared.counted(is_seen), count) if count else None

    def log_sums(
        self, left: Tensor, right: Tensor, p: Tensor, prepared: Prepared
    ) -> tuple[Tensor, Tensor | None]:
        """Return for each node the logarithm of the sum over all it is not linked to, [n].

        Where a step looks at some rows only, the others have the logarithm of nothing, and it is
        also returned for how many each of them stands, [n].
        """
        sums = torch.full_like(p, NOTHING)
        sampled = self._settings.sampled
        share = min(sampled / p.shape[0], 1.0) if sampled else 1.0  # of the rows looked at
        stands_for = torch.ones_like(p) if share < 1 else None
        for (rows, columns, excluded), room in zip(prepared.sides, self._workspaces, strict=False):
            some = rows
            if share < 1:
                order = torch.randperm(rows.numel(), device=p.device)
                count = math.ceil(share * rows.numel())
                some = rows.index_select(0, order[:count].sort().values)
                excluded = prepared.excluded_of(some, columns)
                assert stands_for is not None
                stands_for[rows] = rows.numel() / count
            found = row_logsumexp(
                left.index_select(0, some),
                right.index_select(0, columns),
                p.index_select(0, columns),
                excluded,
                room,
            )
            sums = sums.index_copy(0, some, found + p.index_select(0, some))
        return sums, stands_for

    def prepare(self, known: TrainingGraph) -> Prepared:
        """Return what these links give once and for all."""
        if known not in self._prepared:
            self._prepared[known] = Prepared.of(known)
        return self._prepared[known]

    @torch.no_grad()
    def _follow(self, step: float, total: Tensor, num_links: int) -> None:
        """Let the moving average follow the weights after a step, and the offset the scores."""
        averaged = self._averaged()
        if averaged:
            weights: list[Tensor] = [self._trained[name] for name in averaged]
            torch._foreach_lerp_(list(averaged.values()), weights, step)
        # Each pair is in two rows. Where every pair is a known link there is no sum.
        offset = (total - math.log(2 * max(num_links, 1))).where(total > NOTHING / 2, 0)
        self.offset.lerp_(offset, step)

    def _swap(self) -> None:
        for name, average in self._averaged().items():
            weight = self._trained[name]
            weight.data, average.data = average.data, weight.data

    def averages(self) -> list[Tensor]:
        """Return the moving average of every weight, in the order of the weights, if there is."""
        return list(self._averaged().values())

    def _averaged(self) -> dict[str, Tensor]:
        if not self._settings.average:
            return {}
        return {name: self.get_buffer(_average_of(name)) for name in self._trained}


def _average_of(name: str) -> str:
    return f"average_{name.replace('.', '_')}"


def scores_of(left: Tensor, right: Tensor, p: Tensor, pairs: Tensor) -> Tensor:
    """Return the scores of pairs, [m], from what the decoder makes of all nodes."""
    # index_select, never z[index]: the backward pass of the latter is not deterministic.
    one, other = pairs
    products = left.index_select(0, one) * right.index_select(0, other)
    return products.sum(dim=1) + p.index_select(0, one) + p.index_select(0, other)


@dataclass(frozen=True, eq=False)
class Prepared:
    """What the links of a graph give once and for all."""

    num_links: int
    entries: Adjacency
    """Both directions of each link, and each node with itself, with the number of each's link."""
    between: Sequence[tuple[Tensor, Tensor]]
    """Which nodes may link to which: all to all, or each side to the other."""

    @classmethod
    def of(cls, known: TrainingGraph) -> Prepared:
        """Return what the links of a graph give."""
        n, nodes = known.num_nodes, torch.arange(known.num_nodes, device=known.device)
        entries = Adjacency.from_pairs(known.links, n, edge_ids=True, self_loops=True)
        between = [(nodes, nodes)]
        if known.sides is not None:
            one, other = nodes[~known.sides.to(known.device)], nodes[known.sides.to(known.device)]
            between = [(one, other), (other, one)]
        return cls(known.links.shape[1], entries, between)

    @cached_property
    def sides(self) -> list[tuple[Tensor, Tensor, Excluded]]:
        """The nodes of `between`, and the known links among them."""
        return [(*nodes, self.excluded_of(*nodes)) for nodes in self.between]

    @property
    def num_nodes(self) -> int:
        """Number of nodes, n."""
        return self.entries.num_rows

    @cached_property
    def _is_link(self) -> Tensor:
        return self.entries.row != self.entries.indices

    def adjacency(self, is_seen: Tensor | None) -> Tensor:
        """Return the normalised adjacency of the seen links (Eq. 1), sparse CSR [n, n]."""
        counts = self._counts(is_seen)
        row, column = self._degree(counts).rsqrt().index_select(0, self._ends).view(2, -1)
        return self.entries.to_torch(counts * row * column)  # degrees with the node itself

    def linked(self, is_seen: Tensor | None, kept: Tensor | None) -> Tensor:
        """Return the adjacency of the seen links, features for a graph without, CSR [n, n].

        Args:
            is_seen: The seen links; None for all.
            kept: What dropout leaves of each link, on both of its sides, and one number more,
                [m + 1]; None for all.
        """
        counts = self._counts(is_seen) * self._is_link
        return self.entries.to_torch(counts if kept is None else counts * self._by_link(kept))

    def counted(self, is_seen: Tensor | None) -> Tensor:
        r"""Return $A D^{-1/2}$ of the seen links, a node's own entry left out, sparse [n, n].

        Its product with itself is resource allocation. What half of the links show is brought to
        the measure of all of them.
        """
        counts, share = self._counts(is_seen), 1.0
        if is_seen is not None:
            share = is_seen.sum().clamp(min=1) / max(self.num_links, 1)
        scale = (self._degree(counts) - 1).clamp(min=1).rsqrt()
        scale = scale.index_select(0, self.entries.indices)
        return self.entries.to_torch(counts * self._is_link * scale / share**0.5)

    def excluded_of(self, rows: Tensor, columns: Tensor) -> Excluded:
        """Return the known links as entries of a matrix of some rows and columns."""
        places = rows.new_full((2, self.num_nodes), -1)
        for place, nodes in zip(places, (rows, columns), strict=True):
            place[nodes] = torch.arange(nodes.numel(), device=nodes.device)
        one, other = places[0][self.entries.row], places[1][self.entries.indices]
        codes = encode_ordered(one, other, columns.numel())[(one >= 0) & (other >= 0)]
        return Excluded(codes.sort().values, (rows.numel(), columns.numel()))

    @cached_property
    def _ends(self) -> Tensor:
        return self.entries.edge_index.flatten()

    def _by_link(self, values: Tensor) -> Tensor:
        """Return the value of each entry's link, and the last one for a node with itself, [e]."""
        assert self.entries.edge_ids is not None
        return values.index_select(0, self.entries.edge_ids)

    def _counts(self, is_seen: Tensor | None) -> Tensor:
        """Return 1 for each entry that is seen, 0 for the others, [e]."""
        if is_seen is None:
            return torch.ones(self.entries.indices.shape, device=self.entries.indices.device)
        return self._by_link(torch.cat([is_seen, is_seen.new_ones(1)])).float()

    def _degree(self, counts: Tensor) -> Tensor:
        # Sums of ones are exact in any order.
        return counts.new_zeros(self.num_nodes).index_add(0, self.entries.row, counts)


METHOD = Method(
    title="CGCL-rank",
    settings=RankSettings,
    build=RankingLearner,
    rule=chosen_for,
    ruled=RULED,
    search=CGCL_SEARCH | {"lr": (0.002, 0.005, 0.01), "row_share": (0.0, 0.5, 1.0)},
)
