"""`metrics.jsonl`: one line per epoch, written as training goes on."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from cgcl.errors import ResourceError
from cgcl.files import write_atomically

__all__ = ["HISTORY", "HistoryFile", "read_history", "write_history"]

HISTORY = "metrics.jsonl"


def read_history(folder: Path) -> list[dict[str, Any]]:
    """Return the sound records of a run; lines that are damaged or cut short are left out."""
    path = folder / HISTORY
    if not path.is_file():
        return []
    records: list[dict[str, Any]] = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        with contextlib.suppress(ValueError, TypeError, KeyError):
            record = json.loads(line)
            if isinstance(record["epoch"], int) and isinstance(record["losses"], list):
                records.append(record)
    return records


def write_history(folder: Path, records: list[dict[str, Any]]) -> None:
    """Write a whole history at once.

    Raises:
        ResourceError: The disk is full or the folder cannot be written.
    """
    write_atomically(folder / HISTORY, b"".join(_line(record) for record in records))


class HistoryFile:
    """The history of a run, open for appending."""

    def __init__(self, folder: Path, keep_epochs: int) -> None:
        """Open the file and drop what lies beyond the epoch that training goes on from.

        Args:
            folder: The run folder.
            keep_epochs: Last epoch whose record is kept; 0 starts afresh.

        Raises:
            ResourceError: The disk is full or the folder cannot be written.
        """
        self._folder = folder
        kept = [record for record in read_history(folder) if record["epoch"] <= keep_epochs]
        self.lost_epochs = keep_epochs - len(kept)
        """How many earlier epochs have no record any more, because the file was damaged."""
        write_history(folder, kept)
        try:
            # Without a buffer, a record that did not fit is not tried again when the file closes.
            self._file = (folder / HISTORY).open("ab", buffering=0)
        except OSError as error:
            raise self._error(error) from error

    def append(self, record: dict[str, Any]) -> None:
        """Write one record; it survives the death of the process at once.

        Raises:
            ResourceError: The disk is full.
        """
        try:
            self._file.write(_line(record))
        except OSError as error:
            raise self._error(error) from error

    def sync(self) -> None:
        """Make all records survive a power loss too.

        Raises:
            ResourceError: The disk is full.
        """
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise self._error(error) from error

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _error(self, error: OSError) -> ResourceError:
        return ResourceError(
            f"Cannot write {self._folder / HISTORY}: {error.strerror}. The last checkpoint is "
            f"intact: free some space,\nthen continue with cgcl train --resume {self._folder}"
        )


def _line(record: dict[str, Any]) -> bytes:
    return json.dumps(record).encode() + b"\n"
