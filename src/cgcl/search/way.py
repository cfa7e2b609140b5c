"""Which way to search: all pairs while that is cheap, then candidates, then a refusal."""

from __future__ import annotations

import time
from typing import Literal

import torch

from cgcl.errors import ConfigError, ResourceError
from cgcl.graph import Graph
from cgcl.methods.method import PairScorer
from cgcl.search.candidates import list_size
from cgcl.search.pair_space import PairSpace
from cgcl.search.products import by_products
from cgcl.search.two_hop import TwoHopCandidates

__all__ = ["SAMPLED_NODES", "WAYS", "Asked", "Way", "choose_way", "in_words"]

Way = Literal["exact", "linear", "two-hop"]
Asked = Literal["auto", "exact", "linear", "two-hop"]
WAYS: tuple[Asked, ...] = ("auto", "exact", "linear", "two-hop")

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


def choose_way(
    scorer: PairScorer, graph: Graph, space: PairSpace, asked: Asked, per_node: int | None = None
) -> Way:
    """Return the way to search, or refuse what would keep the machine busy for hours.

    Args:
        scorer: The method.
        graph: The graph.
        space: The pairs in question.
        asked: What the user wants; `auto` leaves it to the amount of work.
        per_node: How many candidates each node lists; None for the usual number.

    Raises:
        ConfigError: There is no such way, or the method or the graph does not allow it.
        ResourceError: It would take longer than an hour.
    """
    if asked not in WAYS:
        raise ConfigError(f"There is no way {asked!r} to search. Known: {', '.join(WAYS)}.")
    way: Way = _cheapest(scorer, graph, space) if asked == "auto" else asked
    if way == "linear" and scorer.factors() is None:
        raise ConfigError(
            "This method has no linear form that could propose candidates.\n"
            "Use `candidates=exact` or `candidates=two-hop`."
        )
    work = _work(way, scorer, graph, space, per_node)
    if work > _NEVER_REFUSED:
        pace = _seconds_per_operation(scorer)
        if work * pace > _MAX_SECONDS:
            raise ResourceError(_refusal(way, pace, scorer, graph, space, per_node))
    return way


def _cheapest(scorer: PairScorer, graph: Graph, space: PairSpace) -> Way:
    """Return exact while that is cheap, else the way to candidates that the method allows."""
    # Where products give the scores, candidates would take more of them than the scores do.
    has_products = by_products(scorer) is not None and not space.lists_all
    if has_products or _exact(scorer, space) <= _CHEAP:
        return "exact"
    if scorer.factors() is not None:
        return "linear"
    return "two-hop" if graph.sides is None else "exact"


def _work(
    way: Way, scorer: PairScorer, graph: Graph, space: PairSpace, per_node: int | None
) -> float:
    """Return about how many operations a way takes."""
    if way == "exact":
        return _exact(scorer, space)
    rows, columns = space.rows.numel(), space.columns.numel()
    checked = min(SAMPLED_NODES, rows) * columns  # pairs scored to measure the recall
    if way == "two-hop":
        most = TwoHopCandidates(graph, space).most_pairs
        return _scoring(scorer, rows, most + checked)
    factors = scorer.factors()
    width = 0 if factors is None else factors[0].shape[1]
    listed = rows * (per_node or list_size(columns)) + columns * (per_node or list_size(rows))
    listed = listed // 2 if space.is_square else listed
    # Two walks over all inner products; the second needs them from either end.
    walks = (2 if space.is_square else 4) * 2 * width + _SELECT
    pairs = min(listed, space.size) + checked
    return rows * columns * walks + _scoring(scorer, rows, pairs)


def _exact(scorer: PairScorer, space: PairSpace) -> float:
    """Return how many operations it takes to find the best of all pairs."""
    products = by_products(scorer)
    if products is not None and not space.lists_all:
        return space.size * (products.cost_in_rows + _COMPARE)
    return _scoring(scorer, space.rows.numel(), space.size)


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


def _refusal(
    way: Way, pace: float, scorer: PairScorer, graph: Graph, space: PairSpace, per_node: int | None
) -> str:
    """Say how long it would take and what would be quicker."""
    rows, columns = space.rows.numel(), space.columns.numel()
    what = f"all pairs of {rows:,} nodes" if space.is_square else f"{rows:,} nodes with {columns:,}"
    took = _duration(_work("exact", scorer, graph, space, per_node) * pace)
    text = f"Scoring {what} means {in_words(space.size)} pairs, {took}"
    if way != "exact":
        took = _duration(_work(way, scorer, graph, space, per_node) * pace)
        text += f"; candidates ({way}) would take {took}"
    ways_out = ["`node=NAME`", "`sources=FILE`", "`pairs=FILE`"]
    others: list[Way] = ["linear", "two-hop"]
    for other in others:
        if scorer.factors() is None if other == "linear" else graph.sides is not None:
            continue
        seconds = _work(other, scorer, graph, space, per_node) * pace
        if seconds <= _MAX_SECONDS:
            ways_out.append(f"`candidates={other}` ({_duration(seconds)})")
    return f"{text}.\nAsk for less: {', '.join(ways_out[:-1])} or {ways_out[-1]}."


def _duration(seconds: float) -> str:
    """Return about how long that is, in one unit."""
    for size, unit in ((86400 * 2, "day"), (3600, "hour"), (60, "minute"), (1, "second")):
        if seconds >= size:
            number = round(seconds / (86400 if unit == "day" else size))
            return f"about {number:,} {unit}{'' if number == 1 else 's'}"
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
