"""The folder of a run: who owns it, what it says of itself, its epochs, checkpoints and model."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from filelock import FileLock, Timeout
from torch import Tensor

from cgcl.errors import ConfigError, ModelFileError, ResourceError, RunFolderError
from cgcl.files import append_whole, remove_leftovers, write_atomically
from cgcl.methods.method import Learner
from cgcl.stored import misfits, parse_json
from cgcl.tensors import read_tensors, tensors_sha256, write_tensors
from cgcl.train.config import RunConfig
from cgcl.train.trainer import build_learner
from cgcl.wording import shown

if TYPE_CHECKING:
    from cgcl.train.fit import Fitted

RUN = "run.json"
GRAPH = "graph.safetensors"
SPLIT = "split.safetensors"
LOCK = "lock"
HISTORY = "metrics.jsonl"
CHECKPOINT = "checkpoint.safetensors"
PREVIOUS_CHECKPOINT = "checkpoint.previous.safetensors"
MODEL = "model.safetensors"
_CHECKPOINT_KIND, _MODEL_KIND = "cgcl checkpoint 1", "cgcl model 2"
_MAX_FEATURES = 2**31
_FIGURES = (None, {str: float})
# What every run.json holds, from the first moment of a run; as `cgcl.stored.fits` takes it.
_RUN_SHAPE: dict[str, Any] = {
    **dict.fromkeys(("status", "command", "device", "started"), str),
    **dict.fromkeys(("parameters", "threads", "epochs"), int),
    **dict.fromkeys(("val", "test"), _FIGURES),
    "graph": {
        "title": str,
        **dict.fromkeys(("nodes", "links", "features", "feature_nonzeros"), int),
        "fingerprint": str,
        "notes": [str],
    },
    "split": {"train": int, "val": int, "test": int},
    "config": {str: object},
    "versions": {str: str},
    "stopped": (None, {"reason": str, "epoch": int, "message": str}),
    "best_epoch": (int, None),
    "test_sampled": (None, {"links": int, "se": {str: float}}),
    "model": (None, str),
    "machines": [{str: object}],
    "seconds": float,
}
_NUMBER = int | float  # infinite or none, too: a loss can be that
_MEASURED = (None, {str: _NUMBER})
_LATER: dict[str, Any] = {"test_sampled": None, "model": None}
_RECORD_SHAPE = {
    "epoch": int,
    "losses": [_NUMBER],
    "val": _MEASURED,
    "consistency": _MEASURED,
}
_CHECKPOINT_SHAPE = {
    "numbers": {
        **dict.fromkeys(("epoch", "best_epoch", "looks_at_chance"), int),
        "best_val": _FIGURES,
        "has_best": bool,
    },
    "identity": {str: object},
}
_MODEL_SHAPE = {
    "recipe": {str: object},
    "num_features": int,
    "about": {
        "graph": str,
        "split": str,
        "best_epoch": int,
        "val": _FIGURES,
        "test": _FIGURES,
        "calibration": object,
    },
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
        run = parse_json(file.read_bytes())
        # What tells of a sample, and of the model, came later.
        version, wrong = run["format"], misfits({**_LATER, **run}, _RUN_SHAPE)
        measured = [name for name in ("val", "test") if run.get(name) is not None]
        wrong += [name for name in measured if not {"auc", "ap"} <= run[name].keys()]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        version, wrong = 1, [str(error)]
    if version != 1:
        raise RunFolderError(f"{file} has format {version}; this version of cgcl reads format 1.")
    if wrong:
        raise RunFolderError(
            f"{file} is damaged ({', '.join(wrong)}). The weights in the folder are not affected."
        )
    return run


class RunFolder(contextlib.AbstractContextManager["RunFolder"]):
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
                with contextlib.suppress(FileExistsError):
                    path.mkdir()  # atomic: two processes never get the same number
                    return cls(path)
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
        write_atomically(self.path / RUN, (json.dumps(run, indent=2) + "\n").encode())

    def close(self) -> None:
        """Let other processes have the folder."""
        self._lock.release()

    def __exit__(self, *_: object) -> None:
        self.close()


def _lock(path: Path) -> FileLock:
    """Take the folder's lock; the system releases it when the process ends, however it ends."""
    file = path / LOCK
    if file.is_symlink():
        raise RunFolderError(
            f"{file} is a link, which no lock is. Remove it to go on with the run."
        )
    lock = FileLock(file, blocking=False, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        owner = ""
        with contextlib.suppress(OSError):  # there are systems where nobody else may read it
            owner = file.read_text(encoding="utf-8").strip()
        raise RunFolderError(
            f"{path} is in use by {owner or 'another process'}. Use another `out`, or wait."
        ) from None
    except OSError as error:
        raise RunFolderError(
            f"Cannot write to {path}: {error.strerror}. Make the folder writable to go on with it."
        ) from error
    with contextlib.suppress(OSError):
        started = f"process {os.getpid()} (started {time.strftime('%H:%M')})"
        file.write_text(started, encoding="utf-8")
    return lock


def read_history(folder: Path) -> list[dict[str, Any]]:
    """Return the sound records of a run; lines that are damaged or cut short are left out."""
    path = folder / HISTORY
    if not path.is_file():
        return []
    records: list[dict[str, Any]] = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        with contextlib.suppress(ValueError, TypeError):
            record = parse_json(line)
            if not misfits({"val": None, "consistency": None} | record, _RECORD_SHAPE):
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
        self._path = folder / HISTORY
        kept = [record for record in read_history(folder) if record["epoch"] <= keep_epochs]
        self.lost_epochs = keep_epochs - len(kept)
        """How many earlier epochs have no record any more, because the file was damaged."""
        write_history(folder, kept)
        # Without a buffer, a record that did not fit is not tried again when the file closes.
        with self._telling():
            self._file = self._path.open("ab", buffering=0)

    def append(self, record: dict[str, Any]) -> None:
        """Write one record; it survives the death of the process at once.

        Raises:
            ResourceError: The disk is full.
        """
        with self._telling():
            append_whole(self._file, _line(record), synced=False)

    def sync(self) -> None:
        """Make all records survive a power loss too.

        Raises:
            ResourceError: The disk is full.
        """
        with self._telling():
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @contextlib.contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ResourceError(
                f"Cannot write {self._path}: {error.strerror}. The last checkpoint is intact: "
                f"free some space,\nthen continue with cgcl train --resume {self._path.parent}"
            ) from error


def _line(record: dict[str, Any]) -> bytes:
    return json.dumps(record).encode() + b"\n"


def write_checkpoint(
    folder: Path, tensors: dict[str, Tensor], numbers: dict[str, Any], identity: dict[str, Any]
) -> None:
    """Write a checkpoint and keep the previous one.

    Args:
        folder: The run folder.
        tensors: Weights and optimizer state.
        numbers: Everything else about the state.
        identity: Which run this is: its settings and the fingerprint of its graph.

    Raises:
        ResourceError: The disk is full; the last checkpoint is intact.
    """
    current, previous = folder / CHECKPOINT, folder / PREVIOUS_CHECKPOINT
    if current.exists():
        try:
            previous.unlink(missing_ok=True)
            os.link(current, previous)
        except OSError:  # some file systems know no hard links
            write_atomically(previous, current.read_bytes())
    write_tensors(current, _CHECKPOINT_KIND, tensors, {"numbers": numbers, "identity": identity})


def recover_checkpoint(
    folder: Path, identity: dict[str, Any]
) -> tuple[dict[str, Tensor], dict[str, Any], str | None] | None:
    """Return tensors, numbers and a warning, if any, of the newest sound checkpoint.

    If that is the previous one, it becomes the current one again.

    Args:
        folder: The run folder.
        identity: Which run it should be.

    Returns:
        None if no checkpoint was ever written: the run was stopped before its first one.

    Raises:
        ModelFileError: Checkpoints are there, but all damaged, or they belong to another run.
    """
    there = [n for n in (CHECKPOINT, PREVIOUS_CHECKPOINT) if (folder / n).exists()]
    problems: list[str] = []
    for name in there:
        try:
            tensors, about = read_tensors(folder / name, _CHECKPOINT_KIND)
            if wrong := misfits(about, _CHECKPOINT_SHAPE):
                what = ", ".join(wrong)
                raise ModelFileError(f"{name} in {folder} is damaged ({what}).")
        except ModelFileError as error:
            problems.append(str(error))
            continue
        found = about["identity"]
        for key in sorted(found.keys() | identity.keys()):
            if found.get(key) != identity.get(key):
                raise ModelFileError(
                    f"{name} in {folder} belongs to another run: its {shown(key)} is "
                    f"{shown(str(found.get(key)))}, this run's is {identity.get(key)}.\n"
                    f"Nothing was changed. Put the right checkpoint back, or delete this one to "
                    f"start again from the first epoch."
                )
        if name == PREVIOUS_CHECKPOINT:
            # The next write keeps the current checkpoint as the previous one. It must not be the
            # damaged one that takes the place of this.
            (folder / PREVIOUS_CHECKPOINT).replace(folder / CHECKPOINT)
        warning = f"{problems[0]} Going on from the one before it." if problems else None
        return tensors, about["numbers"], warning
    if problems:
        raise ModelFileError(
            f"{problems[0]}\nThere is no sound checkpoint to go on from. Nothing was changed. "
            f"Delete {' and '.join(there)}\nto start this run again from its first epoch."
        )
    return None


def write_model(path: Path, fitted: Fitted) -> None:
    """Write what was learned to one file: weights, where they come from, what they are worth.

    Raises:
        ResourceError: The disk is full.
    """
    about = {
        "graph": fitted.graph.fingerprint,
        "split": fitted.split.fingerprint,
        "best_epoch": fitted.best_epoch,
        "val": fitted.val,
        "test": fitted.test,
        "test_sampled": fitted.test_sampled,
        "calibration": fitted.calibration and fitted.calibration.to_json(),
    }
    num_features = fitted.graph.num_features if fitted.recipe.method.needs_features else 0
    description = {"recipe": fitted.recipe.to_json(), "num_features": num_features, "about": about}
    write_tensors(path, _MODEL_KIND, fitted.learner.state_dict(), description)


def read_model(path: Path) -> tuple[Learner, RunConfig, dict[str, Any]]:
    """Return the method with its weights, its recipe and what was stored with it.

    Raises:
        ModelFileError: The file is missing, damaged, foreign, or does not fit its recipe.
    """
    tensors, description = read_tensors(path, _MODEL_KIND)
    try:
        if wrong := misfits(description, _MODEL_SHAPE):
            raise ValueError(f"{', '.join(wrong)} is missing or of another kind")
        recipe = RunConfig.from_json(description["recipe"])
        num_features, about = description["num_features"], description["about"]
        if not 0 <= num_features < _MAX_FEATURES:
            raise ValueError(f"it has {num_features:,} features")
        empty = _without_memory(num_features, recipe)
    except (KeyError, TypeError, ValueError, ConfigError) as error:
        raise ModelFileError(f"{path} does not say how its model is built ({error}).") from error
    expected = {name: _kind_of(value) for name, value in empty.state_dict().items()}
    for name in sorted((expected.keys() - empty.added) | tensors.keys()):
        found = _kind_of(tensors[name]) if name in tensors else "missing"
        wanted = expected.get(name, "nothing of that name")
        if found != wanted:
            raise ModelFileError(f"{path}: tensor {name} is {found}, expected {wanted}.")
        if not torch.isfinite(tensors[name]).all():
            raise ModelFileError(f"{path}: tensor {name} holds NaN or infinite values.")
    learner = build_learner(num_features, recipe)
    learner.load_state_dict(tensors)
    return learner, recipe, about


def _kind_of(tensor: Tensor) -> str:
    """Return shape and type of a tensor in words; the usual type goes without saying."""
    kind = "" if tensor.dtype == torch.float32 else f" of {tensor.dtype}"
    return f"{tuple(tensor.shape)}{kind}"


def model_id(learner: Learner) -> str:
    """Return what a run and its model know each other by: a SHA-256 of the weights."""
    return tensors_sha256(learner.state_dict())


def count_weights(num_features: int, recipe: RunConfig) -> int:
    """Return the number of weights of a method without building it."""
    return sum(weight.numel() for weight in _without_memory(num_features, recipe).parameters())


def _without_memory(num_features: int, recipe: RunConfig) -> Learner:
    """Return a method whose tensors have shapes and nothing else."""
    with torch.device("meta"):
        return build_learner(num_features, recipe)
