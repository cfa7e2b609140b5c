"""Checkpoints: the whole state of a training run in one file, and the one before it.

A new checkpoint replaces the old one only when it is complete on disk, and the old one is kept
beside it: whatever happens, and to whichever of the two, there is one to go on from.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from torch import Tensor

from cgcl.errors import ModelFileError
from cgcl.files import write_atomically
from cgcl.tensors import read_tensors, write_tensors

__all__ = ["CHECKPOINT", "PREVIOUS_CHECKPOINT", "recover_checkpoint", "write_checkpoint"]

CHECKPOINT = "checkpoint.safetensors"
PREVIOUS_CHECKPOINT = "checkpoint.previous.safetensors"
_KIND = "cgcl checkpoint 1"


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
    write_tensors(current, _KIND, tensors, {"numbers": numbers, "identity": identity})


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
    problems: list[str] = []
    for name in (CHECKPOINT, PREVIOUS_CHECKPOINT):
        if not (folder / name).exists():
            continue
        try:
            tensors, about = read_tensors(folder / name, _KIND)
        except ModelFileError as error:
            problems.append(str(error))
            continue
        _require_same_run(folder / name, about["identity"], identity)
        if name == PREVIOUS_CHECKPOINT:
            # The next write keeps the current checkpoint as the previous one. It must not be the
            # damaged one that takes the place of this.
            (folder / PREVIOUS_CHECKPOINT).replace(folder / CHECKPOINT)
        warning = f"{problems[0]} Going on from the one before it." if problems else None
        return tensors, about["numbers"], warning
    if problems:
        damaged = [n for n in (CHECKPOINT, PREVIOUS_CHECKPOINT) if (folder / n).exists()]
        raise ModelFileError(
            f"{problems[0]}\nThere is no sound checkpoint to go on from. Nothing was changed. "
            f"Delete {' and '.join(damaged)}\nto start this run again from its first epoch."
        )
    return None


def _require_same_run(path: Path, found: dict[str, Any], expected: dict[str, Any]) -> None:
    for key in sorted(found.keys() | expected.keys()):
        if found.get(key) != expected.get(key):
            raise ModelFileError(
                f"{path.name} in {path.parent} belongs to another run: its {key} is "
                f"{found.get(key)}, this run's is {expected.get(key)}.\n"
                f"Nothing was changed. Put the right checkpoint back, or delete this one to start "
                f"again from the first epoch."
            )
