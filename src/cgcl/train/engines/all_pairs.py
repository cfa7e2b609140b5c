r"""The loss over all nodes and all pairs on a GPU: tiles of scores that are never kept.

The matrix of scores is symmetric, $S = R \, \mathrm{diag}(w) R^\top$. So a tile serves its rows
and its columns, and one product with the gradient of S gives that of both its factors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from cgcl.methods.cgcl_rank import Prepared
from cgcl.train.engines.kernels.launch import blocks, launch
from cgcl.train.engines.kernels.softmax import TILE, link_costs, share_tiles, sum_tiles

__all__ = ["AllPairs"]

# The logarithm of an empty sum, as in `row_logsumexp`, and what is far above any score.
_NOTHING, _ENOUGH = -1e30, 1e30
# Numbers of a row that are multiplied at once, entries that are masked at once, links a program.
_DEPTH, _ENTRIES, _LINKS = 64, 32, 16
# Rows of tiles whose gradients are held at once, in half precision: 160 MB of 20,000 nodes.
_PANEL = 32
# Tiles are gone through in squares of so many: what they read stays in the cache.
_NEAR = 16


@dataclass(frozen=True, eq=False)
class _Block:
    """Rows and columns of tiles whose pairs are all there are between some nodes."""

    rows: int
    first_column: int
    columns: int
    across: bool
    """Whether the columns are other nodes than the rows."""

    def tiles(self) -> Tensor:
        """List each pair's tile once, near ones together, int32 [2, any]."""
        columns = torch.arange(self.first_column, self.first_column + self.columns)
        one, other = torch.cartesian_prod(torch.arange(self.rows), columns).T
        if not self.across:
            one, other = one[one <= other], other[one <= other]
        square = one // _NEAR * (self.first_column + self.columns) + other // _NEAR
        order = square.argsort(stable=True)
        return torch.stack([one[order], other[order]]).int()


class AllPairs:
    """All pairs of a graph, each side of a two-sided one on tiles of its own."""

    def __init__(
        self,
        prepared: Prepared,
        links: Tensor,
        sides: Tensor | None,
        row_share: float,
        precision: torch.dtype = torch.float16,
    ) -> None:
        """Cut the matrix of scores into tiles, and find what does not count in each.

        Args:
            prepared: The known links, both ways round.
            links: The same, each once, int64 [2, m].
            sides: Which side each node is on, bool [n]; None if all may link to all.
            row_share: How much a link's place in its nodes' lists counts.
            precision: That of the factors of scores. Half precision has as many digits as TF32,
                and is enough for vectors that are normalised; others may be too large for it.
        """
        n, device = prepared.num_nodes, links.device
        self._row_share, self._precision = row_share, precision
        self._prepared, self._num_nodes = prepared, n
        parts = [n] if sides is None else [int((~sides).sum()), int(sides.sum())]
        tiles = [blocks(count, TILE) for count in parts]
        self._num_tiles = sum(tiles)
        self._places = torch.arange(n, device=device)
        if sides is None:
            self._block = _Block(tiles[0], 0, tiles[0], across=False)
        else:
            moved = self._places + (self._places >= parts[0]) * (tiles[0] * TILE - parts[0])
            order = sides.to(device).int().argsort(stable=True)
            self._places = torch.empty_like(moved).index_copy_(0, order, moved)
            self._block = _Block(tiles[0], tiles[0], tiles[1], across=True)
        self._pairs = self._places[links].contiguous()
        self._tiles = self._block.tiles().to(device)
        row, column = self._places[prepared.row], self._places[prepared.column]
        tile, order = (row // TILE * self._num_tiles + column // TILE).sort()
        every = torch.arange(self._num_tiles**2 + 1, device=device)
        self._starts = torch.searchsorted(tile, every).int()
        self._entries = (row % TILE * TILE + column % TILE)[order].int()

    def __call__(
        self, right: Tensor, weights: Tensor, terms: Tensor, is_asked: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the loss of the links that are asked for, and the logarithm of all pairs' sum.

        Args:
            right: A vector for each node, [n, d].
            weights: w, [d].
            terms: What each node adds to its scores, [n].
            is_asked: Which of the links to find, bool [m].
        """
        loss, total = _Loss.apply(right, weights, terms, is_asked, self)
        return loss, total

    def forward(self, made: _Made, is_asked: Tensor) -> tuple[Tensor, Tensor, _Gradients]:
        """Return the loss, the logarithm of the sum over all pairs, and what the loss asks for."""
        left, right, terms = made.left, made.right, made.terms
        found = terms.new_full((terms.shape[0], self._num_tiles), _NOTHING)
        launch(sum_tiles, self._tiles.shape[1])(
            left, right, terms, self._starts, self._entries, self._tiles[0], self._tiles[1],
            found, self._num_tiles, left.shape[1], DEPTH=_DEPTH, ENTRIES=_ENTRIES,
            num_warps=8, num_stages=3,
        )  # fmt: skip
        log_sums = found.logsumexp(1)
        with_own = log_sums + terms
        total = with_own.logsumexp(0)
        count = self._pairs.shape[1]
        num_programs, num_asked = blocks(max(count, 1), _LINKS), is_asked.sum()
        to_scores, losses = terms.new_empty(count), terms.new_zeros(num_programs)
        to_sums = (1 - self._row_share) * (with_own - total).exp() * (num_asked > 0)
        to_terms = torch.zeros_like(terms)
        launch(link_costs, num_programs)(
            left, right, terms, self._pairs, is_asked, num_asked, with_own, total,
            to_scores, to_sums, to_terms, losses, count, left.shape[1], self._row_share,
            PAIRS=_LINKS, DEPTH=_DEPTH,
        )  # fmt: skip
        return losses.sum(), total, _Gradients(to_scores, to_sums, to_terms, log_sums)

    def backward(self, made: _Made, asked: _Gradients) -> tuple[Tensor, Tensor]:
        """Return the gradient of S and its transpose, times R, [n, d], and that of the terms."""
        block, half = self._block, made.right.bfloat16()
        # Nobody has a share of an empty sum.
        log_sums = asked.log_sums.where(asked.log_sums > _NOTHING / 2, _ENOUGH)
        columns = slice(block.first_column * TILE, (block.first_column + block.columns) * TILE)
        panel = min(_PANEL, blocks(block.rows, 2))  # not all of them, if there are two
        held = half.new_empty(panel * TILE, block.columns * TILE)
        products = log_sums.new_empty(half.shape)
        if block.across:
            products[columns] = 0
        to_terms = log_sums.new_zeros(log_sums.shape[0], self._num_tiles)
        for start in range(0, block.rows, panel):
            count = min(panel, block.rows - start)
            launch(share_tiles, count, block.columns)(
                made.left, made.right, made.terms, self._starts, self._entries, log_sums,
                asked.to_sums, held, to_terms, start, block.first_column, self._num_tiles,
                half.shape[1], held.shape[1], BOTH=block.across, DEPTH=_DEPTH, ENTRIES=_ENTRIES,
                num_warps=8, num_stages=3,
            )  # fmt: skip
            rows, shares = slice(start * TILE, (start + count) * TILE), held[: count * TILE]
            products[rows] = _product(shares, half[columns])
            if block.across:
                products[columns] += _product(shares.T, half[rows])
        return products, to_terms.sum(1) + asked.to_terms + asked.to_sums

    def made_of(self, right: Tensor, weights: Tensor, terms: Tensor) -> _Made:
        """Return what the kernels take."""
        left, own = (self._placed(x, self._precision) for x in (right * weights, right))
        return _Made(left, own, self._placed(terms, terms.dtype, _NOTHING))

    def of_nodes(self, placed: Tensor) -> Tensor:
        """Return what belongs to each node, of what stands at each place."""
        if self._block.across:
            return placed.index_select(0, self._places)
        return placed[: self._num_nodes]

    def of_links(self, to_scores: Tensor, right: Tensor) -> Tensor:
        """Return the gradient of S by the links' scores alone, times R, [n, d]."""
        prepared = self._prepared
        values = torch.cat([to_scores, to_scores.new_zeros(1)]).index_select(0, prepared.link)
        return prepared.csr(values) @ right

    def _placed(self, x: Tensor, dtype: torch.dtype, empty: float = 0.0) -> Tensor:
        places = self._num_tiles * TILE
        if x.dim() == 1:
            found = x.new_full((places,), empty, dtype=dtype)
            return found.index_copy_(0, self._places, x)
        width = x.shape[1] + -x.shape[1] % _DEPTH
        found = x.new_zeros(places, width, dtype=dtype)
        if self._block.across:
            found[:, : x.shape[1]].index_copy_(0, self._places, x.to(dtype))
        else:
            found[: self._num_nodes, : x.shape[1]] = x
        return found


@dataclass(frozen=True, eq=False)
class _Made:
    """What stands at each place: vectors, in the precision of products, and the nodes' terms."""

    left: Tensor
    right: Tensor
    terms: Tensor


@dataclass(frozen=True, eq=False)
class _Gradients:
    """Where the loss wants to go: of the links' scores, and of the sum and the term at a place."""

    to_scores: Tensor
    to_sums: Tensor
    to_terms: Tensor
    log_sums: Tensor
    """The sums themselves, without the place's own term."""


class _Loss(torch.autograd.Function):
    """Forward and backward of `AllPairs`; the gradient is that of a loss that counts once."""

    @staticmethod
    def forward(*args: Any, **_: Any) -> tuple[Tensor, Tensor]:  # noqa: ANN401
        """Return the loss, and the logarithm of the sum over all pairs."""
        ctx, right, weights, terms, is_asked, pairs = args
        ctx.pairs, ctx.made = pairs, pairs.made_of(right, weights, terms)
        loss, total, ctx.asked = pairs.forward(ctx.made, is_asked)
        ctx.save_for_backward(right, weights)
        ctx.mark_non_differentiable(total)
        return loss, total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        """Return the gradients of right, weights and terms."""
        right, weights = ctx.saved_tensors
        products, to_terms = ctx.pairs.backward(ctx.made, ctx.asked)
        products = ctx.pairs.of_nodes(products)[:, : right.shape[1]]
        products = (products + ctx.pairs.of_links(ctx.asked.to_scores, right)) * grads[0]
        to_terms = ctx.pairs.of_nodes(to_terms) * grads[0]
        # S is symmetric in its two factors, and w stands between them once.
        return products * weights, (products * right).sum(0) / 2, to_terms, None, None


def _product(one: Tensor, other: Tensor) -> Tensor:
    """Return the product of half-precision matrices, added up and kept in full precision."""
    if one.device.type == "cuda":
        return torch.mm(one, other, out_dtype=torch.float32)
    return one.float() @ other.float()
