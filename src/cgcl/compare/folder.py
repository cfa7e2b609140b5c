"""The folder of a comparison: what is compared, and every result as soon as it is there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cgcl.compare.result import Result
from cgcl.errors import ResourceError, RunFolderError
from cgcl.files import TEMPORARY_SUFFIX, GrowingFile, make_folder, write_atomically
from cgcl.train.run_folder import LOCK, RunFolder

__all__ = ["PLAN", "RESULTS", "ComparisonFolder"]

PLAN = "plan.json"
RESULTS = "runs.jsonl"
_FORMAT = 1


class ComparisonFolder:
    """A folder of results that this process owns until `close`."""

    def __init__(self, path: Path, identity: dict[str, Any], about: dict[str, Any]) -> None:
        """Create or open the folder, and read what is in it.

        Args:
            path: The folder.
            identity: What every result in it has in common: the graph under `graph` with its
                `title` and `fingerprint`, and the protocol's settings.
            about: What else is good to know; written down anew.

        Raises:
            RunFolderError: It belongs to another comparison, or another process is at work in it.
            ResourceError: It cannot be written.
        """
        self.path = path
        _require_comparison_or_empty(path)
        make_folder(path)
        self._lock = RunFolder(path)
        try:
            _require_same(path, identity)
            text = json.dumps({"format": _FORMAT, **identity, **about}, indent=2) + "\n"
            write_atomically(path / PLAN, text.encode())
            self.damaged_lines = 0
            """How many lines hold no result; their cells count as not done."""
            self._file = GrowingFile(path / RESULTS)
            self.results = self._read()
            """Every result, in the order of writing."""
        except OSError as error:
            self._lock.close()
            raise self._error(error) from error
        except BaseException:
            self._lock.close()
            raise

    def append(self, result: Result) -> None:
        """Write a result down; from then on nothing but the disk's end can lose it.

        Raises:
            ResourceError: The disk is full.
        """
        try:
            self._file.append(result.to_line())
        except OSError as error:
            raise self._error(error) from error
        self.results.append(result)

    def close(self) -> None:
        """Let other processes have the folder."""
        self._file.close()
        self._lock.close()

    def __enter__(self) -> ComparisonFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self) -> list[Result]:
        """Return the sound results, and count the lines that are none."""
        results = []
        for line in self._file.lines:
            try:
                results.append(Result.from_line(line))
            except ValueError:
                self.damaged_lines += 1
        return results

    def _error(self, error: OSError) -> ResourceError:
        return ResourceError(
            f"Cannot write {self.path / RESULTS}: {error.strerror}. What was finished before is "
            f"intact.\nFree some space or choose another --out, then start the same command again."
        )


def _require_comparison_or_empty(path: Path) -> None:
    """Refuse a folder with other things in it, before a file is written there.

    Raises:
        RunFolderError: There are other things in it.
    """
    if not path.is_dir() or (path / PLAN).exists():
        return
    # A comparison that was killed at its very beginning leaves no more than these.
    if any(p.name != LOCK and p.suffix != TEMPORARY_SUFFIX for p in path.iterdir()):
        raise RunFolderError(
            f"{path} holds other things and no {PLAN}, so it is not the folder of a comparison.\n"
            f"Choose another --out; it is created if it is not there."
        )


def _require_same(path: Path, identity: dict[str, Any]) -> None:
    """Refuse a folder that holds something else.

    Raises:
        RunFolderError: It does.
    """
    file = path / PLAN
    if not file.exists():
        return
    try:
        found = json.loads(file.read_bytes())
        there = {key: found[key] for key in ("format", *identity)}
        title, fingerprint = there["graph"]["title"], there["graph"]["fingerprint"]
    except (ValueError, KeyError, TypeError) as error:
        raise RunFolderError(
            f"{file} is damaged, so it cannot be told what was compared here. Choose another --out."
        ) from error
    graph = identity["graph"]
    if there["format"] != _FORMAT:
        raise RunFolderError(
            f"{file} has format {there['format']}; this version of cgcl reads format {_FORMAT}."
        )
    if fingerprint != graph["fingerprint"]:
        raise RunFolderError(
            f"{path} holds a comparison on another graph, '{title}' "
            f"({str(fingerprint)[:12]}); this is '{graph['title']}' "
            f"({graph['fingerprint'][:12]}).\nChoose another --out."
        )
    for key in identity:
        if key != "graph" and there[key] != identity[key]:
            raise RunFolderError(
                f"{path} holds a comparison with {key} {there[key]}; you asked for {key} "
                f"{identity[key]}.\nAsk for the same, or choose another --out."
            )
