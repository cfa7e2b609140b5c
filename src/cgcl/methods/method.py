"""What a method is to the rest of the package: something that learns, and then scores pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from cgcl.split import Split

__all__ = ["Known", "Learned", "Method", "PairScorer"]

Learned = Mapping[str, Tensor]
"""All that a method remembers of its training, by name; this is what is stored."""


class PairScorer(Protocol):
    """Scores any pairs of nodes."""

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        ...

    @property
    def cost_per_pair(self) -> float:
        """About how many operations one pair takes, of which two CPU cores do 4e10 a second."""
        ...

    def logits(self, pairs: Tensor) -> Tensor:
        """Return a finite number for each pair, float32 [p] on the CPU, higher for likelier."""
        ...

    def factors(self) -> None:
        """Return what a search for candidates could use; None if there is nothing."""
        ...


@dataclass(frozen=True, eq=False)
class Known:
    """What a method may look at when it scores."""

    num_nodes: int
    links: Tensor
    """Each link once, int64 [2, m]."""
    x: Tensor | None
    """Features, [n, d], on the device to compute on; None if the method needs none."""


@dataclass(frozen=True)
class Method:
    """One way to predict links."""

    needs_features: bool
    """Whether it looks at features; without any in the graph they are made for it."""
    learn: Callable[[Known, Split, Mapping[str, Any]], Learned]
    """Learn from the training links of a split under the predictor's settings."""
    scorer: Callable[[Known, Learned], PairScorer]
    """Make a scorer that looks at these links and uses what was learned."""
