"""Names of nodes that lie in a file: looked up where they are, never all in memory at once."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, overload

if TYPE_CHECKING:
    import pyarrow as pa


class MappedNames(Sequence[str]):
    """Sorted, distinct names in a column of Arrow, which may be mapped from a file.

    Example:
        >>> import pyarrow as pa
        >>> names = MappedNames(pa.chunked_array([["Anna", "Bob"], ["Eve"]]))
        >>> names[-1], names[1:], names.index("Bob"), "Adam" in names
        ('Eve', ('Bob', 'Eve'), 1, False)
    """

    def __init__(self, column: pa.ChunkedArray) -> None:
        """Look names up in a column of texts in the order of code points."""
        self._column = column

    def __len__(self) -> int:
        return len(self._column)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        if isinstance(index, slice):
            return tuple(self._column[index].to_pylist())
        return self._column[index].as_py()

    def __iter__(self) -> Iterator[str]:
        for chunk in self._column.chunks:
            yield from chunk.to_pylist()

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._place(name) is not None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or len(self) != len(other):
            return False
        return all(itertools.starmap(str.__eq__, zip(self, other, strict=True)))

    def __hash__(self) -> int:
        return hash((len(self), *self[:1]))

    def index(self, value: str, start: int = 0, stop: int | None = None) -> int:
        """Return the number of the node that is called so.

        Raises:
            ValueError: None is.
        """
        place = self._place(value)
        if place is None or place not in range(*slice(start, stop).indices(len(self))):
            raise ValueError(f"{value!r} is not in the names")
        return place

    def _place(self, name: str) -> int | None:
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self[middle] < name:
                low = middle + 1
            else:
                high = middle
        return low if low < len(self) and self[low] == name else None


class NumberOf(Mapping[str, int]):
    """The number of every node by its name, found among mapped names."""

    def __init__(self, names: MappedNames) -> None:
        """Look among these names."""
        self._names = names

    def __getitem__(self, name: str) -> int:
        try:
            return self._names.index(name)
        except ValueError:
            raise KeyError(name) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
