"""Which way to search: all pairs while that is cheap, then candidates, then a refusal."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from cgcl.errors import ConfigError, ResourceError
from cgcl.graph import Graph
from cgcl.methods.method import PairScorer
from cgcl.predict.candidates import TwoHopCandidates, list_size
from cgcl.predict.pair_space import PairSpace
from cgcl.predict.query import Asked, Strategy
from cgcl.wording import counted

# On how many nodes candidates are compared with exact scoring.
SAMPLED_NODES = 50

# The way follows from the work alone, never from the clock, so that an answer can be repeated.
# Work is counted in operations of which one ordinary CPU core does about this many a second.
_SPEED = 4e10
_CHEAP = 60 * _SPEED
# Up to here nobody is refused; beyond, the machine's speed is measured on one block of pairs.
_NEVER_REFUSED = 600 * _SPEED
_MAX_SECONDS = 3600.0
_MEASURED_PAIRS = 2**14
_MEASURED_ROWS = 16

# Selecting the largest inner products of a row, per product, in the same unit.
_SELECT = 300.0
# Comparing one with the least that is still of interest.
_COMPARE = 50.0


@runtime_checkable
class ProductScorer(PairScorer, Protocol):
    """Scores nodes with nodes by one product of matrices."""

    @property
    def cost_in_rows(self) -> float:
        """About how many operations one entry of `rows` takes."""

    @property
    def rounding(self) -> float:
        """The most by which an entry of `rows` differs from `logits`."""

    def rows(self, nodes: Tensor, partners: Tensor | None = None) -> Tensor:
        """Return the logits of nodes with partners but for rounding, float [r, c]."""


def by_products(scorer: PairScorer, *, lists_all: bool) -> ProductScorer | None:
    """Return the scorer if it can leave pairs out by products of matrices, else None.

    Args:
        scorer: The method.
        lists_all: Whether every pair is an answer, so that none can be left out.
    """
    if isinstance(scorer, ProductScorer) and not lists_all and math.isfinite(scorer.rounding):
        return scorer
    return None


@dataclass(frozen=True, eq=False)
class Task:
    """A search whose work is counted."""

    scorer: PairScorer
    graph: Graph
    space: PairSpace
    """The pairs in question."""
    products: ProductScorer | None
    """The method, if it can leave pairs out by products of matrices."""

    def choose(self, asked: Asked) -> Strategy:
        """Return the way to search, or refuse what would keep the machine busy for hours.

        Args:
            asked: What the user wants; `auto` leaves it to the amount of work.

        Raises:
            ConfigError: The method or the graph does not allow that way.
            ResourceError: It would take longer than an hour.
        """
        way = self.cheapest() if asked == "auto" else asked
        if way == "linear" and self.scorer.factors() is None:
            raise ConfigError(
                "This method has no linear form that could propose candidates.\n"
                "Use `candidates=exact` or `candidates=two-hop`."
            )
        if self.work(way) > _NEVER_REFUSED:
            pace = _seconds_per_operation(self.scorer)
            if self.work(way) * pace > _MAX_SECONDS:
                raise ResourceError(self.refusal(way, pace))
        return way

    @property
    def proposals(self) -> list[Strategy]:
        """The ways to candidates that the method and the graph allow, the better one first."""
        linear: list[Strategy] = [] if self.scorer.factors() is None else ["linear"]
        return linear if self.graph.sides is not None else [*linear, "two-hop"]

    def cheapest(self) -> Strategy:
        """Return exact while that is cheap, else the first way to candidates, if there is one."""
        # Where products give the scores, candidates would take more of them than the scores do.
        is_cheap = self.products is not None or self.work("exact") <= _CHEAP
        return next(iter([] if is_cheap else self.proposals), "exact")

    def work(self, way: Strategy) -> float:
        """Return about how many operations a way takes."""
        space, rows = self.space, self.space.rows.numel()
        if way == "exact":
            if self.products is not None:
                return space.size * (self.products.cost_in_rows + _COMPARE)
            return _scoring(self.scorer, rows, space.size)
        columns = space.columns.numel()
        checked = min(SAMPLED_NODES, rows) * columns  # pairs scored to measure the recall
        if way == "two-hop":
            return _scoring(self.scorer, rows, self._two_hop_pairs + checked)
        factors = self.scorer.factors()
        width = 0 if factors is None else factors[0].shape[1]
        listed = rows * list_size(columns) + columns * list_size(rows)
        listed = listed // 2 if space.is_square else listed
        # Two walks over all inner products; the second needs them from either end.
        walks = (2 if space.is_square else 4) * 2 * width + _SELECT
        scored = min(listed, space.size) + checked
        return rows * columns * walks + _scoring(self.scorer, rows, scored)

    @cached_property
    def _two_hop_pairs(self) -> int:
        return TwoHopCandidates(self.graph, self.space).most_pairs

    def refusal(self, way: Strategy, pace: float) -> str:
        """Say how long it would take and what would be quicker."""
        rows, columns = self.space.rows.numel(), self.space.columns.numel()
        nodes = f"{rows:,} nodes"
        what = f"all pairs of {nodes}" if self.space.is_square else f"{nodes} with {columns:,}"
        took = _duration(self.work("exact") * pace)
        text = f"Scoring {what} means {in_words(self.space.size)} pairs, {took}"
        if way != "exact":
            text += f"; candidates ({way}) would take {_duration(self.work(way) * pace)}"
        ways_out = ["`node=NAME`", "`sources=FILE`", "`pairs=FILE`"]
        ways_out += [
            f"`candidates={other}` ({_duration(seconds)})"
            for other in self.proposals
            if (seconds := self.work(other) * pace) <= _MAX_SECONDS
        ]
        return f"{text}.\nAsk for less: {', '.join(ways_out[:-1])} or {ways_out[-1]}."


def _scoring(scorer: PairScorer, rows: int, pairs: int) -> float:
    """Return how many operations it takes to score so many pairs of some rows."""
    return rows * scorer.cost_per_node + pairs * scorer.cost_per_pair


def _seconds_per_operation(scorer: PairScorer) -> float:
    """Measure the machine on a few rows of pairs, spread over all nodes."""
    partners = _MEASURED_PAIRS // _MEASURED_ROWS
    first = torch.arange(_MEASURED_ROWS).repeat_interleave(partners) * 7919
    other = torch.arange(_MEASURED_PAIRS) * 104729 + 1
    ends = torch.stack([first, other]) % scorer.num_nodes
    scorer.logits(ends[:, :1])  # the first call may have to wake a device
    start = time.perf_counter()
    scorer.logits(ends)
    work = _scoring(scorer, _MEASURED_ROWS, _MEASURED_PAIRS)
    return (time.perf_counter() - start) / work


def _duration(seconds: float) -> str:
    """Return about how long that is, in one unit."""
    units = {"day": 86400, "hour": 3600, "minute": 60, "second": 1}
    for unit, size in units.items():
        if seconds >= (2 * size if unit == "day" else size):
            number = round(seconds / size)
            return f"about {counted(number, unit)}"
    return "about a second"


def in_words(number: int) -> str:
    """Return a count with three digits that matter.

    Example:
        >>> in_words(19_432_100), in_words(724_000_000_000), in_words(4_321)
        ('19.4 million', '724 billion', '4,321')
    """
    for size, unit in ((10**9, "billion"), (10**6, "million")):
        if number >= size:
            value = number / size
            return f"{value:,.{max(0, 3 - len(str(int(value))))}f} {unit}"
    return f"{number:,}"
