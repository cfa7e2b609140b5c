"""NumPy archives from unknown hands: arrays of numbers and text only, never Python objects."""

from __future__ import annotations

import contextlib
import hashlib
import io
import math
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

import numpy as np
from numpy.lib import format as npy

from cgcl.errors import GraphFormatError
from cgcl.memory import require_readable
from cgcl.readers.regular_file import read_bytes, told
from cgcl.wording import shown

MAX_MEMBERS = 10_000
# How many bytes a byte takes until it is links or features; measured by benchmarks/reading.py.
_COPIES = 12
# Links and features shrink by a factor of ten or so; ones and zeros in the thousands by more, but
# an archive with little else is a bomb.
_MAX_RATIO = 200
_HARMLESS_BYTES = 50_000_000


def npz_array_names(path: Path) -> tuple[str, ...]:
    """Return the names of the arrays in an .npz file without opening any of them.

    Raises:
        GraphFormatError: It is no such archive.
    """
    with _opened(path) as archive:
        names = [name for name in archive.namelist() if name.endswith(".npy")]
        return tuple(name.removesuffix(".npy") for name in names)


def read_npz_arrays(path: Path, keys: Sequence[str]) -> dict[str, np.ndarray]:
    """Return the arrays called `keys` from an .npz file. Other members are not opened.

    Nothing is unpacked before the sizes that the archive declares are known to be acceptable, and
    no array is allocated before its header agrees with its member's size.

    Raises:
        GraphFormatError: It is no such archive, an array is missing, holds Python objects, or the
            sizes are over the limits.
    """
    with _opened(path) as archive:
        _check_sizes(path.name, archive.infolist())
        return {key: _read_member(path.name, archive, key) for key in keys}


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open an archive; whatever its damage brings about becomes an error of ours."""
    content = io.BytesIO(read_bytes(path))
    problem = f"{path.name} is damaged or not an .npz archive"
    with told(problem, "Fetch or save it again."), zipfile.ZipFile(content) as archive:
        yield archive


def arrays_sha256(arrays: Mapping[str, np.ndarray]) -> str:
    """Return a SHA-256 of the arrays' contents: names, shapes and values.

    Integers count as 64-bit, other numbers as double, all little-endian, so the digest survives
    saving the arrays again with another compression or a wider type.
    """
    digest = hashlib.sha256()
    for key in sorted(arrays):
        array = arrays[key]
        kind = "<i8" if array.dtype.kind in "iub" else "<f8"
        digest.update(f"{key} {array.shape} {kind}\n".encode())
        digest.update(np.ascontiguousarray(array.astype(kind)).tobytes())
    return digest.hexdigest()


def _check_sizes(file: str, members: Sequence[zipfile.ZipInfo]) -> None:
    if len(members) > MAX_MEMBERS:
        raise GraphFormatError(
            f"{file} has {len(members):,} members, at most {MAX_MEMBERS:,} are accepted.\n"
            f"Save only the arrays that are needed."
        )
    total = sum(member.file_size for member in members)
    require_readable(file, _COPIES * total, remedy="Save only the arrays that are needed")
    packed = sum(member.compress_size for member in members)
    if total > max(_HARMLESS_BYTES, _MAX_RATIO * packed):
        raise GraphFormatError(
            f"{file} unpacks {packed:,} bytes to {total:,}, more than {_MAX_RATIO} times as many.\n"
            f"That is how archives look that are made to fill a memory. It was not opened."
        )


def _read_member(file: str, archive: zipfile.ZipFile, key: str) -> np.ndarray:
    try:
        member = archive.getinfo(f"{key}.npy")
    except KeyError:
        found = ", ".join(shown(Path(name).stem, 30) for name in archive.namelist()[:10])
        raise GraphFormatError(
            f"{file} has no array '{key}'. Arrays found: {found or 'none'}.\n"
            f"Fetch or save it again."
        ) from None
    with archive.open(member) as stream:
        _check_header(file, key, stream, member.file_size)
    with archive.open(member) as stream:
        array = npy.read_array(stream, allow_pickle=False)
        if stream.read(1):  # also makes zipfile compare the checksum
            raise GraphFormatError(f"{file}: array '{key}' is followed by foreign bytes.")
        return array


def _check_header(file: str, key: str, stream: IO[bytes], member_bytes: int) -> None:
    version = npy.read_magic(stream)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, _, dtype = read(stream)
    if dtype.hasobject:
        raise GraphFormatError(
            f"{file}: array '{key}' holds Python objects (a pickle).\n"
            f"Pickles are never opened because they can run code. Save plain numbers or text."
        )
    # Python's integers: a product of huge lengths must not wrap around.
    declared = dtype.itemsize * math.prod(shape)
    if min(shape, default=0) < 0 or stream.tell() + declared != member_bytes:
        raise GraphFormatError(
            f"{file}: array '{key}' claims {declared:,} bytes but its member holds "
            f"{member_bytes - stream.tell():,}.\nThe file is damaged; fetch or save it again."
        )
