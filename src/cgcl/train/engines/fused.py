"""CGCL on a GPU: an epoch is two dozen kernels, recorded once and replayed.

Views, counter-examples, both steps and their losses stay on the device; nothing waits for the
host inside an epoch. Several runs of the same shape are trained together, each as if alone.
The gradients of Z and W_1 are added up in whatever order they arrive, so the last bits differ
from run to run; `deterministic` takes `PlainEngine` for equal bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import NamedTuple

import torch
from torch import Tensor

from cgcl.counter_rng import base_key, words_below
from cgcl.methods.cgcl import NEGATIVES, VIEWS, CrossViewLearner
from cgcl.methods.method import TrainingGraph
from cgcl.methods.settings import CGCLSettings
from cgcl.tensors import matrix_products
from cgcl.train.engines.gpu import (
    B1,
    B2,
    BIAS,
    W1,
    W2,
    FeatureRows,
    LinkRows,
    SparseRows,
    W,
    Weights,
    blocks,
    dropping,
    launch,
    power_of_2,
)
from cgcl.train.engines.kernels import cross_view
from cgcl.train.engines.kernels.shared import drop_features

INPUTS = ("inputs 1", "inputs 2")
"""The purpose of the coins that drop features in each turn."""
PAIRS = ("pairs 1", "pairs 2")
"""The purpose of the coins that drop entries of a pair's product in each turn."""

_PURPOSES = (VIEWS, *NEGATIVES, *INPUTS, *PAIRS)
NUM_KEYS = len(_PURPOSES)
"""How many keys each run has."""
INPUT_KEY = _PURPOSES.index(INPUTS[0])
"""The key of the first turn's features; the second turn's follows."""
PAIR_KEY = _PURPOSES.index(PAIRS[0])
"""The key of the first turn's pairs; the second turn's follows."""

_LINKS_BLOCK, _FEATURES_BLOCK = 256, 1024


class FusedDraws:
    """The draws of one epoch, for several runs; the same as `methods.cgcl.draw` gives."""

    def __init__(
        self, rows: LinkRows, num_nodes: int, kind: str, seen: float, seeds: Sequence[int]
    ) -> None:
        """Make room.

        Args:
            rows: The links of each run.
            num_nodes: Number of nodes, n.
            kind: How views are drawn.
            seen: Chance of a link to be in the first view.
            seeds: The seed of each run.
        """
        runs, num_links, device = rows.pairs.shape[0], rows.pairs.shape[2], rows.pairs.device
        self.kind = kind
        self._limit = words_below(seen)
        self.turns = 1 if kind in ("one", "all") else 2
        self.num_links = num_links
        self.num_nodes = num_nodes
        self.num_runs = runs
        self.rows = rows
        self.capacity = (2 if kind == "directed" else 1) * num_links
        self.coins = torch.zeros(runs, num_links, dtype=torch.int8, device=device)
        # Both ends of every pair to score: [run, turn, linked or not, end, slot].
        self.ends = torch.zeros(runs, 2, 2, 2, self.capacity, dtype=torch.int32, device=device)
        self.counts = torch.zeros(runs, 2, dtype=torch.int32, device=device)
        self.scales = torch.zeros(runs, 2, num_nodes, device=device)
        self.epoch = torch.zeros(1, dtype=torch.int32, device=device)
        keys = [[base_key(seed, purpose) for purpose in _PURPOSES] for seed in seeds]
        self.keys = torch.tensor(keys, device=device)
        self.full_scales = torch.zeros_like(self.scales)
        self._scale("all", self.full_scales)

    def draw(self) -> None:
        """Draw what the epoch in `epoch` asks for."""
        rows, runs = self.rows, self.num_runs
        self.counts.zero_()
        launch(cross_view.draw_views, blocks(self.num_links, _LINKS_BLOCK), runs)(
            rows.pairs, self.coins, self.ends, self.counts, self.keys, self.epoch,
            self.num_links, self.capacity, self._limit, KIND=self.kind, NUM_KEYS=NUM_KEYS,
            BLOCK=_LINKS_BLOCK,
        )  # fmt: skip
        launch(cross_view.draw_negatives, blocks(self.capacity, _LINKS_BLOCK), self.turns, runs)(
            rows.codes, self.ends, self.counts, self.keys, self.epoch,
            self.num_nodes, self.num_links, self.capacity, NUM_KEYS=NUM_KEYS,
            STEPS=self.num_links.bit_length(), BLOCK=_LINKS_BLOCK,
        )  # fmt: skip
        self._scale(self.kind, self.scales)

    def _scale(self, kind: str, scales: Tensor) -> None:
        rows = self.rows
        launch(cross_view.scale_nodes, self.num_nodes, self.num_runs)(
            rows.starts, rows.neighbours, rows.pair_of, self.coins, scales,
            self.num_nodes, self.num_links, KIND=kind, BLOCK=32, num_warps=1,
        )  # fmt: skip


class _Sight(NamedTuple):
    """Which links are seen, and how well."""

    kind: str
    """How views are drawn, or `all`."""
    scales: Tensor
    """What propagation scales each node by in each turn, [runs, 2, n]."""
    dropout: float


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
        self.weights, self.draws, self._features = weights, draws, features
        self._training = _Sight(draws.kind, draws.scales, dropout)
        self._num_features, self._width = weights.value(W).shape[1:]
        self.z, self.dz, self._h = (
            torch.zeros(runs, nodes, self._width, device=device) for _ in range(3)
        )
        if features.dense is not None:
            self._dense = features.dense.expand(runs, -1, -1)
            self._dropped = torch.zeros(runs, nodes, self._num_features, device=device)

    def forward(self, turn: int) -> None:
        """Write `z` as one turn sees it, and clear `dz`."""
        self._see(self._training, turn)

    def evaluate(self) -> None:
        """Write `z` as all links give it, dropout off."""
        self._see(_Sight("all", self.draws.full_scales, 0.0), 0)

    def backward(self, turn: int) -> None:
        """Take `dz` back to the gradients of weight and bias, and count the step."""
        draws, weights, height = self.draws, self.weights, 64
        columns = min(128, power_of_2(self._width))
        grid = blocks(draws.num_nodes, height), blocks(self._width, columns), draws.num_runs
        launch(cross_view.elu_backward, *grid)(
            self.z, self.dz, weights.gradient(BIAS), weights.steps, draws.counts,
            draws.num_nodes, weights.per_run, self._width, TURN=turn, ROWS=height, COLUMNS=columns,
        )  # fmt: skip
        self._propagate(self._training, turn, self.dz, self._h, backward=True)
        # The gradient of H stands where H stood.
        into, rows = weights.gradient(W), self._features.by_feature
        if rows is not None:
            self._gather(rows, self._h, into, self._training, turn)
            return
        x = self._dropped if self._training.dropout else self._dense
        torch.bmm(x.transpose(1, 2), self._h, out=into)

    def _see(self, sight: _Sight, turn: int) -> None:
        """Write H = X W, after dropout, and Z."""
        weight, rows = self.weights.value(W), self._features.by_node
        if rows is not None:
            self._gather(rows, weight, self._h, sight, turn)
        else:
            if sight.dropout:
                self._drop(turn)
            torch.bmm(self._dropped if sight.dropout else self._dense, weight, out=self._h)
        self._propagate(sight, turn, self._h, self.z)

    def _gather(
        self, rows: SparseRows, dense: Tensor, out: Tensor, sight: _Sight, turn: int
    ) -> None:
        transposed = rows is self._features.by_feature
        order, starts, others, values = rows
        # Some words are in many nodes, no node has very many words.
        entries, most = (32, 32) if transposed else (8, 128)
        columns = min(most, power_of_2(self._width))
        is_shared = starts.shape[0] == 1
        strides = [0 if is_shared else part.stride(0) for part in (order, starts, others)]
        grid = starts.shape[1] - 1, blocks(self._width, columns), self.draws.num_runs
        launch(cross_view.multiply_sparse, *grid)(
            order, starts, others, values, self.draws.coins, dense, out, self.draws.keys,
            self.draws.epoch, *strides, self.draws.num_links, dense.stride(0), out.stride(0),
            self._width, *dropping(sight.dropout), INPUT_KEY + turn, NUM_KEYS=NUM_KEYS, VIEW=turn,
            KIND=sight.kind if self._features.are_links else "given", TRANSPOSED=transposed,
            ENTRIES=entries, COLUMNS=columns, num_warps=1,
        )  # fmt: skip

    def _drop(self, turn: int) -> None:
        """Write the features that dropout leaves."""
        dense, draws, count = self._dense, self.draws, self._num_features
        launch(drop_features, draws.num_nodes, blocks(count, _FEATURES_BLOCK), draws.num_runs)(
            dense, self._dropped, draws.keys, draws.epoch, draws.num_nodes, count, count,
            dense.stride(0), *dropping(self._training.dropout), INPUT_KEY + turn,
            NUM_KEYS=NUM_KEYS, BLOCK=_FEATURES_BLOCK,
        )  # fmt: skip

    def _propagate(
        self, sight: _Sight, view: int, h: Tensor, out: Tensor, *, backward: bool = False
    ) -> None:
        draws = self.draws
        rows, nodes, links = draws.rows, draws.num_nodes, draws.num_links
        entries, most = (16, 64) if 2 * links >= _MANY_LINKS * nodes else (8, 128)
        columns = min(most, power_of_2(self._width))
        launch(cross_view.propagate, nodes, blocks(self._width, columns), draws.num_runs)(
            rows.order, rows.starts, rows.neighbours, rows.pair_of, draws.coins, sight.scales, h,
            out, self.weights.value(BIAS), self.dz, nodes, links, self.weights.per_run,
            self._width, VIEW=view, KIND=sight.kind, BACKWARD=backward, ENTRIES=entries,
            COLUMNS=columns, num_warps=1,
        )  # fmt: skip


EPOCHS_AT_ONCE = 32
"""How many epochs' losses are kept before the host asks for them."""

_WORD = 32


class FusedDecoder:
    """The logits of pairs   (Eq. 6-7), their loss   (Eq. 8), and its gradients.

    The sizes of blocks, and how many programs share a processor, were found by trying on an H200
    at d_v 512.
    """

    def __init__(self, encoder: FusedEncoder, settings: CGCLSettings, precision: str) -> None:
        """Make room for what is kept of each pair.

        Args:
            encoder: Has the embeddings, and takes their gradient; its draws are scored.
            settings: Dropout, the last layer and the targets.
            precision: How matrix products are computed: tf32 or fp32.
        """
        self._encoder, self._settings = encoder, settings
        self._weights, self._draws = weights, draws = encoder.weights, encoder.draws
        device = weights.values.device
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
        launch(cross_view.decode_forward, programs, draws.num_runs)(
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
        launch(cross_view.decode_backward, *grid)(
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
        launch(cross_view.first_layer_gradient, *grid)(
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
        launch(cross_view.decode_only, max(blocks(count, together), 1), runs)(
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


# Widest hidden layer that a program can hold.
_MOST_UNITS = 512


def supports(known: TrainingGraph, settings: CGCLSettings) -> bool:
    """Whether the kernels can do what the settings ask for; `PlainEngine` can do everything."""
    return (
        settings.product == "hadamard"
        and settings.negatives == "train"
        and settings.clip == 0
        and settings.hidden // 2 <= _MOST_UNITS
        and known.sides is None
        and known.links.shape[1] > 0
        # In a crowded graph most random pairs are linked, and would be drawn again and again.
        and known.unlinked.count >= known.links.shape[1]
    )


class FusedRuns:
    """Several runs of CGCL that have the same shapes, trained side by side on one device."""

    def __init__(
        self,
        learners: Sequence[CrossViewLearner],
        known: Sequence[TrainingGraph],
        settings: Sequence[CGCLSettings],
        seeds: Sequence[int],
        precision: str = "tf32",
    ) -> None:
        """Arrange everything on the device; nothing is trained yet.

        Args:
            learners: One for each run; their weights become windows into one tensor.
            known: The links of each run, equally many, and its features.
            settings: Those of each run; they may differ in `lr` and `weight_decay` alone.
            seeds: The seed of each run.
            precision: How matrix products are computed: tf32 or fp32.
        """
        first, nodes = settings[0], known[0].num_nodes
        self._precision = precision
        self._device = known[0].device
        self.weights = Weights(learners, settings)
        rows = LinkRows.of([own.links for own in known], nodes)
        features = FeatureRows.of(known)
        with self._at_work():
            self.draws = FusedDraws(rows, nodes, first.views, first.seen, seeds)
        self.encoder = FusedEncoder(self.weights, features, self.draws, first.input_dropout)
        self.decoder = FusedDecoder(self.encoder, first, precision)
        self._graph: torch.cuda.CUDAGraph | None = None

    def advance(self, first: int, count: int) -> Tensor:
        """Run some epochs and return their losses, float [count, runs, turns] on the CPU.

        The loss of a turn that had nothing to reconstruct is 0.

        Args:
            first: The number of the first epoch.
            count: How many, at most `EPOCHS_AT_ONCE`.
        """
        with self._at_work():
            if self._graph is None and self._device.type == "cuda":
                self._graph = self._record(first)
            self.draws.epoch.fill_(first)
            self.decoder.losses.zero_()
            for _ in range(count):
                if self._graph is None:
                    self.run_epoch()
                else:
                    self._graph.replay()
        rows = [number % EPOCHS_AT_ONCE for number in range(first, first + count)]
        return self.decoder.losses.cpu()[rows, :, : self.draws.turns]

    def logits(self, pairs: Tensor) -> Tensor:
        """Score pairs by all links, dropout off, float [runs, p] on the device.

        Args:
            pairs: Node numbers, [runs, 2, p].
        """
        with self._at_work():
            self.encoder.evaluate()
            return self.decoder.logits(pairs.to(self._device, torch.int32).contiguous())

    def run_epoch(self) -> None:
        """Draw, then take the steps; everything is only queued."""
        self.draws.draw()
        for turn in range(self.draws.turns):
            self.encoder.forward(turn)
            self.decoder.step(turn)
            self.encoder.backward(turn)
            self.weights.step(turn, self.draws.counts, self.draws.epoch)
        self.draws.epoch.add_(1)

    def _record(self, epoch: int) -> torch.cuda.CUDAGraph:
        """Run an epoch to compile its kernels, record another, and undo both."""
        before = [tensor.clone() for tensor in self.weights.state()]
        self.draws.epoch.fill_(epoch)
        side = torch.cuda.Stream(self._device)
        side.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(side):
            self.run_epoch()
        torch.cuda.current_stream(self._device).wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.run_epoch()
        for tensor, old in zip(self.weights.state(), before, strict=True):
            tensor.copy_(old)
        return graph

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """Launch kernels on the right card, and let torch's own products be as precise as ours."""
        here = torch.cuda.device(self._device) if self._device.type == "cuda" else nullcontext()
        with here, matrix_products(tf32=self._precision != "fp32"):
            yield


class FusedEngine:
    """Fused kernels for a single run."""

    name = "fused"
    epochs_at_once = EPOCHS_AT_ONCE

    def __init__(self, runs: FusedRuns) -> None:
        """Take what was made for one learner."""
        self._runs, self.optimizer = runs, runs.weights

    def run(self, first: int, count: int) -> list[list[float]]:
        """Run some epochs and return the losses of the steps of each."""
        return self._runs.advance(first, count)[:, 0].tolist()
