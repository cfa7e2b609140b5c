r"""The loss over all nodes and all pairs on a GPU: tiles of scores that are never kept.

The matrix of scores is symmetric, $S = R \, \mathrm{diag}(w) R^\top$. So a tile serves its rows
and its columns, and one product with the gradient of S gives that of both its factors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from cgcl.methods.cgcl_rank import Prepared
from cgcl.methods.method import TrainingGraph
from cgcl.train.engines.gpu import blocks, launch
from cgcl.train.engines.kernels import ranking
from cgcl.train.engines.kernels.ranking import TILE

# The logarithm of an empty sum, as in `row_logsumexp`.
_NOTHING = -1e30
# Numbers of a row that are multiplied at once, entries that are masked at once, links a program.
_DEPTH, _ENTRIES, _LINKS = 64, 32, 16
# Rows of tiles whose gradients are held at once, in half precision: 160 MB of 20,000 nodes.
_PANEL = 32
# Rows that are added up by a program, tiles of each at once, and sums of programs at once.
_ROWS, _TILES, _SUMS = 32, 64, 1024
# Tiles are gone through in squares of so many: what they read stays in the cache.
_NEAR = 16


def _each_once(rows: int, columns: range) -> Tensor:
    """List each pair's tile once, near ones together, int32 [2, any]."""
    one, other = torch.cartesian_prod(
        torch.arange(rows), torch.arange(columns.start, columns.stop)
    ).T
    if columns.start == 0:  # the same nodes as the rows
        one, other = one[one <= other], other[one <= other]
    order = (one // _NEAR * columns.stop + other // _NEAR).argsort(stable=True)
    return torch.stack([one[order], other[order]]).int()


@dataclass(frozen=True, eq=False)
class Turns:
    """What a step's kernels read and write besides scores, where they compute."""

    seen: Tensor
    """Which links each step of an epoch sees, int8 [2, m]."""
    counts: Tensor
    """How many it is to find, int32 [2]."""
    epoch: Tensor
    """The number of the epoch, int32 [1]."""
    steps: Tensor
    """How many steps have been taken, float [1]."""
    offset: Tensor
    """What is taken from each score, so that people can tell scores apart, float []."""
    average: float
    """How much of the offset a step keeps."""


class AllPairs:
    """All pairs of a graph, each side of a two-sided one on tiles of its own.

    Whoever asks for the loss has written `left`, `right`, `half` and `terms` before.
    """

    left: Tensor
    """R times w at each place, [places, width], in the precision of products; 0 where nobody is."""
    right: Tensor
    """R, likewise."""
    half: Tensor
    """R in the precision of gradients."""
    terms: Tensor
    """What each place adds to its scores, [places]; -1e30 where nobody is."""
    products: Tensor
    """The gradient of S and its transpose, times R, [places, width]."""

    def __init__(
        self,
        prepared: Prepared,
        known: TrainingGraph,
        width: int,
        row_share: float,
        precision: tuple[torch.dtype, torch.dtype] = (torch.float16, torch.bfloat16),
    ) -> None:
        """Cut the matrix of scores into tiles, and find what does not count in each.

        Args:
            prepared: The known links, both ways round.
            known: The same, each once, and which side each node is on.
            width: How many numbers a node's vector has.
            row_share: How much a link's place in its nodes' lists counts.
            precision: That of the factors of scores, and that of gradients. Half precision has as
                many digits as TF32, and is enough for vectors that are normalised; others may be
                too large for it.
        """
        n, device, sides = known.num_nodes, known.device, known.sides
        self.row_share = row_share
        parts = [n] if sides is None else [int((~sides).sum()), int(sides.sum())]
        tiles = [blocks(count, TILE) for count in parts]
        self.num_tiles = sum(tiles)
        self.places = torch.arange(n, device=device)
        # Rows and columns of tiles whose pairs are all there are.
        self._rows, self._columns = tiles[0], range(self.num_tiles - tiles[-1], self.num_tiles)
        self._across = sides is not None
        if sides is not None:
            moved = self.places + (self.places >= parts[0]) * (tiles[0] * TILE - parts[0])
            order = sides.to(device).int().argsort(stable=True)
            self.places = torch.empty_like(moved).index_copy_(0, order, moved)
        self._pairs = self.places[known.links].contiguous()
        self._tiles = _each_once(self._rows, self._columns).to(device)
        row, column = self.places[prepared.entries.edge_index]
        tile, order = (row // TILE * self.num_tiles + column // TILE).sort()
        every = torch.arange(self.num_tiles**2 + 1, device=device)
        self._starts = torch.searchsorted(tile, every).int()
        self._entries = (row % TILE * TILE + column % TILE)[order].int()
        self.width = width + -width % _DEPTH
        self._make_room(known.links.shape[1], precision, device)

    def _make_room(
        self, count: int, precision: tuple[torch.dtype, torch.dtype], device: torch.device
    ) -> None:
        size = self.num_tiles * TILE
        self.left, self.right, self.half, self.products = (
            torch.zeros(size, self.width, dtype=dtype, device=device)
            for dtype in (precision[0], *precision, torch.float32)
        )
        # Small cards have no room to load ahead what is in full precision.
        self._stages = 3 if precision[0] == torch.float16 else 1
        self.terms = torch.full((size,), _NOTHING, device=device)
        self._log_sums, self.with_own, self.link_sums, self.link_terms = (
            torch.zeros(size, device=device) for _ in range(4)
        )
        # By place and tile; between two nodes of one side of a two-sided graph there is no tile.
        self._found = torch.full((size, self.num_tiles), _NOTHING, device=device)
        self.to_terms = torch.zeros(size, self.num_tiles, device=device)
        self.to_scores = torch.zeros(count, device=device)
        self._costs = torch.zeros(blocks(max(count, 1), _LINKS), device=device)
        self._partial = torch.zeros(size // _ROWS, device=device)
        self.log_total = torch.zeros((), device=device)
        panel = min(_PANEL, blocks(self._rows, 2))  # not all of them, if there are two
        self._held = self.half.new_zeros(panel * TILE, len(self._columns) * TILE)

    def forward(self, turn: int, turns: Turns, loss: Tensor) -> None:
        """Write the loss of what a step is to find, and what it asks of the links' scores."""
        count, left, right, terms = self._pairs.shape[1], self.left, self.right, self.terms
        launch(ranking.sum_tiles, self._tiles.shape[1])(
            left, right, terms, self._starts, self._entries, self._tiles[0], self._tiles[1],
            self._found, self.num_tiles, self.width, DEPTH=_DEPTH, ENTRIES=_ENTRIES,
            num_warps=8, num_stages=self._stages,
        )  # fmt: skip
        launch(ranking.add_up_rows, self._partial.numel())(
            self._found, terms, self._log_sums, self.with_own, self.link_sums, self.link_terms,
            self._partial, self.num_tiles, ROWS=_ROWS, TILES=_TILES,
        )  # fmt: skip
        log_links = math.log(2 * max(count, 1))  # each pair is in two rows
        launch(ranking.add_up, 1)(
            self._partial, self.log_total, turns.offset, turns.steps, turns.epoch,
            self._partial.numel(), log_links, turns.average, BLOCK=_SUMS,
        )  # fmt: skip
        launch(ranking.link_costs, self._costs.numel())(
            left, right, terms, self._pairs, turns.seen[turn], turns.counts, self.with_own,
            self.log_total, self.to_scores, self.link_sums, self.link_terms, self._costs, count,
            self.width, self.row_share, TURN=turn, PAIRS=_LINKS, DEPTH=_DEPTH,
        )  # fmt: skip
        torch.sum(self._costs, 0, out=loss)

    def backward(self, turn: int, turns: Turns) -> None:
        """Write `products` by all pairs, without the links' own scores, and `to_terms`."""
        held, first = self._held, self._columns.start
        columns = slice(first * TILE, self._columns.stop * TILE)
        panel = held.shape[0] // TILE
        if self._across:
            self.products[columns] = 0
        for start in range(0, self._rows, panel):
            count = min(panel, self._rows - start)
            launch(ranking.share_tiles, count, len(self._columns))(
                self.left, self.right, self.terms, self._starts, self._entries, self._log_sums,
                self.link_sums, self.with_own, self.log_total, turns.counts, held, self.to_terms,
                start, first, self.num_tiles, self.width, held.shape[1],
                self.row_share, TURN=turn, BOTH=self._across, DEPTH=_DEPTH, ENTRIES=_ENTRIES,
                num_warps=8, num_stages=self._stages,
            )  # fmt: skip
            rows, shares = slice(start * TILE, (start + count) * TILE), held[: count * TILE]
            product_into(self.products[rows], shares, self.half[columns])
            if self._across:
                more = torch.empty_like(self.products[columns])
                self.products[columns] += product_into(more, shares.T, self.half[rows])


def product_into(out: Tensor, one: Tensor, other: Tensor) -> Tensor:
    """Write and return the product of half-precision matrices, added up in full precision."""
    if one.device.type != "cuda":
        return out.copy_(one.float() @ other.float())
    if out.dtype == one.dtype:
        return torch.mm(one, other, out=out)
    return torch.mm(one, other, out_dtype=out.dtype, out=out)
