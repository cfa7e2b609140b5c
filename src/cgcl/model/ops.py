"""Products and dropout for dense and for sparse tensors alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

Numbers = npt.NDArray[Any]


def dropout(x: Tensor, probability: float, generator: torch.Generator | None) -> Tensor:
    """Zero each entry with the given probability and scale the others to keep the mean.

    Of a sparse tensor only the stored entries are drawn: the others are zero either way.

    Args:
        x: Dense, or coalesced sparse COO.
        probability: Chance of an entry to be dropped, in [0, 1).
        generator: Where the coins come from; torch's global one if None.
    """
    if probability == 0:
        return x
    if x.is_cuda and not x.is_sparse and generator is None:
        return functional.dropout(x, probability)  # one kernel instead of three
    values = x.values() if x.is_sparse else x
    kept = torch.empty_like(values).bernoulli_(1 - probability, generator=generator)
    if not x.is_sparse:
        return x * kept / (1 - probability)
    survivors = kept.nonzero().squeeze(1)
    values = values.index_select(0, survivors) / (1 - probability)
    return sparse(x.indices().index_select(1, survivors), values, x.shape, is_coalesced=True)


def dropout_by_bytes(x: Tensor, probability: float, training: bool) -> Tensor:
    """Zero entries with a probability in steps of 1/256; several times as fast on a CPU.

    A CPU tosses torch's own coins one by one. Here each random number gives eight; the chance is
    rounded, and the others are scaled by what it was rounded to. Coins come from torch's global
    generator. Elsewhere than on a CPU it is torch's own dropout, of a sparse tensor `dropout`.

    Args:
        x: Dense, or coalesced sparse COO.
        probability: Chance of an entry to be dropped, in [0, 1).
        training: Whether to drop anything.
    """
    if x.is_sparse:
        return dropout(x, probability, None) if training else x
    dropped = min(round(256 * probability), 255)
    if not training or dropped == 0 or x.device.type != "cpu":
        return functional.dropout(x, probability, training)
    numbers = torch.empty((x.numel() + 7) // 8, dtype=torch.int64).random_(-(2**63), None)
    coins = numbers.view(torch.uint8)[: x.numel()].view(x.shape)
    return x * (coins >= dropped).to(x.dtype).mul_(256 / (256 - dropped))


def sparse(
    places: Tensor, values: Tensor, shape: Sequence[int], *, is_coalesced: bool | None = None
) -> Tensor:
    """Return a sparse COO matrix of entries that are known to be sound: nothing is checked.

    Args:
        places: Row and column of each entry, int64 [2, e].
        values: Its value, [e].
        shape: How many rows and columns there are.
        is_coalesced: Whether the places are sorted and no two of them equal, if that is known.
    """
    return torch.sparse_coo_tensor(
        places, values, tuple(shape), check_invariants=False, is_coalesced=is_coalesced
    )


def spmm(matrix: Tensor, dense: Tensor) -> Tensor:
    """Return `matrix @ dense`, [n, k].

    A GPU adds up the rows of a sparse product in any order. Where torch was told to be
    deterministic, the rows are gathered and added in order instead; that takes memory for one row
    of `dense` per entry of the matrix.

    Args:
        matrix: [n, m], dense or sparse COO.
        dense: [m, k].

    Example:
        >>> spmm(torch.eye(2).to_sparse_coo(), torch.tensor([[1.0], [2.0]]))
        tensor([[1.],
                [2.]])
    """
    if not matrix.is_sparse:
        return matrix @ dense
    if not torch.are_deterministic_algorithms_enabled():
        return torch.sparse.mm(matrix, dense)
    # The entries as they are: coalesced() is not known for what was just put together.
    row, column = matrix._indices()
    each = matrix._values().unsqueeze(1) * dense.index_select(0, column)  # [entries, k]
    return dense.new_zeros(matrix.shape[0], dense.shape[1]).index_add(0, row, each)


@dataclass(frozen=True, eq=False)
class Rows:
    """A sparse matrix, row after row: on a CPU a product is several times as fast as torch's."""

    start: Tensor
    """Where each row begins in `index`, int64 [r]."""
    index: Tensor
    """The column of each entry, int64 [e]."""
    weight: Tensor | None = None
    """The value of each entry, float32 [e]; None if all are 1."""

    @classmethod
    def of(cls, size: Numbers, index: Numbers, weight: Numbers, device: torch.device) -> Rows:
        """Return rows of these sizes where they are computed on."""
        arrays = (np.cumsum(size) - size, index, weight)
        return cls(*(torch.from_numpy(array).to(device) for array in arrays))

    def part(self, rows: slice, entries: slice, column: int) -> Rows:
        """Return some rows, those of the entries, by columns that are counted from one of them."""
        weight = None if self.weight is None else self.weight[entries]
        start, index = self.start[rows] - entries.start, self.index[entries] - column
        return Rows(start, index, weight)

    def times(self, h: Tensor) -> Tensor:
        """Return the product with a dense matrix, [r, any]."""
        return functional.embedding_bag(
            self.index, h, self.start, mode="sum", per_sample_weights=self.weight
        )


class LinearMap(torch.autograd.Function):
    """A linear map whose gradient is another one: a sparse product's is one, too.

    Applied to what is mapped, the map, and the map that the gradient takes back.
    """

    @staticmethod
    def forward(*args: Any, **_: Any) -> Tensor:  # noqa: ANN401
        """Return what the map makes of it."""
        ctx, h, there, ctx.back = args
        return there(h)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:  # noqa: ANN401
        """Return the gradient of what was mapped."""
        return ctx.back(gradients[0].contiguous()), None, None


def row_sums(h: Tensor, rows: Rows, transposed: Rows) -> Tensor:
    """Return the product of a sparse matrix with `h`, [r, any].

    Args:
        h: What is multiplied, [c, any].
        rows: The matrix, [r, c].
        transposed: The same matrix the other way round, for the gradient.
    """
    return LinearMap.apply(h, rows.times, transposed.times)
