"""What was cut out of a graph once is kept on disk, under the name of what it was made of.

The cache is a convenience: whatever is wrong with it, the answer is computed. Its folder is
`cgcl/extracted` in the user's cache folder. The environment variable `CGCL_CACHE` names another
folder, or is `off`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cgcl.errors import ModelFileError, ResourceError
from cgcl.files import make_folder
from cgcl.tensors import read_tensors, write_tensors

Arrays = dict[str, npt.NDArray[Any]]
Part = str | bytes | int | float | Tensor | npt.NDArray[Any]
"""What a key may be made of."""

_KIND = "cgcl extracted 1"
_MOST_BYTES = 4 * 2**30
# kind, sha256, and for a file that is being written a name of its own
_OWN_FILE = re.compile(r"[a-z0-9-]+-[0-9a-f]{64}\.safetensors")
_UNFINISHED = re.compile(r"[a-z0-9-]+-[0-9a-f]{64}\.[0-9a-f]{32}(\.tmp)?")
_UNFINISHED_FOR_S = 24 * 3600


def cached(kind: str, parts: Iterable[Part], compute: Callable[[], Arrays]) -> Arrays:
    """Return what `compute` returns, from disk if it was computed of the same parts before.

    Arrays from disk are mapped, not loaded: what is not looked at takes no memory. Changing one
    in place changes no file.

    Args:
        kind: What it is, such as `"seal-1"`: small letters, digits and hyphens. It takes another
            number whenever the same parts come to mean something else.
        parts: Everything the answer depends on, in a fixed order.
        compute: Makes the answer; it is called at most once.
    """
    folder = cache_folder()
    if folder is None:
        return compute()
    path = folder / f"{kind}-{_digest(kind, parts)}.safetensors"
    stored = _read(path)
    if stored is not None:
        return stored
    arrays = compute()
    _write(path, arrays)
    return arrays


def cache_folder() -> Path | None:
    """Return where things are kept, or None if nothing is to be."""
    chosen = os.environ.get("CGCL_CACHE", "")
    if chosen.lower() == "off":
        return None
    if chosen:
        return Path(chosen)
    shared = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(shared) if shared else Path.home() / ".cache") / "cgcl" / "extracted"
    except RuntimeError:  # no home
        return None


def _digest(kind: str, parts: Iterable[Part]) -> str:
    digest = hashlib.sha256(f"{_KIND}\n{kind}\n".encode())
    for part in parts:
        for name, content in _contents(part):
            digest.update(f"{name} {len(content)}\n".encode())
            digest.update(content)
    return digest.hexdigest()


def _contents(part: Part) -> Iterable[tuple[str, bytes]]:
    """Yield a part as named bytes, so that no two different lists of parts read alike."""
    if isinstance(part, Tensor):
        if part.is_sparse:
            yield "sparse", str(tuple(part.shape)).encode()
            yield from _contents(part.indices())
            yield from _contents(part.values())
        else:
            yield from _contents(part.detach().cpu().numpy())
    elif isinstance(part, np.ndarray):
        yield f"array {part.dtype.str} {part.shape}", part.tobytes()
    elif isinstance(part, bytes):
        yield "bytes", part
    else:
        yield type(part).__name__, repr(part).encode()


def _read(path: Path) -> Arrays | None:
    """Return what is in a file, or None if it is missing, damaged or out of reach."""
    try:
        tensors, _ = read_tensors(path, _KIND)
        # The cache forgets what was not used for longest.
        os.utime(path)
    except (ModelFileError, OSError):
        return None
    return {name: tensor.numpy() for name, tensor in tensors.items()}


def _write(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Store arrays if that is possible; processes that store the same do not meet."""
    size = sum(array.nbytes for array in arrays.values())
    if size > _MOST_BYTES:
        return
    unfinished = path.with_name(f"{path.stem}.{uuid.uuid4().hex}")
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    # A full disk, a read-only folder: the answer is there, and that is what counts.
    with contextlib.suppress(ResourceError, OSError):
        try:
            make_folder(path.parent)
            _make_room(path.parent, size)
            write_tensors(unfinished, _KIND, tensors, {})
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)


def _make_room(folder: Path, size: int) -> None:
    """Remove what was not used for longest until there is room, and what nobody finishes."""
    files: list[tuple[float, int, Path]] = []
    for path in folder.iterdir():
        with contextlib.suppress(OSError):  # another process may have removed it
            about = path.stat()
            if _OWN_FILE.fullmatch(path.name):
                files.append((about.st_mtime, about.st_size, path))
            elif (
                _UNFINISHED.fullmatch(path.name)
                and about.st_mtime < time.time() - _UNFINISHED_FOR_S
            ):
                path.unlink(missing_ok=True)
    total = size + sum(bytes_ for _, bytes_, _ in files)
    for _, bytes_, path in sorted(files):
        if total <= _MOST_BYTES:
            return
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
            total -= bytes_
