"""What was computed for a graph, for as long as somebody looks at the graph."""

from __future__ import annotations

from typing import TypeVar
from weakref import WeakKeyDictionary

from cgcl.methods.method import Known

__all__ = ["Remembered"]

T = TypeVar("T")


class Remembered(WeakKeyDictionary[Known, T]):
    """By graph, what would be computed again; it keeps no graph alive.

    A copy of its owner in another process starts with nothing.
    """

    def __reduce__(self) -> tuple[type[Remembered[T]], tuple[()]]:
        """Say how to make it anew: empty."""
        return type(self), ()
