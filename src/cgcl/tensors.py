"""Tensor files: safetensors with a checksum, never pickle; and tensors of callers.

Everything the package stores in binary goes through two functions, so that a damaged, foreign or
malicious file is refused in one place and with one voice.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from cgcl.errors import ModelFileError
from cgcl.files import write_atomically
from cgcl.stored import fits, parse_json

_HEADER = "cgcl"
_HEADER_SHAPE = {"kind": str, "about": str, "sha256": str}
_PICKLE_PROTOCOLS = (b"\x02", b"\x03", b"\x04", b"\x05")
_MAX_HEADER_BYTES = 100_000_000  # safetensors' own limit

_Record = TypeVar("_Record")


@contextmanager
def usual_defaults() -> Iterator[None]:
    """Make tensors on the CPU, numbers of 32 bits, whatever the caller has set for all of torch.

    torch knows one default for all threads: two that differ about it must not overlap.
    """
    dtype, device = torch.get_default_dtype(), torch.get_default_device()
    torch.set_default_dtype(torch.float32)
    try:
        with nullcontext() if device.type == "cpu" else torch.device("cpu"):
            yield
    finally:
        torch.set_default_dtype(dtype)


@contextmanager
def matrix_products(*, tf32: bool) -> Iterator[None]:
    """Let a GPU round what it multiplies to TF32, or not, for a while.

    torch has three switches for this and some versions refuse to read one after another was used:
    this is the only one that is touched.
    """
    products = torch.backends.cuda.matmul
    before, products.allow_tf32 = products.allow_tf32, tf32
    try:
        yield
    finally:
        products.allow_tf32 = before


def with_own_tensors(record: _Record) -> _Record:
    """Return a dataclass whose tensors are its own: writing to the caller's changes nothing."""
    assert is_dataclass(record)
    assert not isinstance(record, type)
    held = {field.name: getattr(record, field.name) for field in fields(record)}
    own = {name: value.clone() for name, value in held.items() if isinstance(value, Tensor)}
    return replace(record, **own)


def write_tensors(
    path: Path, kind: str, tensors: Mapping[str, Tensor], about: Mapping[str, Any]
) -> None:
    """Write tensors and a JSON description to one file, whole or not at all.

    Args:
        path: The file to write.
        kind: What the file is, such as `"cgcl model 1"`; checked when it is read.
        tensors: What to store, by name.
        about: Anything JSON can hold.

    Raises:
        ResourceError: The disk is full or the folder cannot be written.
    """
    stored = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    description = json.dumps(about)
    checksum = _checksum(kind, description, stored)
    header = {"kind": kind, "about": description, "sha256": checksum}
    # One entry only: safetensors writes several in an order that changes from run to run.
    metadata = {_HEADER: json.dumps(header, sort_keys=True)}
    write_atomically(path, safetensors.torch.save(stored, metadata))


def read_tensors(path: Path, kind: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors and the description of a file made by `write_tensors`.

    Raises:
        ModelFileError: The file is missing, damaged, of another kind or not ours at all.
    """
    _refuse_foreign(path)
    where = f"{path.name} in {path.parent}"
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            header = parse_json((file.metadata() or {}).get(_HEADER, "{}"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if not fits(header, _HEADER_SHAPE) and header != {}:
            raise ValueError("its header is none of ours")
        about = parse_json(header.get("about", "{}"))
        if not isinstance(about, dict):
            raise ValueError("its description has no names")
    # A disk that refuses is a RuntimeError of torch's.
    except (safetensors.SafetensorError, OSError, ValueError, MemoryError, RuntimeError) as error:
        raise ModelFileError(f"{where} is damaged and cannot be read ({error}).") from error
    found = header.get("kind")
    if found is None:
        raise ModelFileError(
            f"{where} is a safetensors file, but not one of cgcl's. "
            f"Models from other tools cannot be opened."
        )
    if header["sha256"] != _checksum(found, header["about"], tensors):
        raise ModelFileError(f"{where} is damaged (its checksum does not match).")
    if found != kind:
        raise ModelFileError(
            f"{where} holds '{found}', expected '{kind}'. It may come from another version of cgcl."
        )
    return tensors, about


def tensors_sha256(tensors: Mapping[str, Tensor]) -> str:
    """Return a SHA-256 of tensors with their names, which no description changes."""
    return _checksum("", "", tensors)


def _checksum(kind: str, description: str, tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256(f"{kind}\n{description}\n".encode())
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu()  # weights may be on a GPU
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _refuse_foreign(path: Path) -> None:
    """Recognise what is surely not a safetensors file and say what it is instead."""
    if not path.is_file():
        found = "is not a regular file" if path.exists() else "does not exist"
        raise ModelFileError(f"{path} {found}. Expected a file written by cgcl train.")
    with path.open("rb") as file:
        start = file.read(9)
    # A safetensors file begins with the length of its header, 8 bytes, and the header's brace.
    # The length may look like the start of a pickle, so the brace decides.
    if start[8:9] == b"{" and int.from_bytes(start[:8], "little") <= _MAX_HEADER_BYTES:
        return
    if start[:2] == b"PK" or (start[:1] == b"\x80" and start[1:2] in _PICKLE_PROTOCOLS):
        raise ModelFileError(
            f"{path.name} is not a CGCL model (found 'pickle' data). Models from other tools "
            f"cannot be opened,\nand pickle files are never opened because they can run code."
        )
    raise ModelFileError(
        f"{path.name} in {path.parent} is damaged or not a CGCL file: it has no safetensors header."
    )
