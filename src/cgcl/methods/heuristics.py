"""Methods without weights: formulas over the known links."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cgcl.graph.adjacency import Adjacency, Numbers, blocks_of
from cgcl.methods.method import Learner, Method, PairScorer, TrainingGraph
from cgcl.methods.settings import MethodSettings
from cgcl.settings import Range

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Sums = npt.NDArray[np.float64]

# How many numbers are held at once: 2^20 neighbours, or sums, take about 50 MB with what is
# computed from them.
_BUDGET = 2**20
# Weights are whole multiples of this, so that a sum is exact and its order does not matter: pairs
# that share the same kinds of neighbours have the same score to the last bit.
_GRAIN = 2.0**-32
_NOTHING = 1e-6
# Operations: a step in a table of sums, or of a walk; filling and reading an entry of it; a product
# of two degrees. Measured: 2e7, 8e8 and 1.6e8 a second.
_STEP, _TABLE_ENTRY, _PRODUCT = 2000.0, 50.0, 250.0
# What no link at one end counts, where one link at each end counts 1.
_NO_LINK = 0.1
# How many numbers one table of a spread holds: 2^19 take 4 MB and stay near the processor. A graph
# of more nodes takes a table of one column; three or four tables are held at once.
_TABLE = 2**19
# So many neighbours are added up at once; the sums of a node that has more are added up then. It
# keeps rounding small at hubs.
_PART = 2**10
# One step along one direction of a link, or at one node, and the place of one pair in a table.
# Measured on 20,000 nodes: 1.6e9 and 2.7e7 a second.
_SPREAD, _LOOK_UP = 25.0, 1500.0
# Up to here float64 counts without rounding.
_EXACT = 2.0**53


class Heuristic(Learner):
    """Scores pairs by a formula; there is nothing to train."""

    def __init__(self, formula: Callable[[TrainingGraph], PairScorer]) -> None:
        """Take the formula: it returns what scores pairs by the links it is given."""
        super().__init__()
        self._formula = formula

    def scorer(self, known: TrainingGraph) -> PairScorer:
        """Return what scores pairs by these links."""
        return self._formula(known)


def _method(
    title: str,
    formula: Callable[..., PairScorer],
    settings: type[MethodSettings] = MethodSettings,
    *,
    needs_sides: bool = False,
    **about: Any,  # noqa: ANN401
) -> Method:
    """Return the method of a formula.

    It is given the links, the number of nodes, the sides if it needs them, and its settings if it
    has any.
    """

    def build(_: int, told: MethodSettings) -> Heuristic:
        own = [told] if fields(told) else []

        def scorer(known: TrainingGraph) -> PairScorer:
            sides = [known.sides] if needs_sides else []
            return formula(known.links, known.num_nodes, *sides, *own)

        return Heuristic(scorer)

    return Method(title, settings, build, needs_features=False, **about)


class Neighbourhoods:
    """The neighbours of every node, and what pairs of nodes have in common."""

    def __init__(self, links: Tensor, num_nodes: int) -> None:
        """Sort the links by their ends.

        Args:
            links: Each link once in any direction, int64 [2, m].
            num_nodes: Number of nodes, isolated ones included.
        """
        self.num_nodes = num_nodes
        self._adjacency = Adjacency.from_pairs(links.cpu(), num_nodes)
        self.degree: Numbers = self._adjacency.degree.numpy()

    @property
    def cost_per_pair(self) -> float:
        """About how many operations one pair takes when all pairs are summed over.

        In the unit of `cgcl.methods.method`: two ordinary CPU cores do 4e10 a second. A pair takes
        one step in a table, and its share of the walks of two steps that fill the table.
        """
        walks = float(self._walks.sum()) / max(self.num_nodes, 1) ** 2
        return _STEP * (1 + walks)

    def shared(self, pairs: Tensor, weight: Sums) -> Sums:
        r"""Return $\sum_{w \in N(u) \cap N(v)} weight_w$ for each pair (u, v), float64 [p].

        Memory is bounded whatever the degrees. Where few first ends occur with many partners
        each, their neighbours' neighbours are counted; otherwise the neighbours of the end that
        has fewer are looked up among those of the other. Both give the same bits.

        Args:
            pairs: Node numbers, int64 [2, p], in any direction.
            weight: What each shared neighbour counts, [n].
        """
        pairs = pairs.cpu()
        one, other = pairs.numpy()
        fewer = np.minimum(self.degree[one], self.degree[other])
        first, count = np.unique(one, return_counts=True)
        walking = first.size * self.num_nodes + self._walks[first].sum()
        if walking < fewer.sum() + count.sum():
            return _from_tables(one, other, lambda nodes: self.tables(nodes, weight))
        sums, weight = np.zeros(one.size), _in_grains(weight)
        for block in blocks_of(fewer, _BUDGET):
            pair, nodes = self._adjacency.common_neighbours(pairs[:, block])
            sums[block] = _summed(pair.numpy(), weight[nodes.numpy()], sums[block].size)
        return sums

    def tables(self, nodes: Numbers, weight: Sums) -> Iterator[Sums]:
        """Yield what nodes share with every node, float64 [some of them, n], block by block."""
        weight, n = _in_grains(weight), self.num_nodes
        for block in blocks_of(n + self._walks[nodes].astype(np.int64), _BUDGET):
            start, middle = self._adjacency.take(nodes[block])
            step, end = self._adjacency.take(middle)
            count = block.stop - block.start
            yield _summed(start[step] * n + end, weight[middle[step]], count * n).reshape(count, n)

    @cached_property
    def _walks(self) -> Sums:
        """How many walks of two steps begin at each node."""
        row, end = self._adjacency.edge_index.numpy()
        return _summed(row, self.degree[end].astype(np.float64), self.num_nodes)


def _from_tables(one: Numbers, other: Numbers, tables: Callable[[Numbers], Iterable[Sums]]) -> Sums:
    """Return the entry of each pair, float64 [p], from tables of all nodes for each first end.

    Args:
        one: The first ends, [p].
        other: The second ends, [p].
        tables: Yields the rows of different nodes, float64 [some of them, n], block by block.
    """
    first, row = np.unique(one, return_inverse=True)
    by_row = np.argsort(row, kind="stable")
    ends = np.searchsorted(row[by_row], np.arange(first.size + 1))
    found, start = np.zeros(one.size), 0
    for table in tables(first):
        asked = by_row[ends[start] : ends[start + len(table)]]
        found[asked] = table[row[asked] - start, other[asked]]
        start += len(table)
    return found


def _summed(place: Numbers, values: Sums, size: int) -> Sums:
    """Return what falls on each place, added up in the order given."""
    return np.bincount(place, weights=values, minlength=size).astype(np.float64, copy=False)


def _in_grains(weight: Sums) -> Sums:
    return np.round(weight / _GRAIN) * _GRAIN


class SharedNeighbours(Neighbourhoods, PairScorer):
    """A heuristic that sums a weight over the neighbours that two nodes share."""

    nothing: ClassVar[float] = _NOTHING
    """What counts as no shared neighbour: less than any single one weighs."""

    def weight_of(self, degree: Numbers) -> Sums:
        """Return what each node counts if it is shared, float64 [n].

        Args:
            degree: The number of links of each node, int64 [n].
        """
        raise NotImplementedError

    @cached_property
    def _weight(self) -> Sums:
        return self.weight_of(self.degree)

    def values(self, pairs: Tensor) -> Sums:
        """Return the sum of each pair, float64 [p]."""
        return self.shared(pairs, self._weight)

    def logits(self, pairs: Tensor) -> Tensor:
        """Return the logarithm of each pair's sum, float32 [p]; a finite floor for no sum."""
        return as_logits(self.values(pairs), self.nothing)

    @property
    def cost_in_rows(self) -> float:
        """About how many operations an entry takes: a place in a table, and its share of walks."""
        return self.cost_per_pair - _STEP + _TABLE_ENTRY

    def rows(self, nodes: Tensor) -> Tensor:
        """Return the logits of nodes with every node, float32 [r, n] on the CPU."""
        tables = self.tables(nodes.cpu().numpy(), self._weight)
        return torch.cat([as_logits(table, self.nothing) for table in tables])


def as_logits(sums: Sums, nothing: float = _NOTHING) -> Tensor:
    r"""Return sums that are 0 or positive as logits, float32 on the CPU.

    The sum s is read as odds: the sigmoid of its logarithm is $s / (1 + s)$, between 0 and 1 and
    in the same order.

    Args:
        sums: What to read as odds, float64 [any].
        nothing: What a sum of 0 is read as; less than any other sum.

    Example:
        >>> torch.sigmoid(as_logits(np.array([0.0, 1.0, 3.0])))
        tensor([1.0000e-06, 5.0000e-01, 7.5000e-01])
    """
    logits = np.full(sums.size, np.log(nothing), dtype=np.float32)
    there = np.flatnonzero(sums)  # in the rows of a graph nearly all sums are 0
    logits[there] = np.log(np.maximum(sums.ravel()[there], nothing))
    return torch.from_numpy(logits.reshape(sums.shape))


class CommonNeighbours(SharedNeighbours):
    r"""Counts the neighbours that two nodes share: $|N(u) \cap N(v)|$.

    Example:
        >>> square = torch.tensor([[0, 1, 2, 0], [1, 2, 3, 3]])  # 0 - 1 - 2 - 3 - 0
        >>> CommonNeighbours(square, 4).values(torch.tensor([[0, 0], [2, 1]]))
        array([2., 0.])
    """

    def weight_of(self, degree: Numbers) -> Sums:
        """Return 1 for every node."""
        return np.ones(len(degree))


class AdamicAdar(SharedNeighbours):
    r"""Sums over shared neighbours, hubs counting less: $\sum_{w} 1 / \log |N(w)|$.

    Example:
        >>> square = torch.tensor([[0, 1, 2, 0], [1, 2, 3, 3]])  # 0 - 1 - 2 - 3 - 0
        >>> AdamicAdar(square, 4).values(torch.tensor([[0, 0], [2, 1]])).round(3)  # 2 / log 2
        array([2.885, 0.   ])
    """

    def weight_of(self, degree: Numbers) -> Sums:
        """Return 1 / log of the number of links."""
        # What two nodes share has two links at least; log 1 = 0 is never asked for.
        return np.where(degree >= 2, 1 / np.log(np.maximum(degree, 2)), 0.0)


class ResourceAllocation(SharedNeighbours):
    r"""Sums over shared neighbours, hubs counting far less: $\sum_{w} 1 / |N(w)|$.

    Zhou, Lü and Zhang, "Predicting missing links via local information", 2009.

    Example:
        >>> square = torch.tensor([[0, 1, 2, 0], [1, 2, 3, 3]])  # 0 - 1 - 2 - 3 - 0
        >>> ResourceAllocation(square, 4).values(torch.tensor([[0, 0], [2, 1]]))  # 2 / 2
        array([1., 0.])
    """

    # A shared neighbour with a million links still counts.
    nothing: ClassVar[float] = 1e-9

    def weight_of(self, degree: Numbers) -> Sums:
        """Return 1 / the number of links."""
        return np.where(degree >= 1, 1 / np.maximum(degree, 1), 0.0)


class PreferentialAttachment(PairScorer):
    r"""Multiplies the numbers of links at the two ends: $|N(u)| \cdot |N(v)|$.

    Barabási and Albert, "Emergence of scaling in random networks", 1999.

    Example:
        >>> star = torch.tensor([[0, 0, 0], [1, 2, 3]])
        >>> PreferentialAttachment(star, 5).values(torch.tensor([[0, 1, 1], [1, 2, 4]]))
        array([3., 1., 0.])
    """

    cost_per_pair = _PRODUCT
    """About how many operations one pair takes."""

    def __init__(self, links: Tensor, num_nodes: int) -> None:
        """Count the links of every node.

        Args:
            links: Each link once in any direction, int64 [2, m].
            num_nodes: Number of nodes, isolated ones included.
        """
        self.num_nodes = num_nodes
        self._num_links = links.shape[1]
        degree = np.bincount(links.cpu().numpy().ravel(), minlength=num_nodes)
        self._degree = degree.astype(np.float64)  # products stay exact up to 2^53

    def values(self, pairs: Tensor) -> Sums:
        """Return the product of each pair, float64 [p]."""
        one, other = pairs.cpu().numpy()
        return self._degree[one] * self._degree[other]

    def logits(self, pairs: Tensor) -> Tensor:
        r"""Return $\log(|N(u)| \cdot |N(v)| / 2m)$, float32 [p]; a finite floor for no links.

        So a score's odds are the number of links to expect between the two ends if all m links
        were laid anew at random and every node kept as many as it has.
        """
        ends = max(2 * self._num_links, 1)
        return as_logits(self.values(pairs) / ends, nothing=_NO_LINK / ends)

    def factors(self) -> tuple[Tensor, Tensor]:
        """Return the numbers of links, float32 [n, 1], twice: their product is the score."""
        degree = torch.from_numpy(self._degree).float()[:, None]
        return degree, degree


class Spreading(PairScorer):
    """Scores a pair by what reaches one end if it spreads from the other.

    It is for measures that do not depend, but for rounding, on which end it spreads from. So each
    pair is taken from the end that more of the pairs asked for have: all pairs with one node take
    one spread. Where rounding could show in a logit, it is taken from the smaller node number, so
    that the order of a pair and its company leave no trace.
    """

    cost_per_pair = _LOOK_UP
    """About how many operations it takes to look up a pair in what has been spread."""
    nothing: float
    """What counts as nothing: less than any measure that matters."""

    def __init__(self, links: Tensor, num_nodes: int, steps: int) -> None:
        """Lay out the links.

        Args:
            links: Each link once in any direction, int64 [2, m].
            num_nodes: Number of nodes, isolated ones included.
            steps: How many steps one spread takes.
        """
        adjacency = Adjacency.from_pairs(links.cpu(), num_nodes)
        self.num_nodes = num_nodes
        self.steps = steps
        self.degree: Numbers = adjacency.degree.numpy()
        matrix = adjacency.to_scipy()
        matrix.sum_duplicates()
        self._num_links = matrix.nnz
        self._parts, self._whole = _in_parts(matrix)

    def step(self, table: Sums) -> Sums:
        """Return what is at the neighbours of each node, added up, float64 [n, s] or [n].

        A column does not depend on the columns beside it: it is added up in the order of the
        neighbours' numbers.
        """
        table = self._parts @ table
        return table if self._whole is None else self._whole @ table

    def spread(self, sources: Numbers) -> Sums:
        """Return what reaches every node, 0 or more, float64 [n, s]: a column for each source."""
        raise NotImplementedError

    def at(self, sources: Numbers) -> Sums:
        """Return what is where before the first step: 1 at each source, float64 [n, s]."""
        table = np.zeros((self.num_nodes, sources.size))
        table[sources, np.arange(sources.size)] = 1
        return table

    def between(self, source: Numbers, target: Numbers, reached: Sums) -> Sums:  # noqa: ARG002
        """Return the measure of pairs from what reached the targets, float64 [p]."""
        return reached

    @property
    def rounding(self) -> float:
        """How far the two ends' measures can be apart, relative to them.

        A sum of k numbers above 0 is wrong by k - 1 roundings at most, a step by three more, and
        two spreads are compared.
        """
        most = int(self.degree.max(initial=0))
        added = min(most, _PART) + most // _PART + 1
        return self.steps * (added + 4) * 2.0**-52 + 2.0**-40

    @property
    def cost_per_node(self) -> float:
        """About how many operations one spread takes, whatever number of pairs it serves."""
        return self.steps * _SPREAD * (self._num_links + self.num_nodes)

    def values(self, pairs: Tensor) -> Sums:
        """Return the measure of each pair, float64 [p]; the last bits depend on what is asked."""
        one, other = pairs.cpu().numpy()
        asked = np.bincount(np.concatenate([one, other]), minlength=self.num_nodes)
        swap = asked[other] > asked[one]
        return self._spread_from(np.where(swap, other, one), np.where(swap, one, other))

    def logits(self, pairs: Tensor) -> Tensor:
        """Return the logarithm of each pair's measure, float32 [p]; a finite floor for none.

        Its sigmoid is s / (1 + s) for the measure s.
        """
        logs, rounding = self._logs(self.values(pairs)), self.rounding
        low, high = ((logs + shift).astype(np.float32) for shift in (-rounding, rounding))
        doubtful = np.flatnonzero(low != high)
        smaller, larger = np.sort(pairs.cpu().numpy()[:, doubtful], axis=0)
        logs[doubtful] = self._logs(self._spread_from(smaller, larger))
        return torch.from_numpy(logs.astype(np.float32))

    def _logs(self, values: Sums) -> Sums:
        # The floor is a float32, far from where float32 numbers meet: it is never in doubt.
        floor = np.float64(np.float32(np.log(self.nothing)))
        return np.maximum(np.log(np.maximum(values, self.nothing / 2)), floor)

    def _spread_from(self, source: Numbers, target: Numbers) -> Sums:
        """Return the measure of each pair, spread from its source, float64 [p]."""
        width = max(1, _TABLE // max(self.num_nodes, 1))

        def tables(sources: Numbers) -> Iterator[Sums]:
            for start in range(0, sources.size, width):
                yield self.spread(sources[start : start + width]).T

        return self.between(source, target, _from_tables(source, target, tables))


def _in_parts(adjacency: csr_array) -> tuple[csr_array, csr_array | None]:
    """Cut long rows in pieces; return all pieces, and what adds them up if any row was cut."""
    from scipy.sparse import csr_array

    start, count = adjacency.indptr, np.diff(adjacency.indptr)
    if count.max(initial=0) <= _PART:
        return adjacency, None
    place = np.arange(adjacency.nnz) - np.repeat(start[:-1], count)  # of each entry in its row
    cut = np.flatnonzero(place % _PART == 0)  # where each piece begins
    pieces = (adjacency.data, adjacency.indices, np.append(cut, adjacency.nnz))
    sums = (np.ones(cut.size), np.arange(cut.size), np.searchsorted(cut, start))
    parts = csr_array(pieces, shape=(cut.size, count.size))
    whole = csr_array(sums, shape=(count.size, cut.size))
    return parts, whole


class Walks(Spreading):
    """A measure that counts walks: as many lead to as fro."""

    def __init__(self, links: Tensor, num_nodes: int, steps: int) -> None:
        """Lay out the links, and see whether all walks can be counted exactly.

        Args:
            links: Each link once in any direction, int64 [2, m].
            num_nodes: Number of nodes, isolated ones included.
            steps: How many steps the longest walks have.
        """
        super().__init__(links, num_nodes, steps)
        walks = np.ones(num_nodes)
        for _ in range(steps):
            walks = self.step(walks)
        self._is_exact = float(walks.max(initial=0)) < _EXACT

    @property
    def rounding(self) -> float:
        """0 while walks are counted exactly: then there are as many to as fro, to the last bit."""
        return 0.0 if self._is_exact else super().rounding


@dataclass(frozen=True)
class KatzSettings(MethodSettings):
    """The settings of Katz."""

    beta: float = 0.005
    """What a walk counts for each of its steps."""
    length: int = 6
    """Steps of the longest walks that count."""

    # Within these, no power of beta and no number of walks leaves the range of float64.
    RANGES: ClassVar[Mapping[str, Range]] = {
        "beta": Range(low=1e-6, high=1),
        "length": Range(low=1, high=20),
    }


class Katz(Walks):
    r"""Counts walks between two nodes: $\sum_{l=1}^{L} \beta^l (A^l)_{uv}$.

    Katz, "A new status index derived from sociometric analysis", 1953. There is one difference:
    walks are counted up to a length, not without end, so beta need not be small enough for that
    sum to exist.

    Example:
        >>> square = torch.tensor([[0, 1, 2, 0], [1, 2, 3, 3]])  # 0 - 1 - 2 - 3 - 0
        >>> katz = Katz(square, 4, KatzSettings(beta=0.1, length=3))
        >>> katz.values(torch.tensor([[0, 0], [2, 1]]))  # 2 of 2 steps; 1 of 1 and 4 of 3 steps
        array([0.02 , 0.104])
    """

    def __init__(self, links: Tensor, num_nodes: int, settings: KatzSettings) -> None:
        """Lay out the links.

        Args:
            links: Each link once in any direction, int64 [2, m].
            num_nodes: Number of nodes, isolated ones included.
            settings: Which walks count how much.
        """
        super().__init__(links, num_nodes, settings.length)
        self._weights = settings.beta ** np.arange(1, settings.length + 1)  # beta^l
        # A tenth of what a single walk of the full length counts.
        self.nothing = 0.1 * float(self._weights[-1])

    def spread(self, sources: Numbers) -> Sums:
        """Return the weighted number of walks to every node, float64 [n, s]."""
        walks = self.at(sources)  # A^0
        total = np.zeros_like(walks)
        for weight in self._weights:
            walks = self.step(walks)
            total += weight * walks
        return total


class ThreeStepPaths(Walks):
    r"""Counts walks of three steps between two nodes: $(A^3)_{uv}$.

    For two unlinked nodes on different sides of a bipartite graph these are the paths
    u - i - w - v, the shortest there are: nodes on different sides share no neighbour.

    Example:
        >>> path = torch.tensor([[0, 1, 1], [2, 2, 3]])  # 0 - 2 - 1 - 3
        >>> ThreeStepPaths(path, 4).values(torch.tensor([[0, 0, 0], [3, 2, 1]]))
        array([1., 2., 0.])
    """

    nothing = _NOTHING
    """Less than a single walk."""

    def __init__(self, links: Tensor, num_nodes: int) -> None:
        """Lay out the links.

        Args:
            links: Each link once in any direction, int64 [2, m].
            num_nodes: Number of nodes, isolated ones included.
        """
        super().__init__(links, num_nodes, steps=3)

    def spread(self, sources: Numbers) -> Sums:
        """Return the number of walks to every node, float64 [n, s]."""
        walks = self.at(sources)
        for _ in range(self.steps):
            walks = self.step(walks)
        return walks


class ItemCosine(Spreading):
    r"""Sums how alike an item is to those that a node has: $\sum_{i \in N(u)} \cos(i, v)$.

    $\cos(i, v) = |N(i) \cap N(v)| / \sqrt{|N(i)| \cdot |N(v)|}$ is the cosine of two items' rows of
    links. Items are the nodes of the second side. In a graph without sides every node is one, and
    the sums from both ends are added: a path u - w - x - v counts $1 / \sqrt{|N(w)| \cdot |N(v)|}$
    if v is an item, and $1 / \sqrt{|N(x)| \cdot |N(u)|}$ if u is.

    Sarwar and others, "Item-based collaborative filtering recommendation algorithms", 2001. There
    is one difference: similarities are added up instead of taking their weighted mean, as links
    have no ratings to take the mean of.

    Example:
        >>> path = torch.tensor([[0, 1, 1], [2, 2, 3]])  # 0 - 2 - 1 - 3
        >>> sides = torch.tensor([False, False, True, True])
        >>> scorer = ItemCosine(path, 4, sides)
        >>> scorer.values(torch.tensor([[0], [3]])).round(3)  # 2 and 3 share 1: 1 / sqrt(2 * 1)
        array([0.707])
    """

    nothing = 1e-9
    """Less than a path between items of a hundred million links each."""

    def __init__(self, links: Tensor, num_nodes: int, sides: Tensor | None) -> None:
        """Lay out the links.

        Args:
            links: Each link once in any direction, int64 [2, m].
            num_nodes: Number of nodes, isolated ones included.
            sides: True for every item of a bipartite graph, bool [n], or None.
        """
        # The first step serves both directions; each has two more.
        super().__init__(links, num_nodes, steps=5)
        self._scale = np.where(self.degree > 0, 1 / np.sqrt(np.maximum(self.degree, 1)), 0.0)
        items = np.ones(num_nodes, dtype=bool) if sides is None else sides.cpu().numpy()
        self._items = np.where(items, self._scale, 0.0)

    def spread(self, sources: Numbers) -> Sums:
        """Return the sum for every node as the item, and for each source as the item, added up."""
        scale = self._scale[:, None]  # [n, 1]
        near = self.step(self.at(sources))
        forth = self.step(self.step(near * scale)) * self._items[:, None]
        back = self.step(self.step(near) * scale) * self._items[sources]
        return forth + back


@dataclass(frozen=True)
class PageRankSettings(MethodSettings):
    """The settings of rooted PageRank."""

    alpha: float = 0.15
    """Chance of the walker to go home instead of taking a step."""
    tolerance: float = 1e-4
    """Share of walks that may be cut short; it decides how many steps are followed."""

    RANGES: ClassVar[Mapping[str, Range]] = {
        "alpha": Range(low=0.01, high=0.99),
        "tolerance": Range(low=1e-12, below=1),
    }


class PageRank(Spreading):
    r"""Adds the rank of each end as seen from the other: $\pi_u(v) + \pi_v(u)$.

    $\pi_u$ is the fixed point of $\pi = \alpha e_u + (1 - \alpha) P \pi$, where P moves the
    walker to a neighbour, each as likely as the others. Who has no neighbour stays.

    Page and others, "The PageRank citation ranking", 1999; for links,
    Liben-Nowell and Kleinberg, "The link-prediction problem for social networks", 2007.

    A walk is as likely as the same walk backwards but for the degrees of its two ends, so
    $\pi_v(u) = \pi_u(v) \, d_u / d_v$, and one spread gives both summands.

    Example:
        >>> link = torch.tensor([[0], [1]])  # seen from either end, the other's rank is 1/3
        >>> PageRank(link, 2, PageRankSettings(alpha=0.5, tolerance=1e-9)).values(link).round(6)
        array([0.666667])
    """

    nothing = 1e-20
    """A rank too small for any walk to matter."""

    def __init__(self, links: Tensor, num_nodes: int, settings: PageRankSettings) -> None:
        """Lay out the links.

        Args:
            links: Each link once in any direction, int64 [2, m].
            num_nodes: Number of nodes, isolated ones included.
            settings: How often the walker goes home, and how long it is followed.
        """
        # After k steps, walks of a weight of (1 - alpha)^k have not come home yet.
        steps = math.ceil(math.log(settings.tolerance) / math.log(1 - settings.alpha))
        # A link to itself, which has both ends there, keeps the walker.
        links = links.cpu()
        alone = (links.flatten().bincount(minlength=num_nodes) == 0).nonzero().T
        super().__init__(torch.cat([links, alone.expand(2, -1)], dim=1), num_nodes, steps)
        self._alpha = settings.alpha

    def spread(self, sources: Numbers) -> Sums:
        r"""Return $\pi_u(v) / d_v$ for every node v, float64 [n, s]: a column for each source u."""
        columns = np.arange(sources.size)
        scale = ((1 - self._alpha) / self.degree)[:, None]  # [n, 1]
        at_home = self._alpha / self.degree[sources]
        ranks = np.zeros((self.num_nodes, sources.size))
        ranks[sources, columns] = 1 / self.degree[sources]
        for _ in range(self.steps):
            ranks = self.step(ranks)
            ranks *= scale
            ranks[sources, columns] += at_home
        return ranks

    def between(self, source: Numbers, target: Numbers, reached: Sums) -> Sums:
        r"""Return $(d_u + d_v) \, \pi_u(v) / d_v$ for each pair, float64 [p]."""
        return (self.degree[source] + self.degree[target]) * reached


COMMON_NEIGHBOURS = _method("Common neighbours", CommonNeighbours, works_across_sides=False)
"""Common neighbours: two nodes that know the same nodes will know each other."""

ADAMIC_ADAR = _method("Adamic-Adar", AdamicAdar, works_across_sides=False)
"""Adamic-Adar: shared neighbours, of which those with few links say more."""

RESOURCE_ALLOCATION = _method("Resource allocation", ResourceAllocation, works_across_sides=False)
"""Resource allocation: shared neighbours, each of which gives its links an equal part of itself."""

PREFERENTIAL_ATTACHMENT = _method(
    "Preferential attachment",
    PreferentialAttachment,
    # In groups whose nodes have about as many links each, the numbers of links tell nothing.
    exceptions=frozenset({"check_learns_planted_partition"}),
)
"""Preferential attachment: who has many links gets the next one, too."""

KATZ = _method(
    "Katz",
    Katz,
    KatzSettings,
    search={"beta": (0.0005, 0.005, 0.05, 0.2), "length": (2, 3, 4, 6)},
)
"""Katz: two nodes are near if many walks lead from one to the other, short ones counting most."""

PAGERANK = _method(
    "Rooted PageRank", PageRank, PageRankSettings, search={"alpha": (0.05, 0.15, 0.3, 0.5)}
)
"""Rooted PageRank: how often a walker that keeps coming home to one node is at the other."""

THREE_STEP_PATHS = _method("Three-step paths", ThreeStepPaths)
"""Three-step paths: how many lead from one node to the other, the shortest across two sides."""

ITEM_COSINE = _method("Item cosine", ItemCosine, needs_sides=True)
"""Item cosine: how alike an item is to those that a node has, by who else has them."""
