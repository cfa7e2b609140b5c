"""The top of the list: where hidden links stand among all that a person could be shown."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from cgcl.methods.method import PairScorer
from cgcl.methods.scoring import EmbeddingScorer
from cgcl.metrics.table import METRICS
from cgcl.seeds import stream
from cgcl.split import NegativeSampler, Split

Progress: TypeAlias = Callable[[str, int, int], None]
"""Told the name of what is computed, how much is done and how much there is. It may raise, such as
KeyboardInterrupt, to end the computation there."""

Part: TypeAlias = Literal["test", "val"]
"""Which links of a split are hidden and asked about."""

BUDGET = 4e11
"""How many operations measuring one method may take on a CPU, 10 s on two cores; each formula
beside it has half of that, so that nobody waits more than half a minute unasked."""
DEAR = 1e5
"""A pair that takes more operations has its surroundings cut out, slow ones: who measures or
calibrates such a method asks for less, so that nobody waits more than a minute after training."""
_GPU = 400.0
"""So many times as much on a GPU, which is at least so many times as fast."""
# Counting an entry of a row, and comparing it with one link, in the same operations.
_PER_ENTRY = 300.0
_PER_COMPARISON = 100.0
# How many entries of rows are held at once; a method that scores pair by pair needs more for each.
_CELLS_CPU, _CELLS_GPU, _PAIRS = 2**20, 2**24, 2**18
# Fewer sampled links say nothing; they are worth twice the budget, not more.
_FEWEST_LINKS = 10
# Below ten pairs for each place in the list, even chance would fill a good part of it.
_PAIRS_PER_PLACE = 10
# Up to so many scores of a graph are kept, 256 MiB.
_TABLE = 2**26
# While all of them are looked at on a GPU, 2 GiB.
_TABLE_GPU = 2**29


def silent(name: str, done: int, total: int) -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class RankingMetrics:
    """What the top of the list is worth."""

    metrics: dict[str, float]
    """Fractions by name, in the order of `cgcl.metrics.METRICS`; what was not measured is not
    in it."""
    links: int | None = None
    """How many links were sampled; None if all were looked at."""
    errors: dict[str, float] = field(default_factory=dict)
    """The standard error that sampling leaves in each metric; empty without sampling."""

    @property
    def sampling(self) -> dict[str, Any] | None:
        """How many links were sampled and the standard errors, for JSON; None if all were."""
        return None if self.links is None else {"links": self.links, "se": self.errors}


def ranking_metrics(
    scorer: PairScorer,
    split: Split,
    part: Part = "test",
    *,
    budget: float = BUDGET,
    most_links: int | None = None,
    seed: int = 0,
    progress: Progress = silent,
) -> RankingMetrics:
    """Measure where hidden links stand among all nodes and among all pairs.

    `node_mrr` and `node_hits@10`: each link's other end, seen from both ends, among all nodes that
    the end may link to, on the other side only in a two-sided graph. Known links and the end's
    other hidden links are left out; a tie gets the mean of its best and worst rank.
    `precision@100` and `precision@1000`: the share of hidden links among the best of all pairs that
    are no known link, ties shared evenly, where there are ten such pairs or more for each place.
    `pair_ap`: their average precision over all those pairs.

    Within the budget all of it is exact. Beyond, the first two come from as many links as it
    allows, drawn at random, and the others are left out; so are all if it allows no 10 links.

    Args:
        scorer: The method; it may look at the training links only.
        split: Known and hidden links.
        part: Which links are hidden: `test`, where training and validation links are known, or
            `val`, where only training links are, and test links are pairs like any other.
        budget: How many operations it may take on a CPU; on a GPU 400 times as many.
        most_links: Look at no more links than this, and not at all pairs.
        seed: Decides which links are sampled.
        progress: Told about blocks of nodes that were looked at.
    """
    links = split.test if part == "test" else split.val
    if links.shape[1] == 0:
        return RankingMetrics({})
    sweep = _Sweep(scorer, split, part, progress)
    budget *= _GPU if sweep.device.type != "cpu" else 1.0
    n, m = split.num_nodes, links.shape[1]
    if most_links is None and sweep.cost(n, m) <= budget:
        ranks, counts = sweep.run(torch.arange(n), links, counting=True)
        pairs = {name: own.function(counts) for name, own in METRICS.items() if own.over == "pairs"}
        told = {name: value for name, value in pairs.items() if value is not None}
        return RankingMetrics(_of_ranks(ranks)[0] | told)
    asked = links[:, _sample(sweep, links, budget, most_links, seed)]
    if asked.shape[1] == 0:
        return RankingMetrics({})
    ranks, _ = sweep.run(asked.unique(), asked, counting=False)
    metrics, errors = _of_ranks(ranks)
    if asked.shape[1] == m:
        return RankingMetrics(metrics)
    # The links are drawn without replacement: if all are, no error is left.
    left = math.sqrt(1 - asked.shape[1] / m)
    return RankingMetrics(metrics, asked.shape[1], {k: v * left for k, v in errors.items()})


def _sample(
    sweep: _Sweep, links: Tensor, budget: float, most_links: int | None, seed: int
) -> Tensor:
    """Return which links to look at: as many as allowed, none if those say nothing."""
    m = links.shape[1]
    wanted = m if most_links is None else min(m, most_links)
    order = torch.randperm(m, generator=stream(seed, "sampled links"))
    if sweep.cost(links[:, order[:wanted]].unique().numel(), wanted) > budget:
        affordable = int(budget / sweep.cost(2, 1))
        few = min(_FEWEST_LINKS, wanted)
        if affordable < few and sweep.cost(2 * few, few) > 2 * budget:
            return order[:0]
        wanted = min(wanted, max(affordable, few))
    return order[:wanted].sort().values


_Cells: TypeAlias = list[tuple[Tensor, Tensor]]
"""Entries of a table, block of rows by block: rows, counted from the block's first, and columns."""


@dataclass(frozen=True, eq=False)
class PairCounts:
    """For each different score of a hidden link, ascending: what stands there and above."""

    links: Tensor
    """How many hidden links have that score."""
    others_at: Tensor
    """How many other pairs have it."""
    others_above: Tensor
    """How many other pairs have a higher one."""
    num_pairs: int
    """How many pairs there are in all."""

    def precision_at(self, k: int) -> float | None:
        """Return the share of hidden links among the best; None where too few pairs compete."""
        if self.num_pairs < _PAIRS_PER_PLACE * k:
            return None
        links, above, at = self._standing()
        # Of pairs that tie at the cut, each has the same chance to be above it.
        return float((links * ((k - above) / at).clamp(0, 1)).sum() / k)

    def average_precision(self) -> float:
        """Return the average precision over all pairs."""
        links, above, at = self._standing()
        precision = (links.sum() - links.cumsum(0) + links) / (above + at)
        return float((links * precision).sum() / links.sum())

    def _standing(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the links at each score, and all pairs above it and at it."""
        links = self.links.double()
        above = links.sum() - links.cumsum(0) + self.others_above
        return links, above, links + self.others_at


class _Sweep:
    """Goes through rows of scores, a node against all nodes, block by block."""

    def __init__(self, scorer: PairScorer, split: Split, part: Part, progress: Progress) -> None:
        known, links = split.train, split.val
        if part == "test":
            known, links = torch.cat([known, links], dim=1), split.test
        self._scorer, self._links, self._progress = scorer, links, progress
        self._rows: Callable[[Tensor], Tensor] | None = getattr(scorer, "rows", None)
        self._num_nodes = n = split.num_nodes
        self.device = torch.device("cpu") if self._rows is None else self._rows(links[0, :1]).device
        self._sides = None if split.sides is None else split.sides.to(self.device)
        self._barred = torch.cat([known, torch.arange(n).expand(2, n)], dim=1)
        self.num_pairs = NegativeSampler(known, n, split.sides).count

    def cost(self, rows: int, links: int) -> float:
        """Return how many operations so many rows take, with so many links to be placed."""
        scorer, n = self._scorer, self._num_nodes
        per_entry = getattr(scorer, "cost_in_rows", scorer.cost_per_pair) + _PER_ENTRY
        return rows * (n * per_entry + scorer.cost_per_node) + 2 * links * n * _PER_COMPARISON

    def run(
        self, nodes: Tensor, asked: Tensor, *, counting: bool
    ) -> tuple[Tensor, PairCounts | None]:
        """Return the rank of each link from both ends, float64 [2, links], and the counts.

        Args:
            nodes: The rows to go through, ascending; they hold both ends of every link asked for.
            asked: The links to place, int64 [2, links].
            counting: Whether to count pairs; `nodes` must be all nodes then.
        """
        cells = _CELLS_CPU if self.device.type == "cpu" else _CELLS_GPU
        cells = _PAIRS if self._rows is None else cells
        height = max(1, cells // self._num_nodes)
        barred, hidden = (self._cells(p, nodes, height)[0] for p in (self._barred, self._links))
        places, which = self._cells(asked, nodes, height)
        scale = _Scale(self._scorer.logits(self._links).to(self.device)) if counting else None
        scorer = self._scorer
        if counting and self.device.type != "cpu" and isinstance(scorer, EmbeddingScorer):
            # A product of matrices gives a table, too; what scores pair by pair has half to do.
            is_small = self._num_nodes**2 <= _TABLE_GPU and not hasattr(scorer, "cost_in_rows")
            scorer = ScoreTable(scorer) if is_small else scorer
        if counting and isinstance(scorer, ScoreTable):
            table = scorer.scores
            self._rows = lambda nodes: table.index_select(0, nodes.to(table.device))
        ranks: list[Tensor] = []
        blocks = nodes.split(height)
        for number, block in enumerate(blocks):
            self._progress("Testing", number, len(blocks))
            scores = self._scores(block, barred[number])
            rows, columns = places[number]
            own = scores[rows, columns]
            scores[hidden[number]] = -math.inf
            for part in torch.arange(rows.numel(), device=self.device).split(height):
                ranks.append(_ranks(scores.index_select(0, rows[part]), own[part]))
            if scale is not None:
                scale.count(scores[:, number * height :])
        found = torch.empty(which.numel(), dtype=torch.float64)
        found[which] = torch.cat(ranks).cpu()
        return found.view(2, -1), scale.counts(self.num_pairs) if scale else None

    def _cells(self, pairs: Tensor, nodes: Tensor, height: int) -> tuple[_Cells, Tensor]:
        """Return where pairs lie in the rows of `nodes`, both ways round, and which they are."""
        place = torch.full((self._num_nodes,), -1)
        place[nodes] = torch.arange(nodes.numel())
        row, column = place[pairs.flatten()], pairs.flip(0).flatten()
        which = (row >= 0).nonzero().squeeze(1)  # first: a few rows meet few of many links
        which = which[row[which].argsort(stable=True)]
        row, column = row[which], column[which]
        blocks = -(-nodes.numel() // height)
        sizes = torch.bincount(row // height, minlength=blocks).tolist()
        each = ((row % height).to(self.device), column.to(self.device))
        return list(zip(*(part.split(sizes) for part in each), strict=True)), which

    def _scores(self, nodes: Tensor, barred: tuple[Tensor, Tensor]) -> Tensor:
        """Return the scores of nodes with all nodes; minus infinity for what is no answer."""
        same_side: Tensor | None = None
        if self._sides is not None:
            same_side = self._sides[nodes.to(self.device)][:, None] == self._sides
        if self._rows is not None:
            scores = self._rows(nodes).float()
            scores[barred] = -math.inf
            return scores if same_side is None else scores.masked_fill_(same_side, -math.inf)
        allowed = torch.ones(nodes.numel(), self._num_nodes, dtype=torch.bool)
        allowed[barred] = False
        if same_side is not None:
            allowed &= ~same_side
        row, column = allowed.nonzero().unbind(1)
        scores = torch.full(allowed.shape, -math.inf)
        scores[allowed] = self._scorer.logits(torch.stack([nodes[row], column])).float()
        return scores


class _Scale:
    """Counts how many scores lie between those of the hidden links, and how many at each."""

    def __init__(self, links: Tensor) -> None:
        values, self._links = links.unique(return_counts=True)
        # Between a score and the next number above it lies that score alone.
        above = torch.nextafter(values, values.new_tensor(math.inf))
        self._edges = torch.stack([values, above], dim=1).flatten()
        self._lowest = values[0]
        self._found = torch.zeros(self._edges.numel() + 1, dtype=torch.int64, device=links.device)

    def count(self, scores: Tensor) -> None:
        """Count the scores right of the diagonal that starts in the upper left corner."""
        rows = scores.shape[0]
        square = scores[:, :rows]
        repeats = torch.ones_like(square, dtype=torch.bool).tril_()
        square.masked_fill_(repeats, -math.inf)
        if scores.device.type == "cpu":  # sorting all takes less than to look each up
            values = np.sort(scores.numpy(), axis=None)
            places = np.searchsorted(values, self._edges.numpy())
            self._found[1:] += torch.from_numpy(np.diff(places, append=values.size))
            return
        # Most pairs score less than any link or, by a formula, as little as one.
        self._found[1] += torch.count_nonzero(scores == self._lowest)
        high = scores[scores > self._lowest]
        place = torch.bucketize(high, self._edges, out_int32=True, right=True)
        self._found += torch.bincount(place, minlength=self._found.numel())

    def counts(self, num_pairs: int) -> PairCounts:
        """Return what was found, on the CPU."""
        found = self._found.cpu()
        above = found.sum() - found.cumsum(0)
        return PairCounts(self._links.cpu(), found[1::2], above[1::2], num_pairs)


def _ranks(scores: Tensor, own: Tensor) -> Tensor:
    """Return the mean rank of a score among those of its row, float64."""
    if scores.device.type == "cpu":  # numpy compares and counts several times faster
        values, edges = scores.numpy(), own.numpy()[:, None]
        above, ties = (np.count_nonzero(c, axis=1) for c in (values > edges, values == edges))
        return torch.from_numpy(1.0 + above + ties / 2)
    above = torch.count_nonzero(scores > own[:, None], dim=1)
    ties = torch.count_nonzero(scores == own[:, None], dim=1)
    return 1.0 + above.double() + ties.double() / 2


def _of_ranks(ranks: Tensor) -> tuple[dict[str, float], dict[str, float]]:
    """Return the metrics of ranks, [2, links], and their standard errors as means over links."""
    by_link = {
        name: metric.function(ranks).double().mean(dim=0)
        for name, metric in METRICS.items()
        if metric.over == "nodes"
    }
    m = ranks.shape[1]
    errors = {k: float(v.std()) / math.sqrt(m) if m > 1 else math.nan for k, v in by_link.items()}
    return {name: float(values.mean()) for name, values in by_link.items()}, errors


def scored_once(scorer: Any) -> Any:  # noqa: ANN401, a PairScorer
    """Return the scorer with a memory for the scores of all pairs, where that is cheap to keep.

    Who goes through all pairs after somebody else did then has nothing left to compute.
    """
    n = scorer.num_nodes
    if isinstance(scorer, ScoreTable) or not hasattr(scorer, "rows") or not 0 < n * n <= _TABLE:
        return scorer
    table = ScoreTable(scorer)
    return table if table.rows(torch.zeros(1, dtype=torch.int64)).is_cpu else scorer


class ScoreTable:
    """A scorer, and the scores of all pairs by it."""

    def __init__(self, scorer: Any) -> None:  # noqa: ANN401, a PairScorer with `rows`
        """Take the scorer; nothing is scored yet."""
        self._scorer = scorer

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        """Return what the scorer has."""
        return getattr(self._scorer, name)

    def of(self, pairs: Tensor) -> Tensor:
        """Return the scores of pairs, the smaller node first, as the table has them."""
        return self.scores.flatten().take(pairs[0] * self.num_nodes + pairs[1])

    @cached_property
    def scores(self) -> Tensor:
        """The scores of all nodes with all nodes, float32 [n, n]; the diagonal means nothing."""
        n, scorer = self.num_nodes, self._scorer
        device = scorer.rows(torch.zeros(1, dtype=torch.int64)).device
        cells = _CELLS_CPU if device.type == "cpu" else _CELLS_GPU
        table, nodes = torch.empty(n, n, device=device), torch.arange(n)
        for rows in nodes.split(max(1, cells // n)):
            first, last = int(rows[0]), int(rows[-1]) + 1
            if hasattr(scorer, "cost_in_rows"):
                table[first:last] = scorer.rows(rows)
                continue
            # Pair by pair, once is enough: the order of the ends plays no part.
            if isinstance(scorer, EmbeddingScorer):
                table[first:last, first:] = scorer.rows(rows, nodes[first:])
            else:
                found = scorer.logits(torch.cartesian_prod(rows, nodes[first:]).T)
                table[first:last, first:] = found.view(rows.numel(), -1)
            table[last:, first:last] = table[first:last, last:].T
        return table
