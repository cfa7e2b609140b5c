"""A softmax over all nodes, and over all pairs, without ever holding all pairs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

# Scores held at once: on a CPU 4 MB, which stay in its cache; on a GPU 256 MB.
_CPU_BLOCK, _GPU_BLOCK = 2**20, 2**26
# Up to so many scores the exponentials are kept for the backward pass; beyond, computed again.
CPU_KEPT, _GPU_KEPT = 2**25, 2**29
NOTHING = -1e30
"""What stands for the logarithm of an empty sum: finite, and far below any score."""


@dataclass(frozen=True, eq=False)
class Excluded:
    """Entries of a matrix of scores that no sum counts: known links, and a node with itself."""

    codes: Tensor
    """row * columns + column of each, ascending, int64 [e]."""
    shape: tuple[int, int]

    @cached_property
    def starts(self) -> list[int]:
        """Where the codes of each block of rows begin, and the end."""
        rows, columns = self.shape
        edges = torch.arange(0, rows + self.block_rows, self.block_rows) * columns
        return torch.searchsorted(self.codes, edges.to(self.codes.device)).tolist()

    @property
    def block_rows(self) -> int:
        """How many rows are computed at once."""
        most = _CPU_BLOCK if self.codes.device.type == "cpu" else _GPU_BLOCK
        return max(1, min(most // max(self.shape[1], 1), self.shape[0]))

    @property
    def is_kept(self) -> bool:
        """Whether the exponentials of all rows are kept for the backward pass."""
        most = CPU_KEPT if self.codes.device.type == "cpu" else _GPU_KEPT
        return self.shape[0] * self.shape[1] <= most

    def blocks(self) -> Iterator[tuple[slice, Tensor]]:
        """Yield each block's rows, and the places within the block that count for nothing."""
        rows, columns = self.shape
        for number, start in enumerate(range(0, rows, self.block_rows)):
            codes = self.codes[self.starts[number] : self.starts[number + 1]]
            yield slice(start, min(start + self.block_rows, rows)), codes - start * columns


class Workspace:
    """Memory for scores that is used again in every step: fresh memory is slow on a CPU."""

    def __init__(self) -> None:
        """Hold nothing yet."""
        self._held: Tensor | None = None

    def take(self, size: int, like: Tensor) -> Tensor:
        """Return room for so many numbers; what was in it before is lost."""
        if like.device.type != "cpu":
            return like.new_empty(size)
        if self._held is None or self._held.numel() < size or self._held.dtype != like.dtype:
            self._held = like.new_empty(size)
        return self._held[:size]


class _RowLogSumExp(torch.autograd.Function):
    """The blocks of `row_logsumexp`, forward and backward."""

    @staticmethod
    def forward(*args: Any, **_: Any) -> Tensor:  # noqa: ANN401
        """Return the logarithm of each row's sum, [r]."""
        ctx, left, right, bias, excluded, workspace = args
        rows, columns = excluded.shape
        held = rows if excluded.is_kept else excluded.block_rows
        room = workspace.take(held * columns, left).view(held, columns)
        highest, total = left.new_empty(rows), left.new_empty(rows)
        for block, nothing in excluded.blocks():
            scores = room[block] if excluded.is_kept else room[: block.stop - block.start]
            _score(scores, left[block], right, bias, nothing)
            top = scores.amax(dim=1).clamp_(min=NOTHING)
            total[block] = scores.sub_(top.unsqueeze(1)).exp_().sum(dim=1)
            highest[block] = top
        ctx.save_for_backward(left, right, bias, highest, total)
        ctx.excluded, ctx.room = excluded, room
        return (highest + total.log()).clamp_(min=NOTHING)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        """Return the gradients of left, right and bias."""
        left, right, bias, highest, total = ctx.saved_tensors
        excluded: Excluded = ctx.excluded
        # Nobody has a share of an empty sum.
        share = (grads[0] / total).where(total > 0, 0).unsqueeze(1)
        to_left, to_right = torch.empty_like(left), torch.zeros_like(right)
        to_bias = torch.zeros_like(bias)
        if excluded.is_kept:  # one product over all rows: each more would go over to_right again
            _return(ctx.room, left, right, share, (to_left, to_right, to_bias))
            return to_left, to_right, to_bias, None, None
        for block, nothing in excluded.blocks():
            weights = ctx.room[: block.stop - block.start]
            _score(weights, left[block], right, bias, nothing)
            weights.sub_(highest[block].unsqueeze(1)).exp_()
            sums = to_left[block], to_right, to_bias
            _return(weights, left[block], right, share[block], sums)
        return to_left, to_right, to_bias, None, None


def _score(scores: Tensor, left: Tensor, right: Tensor, bias: Tensor, nothing: Tensor) -> None:
    torch.addmm(bias, left, right.T, out=scores)
    scores.view(-1).index_fill_(0, nothing, -torch.inf)


def _return(
    weights: Tensor, left: Tensor, right: Tensor, share: Tensor, sums: tuple[Tensor, Tensor, Tensor]
) -> None:
    """Write the gradients of some rows of left, and add to those of right and bias."""
    to_left, to_right, to_bias = sums
    torch.mm(weights, right, out=to_left).mul_(share)
    to_right.addmm_(weights.T, left * share)
    to_bias.addmv_(weights.T, share.squeeze(1))


def row_logsumexp(
    left: Tensor,
    right: Tensor,
    bias: Tensor,
    excluded: Excluded,
    workspace: Workspace | None = None,
) -> Tensor:
    r"""Return $\log \sum_k \exp(l_i^\top r_k + b_k)$ for every row i, [r].

    The sum leaves out what `excluded` holds; the matrix of scores is computed in blocks of rows,
    and in the backward pass again if it is large.

    Args:
        left: A vector for each row, [r, d].
        right: A vector for each column, [c, d].
        bias: What each column adds, [c].
        excluded: The entries that do not count.
        workspace: Memory to use again; it must not be used for another sum before this one's
            backward pass.

    Example:
        >>> zeros, nothing = torch.zeros(2, 1), torch.zeros(2)
        >>> itself = Excluded(torch.tensor([0, 3]), (2, 2))
        >>> row_logsumexp(zeros, zeros, torch.tensor([5.0, 7.0]), itself)
        tensor([7., 5.])
    """
    return _RowLogSumExp.apply(left, right, bias, excluded, workspace or Workspace())


def softmax_loss(
    scores: Tensor,
    pairs: Tensor,
    log_sums: Tensor,
    row_share: float = 0.5,
    stands_for: Tensor | None = None,
) -> Tensor:
    r"""Return how far links are from the top of the list, of each end's and of all pairs.

    With $L_i = \log \sum_k \exp s_{ik}$ over the nodes k that i is not linked to, a link (i, j)
    costs, on each of its two rows, $-\log \frac{e^{s_{ij}}}{e^{s_{ij}} + e^{L_i}}$, and among all
    pairs $\log \sum_i e^{L_i} - s_{ij}$. The two are mixed.

    Args:
        scores: Of the links to find, [m].
        pairs: Their ends, int64 [2, m].
        log_sums: L, [n].
        row_share: How much the rows count; the rest goes to all pairs.
        stands_for: Where only some rows have their L and the others the logarithm of nothing: for
            how many rows each one stands, [n]; None if all are there.
    """
    one, other = (functional.softplus(log_sums.index_select(0, end) - scores) for end in pairs)
    if stands_for is not None:
        log_sums = log_sums + stands_for.log()
        one = one * stands_for.index_select(0, pairs[0])
        other = other * stands_for.index_select(0, pairs[1])
    total = torch.logsumexp(log_sums, 0)
    # Where every pair is a known link there is nothing to stand out from.
    everywhere = (total - scores).where(total > NOTHING / 2, 0)
    costs = row_share * (one + other) / 2 + (1 - row_share) * everywhere
    # A tiny graph may leave a view empty: then nothing is asked, and nothing is learned.
    return costs.sum() / max(costs.numel(), 1)
