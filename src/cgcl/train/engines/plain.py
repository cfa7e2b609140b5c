"""The readable way: a method's own losses, torch's autograd, Adam."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from cgcl.methods.method import Epoch, Known, Learner
from cgcl.methods.settings import TrainedSettings
from cgcl.seeds import seeded
from cgcl.train.engines.adam import Adam
from cgcl.train.engines.engine import Moments


class PlainEngine:
    """Runs any method, on any device."""

    name = "plain"
    epochs_at_once = 1

    def __init__(
        self, learner: Learner, known: Known, settings: TrainedSettings, seed: int
    ) -> None:
        """Create the optimizer.

        Args:
            learner: The method with its weights, which are changed in place.
            known: The links to learn from.
            settings: Learning rate, penalty and the longest gradient.
            seed: The seed of the whole run.
        """
        self._learner = learner
        self._known = known
        self._clip = settings.clip
        self._seed = seed
        self.optimizer = Adam(learner.parameters(), settings.lr, settings.weight_decay)

    def run(self, first: int, count: int) -> list[list[float]]:
        """Run some epochs and return the losses of the steps of each."""
        return [self._run_epoch(Epoch(first + index, self._seed)) for index in range(count)]

    def moments(self) -> Moments:
        """Return Adam's memory."""
        return self.optimizer.moments()

    def restore(self, moments: Moments) -> None:
        """Take over what `moments` gave."""
        self.optimizer.restore(moments)

    def _run_epoch(self, epoch: Epoch) -> list[float]:
        with seeded(epoch.seed, "epoch", epoch.number, self._known.device):
            self._learner.train()
            losses = list(self._steps(self._learner.steps(self._known, epoch)))
        return torch.stack(losses).tolist() if losses else []

    def _steps(self, losses: Iterator[Tensor]) -> Iterator[Tensor]:
        for loss in losses:
            self.optimizer.zero_grad()
            loss.backward()
            if self._clip:
                torch.nn.utils.clip_grad_norm_(self._learner.parameters(), self._clip)
            self.optimizer.step()
            yield loss.detach()
