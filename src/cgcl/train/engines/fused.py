"""CGCL on a GPU: an epoch is two dozen kernels, recorded once and replayed.

Views, counter-examples, both steps and their losses stay on the device; nothing waits for the
host inside an epoch. Several runs of the same shape are trained together, each as if alone.
The gradients of Z and W_1 are added up in whatever order they arrive, so the last bits differ
from run to run; `deterministic` takes `PlainEngine` for equal bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

import torch
from torch import Tensor

from cgcl.methods.cgcl import CrossViewLearner
from cgcl.methods.method import Known
from cgcl.methods.settings import CGCLSettings
from cgcl.train.engines.engine import Moments
from cgcl.train.engines.fused_decoder import EPOCHS_AT_ONCE, FusedDecoder
from cgcl.train.engines.fused_draws import FusedDraws
from cgcl.train.engines.fused_encoder import FusedEncoder
from cgcl.train.engines.fused_memory import ADAM_BLOCK, FeatureRows, LinkRows, Weights
from cgcl.train.engines.kernels.adam import adam_step
from cgcl.train.engines.kernels.launch import launch

# Widest hidden layer that a program can hold.
_MOST_UNITS = 512


def supports(known: Known, settings: CGCLSettings) -> bool:
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
        known: Sequence[Known],
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
            precision: How matrix products are computed: tf32, fp32 or bf16.
        """
        first, nodes = settings[0], known[0].num_nodes
        self._precision = precision
        self._device = known[0].device
        self.weights = Weights(learners)
        rows = LinkRows.of([own.links for own in known], nodes)
        features = FeatureRows.of(known)
        with self._at_work():
            self.draws = FusedDraws(rows, nodes, first.views, first.seen, seeds)
        self.encoder = FusedEncoder(self.weights, features, self.draws, first.input_dropout)
        self.decoder = FusedDecoder(self.weights, self.encoder, self.draws, first, precision)
        self._lr = torch.tensor([own.lr for own in settings], device=self._device)
        self._decay = torch.tensor([own.weight_decay for own in settings], device=self._device)
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
        weights = self.weights
        self.draws.draw()
        for turn in range(self.draws.turns):
            self.encoder.forward(turn)
            self.decoder.step(turn)
            self.encoder.backward(turn)
            launch(adam_step, weights.per_run // ADAM_BLOCK, self.draws.num_runs)(
                weights.values, weights.gradients, weights.first, weights.second, weights.steps,
                self.draws.counts, self._lr, self._decay, weights.values, self.draws.epoch,
                weights.per_run, 0.0, TURN=turn, FOLLOW=False, BLOCK=ADAM_BLOCK,
            )  # fmt: skip
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
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("highest" if self._precision == "fp32" else "high")
        is_gpu = self._device.type == "cuda"
        try:
            with torch.cuda.device(self._device) if is_gpu else nullcontext():
                yield
        finally:
            torch.set_float32_matmul_precision(before)


class FusedEngine:
    """Fused kernels for a single run."""

    name = "fused"
    epochs_at_once = EPOCHS_AT_ONCE

    def __init__(self, runs: FusedRuns) -> None:
        """Take what was made for one learner."""
        self._runs = runs

    def run(self, first: int, count: int) -> list[list[float]]:
        """Run some epochs and return the losses of the steps of each."""
        return self._runs.advance(first, count)[:, 0].tolist()

    def moments(self) -> Moments:
        """Return Adam's memory."""
        return self._runs.weights.moments(0)

    def restore(self, moments: Moments) -> None:
        """Take over what `moments` gave."""
        self._runs.weights.restore(0, moments)
