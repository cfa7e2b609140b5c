"""The readable way, recorded: a GPU repeats the steps of an epoch without being told each."""

from __future__ import annotations

import torch
from torch import Tensor

from cgcl.methods.cgcl_rank import RankingLearner
from cgcl.methods.method import Epoch, Known
from cgcl.methods.settings import TrainedSettings
from cgcl.seeds import seeded
from cgcl.train.engines.plain import PlainEngine

__all__ = ["RecordedEngine"]


class RecordedEngine(PlainEngine):
    """Runs epochs as one CUDA graph; computes what the plain engine does, in the same order."""

    name = "recorded"

    def __init__(
        self, learner: RankingLearner, known: Known, settings: TrainedSettings, seed: int
    ) -> None:
        """Create the optimizer; the first epoch is run as it is, the second is recorded.

        Args:
            learner: The method with its weights, which are changed in place.
            known: The links to learn from, on a GPU.
            settings: Learning rate, penalty and the longest gradient.
            seed: The seed of the whole run.
        """
        super().__init__(learner, known, settings, seed)
        self._ranking = learner
        self._graph: torch.cuda.CUDAGraph | None = None
        self._losses: list[Tensor] = []
        self._is_warm = False

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
