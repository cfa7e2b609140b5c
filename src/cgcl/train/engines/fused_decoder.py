"""The decoder and the loss on the GPU, forward and back, for several runs."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from cgcl.methods.settings import CGCLSettings
from cgcl.train.engines.fused_draws import NUM_KEYS, PAIR_KEY, FusedDraws
from cgcl.train.engines.fused_encoder import FusedEncoder
from cgcl.train.engines.fused_memory import B1, B2, W1, W2, Weights
from cgcl.train.engines.kernels.decoding import (
    decode_backward,
    decode_forward,
    decode_only,
    first_layer_gradient,
)
from cgcl.train.engines.kernels.launch import blocks, dropping, launch, power_of_2

EPOCHS_AT_ONCE = 32
"""How many epochs' losses are kept before the host asks for them."""

_WORD = 32


class FusedDecoder:
    """The logits of pairs   (Eq. 6-7), their loss   (Eq. 8), and its gradients.

    The sizes of blocks, and how many programs share a processor, were found by trying on an H200
    at d_v 512.
    """

    def __init__(
        self,
        weights: Weights,
        encoder: FusedEncoder,
        draws: FusedDraws,
        settings: CGCLSettings,
        precision: str,
    ) -> None:
        """Make room for what is kept of each pair.

        Args:
            weights: The weights of each run.
            encoder: Has the embeddings, and takes their gradient.
            draws: The pairs to score.
            settings: Dropout, the last layer and the targets.
            precision: How matrix products are computed: tf32, fp32 or bf16.
        """
        device = weights.values.device
        self._weights = weights
        self._encoder = encoder
        self._draws = draws
        self._settings = settings
        # Three products in TF32 come close to one in fp32, and tensor cores do them.
        self._precision = "tf32x3" if precision == "fp32" else precision
        self._width, self._hidden = settings.hidden, settings.hidden // 2
        self._units = power_of_2(self._hidden, least=_WORD)
        runs, capacity = draws.num_runs, draws.capacity
        self._gradients = torch.zeros(runs, 2, capacity, device=device)
        self._bits = torch.zeros(
            runs, 2, capacity, self._units // _WORD, dtype=torch.int32, device=device
        )
        self.losses = torch.zeros(EPOCHS_AT_ONCE, runs, 2, device=device)

    def step(self, turn: int) -> None:
        """Score a turn's pairs and add up all gradients."""
        self.forward(turn)
        self.backward(turn)
        self.first_layer(turn)

    def forward(self, turn: int) -> None:
        """Score a turn's pairs; add up its loss and the gradients of all but W_1 and Z."""
        settings, draws, weights = self._settings, self._draws, self._weights
        is_sigmoid = settings.targets == "sigmoid"
        wanted = (1 / (1 + math.exp(-1)), 0.5) if is_sigmoid else (1.0, 0.0)
        pairs = 64 if self._units <= 256 else 32
        programs = min(self._programs(2), 2 * blocks(draws.capacity, pairs))
        launch(decode_forward, programs, draws.num_runs)(
            self._encoder.z, *(weights.value(index) for index in (W1, B1, W2, B2)),
            *(weights.gradient(index) for index in (B1, W2, B2)),
            draws.ends, draws.counts, self._gradients, self._bits, self.losses,
            draws.keys, draws.epoch, *self._sizes(), *dropping(settings.decoder_dropout), *wanted,
            EPOCHS_AT_ONCE, PAIR_KEY + turn, TURN=turn, NUM_KEYS=NUM_KEYS,
            RELU=settings.last_layer == "relu", PRECISION=self._precision, PAIRS=pairs,
            COLUMNS=self._columns(32), HIDDEN=self._units, num_warps=8, num_stages=3,
        )  # fmt: skip

    def backward(self, turn: int) -> None:
        """Add up the gradient of Z."""
        weights, columns = self._weights, self._columns(128)
        grid = self._column_grid(columns, per_processor=4)
        launch(decode_backward, *grid)(
            self._encoder.z, self._encoder.dz, weights.value(W1), weights.value(W2),
            *self._kept(), *self._sizes(), *dropping(self._settings.decoder_dropout),
            PAIR_KEY + turn, TURN=turn, NUM_KEYS=NUM_KEYS, PRECISION=self._precision,
            PAIRS=32, COLUMNS=columns, UNITS=min(64, self._units), HIDDEN=self._units,
            num_warps=4, num_stages=1,
        )  # fmt: skip

    def first_layer(self, turn: int) -> None:
        """Add up the gradient of W_1."""
        weights, columns = self._weights, self._columns(128 if self._units <= 256 else 64)
        grid = self._column_grid(columns, per_processor=1)
        launch(first_layer_gradient, *grid)(
            self._encoder.z, weights.value(W2), weights.gradient(W1), *self._kept(),
            *self._sizes(), *dropping(self._settings.decoder_dropout), PAIR_KEY + turn,
            TURN=turn, NUM_KEYS=NUM_KEYS, PRECISION=self._precision, PAIRS=64, COLUMNS=columns,
            HIDDEN=self._units, num_warps=8, num_stages=1,
        )  # fmt: skip

    def logits(self, pairs: Tensor) -> Tensor:
        """Return the logits of int32 [runs, 2, p], dropout off, [runs, p]."""
        weights, runs, count = self._weights, self._draws.num_runs, pairs.shape[2]
        logits = torch.empty(runs, count, device=pairs.device)
        together = 64 if self._units <= 256 else 32
        launch(decode_only, max(blocks(count, together), 1), runs)(
            self._encoder.z, *(weights.value(index) for index in (W1, B1, W2, B2)), pairs,
            logits, self._draws.num_nodes, count, weights.per_run, self._width, self._hidden,
            RELU=self._settings.last_layer == "relu", PRECISION=self._precision, PAIRS=together,
            COLUMNS=self._columns(32), HIDDEN=self._units, num_warps=8, num_stages=3,
        )  # fmt: skip
        return logits

    def _kept(self) -> tuple[Tensor, ...]:
        draws = self._draws
        return draws.ends, draws.counts, self._gradients, self._bits, draws.keys, draws.epoch

    def _sizes(self) -> tuple[int, ...]:
        draws = self._draws
        return (
            draws.num_nodes, draws.capacity, self._weights.per_run, self._width, self._hidden,
        )  # fmt: skip

    def _columns(self, most: int) -> int:
        """Return how many columns a program holds at once; a matrix product needs 16."""
        return min(most, power_of_2(self._width, least=16))

    def _column_grid(self, columns: int, per_processor: int) -> tuple[int, int, int]:
        """Return blocks of columns, how many programs share the pairs of one, and runs."""
        across, most = blocks(self._width, columns), blocks(self._draws.capacity, 16)
        parts = min(blocks(self._programs(per_processor), across), most)
        return across, parts, self._draws.num_runs

    def _programs(self, per_processor: int) -> int:
        """Return how many programs may share the pairs of one run."""
        device = self._weights.values.device
        if device.type != "cuda":
            return 2
        processors = torch.cuda.get_device_properties(device).multi_processor_count
        return blocks(per_processor * processors, self._draws.num_runs)
