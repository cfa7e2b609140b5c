"""CGCL that ranks on a GPU: the readable steps, recorded once and replayed.

Nothing waits for the host inside an epoch. The softmax of all rows is one kernel; what it divides
among the nodes is kept in half precision for the two products of the backward pass.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from cgcl.methods.cgcl_rank import RankingLearner
from cgcl.methods.method import Epoch, Known
from cgcl.methods.settings import TrainedSettings
from cgcl.model.softmax import Excluded, Workspace, row_logsumexp
from cgcl.seeds import seeded
from cgcl.train.engines.engine import Moments
from cgcl.train.engines.kernels.launch import launch
from cgcl.train.engines.kernels.softmax import softmax_rows
from cgcl.train.engines.plain import PlainEngine

__all__ = ["RecordedEngine", "fused_row_logsumexp"]

# Up to so many scores are held at once, 2 GiB; beyond, they are computed in blocks.
_MOST_SCORES = 2**29
_BLOCK = 1024
# Columns of a matrix of half-precision numbers come in eights, or products are slow.
_EIGHT = 8


class RecordedEngine(PlainEngine):
    """Runs epochs as one CUDA graph; computes what the plain engine does."""

    name = "recorded"

    def __init__(
        self,
        learner: RankingLearner,
        known: Known,
        settings: TrainedSettings,
        seed: int,
        precision: str,
    ) -> None:
        """Create the optimizer; the first epoch is run as it is, the second is recorded.

        Args:
            learner: The method with its weights, which are changed in place.
            known: The links to learn from, on a GPU.
            settings: Learning rate, penalty and the longest gradient.
            seed: The seed of the whole run.
            precision: How matrices are multiplied; `fp32` takes no shortcut.
        """
        super().__init__(learner, known, settings, seed)
        self._ranking = learner
        if precision != "fp32":
            learner.sum_rows = fused_row_logsumexp
        self._graph: torch.cuda.CUDAGraph | None = None
        self._losses: list[Tensor] = []
        self._is_warm = False

    def restore(self, moments: Moments) -> None:
        """Take over what `moments` gave; what was recorded writes to other memory."""
        super().restore(moments)
        self._graph = None

    def _run_epoch(self, epoch: Epoch) -> list[float]:
        if not self._is_warm:
            self._is_warm = True
            return super()._run_epoch(epoch)
        with seeded(epoch.seed, "epoch", epoch.number, self._known.device):
            self._learner.train()
            self._ranking.begin(self._known, epoch)
            if self._graph is None:
                self._graph = self._record()
            self._graph.replay()
        return torch.stack(self._losses).tolist()

    def _record(self) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        self.optimizer.zero_grad()
        with torch.cuda.graph(graph):
            self._losses = list(self._steps(self._ranking.recordable_steps(self._known)))
        return graph


class _FusedRowLogSumExp(torch.autograd.Function):
    """All scores at once: one product, one kernel, and two products back."""

    @staticmethod
    def forward(*args: Any, **_: Any) -> Tensor:  # noqa: ANN401
        """Return the logarithm of each row's sum, [r]."""
        ctx, left, right, bias, excluded = args
        rows, columns = excluded.shape
        # Rows of scores begin at whole eights, too: the columns more are left out of every sum.
        more = -columns % _EIGHT
        right = functional.pad(right, (0, 0, 0, more))
        bias = functional.pad(bias, (0, more), value=-torch.inf)
        scores = left @ right.T
        places = excluded.codes + excluded.codes // columns * more
        scores.view(-1).index_fill_(0, places, -torch.inf)
        shares = torch.empty_like(scores, dtype=torch.bfloat16)
        log_sums = left.new_empty(rows)
        launch(softmax_rows, rows)(scores, bias, shares, log_sums, columns + more, BLOCK=_BLOCK)
        ctx.save_for_backward(left, right, shares)
        ctx.columns = columns
        return log_sums

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        """Return the gradients of left, right and bias."""
        left, right, shares = ctx.saved_tensors
        grad, width = grads[0].unsqueeze(1), left.shape[1]
        to_left = _product(shares, right.to(shares.dtype)) * grad
        # The gradient of the bias is one more column.
        padding = left.new_zeros(left.shape[0], -(width + 1) % _EIGHT)
        weighted = torch.cat([left * grad, grad, padding], dim=1).to(shares.dtype)
        to_right = _product(shares.T, weighted)[: ctx.columns]
        return to_left, to_right[:, :width], to_right[:, width], None


def _product(one: Tensor, other: Tensor) -> Tensor:
    """Return the product of half-precision matrices, added up and kept in full precision."""
    if one.device.type == "cuda":
        return torch.mm(one, other, out_dtype=torch.float32)
    return one.float() @ other.float()


def fused_row_logsumexp(
    left: Tensor,
    right: Tensor,
    bias: Tensor,
    excluded: Excluded,
    workspace: Workspace | None = None,
) -> Tensor:
    """Return what `cgcl.model.softmax.row_logsumexp` does, fast on a GPU while all scores fit."""
    if excluded.shape[0] * excluded.shape[1] > _MOST_SCORES:
        return row_logsumexp(left, right, bias, excluded, workspace)
    sums: Tensor = _FusedRowLogSumExp.apply(left, right, bias.contiguous(), excluded)
    return sums
