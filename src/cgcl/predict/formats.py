"""Links written block by block, so that a long answer never has to fit into memory."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from cgcl.predict.links import Links

if TYPE_CHECKING:
    import pyarrow.parquet as pq

__all__ = ["WRITERS", "LinkWriter"]

# What a spreadsheet takes for the beginning of a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class LinkWriter(ABC):
    """Writes links to a binary stream, in as many blocks as come, all with the same columns."""

    def __init__(self, stream: BinaryIO, *, excel: bool = False) -> None:
        """Prepare to write.

        Args:
            stream: Where the bytes go; it is not closed.
            excel: Put an apostrophe before names that a spreadsheet would take for a formula. Only
                CSV heeds it: the other formats keep text apart from formulas.
        """
        self._stream = stream
        self._excel = excel
        self._is_first = True

    def __enter__(self) -> LinkWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            self._finish()

    def write(self, links: Links) -> None:
        """Write one block; the first one decides the columns, even if it is empty."""
        self._write(links)
        self._is_first = False

    @abstractmethod
    def _write(self, links: Links) -> None: ...

    @abstractmethod
    def _finish(self) -> None:
        """Write what comes after the last block."""


class _Csv(LinkWriter):
    def _write(self, links: Links) -> None:
        text = links.to_csv() if not self._excel else _guarded(links)
        if not self._is_first:
            text = text.partition("\n")[2]
        self._stream.write(text.encode(errors="backslashreplace"))

    def _finish(self) -> None:
        if self._is_first:  # no block at all still gives a file with the columns
            self.write(Links((), (), np.empty(0, dtype=np.float32)))


class _Json(LinkWriter):
    def _write(self, links: Links) -> None:
        columns = links.to_dict()
        for row in zip(*columns.values(), strict=True):
            record = dict(zip(columns, row, strict=True))
            self._stream.write(b"[\n  " if self._is_first else b",\n  ")
            self._stream.write(json.dumps(record, ensure_ascii=False).encode())
            self._is_first = False

    def write(self, links: Links) -> None:
        """Write one block."""
        self._write(links)  # the first link, not the first block, opens the list

    def _finish(self) -> None:
        self._stream.write(b"[]\n" if self._is_first else b"\n]\n")


class _Parquet(LinkWriter):
    def __init__(self, stream: BinaryIO, *, excel: bool = False) -> None:
        super().__init__(stream, excel=excel)
        self._writer: pq.ParquetWriter | None = None

    def _write(self, links: Links) -> None:
        import pyarrow.parquet as pq

        table = links.to_arrow()
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._stream, table.schema, compression="zstd")
        self._writer.write_table(table)

    def _finish(self) -> None:
        if self._writer is None:  # no block at all still gives a file with the columns
            self._write(Links((), (), np.empty(0, dtype=np.float32)))
        if self._writer is not None:
            self._writer.close()


WRITERS: dict[str, type[LinkWriter]] = {"csv": _Csv, "json": _Json, "parquet": _Parquet}
"""Every format by its name, which is also the suffix of its files."""


def _guarded(links: Links) -> str:
    """Return CSV in which no name begins like a formula."""
    guarded = replace(
        links,
        sources=tuple(map(_guard, links.sources)),
        targets=tuple(map(_guard, links.targets)),
        evidence={name: _guard_column(column) for name, column in links.evidence.items()},
    )
    return guarded.to_csv()


def _guard_column(column: Sequence[Any]) -> list[Any]:
    return [_guard(cell) if isinstance(cell, str) else cell for cell in column]


def _guard(text: str) -> str:
    """Return text that no spreadsheet takes for a formula.

    Example:
        >>> _guard("=cmd()"), _guard("Anna")
        ("'=cmd()", 'Anna')
    """
    return f"'{text}" if text.startswith(_FORMULA) else text
