"""The encoder on the GPU, forward and back, for several runs."""

from __future__ import annotations

import torch
from torch import Tensor

from cgcl.train.engines.fused_draws import INPUT_KEY, NUM_KEYS, FusedDraws
from cgcl.train.engines.fused_memory import BIAS, FeatureRows, SparseRows, W, Weights
from cgcl.train.engines.kernels.encoding import (
    drop_features,
    elu_backward,
    multiply_sparse,
    propagate,
)
from cgcl.train.engines.kernels.launch import blocks, dropping, launch, power_of_2

_BLOCK = 1024
_MANY_LINKS = 16  # links per node, from which on smaller blocks of columns pay


class FusedEncoder:
    r"""$Z = \mathrm{ELU}(\hat A X W + b)$   (Eq. 5), and its gradients."""

    def __init__(
        self, weights: Weights, features: FeatureRows, draws: FusedDraws, dropout: float
    ) -> None:
        """Make room for what is computed.

        Args:
            weights: The weights of each run.
            features: The features of each run, or those that all share.
            draws: Which links are seen.
            dropout: Chance of a feature to be dropped in a training step.
        """
        runs, nodes, device = draws.num_runs, draws.num_nodes, weights.values.device
        self._weights = weights
        self._features = features
        self._draws = draws
        self._dropout = dropout
        self._num_features, self._width = weights.value(W).shape[1:]
        self.z, self.dz, self._h = (
            torch.zeros(runs, nodes, self._width, device=device) for _ in range(3)
        )
        if features.dense is not None:
            self._dropped = torch.zeros(runs, nodes, self._num_features, device=device)

    def forward(self, turn: int) -> None:
        """Write `z` as one turn sees it, and clear `dz`."""
        self._multiply(self._draws.kind, turn, self._dropout)
        self._propagate(self._draws.kind, self._draws.scales, turn, self._h, self.z)

    def evaluate(self) -> None:
        """Write `z` as all links give it, dropout off."""
        self._multiply("all", 0, dropout=0.0)
        self._propagate("all", self._draws.full_scales, 0, self._h, self.z)

    def backward(self, turn: int) -> None:
        """Take `dz` back to the gradients of weight and bias, and count the step."""
        draws, weights, rows = self._draws, self._weights, 64
        columns = min(128, power_of_2(self._width))
        grid = blocks(draws.num_nodes, rows), blocks(self._width, columns), draws.num_runs
        launch(elu_backward, *grid)(
            self.z, self.dz, weights.gradient(BIAS), weights.steps, draws.counts,
            draws.num_nodes, weights.per_run, self._width, TURN=turn, ROWS=rows, COLUMNS=columns,
        )  # fmt: skip
        self._propagate(draws.kind, draws.scales, turn, self.dz, self._h, backward=True)
        self._multiply_back(turn)

    def _multiply(self, kind: str, turn: int, dropout: float) -> None:
        """Write H = X W, after dropout."""
        weight = self._weights.value(W)
        if self._features.by_node is not None:
            self._gather(self._features.by_node, weight, self._h, kind, turn, dropout)
            return
        if dropout:
            self._drop(turn)
        torch.bmm(self._dropped if dropout else self._dense, weight, out=self._h)

    def _multiply_back(self, turn: int) -> None:
        """Write the gradient of W from that of H, which stands where H stood."""
        into = self._weights.gradient(W)
        if self._features.by_feature is not None:
            rows = self._features.by_feature
            kind = self._draws.kind
            self._gather(rows, self._h, into, kind, turn, self._dropout, transposed=True)
            return
        x = self._dropped if self._dropout else self._dense
        torch.bmm(x.transpose(1, 2), self._h, out=into)

    @property
    def _dense(self) -> Tensor:
        """Dense features without dropout, [runs, n, d]."""
        if self._features.dense is None:
            raise ValueError("The features are sparse.")
        return self._features.dense.expand(self._draws.num_runs, -1, -1)

    def _gather(
        self,
        rows: SparseRows,
        dense: Tensor,
        out: Tensor,
        kind: str,
        turn: int,
        dropout: float,
        *,
        transposed: bool = False,
    ) -> None:
        order, starts, others, values = rows
        # Some words are in many nodes, no node has very many words.
        entries, most = (32, 32) if transposed else (8, 128)
        columns = min(most, power_of_2(self._width))
        is_shared = starts.shape[0] == 1
        strides = [0 if is_shared else part.stride(0) for part in (order, starts, others)]
        grid = starts.shape[1] - 1, blocks(self._width, columns), self._draws.num_runs
        launch(multiply_sparse, *grid)(
            order, starts, others, values, self._draws.coins, dense, out, self._draws.keys,
            self._draws.epoch, *strides, self._draws.num_links, dense.stride(0), out.stride(0),
            self._width, *dropping(dropout), INPUT_KEY + turn, NUM_KEYS=NUM_KEYS, VIEW=turn,
            KIND=kind if self._features.are_links else "given", TRANSPOSED=transposed,
            ENTRIES=entries, COLUMNS=columns, num_warps=1,
        )  # fmt: skip

    def _drop(self, turn: int) -> None:
        """Write the features that dropout leaves."""
        dense, draws, count = self._dense, self._draws, self._num_features
        launch(drop_features, draws.num_nodes, blocks(count, _BLOCK), draws.num_runs)(
            dense, self._dropped, draws.keys, draws.epoch, draws.num_nodes, count, count,
            dense.stride(0), *dropping(self._dropout), INPUT_KEY + turn,
            NUM_KEYS=NUM_KEYS, BLOCK=_BLOCK,
        )  # fmt: skip

    def _propagate(
        self,
        kind: str,
        scales: Tensor,
        view: int,
        h: Tensor,
        out: Tensor,
        *,
        backward: bool = False,
    ) -> None:
        draws = self._draws
        rows, nodes, links = draws.rows, draws.num_nodes, draws.num_links
        entries, most = (16, 64) if 2 * links >= _MANY_LINKS * nodes else (8, 128)
        columns = min(most, power_of_2(self._width))
        launch(propagate, nodes, blocks(self._width, columns), draws.num_runs)(
            rows.order, rows.starts, rows.neighbours, rows.pair_of, draws.coins, scales, h, out,
            self._weights.value(BIAS), self.dz, nodes, links, self._weights.per_run, self._width,
            VIEW=view, KIND=kind, BACKWARD=backward, ENTRIES=entries, COLUMNS=columns,
            num_warps=1,
        )  # fmt: skip
