"""`metrics.jsonl`: one line per epoch, written as training goes on."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from cgcl.errors import ResourceError, RunFolderError
from cgcl.files import write_atomically

__all__ = ["HISTORY", "HistoryFile", "read_history", "write_history"]

HISTORY = "metrics.jsonl"


def read_history(folder: Path) -> list[dict[str, Any]]:
    """Return the complete lines of a run's history; a line cut short by a crash is left out.

    Raises:
        RunFolderError: A line in the middle is not JSON.
    """
    path = folder / HISTORY
    if not path.exists():
        return []
    records: list[dict[str, Any]] = []
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    for number, line in enumerate(lines, start=1):
        if not line:
            continue
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError as error:
            if number == len(lines):
                break
            raise RunFolderError(
                f"{path}, line {number}: not a JSON record. The file was changed by hand or "
                f"damaged; the run's other files are not affected."
            ) from error
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
        """
        self._path = folder / HISTORY
        kept = [r for r in read_history(folder) if r["epoch"] <= keep_epochs] if keep_epochs else []
        write_history(folder, kept)
        self._file = self._path.open("ab")

    def append(self, record: dict[str, Any]) -> None:
        """Write one record; it survives the death of the process at once.

        Raises:
            ResourceError: The disk is full.
        """
        try:
            self._file.write(_line(record))
            self._file.flush()
        except OSError as error:
            raise ResourceError(
                f"Cannot write {self._path}: {error.strerror}. The last checkpoint is intact: "
                f"free some space, then continue with cgcl train --resume {self._path.parent}"
            ) from error

    def sync(self) -> None:
        """Make all records survive a power loss too."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _line(record: dict[str, Any]) -> bytes:
    return json.dumps(record).encode() + b"\n"
