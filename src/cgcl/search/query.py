"""What is asked for: which pairs may be suggested, how many, how likely."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from cgcl.errors import ConfigError, GraphContentError

__all__ = ["Query"]


@dataclass(frozen=True, eq=False)
class Query:
    """A question to the graph: the best new links, of all nodes or of some.

    Known links, self-pairs and `excluded` pairs are never an answer, and no pair is an answer
    twice. In a graph with two sides only pairs across them are.

    Example:
        >>> best_of_one_node = Query(count=10, sources=torch.tensor([7]))
    """

    count: int | None = None
    """How many pairs at most; None for all of them, which are then held in memory."""
    sources: Tensor | None = None
    """Nodes, int64 [any]: one end of each pair is one of them, and is reported first."""
    targets: Tensor | None = None
    """Nodes, int64 [any]: the other end is one of them, and is reported second."""
    excluded: Tensor | None = None
    """Pairs that are not wanted although they are not linked, int64 [2, any], either way round."""
    min_logit: float | None = None
    """Nothing below this logit; None for no limit."""

    def __post_init__(self) -> None:
        """Check what can be checked without the graph.

        Raises:
            ConfigError: `count` is not positive or `min_logit` is not a number.
            GraphContentError: Nodes or pairs are of another type or shape.
        """
        if self.count is not None and (
            isinstance(self.count, bool) or not isinstance(self.count, int)
        ):
            raise ConfigError(f"You asked for {self.count!r} links; ask for a whole number.")
        if self.count is not None and self.count < 1:
            raise ConfigError(f"You asked for the best {self.count} links; ask for at least 1.")
        if self.min_logit is not None and math.isnan(self.min_logit):
            raise ConfigError("The lowest score to show is not a number. Give a number.")
        for what, nodes in (("Sources", self.sources), ("Targets", self.targets)):
            if nodes is not None and (nodes.dtype != torch.int64 or nodes.dim() != 1):
                raise GraphContentError(
                    f"{what} must be an int64 tensor of node numbers, found {nodes.dtype} "
                    f"{list(nodes.shape)}."
                )
        pairs = self.excluded
        if pairs is not None and (
            pairs.dtype != torch.int64 or pairs.dim() != 2 or pairs.shape[0] != 2
        ):
            raise GraphContentError(
                f"Excluded pairs must be an int64 tensor of shape [2, any], found {pairs.dtype} "
                f"{list(pairs.shape)}."
            )
