"""The readable way: a method's own losses, torch's autograd, Adam; and what any engine is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from cgcl.methods.method import Epoch, Learner, TrainingGraph
from cgcl.methods.settings import TrainedSettings
from cgcl.seeds import seeded
from cgcl.train.ranks import mean_over_ranks, present_ranks, share_gradients

Moments = dict[int, dict[str, Tensor]]
"""Adam's memory by the number of the weight: `step`, `exp_avg` and `exp_avg_sq`."""


class Optimizer(Protocol):
    """What steps the weights, and remembers how."""

    def moments(self) -> Moments:
        """Return Adam's memory, to be saved; nothing before the first step."""
        ...

    def restore(self, moments: Moments) -> None:
        """Take over what `moments` gave, from any device."""
        ...


class Engine(Protocol):
    """Changes a learner's weights, epoch by epoch.

    Every engine computes what the readable mathematics of `cgcl.model` says, on the same random
    views and counter-examples; they differ in speed, and in the last bits.
    """

    name: str
    """What a run folder calls it."""
    epochs_at_once: int
    """How many epochs may be run before anyone asks for their losses."""

    @property
    def optimizer(self) -> Optimizer:
        """What steps the weights."""
        ...

    def run(self, first: int, count: int) -> list[list[float]]:
        """Run some epochs and return the losses of the steps of each.

        Args:
            first: The number of the first epoch, 1 for the very first.
            count: How many to run, at most `epochs_at_once`.

        Raises:
            SplitError: There are no counter-examples to draw.
        """
        ...


class Adam:
    """Steps weights along their gradients."""

    def __init__(
        self, weights: Iterable[nn.Parameter], lr: float, weight_decay: float = 0.0
    ) -> None:
        """Remember what to step.

        Args:
            weights: What to change; those without a gradient are left alone.
            lr: The learning rate.
            weight_decay: Strength of the L2 penalty.
        """
        self._weights = list(weights)
        self._lr = lr
        self._weight_decay = weight_decay
        self._moments: Moments = {}

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for weight in self._weights:
            weight.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Change the weights once."""
        stepped = [index for index, own in enumerate(self._weights) if own.grad is not None]
        if not stepped:
            return
        weights: list[Tensor] = [self._weights[index] for index in stepped]
        memory = [self._memory_of(index) for index in stepped]
        names = ("step", "exp_avg", "exp_avg_sq")
        steps, means, squares = ([own[name] for own in memory] for name in names)
        gradients = [own.grad for own in weights if own.grad is not None]
        told: dict[str, Any] = {"lr": self._lr, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8}
        told |= {"weight_decay": self._weight_decay, "amsgrad": False, "maximize": False}
        fused = getattr(torch, "_fused_adam_", None)
        if fused is None:
            from torch.optim.adam import adam

            adam(weights, gradients, means, squares, [], steps, foreach=False, **told)
            return
        torch._foreach_add_(steps, 1)
        fused(weights, gradients, means, squares, [], steps, **told)

    def moments(self) -> Moments:
        """Return the memory of every weight that has been stepped."""
        return self._moments

    def restore(self, moments: Moments) -> None:
        """Take over what `moments` gave, from any device."""
        self._moments = {
            index: {name: value.to(self._weights[index].device) for name, value in own.items()}
            for index, own in moments.items()
        }

    def _memory_of(self, index: int) -> dict[str, Tensor]:
        if index not in self._moments:
            weight = self._weights[index]
            self._moments[index] = {
                "step": torch.zeros((), device=weight.device),
                "exp_avg": torch.zeros_like(weight),
                "exp_avg_sq": torch.zeros_like(weight),
            }
        return self._moments[index]


class PlainEngine:
    """Runs any method, on any device."""

    name = "plain"
    epochs_at_once = 1

    def __init__(
        self, learner: Learner, known: TrainingGraph, settings: TrainedSettings, seed: int
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
        here = present_ranks()
        return [self._run_epoch(Epoch(first + index, self._seed, here)) for index in range(count)]

    def _run_epoch(self, epoch: Epoch) -> list[float]:
        with seeded(epoch.seed, "epoch", epoch.number, self._known.device):
            losses = list(self._steps(epoch))
        return mean_over_ranks(torch.stack(losses)).tolist() if losses else []

    def _steps(self, epoch: Epoch) -> Iterator[Tensor]:
        """Take the steps of an epoch and yield the loss of each."""
        self._learner.train()
        for loss in self._learner.steps(self._known, epoch):
            self.optimizer.zero_grad()
            loss.backward()
            self._step()
            yield loss.detach()

    def _step(self) -> None:
        share_gradients(self._learner.parameters())
        if self._clip:
            torch.nn.utils.clip_grad_norm_(self._learner.parameters(), self._clip)
        self.optimizer.step()
