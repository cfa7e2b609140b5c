"""CGCL that ranks on a GPU: the readable steps, recorded once and replayed.

Nothing waits for the host inside an epoch, and the scores of all pairs are never kept.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional

from cgcl.methods.cgcl_rank import RankingLearner
from cgcl.methods.cgcl_rank_settings import RankSettings
from cgcl.methods.method import Epoch, Known
from cgcl.seeds import seeded
from cgcl.train.engines.all_pairs import AllPairs
from cgcl.train.engines.engine import Moments
from cgcl.train.engines.plain import PlainEngine

__all__ = ["RecordedEngine"]

# A GPU multiplies numbers in such groups.
_WHOLE = 32


class RecordedEngine(PlainEngine):
    """Runs epochs as one CUDA graph; computes what the plain engine does."""

    name = "recorded"
    epochs_at_once = 20

    def __init__(
        self,
        learner: RankingLearner,
        known: Known,
        settings: RankSettings,
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
        if isinstance(known.x, Tensor):
            known = replace(known, x=functional.pad(known.x, (0, -known.x.shape[1] % _WHOLE)))
        super().__init__(learner, known, settings, seed)
        self._ranking = learner
        if precision != "fp32":
            learner.fast_loss = AllPairs(
                learner.prepare(known),
                known.links,
                known.sides,
                settings.row_share,
                torch.float16 if settings.norm else torch.float32,
            )
        self._graph: torch.cuda.CUDAGraph | None = None
        self._losses: list[Tensor] = []
        self._is_warm = False

    def restore(self, moments: Moments) -> None:
        """Take over what `moments` gave; what was recorded writes to other memory."""
        super().restore(moments)
        self._graph = None

    def run(self, first: int, count: int) -> list[list[float]]:
        """Run some epochs and return the losses of the steps of each; wait once, for all."""
        if not self._is_warm:
            self._is_warm = True
            return super().run(first, 1) + (self.run(first + 1, count - 1) if count > 1 else [])
        losses = [self._replay(Epoch(first + index, self._seed)) for index in range(count)]
        return torch.stack(losses).tolist()

    def _replay(self, epoch: Epoch) -> Tensor:
        with seeded(epoch.seed, "epoch", epoch.number, self._known.device):
            self._learner.train()
            self._ranking.begin(self._known, epoch)
            if self._graph is None:
                self._graph = self._record()
            self._graph.replay()
        return torch.stack(self._losses)

    def _record(self) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        self.optimizer.zero_grad()
        with torch.cuda.graph(graph):
            self._losses = list(self._steps(self._ranking.recordable_steps(self._known)))
        return graph
