"""Exact search by products of matrices: what cannot be among the best is never listed."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from cgcl.methods.method import PairScorer
from cgcl.search.best import Best
from cgcl.search.pair_space import PairSpace, Tile
from cgcl.train.execution import default_threads_kept

__all__ = ["ProductScorer", "by_products", "near_pairs"]

# Products held at once: 2^20 take 4 MB, about what a CPU caches. So many rows go together
# that fetching the columns takes less time than multiplying them.
_CELLS_CPU, _CELLS_GPU = 2**20, 2**24
_HEIGHT_CPU, _HEIGHT_GPU = 256, 2048


@runtime_checkable
class ProductScorer(PairScorer, Protocol):
    """Scores nodes with nodes by one product of matrices."""

    @property
    def cost_in_rows(self) -> float:
        """About how many operations one entry of `rows` takes."""
        ...

    @property
    def rounding(self) -> float:
        """The most by which an entry of `rows` differs from `logits`."""
        ...

    def rows(self, nodes: Tensor, partners: Tensor | None = None) -> Tensor:
        """Return the logits of nodes with partners but for rounding, float [r, c]."""
        ...


def by_products(scorer: PairScorer) -> ProductScorer | None:
    """Return the scorer if it can leave pairs out by products of matrices, else None."""
    if isinstance(scorer, ProductScorer) and math.isfinite(scorer.rounding):
        return scorer
    return None


def near_pairs(
    scorer: ProductScorer, space: PairSpace, lowest: float, best: Best | None = None
) -> Iterator[Tensor]:
    """Yield every pair that may be an answer, and hardly any other, int64 [2, p] at once.

    Args:
        scorer: The method.
        space: The pairs in question.
        lowest: Nothing below this logit is an answer.
        best: Where answers are collected while this goes on, if only the best are wanted; the
            more it holds, the fewer pairs are yielded. Without, pairs come in the order of first
            end, second end.
    """
    if not space.rows.numel() or not space.columns.numel():
        return
    on_cpu = scorer.rows(space.rows[:1], space.columns[:1]).device.type == "cpu"
    cells = _CELLS_CPU if on_cpu else _CELLS_GPU
    height = _HEIGHT_CPU if on_cpu else _HEIGHT_GPU
    count = None if best is None else best.count

    def near(tile: Tile, lowest: float) -> Tensor:
        pairs, products = _above(scorer, space, tile, lowest - scorer.rounding)
        if count is None or products.numel() <= count:
            return pairs
        # So many are no more than `rounding` below this, and the others must be, too.
        last = float(products.topk(count).values[-1]) - scorer.rounding
        return pairs[:, products >= last - scorer.rounding]

    def edge() -> float:
        return lowest if best is None else max(lowest, best.edge())

    tiles = space.tiles(cells, 1 if best is None else min(height, cells))
    if not on_cpu:  # how precisely a GPU multiplies is one setting for all threads: never two
        for tile in tiles:
            yield near(tile, edge())
        return
    waiting: deque[Future[Tensor]] = deque()
    with _workers(torch.get_num_threads()) as (submit, number):
        for tile in tiles:
            waiting.append(submit(near, tile, edge()))
            if len(waiting) > number:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


@contextmanager
def _workers(number: int) -> Iterator[tuple[Callable[..., Future[Tensor]], int]]:
    """Start workers of one thread each, which never wait for each other."""
    with (
        default_threads_kept(),
        ThreadPoolExecutor(number, "search", torch.set_num_threads, (1,)) as pool,
    ):
        yield pool.submit, number


def _above(
    scorer: ProductScorer, space: PairSpace, tile: Tile, edge: float
) -> tuple[Tensor, Tensor]:
    """Return the pairs of a rectangle that are allowed and not below `edge`, and their products."""
    rows, columns = space.rows[tile[0]], space.columns[tile[1]]
    products = scorer.rows(rows, columns).flatten()
    place = _not_below(products, edge)
    products, place = products[place].cpu(), place.cpu()
    pairs = torch.stack([rows[place // columns.numel()], columns[place % columns.numel()]])
    held = space.holds(pairs)
    return pairs[:, held], products[held]


def _not_below(values: Tensor, edge: float) -> Tensor:
    """Return the places of the values that are not below `edge`, int64 [any]."""
    if values.device.type != "cpu":
        return (values >= edge).nonzero().squeeze(1)
    # Several times faster than the same in torch where nearly all are below.
    return torch.from_numpy(np.flatnonzero(values.numpy() >= edge))
