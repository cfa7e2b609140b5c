"""A split kept beside the model, so that its test can be repeated."""

from __future__ import annotations

from pathlib import Path

from cgcl.errors import ModelFileError
from cgcl.split.split import Split
from cgcl.tensors import read_tensors, write_tensors

__all__ = ["read_split", "write_split"]

_KIND = "cgcl split 1"
_PARTS = ("train", "val", "test", "val_negatives", "test_negatives")


def write_split(path: Path, split: Split) -> None:
    """Write a split to one file that `read_split` gives back unchanged.

    Raises:
        ResourceError: The disk is full or the folder cannot be written.
    """
    tensors = {part: getattr(split, part) for part in _PARTS}
    if split.sides is not None:
        tensors["sides"] = split.sides
    write_tensors(path, _KIND, tensors, {"num_nodes": split.num_nodes})


def read_split(path: Path) -> Split:
    """Return the split that `write_split` stored.

    Raises:
        ModelFileError: The file is missing, damaged or not one of ours.
    """
    tensors, about = read_tensors(path, _KIND)
    missing = [part for part in _PARTS if part not in tensors]
    if missing:
        raise ModelFileError(f"{path} lacks {', '.join(missing)}.")
    parts = {part: tensors[part] for part in _PARTS}
    return Split(num_nodes=about["num_nodes"], **parts, sides=tensors.get("sides"))
