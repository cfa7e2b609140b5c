"""The folder of a reproduction: every run as soon as it is there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from cgcl.errors import CGCLError, ResourceError, RunFolderError
from cgcl.files import GrowingFile, make_folder
from cgcl.reproduce.job import Job, Place
from cgcl.reproduce.record import Record
from cgcl.train.run_folder import RunFolder

__all__ = ["RUNS", "Records", "found_in", "read_records", "records_of"]

RUNS = "runs.jsonl"


def read_records(path: Path) -> list[Record]:
    """Return the sound records of a file of runs, in the order of writing."""
    return _sound(path.read_bytes().splitlines() if path.exists() else [])[0]


def found_in(records: Iterable[Record]) -> dict[str, Record]:
    """Return the first record with a result for each key.

    The first one counts, so that a run which is made again by mistake changes no table. Where
    nothing else is there, a run of which more was measured stands for the same run without.
    """
    found: dict[str, Record] = {}
    for record in records:
        if not record.failure:
            found.setdefault(record.key, record)
    for record in [*found.values()]:
        found.setdefault(record.plain_key, record)
    return found


def records_of(places: Mapping[Place, Sequence[Job]], found: Mapping[str, Record]) -> list[Record]:
    """Return the finished runs of an experiment, each once, in its own order.

    Args:
        places: Its runs by their place.
        found: What came out, by key.
    """
    keys = dict.fromkeys(job.key for jobs in places.values() for job in jobs)
    # A run that was measured may also stand for the same one without.
    return [*{found[key].key: found[key] for key in keys if key in found}.values()]


class Records:
    """A folder of runs that this process owns until `close`."""

    def __init__(self, path: Path) -> None:
        """Create or open the folder, and read what is in it.

        Raises:
            RunFolderError: Another process is at work in it.
            ResourceError: It cannot be written.
        """
        self.path = path
        make_folder(path)
        self._lock = RunFolder(path)
        try:
            self._file = GrowingFile(path / RUNS)
        except OSError as error:
            self._lock.close()
            raise self._error(error) from error
        records, self.damaged_lines = _sound(self._file.lines)
        self.found = found_in(records)
        """The runs with a result, by key."""

    def append(self, record: Record) -> None:
        """Write a run down; from then on nothing but the disk's end can lose it.

        Raises:
            ResourceError: The disk is full.
        """
        try:
            self._file.append(record.to_line())
        except OSError as error:
            raise self._error(error) from error
        if not record.failure:
            self.found.setdefault(record.key, record)
            self.found.setdefault(record.plain_key, record)

    def require_graph(self, name: str, fingerprint: str) -> None:
        """Refuse to add to runs on another graph of the same name.

        Raises:
            RunFolderError: The folder has such runs.
        """
        others = {
            record.fingerprint
            for record in self.found.values()
            if record.graph == name and record.fingerprint != fingerprint
        }
        if others:
            raise RunFolderError(
                f"{self.path} holds runs on another {name} ({min(others)[:12]}); this one is "
                f"{fingerprint[:12]}.\nChoose another --out."
            )

    def close(self) -> None:
        """Let other processes have the folder."""
        self._file.close()
        self._lock.close()

    def __enter__(self) -> Records:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _error(self, error: OSError) -> CGCLError:
        return ResourceError(
            f"Cannot write {self.path / RUNS}: {error.strerror}. What was finished before is "
            f"intact.\nFree some space or choose another --out, then start the same command again."
        )


def _sound(lines: Iterable[bytes]) -> tuple[list[Record], int]:
    """Return the records, and how many lines are none."""
    records: list[Record] = []
    damaged = 0
    for line in lines:
        try:
            records.append(Record.from_line(line))
        except ValueError:
            damaged += 1
    return records, damaged
