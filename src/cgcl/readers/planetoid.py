"""The Planetoid files `ind.NAME.*`: pickles of Python 2, read without running what they say.

A pickle can call any function it names. The files' digests are checked before anything is
unpickled, and the unpickler here knows just the six names these files contain, each replaced by a
stand-in that stores what it is given. Any other name is refused.
"""

from __future__ import annotations

import hashlib
import io
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from cgcl.errors import GraphFormatError
from cgcl.graph.features import compact
from cgcl.readers.regular_file import read_bytes, told
from cgcl.readers.sparse import entries_of_rows
from cgcl.wording import shown

PARTS = ("allx", "tx", "graph", "test.index")
"""The files that are read: `x` repeats rows of `allx`, and the classes are not needed."""


def read_planetoid(folder: Path, name: str, sha256: Mapping[str, str]) -> tuple[Tensor, Tensor]:
    """Read `ind.NAME.allx`, `.tx`, `.graph` and `.test.index` from `folder`.

    Args:
        folder: Where the files are.
        name: The data set's name inside the file names, such as "citeseer".
        sha256: The digest of every file, by file name.

    Returns:
        Node numbers as listed, both directions, repeats and loops included: int64 [2, any]; and the
        features, float32 [n, d], coalesced sparse COO or dense.

    Raises:
        GraphFormatError: A file is missing, is not the published one, or names anything that these
            files do not contain.
    """
    files = {part: f"ind.{name}.{part}" for part in PARTS}
    content = {part: check_sha256(folder / file, sha256[file]) for part, file in files.items()}
    loaded = {part: unpickle_restricted(content[part], files[part]) for part in PARTS[:3]}
    with told(f"The files ind.{name}.* are damaged", "Delete them and fetch them again."):
        known, held_out = (loaded[part].tensor() for part in ("allx", "tx"))
        pairs = _pairs(loaded["graph"])
        held_out_nodes = torch.tensor([int(node) for node in content["test.index"].split()])
        # CiteSeer lists fewer held-out nodes than their range has: the others have no features.
        num_nodes = max(int(held_out_nodes.max()) + 1, known.shape[0])
        rows, columns = held_out.indices()
        x = torch.sparse_coo_tensor(
            torch.cat([known.indices(), torch.stack([held_out_nodes[rows], columns])], dim=1),
            torch.cat([known.values(), held_out.values()]),
            (num_nodes, known.shape[1]),
            check_invariants=True,
        )
        return pairs, compact(x)


def unpickle_restricted(content: bytes, file: str) -> Any:  # noqa: ANN401
    """Return what a Planetoid pickle holds: a sparse matrix, or a dictionary of neighbours.

    Raises:
        GraphFormatError: The pickle names anything but the constructors of those two, or is broken.
    """
    with told(f"{file} is damaged", "Delete it and fetch it again."):
        return _Unpickler(content, file).load()


def check_sha256(path: Path, sha256: str) -> bytes:
    """Return the content of a file after comparing its digest with the published one.

    The bytes returned are the bytes compared, so nobody can exchange the file in between.

    Raises:
        GraphFormatError: It is missing or another file.
    """
    content = read_bytes(path)
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise GraphFormatError(
            f"{path.name} is not the published file: SHA-256 {found[:12]}…, expected "
            f"{sha256[:12]}….\nIt was not opened, because such files can run code. "
            f"Delete {path}\nand fetch it again."
        )
    return content


class _Array:
    """Stands in for numpy.ndarray: keeps the state, builds a plain array on demand."""

    def __init__(self, *_: object) -> None:
        self._state: tuple[Any, ...] = ()

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._state = state

    def numbers(self, code: Literal["i4", "f4"]) -> np.ndarray:
        """Return the one-dimensional array; its type must be the one expected."""
        _, shape, dtype, _, raw = self._state
        if dtype.code != code:
            raise ValueError(f"array of {dtype.code}, expected {code}")
        return np.frombuffer(raw.encode("latin-1"), dtype=f"<{code}").reshape(shape)


class _Dtype:
    """Stands in for numpy.dtype: keeps the type's code."""

    def __init__(self, code: str = "", *_: object) -> None:
        self.code = code

    def __setstate__(self, state: object) -> None:
        pass  # byte order and alignment: little-endian and none in all these files


class _Matrix:
    """Stands in for scipy.sparse.csr_matrix: the unpickler fills its attributes."""

    _shape: tuple[int, int]
    indptr: _Array
    indices: _Array
    data: _Array

    def tensor(self) -> Tensor:
        """Return the matrix, coalesced sparse COO."""
        parts = (self.indptr.numbers("i4"), self.indices.numbers("i4"), self.data.numbers("f4"))
        shape = (int(self._shape[0]), int(self._shape[1]))
        return entries_of_rows(*parts, shape, "A Planetoid matrix").tensor()


class _Unpickler(pickle.Unpickler):
    def __init__(self, content: bytes, file: str) -> None:
        super().__init__(io.BytesIO(content), encoding="latin-1")
        self._file = file

    def find_class(self, module: str, name: str) -> Callable[..., object]:
        found = _STAND_INS.get((module, name))
        if found is None:
            raise GraphFormatError(
                f"{self._file} names {shown(module)}.{shown(name)}, "
                f"which no Planetoid file contains.\nIt was not run. Delete the file: "
                f"it is not what it claims to be."
            )
        return found


def _new_dictionary(*_: object) -> dict[object, object]:
    return {}


_STAND_INS: dict[tuple[str, str], Callable[..., object]] = {
    ("scipy.sparse.csr", "csr_matrix"): _Matrix,
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("collections", "defaultdict"): _new_dictionary,
    ("__builtin__", "list"): _new_dictionary,  # named as the kind of new values, never called
}


def _pairs(neighbours: Mapping[int, list[int]]) -> Tensor:
    listed = [(node, other) for node, others in neighbours.items() for other in others]
    return torch.tensor(listed, dtype=torch.int64).reshape(-1, 2).T
