"""The folder of one run: who owns it, what it says about itself."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import time
from pathlib import Path
from types import NoneType
from typing import IO, Any

from cgcl.errors import ResourceError, RunFolderError
from cgcl.files import remove_leftovers, write_atomically

__all__ = ["GRAPH", "LOCK", "RUN", "SPLIT", "RunFolder", "read_run"]

RUN = "run.json"
GRAPH = "graph.safetensors"
SPLIT = "split.safetensors"
LOCK = "lock"
# What every run.json holds, from the first moment of a run.
_KEYS: dict[str, tuple[type, ...]] = {
    "status": (str,),
    "command": (str,),
    "graph": (dict,),
    "split": (dict,),
    "config": (dict,),
    "parameters": (int,),
    "versions": (dict,),
    "device": (str,),
    "threads": (int,),
    "machines": (list,),
    "started": (str,),
    "seconds": (float, int),
    "epochs": (int,),
    "best_epoch": (int, NoneType),
    "val": (dict, NoneType),
    "test": (dict, NoneType),
    "stopped": (dict, NoneType),
}


def read_run(path: Path) -> dict[str, Any]:
    """Return what `run.json` in a run folder says.

    Raises:
        RunFolderError: There is no such folder, or it does not hold a run.
    """
    file = path / RUN
    if not path.is_dir():
        raise RunFolderError(
            f"There is no run folder {path}. Train one with cgcl train, or check the name."
        )
    if not file.is_file():
        raise RunFolderError(
            f"{path} holds no {RUN}, so it is not a run, or one that ended before it began. "
            f"Train again with cgcl train."
        )
    run: dict[str, Any] = {}
    try:
        run = json.loads(file.read_text(encoding="utf-8"))
        version = run["format"]
        wrong = [key for key, kinds in _KEYS.items() if not isinstance(run.get(key), kinds)]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        version, wrong = 1, [str(error)]
    if version != 1:
        raise RunFolderError(f"{file} has format {version}; this version of cgcl reads format 1.")
    if wrong:
        raise RunFolderError(
            f"{file} is damaged ({', '.join(wrong)}). The weights in the folder are not affected."
        )
    return run


class RunFolder:
    """A run folder that this process owns until `close`."""

    def __init__(self, path: Path) -> None:
        """Lock an existing folder and clear away what an interrupted write left.

        Raises:
            RunFolderError: Another process owns the folder.
        """
        self.path = path
        self._lock = _lock(path)
        remove_leftovers(path)

    @classmethod
    def create(cls, out: Path, title: str, needed_bytes: int) -> RunFolder:
        """Make the next free folder `out/title-N`.

        Raises:
            ResourceError: `out` cannot be written, or has too little space for the run's files.
        """
        if out.exists() and not out.is_dir():
            raise ResourceError(f"{out} is a file, not a folder. Choose another `out`.")
        try:
            out.mkdir(parents=True, exist_ok=True)
            free = shutil.disk_usage(out).free
            if free < needed_bytes:
                raise ResourceError(
                    f"{out} has {free / 1e6:,.0f} MB free; the run needs about "
                    f"{needed_bytes / 1e6:,.0f} MB. Free some space or choose another `out`."
                )
            taken = [
                int(match[1])
                for entry in out.iterdir()
                if (match := re.fullmatch(re.escape(title) + r"-(\d+)", entry.name))
            ]
            number = max(taken, default=0) + 1
            while True:
                path = out / f"{title}-{number}"
                try:
                    path.mkdir()  # atomic: two processes never get the same number
                    return cls(path)
                except FileExistsError:
                    number += 1
        except OSError as error:
            raise ResourceError(
                f"Cannot create a run folder in {out}: {error.strerror}. "
                f"Choose another one with `out`."
            ) from error

    def write_run(self, run: dict[str, Any]) -> None:
        """Replace `run.json`.

        Raises:
            ResourceError: The disk is full.
        """
        text = json.dumps(run, indent=2) + "\n"
        write_atomically(self.path / RUN, text.encode())

    def close(self) -> None:
        """Let other processes have the folder."""
        self._lock.close()

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _lock(path: Path) -> IO[str]:
    """Take the folder's lock; the kernel releases it when the process ends, however it ends."""
    try:
        file = (path / LOCK).open("a+", encoding="utf-8")
    except OSError as error:
        raise RunFolderError(
            f"Cannot write to {path}: {error.strerror}. Make the folder writable to go on with it."
        ) from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        owner = file.read().strip() or "another process"
        file.close()
        raise RunFolderError(f"{path} is in use by {owner}. Use another `out`, or wait.") from None
    file.seek(0)
    file.truncate()
    file.write(f"process {os.getpid()} (started {time.strftime('%H:%M')})")
    file.flush()
    return file
