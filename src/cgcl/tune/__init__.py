"""Settings chosen by trial: a search over what a method can be told, on validation links only."""

from __future__ import annotations

from cgcl.tune.search import Tuned, tune
from cgcl.tune.trial import Trial

__all__ = ["Trial", "Tuned", "tune"]
