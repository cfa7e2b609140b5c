"""A method without weights: a formula over the known links."""

from __future__ import annotations

from collections.abc import Callable

from cgcl.methods.method import Known, Learner, PairScorer

__all__ = ["Heuristic"]


class Heuristic(Learner):
    """Scores pairs by a formula; there is nothing to train."""

    def __init__(self, formula: Callable[[Known], PairScorer]) -> None:
        """Take the formula: it returns what scores pairs by the links it is given."""
        super().__init__()
        self._formula = formula

    def scorer(self, known: Known) -> PairScorer:
        """Return what scores pairs by these links."""
        return self._formula(known)
