"""CGCL that ranks on a GPU: an epoch is some eighty kernels, recorded once and replayed.

Nothing waits for the host inside an epoch, and the scores of all pairs are never kept. Matrices are
multiplied in half precision and added up in full: vectors that are compared have the digits of
TF32, features, messages and gradients those of bfloat16; weights, Z and what is added to it are in
full precision. Sums are added up in whatever order they arrive, so the last bits differ from run to
run; `deterministic` takes `PlainEngine` for equal bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch

from cgcl.methods.method import Known
from cgcl.methods.settings import RankSettings
from cgcl.train.engines.engine import Moments
from cgcl.train.engines.ranking_steps import RankingSteps

# The widest vector of which a program holds whole rows.
_MOST_WIDTH = 4096


def supports(known: Known, settings: RankSettings) -> bool:
    """Whether the kernels can do what is asked; `PlainEngine` can do everything."""
    is_sampled = 0 < settings.sampled < known.num_nodes
    has_made = known.structure is not None
    return (
        not is_sampled
        and settings.hidden <= _MOST_WIDTH
        and known.links.shape[1] > 0
        and (has_made or not known.features.is_sparse)
    )


class RecordedEngine:
    """Runs epochs as one CUDA graph; computes what the plain engine does."""

    name = "recorded"
    epochs_at_once = 20

    def __init__(self, steps: RankingSteps) -> None:
        """Take what was arranged for a learner; nothing is trained yet."""
        self._steps, self._device = steps, steps.device
        self._graph: torch.cuda.CUDAGraph | None = None
        self._stream: torch.cuda.Stream | None = None
        self._history = torch.zeros(0, 2)

    def run(self, first: int, count: int) -> list[list[float]]:
        """Run some epochs and return the losses of the steps of each; wait once, for all."""
        self.start(first, count)
        return self.finish()

    def start(self, first: int, count: int) -> None:
        """Queue some epochs on a stream of this engine's own: others compute meanwhile."""
        self._history = torch.zeros(count, 2, device=self._device)
        with self._at_work():
            if self._graph is None and self._device.type == "cuda":
                self._graph = self._record(first)
            with self._on_own_stream():
                self._steps.epoch.fill_(first)
                for own in self._history:
                    if self._graph is None:
                        self._steps.run_epoch()
                    else:
                        self._graph.replay()
                    own.copy_(self._steps.losses)

    def finish(self) -> list[list[float]]:
        """Wait for what was started, and return the losses of the steps of each epoch."""
        if self._stream is not None:
            self._stream.synchronize()
        return self._history.tolist()

    def moments(self) -> Moments:
        """Return Adam's memory."""
        return self._steps.weights.moments(0)

    def restore(self, moments: Moments) -> None:
        """Take over what `moments` gave."""
        self._steps.weights.restore(0, moments)

    def _record(self, epoch: int) -> torch.cuda.CUDAGraph:
        """Run an epoch to compile its kernels, record another, and undo both."""
        state = self._steps.state
        before = [tensor.clone() for tensor in state]
        self._steps.epoch.fill_(epoch)
        with self._on_own_stream():
            self._steps.run_epoch()
        graph = torch.cuda.CUDAGraph()
        # The stream decides where matrix products keep what they add up: it must be no other's.
        with torch.cuda.graph(graph, stream=self._stream):
            self._steps.run_epoch()
        for tensor, old in zip(state, before, strict=True):
            tensor.copy_(old)
        return graph

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """Launch kernels on the right card, and let nothing remember how it was computed."""
        is_gpu = self._device.type == "cuda"
        with torch.no_grad(), torch.cuda.device(self._device) if is_gpu else nullcontext():
            self._steps.learner.train()
            yield

    @contextmanager
    def _on_own_stream(self) -> Iterator[None]:
        if self._device.type != "cuda":
            yield
            return
        if self._stream is None:
            self._stream = torch.cuda.Stream(self._device)
        # What others have made of the weights comes first.
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._stream):
            yield
