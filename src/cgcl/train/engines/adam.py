"""Adam as torch has it, without what `torch.optim` imports.

The first optimizer of `torch.optim` loads torch's compiler, which takes a second or more. This
one calls the same fused kernel: one pass over the weights, and the same bits.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from cgcl.train.engines.engine import Moments


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
        weights: list[Tensor] = []
        gradients: list[Tensor] = []
        memory: list[dict[str, Tensor]] = []
        for index, weight in enumerate(self._weights):
            if weight.grad is not None:
                weights.append(weight)
                gradients.append(weight.grad)
                memory.append(self._memory_of(index))
        if not weights:
            return
        steps = [own["step"] for own in memory]
        torch._foreach_add_(steps, 1)
        torch._fused_adam_(
            weights,
            gradients,
            [own["exp_avg"] for own in memory],
            [own["exp_avg_sq"] for own in memory],
            [],
            steps,
            lr=self._lr,
            beta1=0.9,
            beta2=0.999,
            weight_decay=self._weight_decay,
            eps=1e-8,
            amsgrad=False,
            maximize=False,
        )

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
