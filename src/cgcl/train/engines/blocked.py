"""The fast way on a CPU: each pair once, in blocks, with gradients by hand."""

from __future__ import annotations

import torch
from torch import Tensor

from cgcl.methods.cgcl import CrossViewLearner, draw
from cgcl.methods.method import Epoch, Known
from cgcl.methods.settings import CGCLSettings
from cgcl.model import View
from cgcl.train.engines.adam import Adam
from cgcl.train.engines.blocked_decoder import BlockedDecoder, scored_pairs
from cgcl.train.engines.blocked_encoder import BlockedEncoder
from cgcl.train.engines.engine import Moments


class BlockedEngine:
    """Trains CGCL on a CPU.

    The last bits differ from the readable path's, as sums have another order, and dropout tosses
    other coins. On the same machine with as many threads a run repeats itself to the last bit.
    """

    name = "blocked"
    epochs_at_once = 1

    def __init__(
        self, learner: CrossViewLearner, known: Known, settings: CGCLSettings, seed: int
    ) -> None:
        """Set aside room for the gradients and for blocks of pairs; one worker for each thread.

        Args:
            learner: The network, whose weights are changed in place.
            known: The links to learn from, on a CPU.
            settings: How views are drawn, learning rate, penalty and the longest gradient.
            seed: The seed of the whole run.
        """
        self._learner = learner
        self._known = known
        self._settings = settings
        self._seed = seed
        is_symmetric = settings.views != "directed"
        self.encoder = BlockedEncoder(learner.encode, known, is_symmetric=is_symmetric)
        self.decoder = BlockedDecoder(learner.decode, known.num_nodes, settings.hidden)
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

    @torch.no_grad()
    def fill_gradients(
        self, seen: View, hidden: View, unlinked: Tensor, generator: torch.Generator
    ) -> Tensor:
        """Write the gradients of one step's loss into the weights' `grad` and return the loss.

        Args:
            seen: The view to encode.
            hidden: The view to reconstruct; it holds at least one link.
            unlinked: Counter-examples, int64 [2, any].
            generator: Source of the dropout coins, those of the features first.
        """
        z = self.encoder.forth(seen.edge_index, generator)
        scored = scored_pairs(hidden, unlinked, self._settings.targets, z.dtype)
        loss = self.decoder.run(z, scored, generator)
        self.encoder.back(self.decoder.into_z)
        gradients = [*self.encoder.gradients, *self.decoder.gradients]
        for weight, gradient in zip(self._learner.parameters(), gradients, strict=True):
            weight.grad = gradient
        return loss

    def _run_epoch(self, epoch: Epoch) -> list[float]:
        drawn = draw(self._known, epoch, self._settings)
        generator = epoch.stream("dropout")
        losses: list[Tensor] = []
        for (seen, hidden), unlinked in zip(drawn.views.turns(), drawn.negatives, strict=True):
            if hidden.num_pairs == 0:  # a tiny graph may leave a view empty
                continue
            losses.append(self.fill_gradients(seen, hidden, unlinked, generator))
            if self._settings.clip:
                torch.nn.utils.clip_grad_norm_(self._learner.parameters(), self._settings.clip)
            self.optimizer.step()
        return torch.stack(losses).tolist() if losses else []
