"""What the contract asks of a predictor, and how a promise that is not kept is said."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from cgcl.graph import Graph


class ContractError(AssertionError):
    """A predictor does not keep a promise."""


def expect(kept: bool | np.bool_, expected: str, found: object) -> None:
    """Raise unless a promise is kept.

    Args:
        kept: Whether it is.
        expected: What was promised, after "expected".
        found: What there was instead.

    Raises:
        ContractError: It is not kept.
    """
    if not kept:
        raise ContractError(f"expected {expected}; found {found}")


class Suggestion(Protocol):
    """One pair of a list of suggested links."""

    @property
    def source(self) -> str:
        """The name of the one end."""

    @property
    def target(self) -> str:
        """The name of the other end."""

    @property
    def score(self) -> float:
        """Higher for a likelier link."""


class Predictor(Protocol):
    """Anything that is fitted on a graph and answers with links.

    After `fit` it has `graph_`, the graph with its names, and `test_`, metrics on links that it
    held out itself ("auc" among them), or None if it was told to hold out none.
    """

    graph_: Graph
    test_: dict[str, float] | None

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings by name."""

    def set_params(self, **params: Any) -> Self:  # noqa: ANN401
        """Change settings by name."""

    def fit(self, graph: Graph) -> Self:
        """Learn from a graph."""

    def score(self, pairs: Sequence[tuple[str, str]]) -> npt.NDArray[np.float32]:
        """Return a score for each pair of names."""

    def top(self, count: int = 10) -> Sequence[Suggestion]:
        """Return the best new links."""

    def links_of(self, name: str, count: int = 10) -> Sequence[Suggestion]:
        """Return the best new links of one node, which comes first in each."""

    def save(self, folder: str | Path) -> None:
        """Write all that was learned to a folder."""

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Return what `save` wrote."""


Make: TypeAlias = Callable[..., Predictor]
"""Returns an unfitted predictor with its own settings; takes `val`, `test` and `seed` by name."""
