"""The folder of a search: what is searched, and every trial as soon as it is finished."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cgcl.errors import ResourceError, RunFolderError
from cgcl.files import TEMPORARY_SUFFIX, GrowingFile, make_folder, write_atomically
from cgcl.train.run_folder import LOCK, RunFolder
from cgcl.tune.trial import Trial

__all__ = ["BEST", "STUDY", "TABLE", "TRIALS", "StudyFolder"]

STUDY = "study.json"
TRIALS = "trials.jsonl"
TABLE = "trials.csv"
BEST = "best.toml"
_FORMAT = 1
# What `RunFolder` calls its lock.


class StudyFolder:
    """A search's folder that this process owns until `close`.

    Trials are lines of a file that only grows. A line is on the disk before the next trial
    begins; one that was cut short is dropped, and its trial is run again. Optuna's own journal
    is not used: a line that was cut short makes it unreadable for good, and a lock that a killed
    process leaves behind holds up the next one.
    """

    def __init__(self, path: Path, identity: dict[str, Any], about: dict[str, Any]) -> None:
        """Create or open the folder, and read the trials in it.

        Args:
            path: The folder.
            identity: What decides the trials, by what it is called in messages.
            about: What else is good to know, the number of `threads` among it; kept as it was
                first written.

        Raises:
            RunFolderError: It belongs to another search or to something else, it is damaged, or
                another process is at work in it.
            ResourceError: It cannot be written.
        """
        self.path = path
        _require_study_or_empty(path)
        make_folder(path)
        self._lock = RunFolder(path)
        try:
            self.threads = self._open(identity, about)
            """The number of threads that the search began with."""
            self._file = GrowingFile(path / TRIALS)
            self.trials, self.damaged_lines = self._read()
        except OSError as error:
            self._lock.close()
            raise self._error(error) from error
        except BaseException:
            self._lock.close()
            raise

    def append(self, trial: Trial) -> None:
        """Write a trial down; from then on it is not run again.

        Raises:
            ResourceError: The disk is full.
        """
        try:
            self._file.append(trial.to_line())
        except OSError as error:
            raise self._error(error) from error

    def close(self) -> None:
        """Let other processes have the folder."""
        self._file.close()
        self._lock.close()

    def __enter__(self) -> StudyFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self, identity: dict[str, Any], about: dict[str, Any]) -> int:
        """Write down what the search is, or check that it is the same as before."""
        file = self.path / STUDY
        # As it comes back from a file: a tuple is a list there.
        identity = json.loads(json.dumps(identity))
        if not file.exists():
            study = {"format": _FORMAT, "identity": identity, "about": about}
            write_atomically(file, json.dumps(study, indent=2).encode() + b"\n")
            return about["threads"]
        try:
            found = json.loads(file.read_bytes())
            if found["format"] != _FORMAT:
                raise RunFolderError(
                    f"{file} has format {found['format']}; this version of cgcl reads format "
                    f"{_FORMAT}. Choose another --out."
                )
            threads = int(found["about"]["threads"])
            there = {name: found["identity"][name] for name in identity}
            words = _in_words(there)
            differences = _differences(there, identity)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise RunFolderError(
                f"{file} is damaged, so it cannot be told what was searched here. "
                f"Choose another --out."
            ) from error
        if differences:
            raise RunFolderError(
                f"{self.path} holds a search with {' and '.join(differences)}: {words};\n"
                f"you asked for {_in_words(identity)}.\n"
                f"Nothing was changed. Ask for the same again, or choose another --out."
            )
        return threads

    def _read(self) -> tuple[dict[int, Trial], int]:
        """Return the sound trials by number, and how many lines are damaged."""
        trials: dict[int, Trial] = {}
        damaged = 0
        for line in self._file.lines:
            try:
                trial = Trial.from_line(line)
            except ValueError:
                damaged += 1
            else:
                trials[trial.number] = trial
        return trials, damaged

    def _error(self, error: OSError) -> ResourceError:
        return ResourceError(
            f"Cannot write {self.path / TRIALS}: {error.strerror}. The trials before it are kept.\n"
            f"Free some space, then start the same command again."
        )


def _require_study_or_empty(path: Path) -> None:
    """Refuse a folder with other things in it, before a file is written there.

    Raises:
        RunFolderError: There are other things in it.
    """
    if not path.is_dir() or (path / STUDY).exists():
        return
    # A search that was killed at its very beginning leaves no more than these.
    others = [p for p in path.iterdir() if p.name != LOCK and p.suffix != TEMPORARY_SUFFIX]
    if others:
        raise RunFolderError(
            f"{path} holds other things and no {STUDY}, so it is not the folder of a search.\n"
            f"Choose another --out; it is created if it is not there."
        )


def _differences(there: dict[str, Any], asked: dict[str, Any]) -> list[str]:
    """Name what is not the same."""
    found = [
        f"another {name}" for name in asked if name != "settings" and there[name] != asked[name]
    ]
    if there["method"] == asked["method"] and there["settings"] != asked["settings"]:
        pairs = [(there["settings"][kind], asked["settings"][kind]) for kind in asked["settings"]]
        names = {
            name
            for before, now in pairs
            for name in before.keys() | now.keys()
            if before.get(name) != now.get(name)
        }
        found.append(f"other settings ({', '.join(sorted(names))})")
    return found


def _in_words(identity: dict[str, Any]) -> str:
    graph, split = identity["graph"], identity["split"]
    return (
        f"{identity['method']} on '{graph['title']}' ({graph['fingerprint'][:8]}), "
        f"split {split['fingerprint'][:8]}, seed {identity['seed']}"
    )
