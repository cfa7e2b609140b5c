"""A store: a graph in a folder of arrays that are mapped into memory, not read into it.

    manifest.json   what the graph is, and of every other file its size and SHA-256
    names.arrow     the names of all nodes, sorted by code points
    links.npy       each link once, smaller node first, sorted: int64 [2, m]
    indptr.npy      where each node's neighbours begin: int64 [n + 1]
    indices.npy     the neighbours of all nodes, rising for each: int32 or int64 [2 m]
    sides.npy       the side of every node, bool [n], if there are two
    x.npy           features, float32 [n, d]; or, where few are not zero,
    x_indices.npy   row and column of those that are not zero, int64 [2, e], and
    x_values.npy    what they are, float32 [e]

`cgcl.readers.store_build` makes it. Opening compares the sizes of all files; `verify` compares all
bytes, which `cgcl audit` does, and `read` if there are few of them.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cgcl.errors import GraphFormatError
from cgcl.graph.features import coalesced
from cgcl.graph.graph import Graph
from cgcl.graph.names import MappedNames
from cgcl.stored import misfits, parse_json

MANIFEST, NAMES, LINKS = "manifest.json", "names.arrow", "links.npy"
KIND = "cgcl store 1"
READ_WHOLE = 4e9
"""A store of fewer bytes is compared with its checksums whenever a command reads it: about half a
second for each GB."""
_FILE = {"bytes": int, "sha256": str, "dtype": str, "shape": [int]}
_SHAPE = {
    "kind": str,
    "title": str,
    "nodes": int,
    "links": int,
    "features": int,
    "feature_names": [str],
    "notes": [str],
    "source": object,
    "files": {str: _FILE},
    "sha256": str,
}
_AGAIN = "Make it again from its source: cgcl store"


def is_store(path: object) -> bool:
    """Say whether a path is a folder that is, or was, a store."""
    with contextlib.suppress(OSError, ValueError):  # no folder is called so
        if isinstance(path, (str, os.PathLike)):
            return any((Path(path) / own).is_file() for own in (MANIFEST, LINKS))
    return False


@dataclass(frozen=True, eq=False)
class Store:
    """A store that was opened: what its manifest says, and its arrays."""

    path: Path
    about: Mapping[str, Any]
    """What the manifest says."""

    @property
    def size(self) -> int:
        """How many bytes all its files have."""
        return sum(file["bytes"] for file in self.about["files"].values())

    def array(self, name: str) -> npt.NDArray[Any]:
        """Return an array, mapped: reading touches only the pages that are asked for.

        Who writes to it has pages of its own, and the file stays as it is.

        Raises:
            GraphFormatError: The file is not the one that the manifest speaks of.
        """
        file, told = self.path / name, self.about["files"][name]
        if 0 in told["shape"]:  # nothing cannot be mapped
            return np.empty(told["shape"], told["dtype"])
        try:
            found = np.lib.format.open_memmap(file, mode="c")
        except (OSError, ValueError) as error:
            raise self._damaged(name, "cannot be read") from error
        if (list(found.shape), found.dtype.str) != (told["shape"], told["dtype"]):
            raise self._damaged(name, "holds another array")
        return found

    def names(self) -> MappedNames:
        """Return the names of all nodes, mapped.

        Raises:
            GraphFormatError: The file is damaged.
        """
        import pyarrow as pa

        try:
            table = pa.ipc.open_file(pa.memory_map(str(self.path / NAMES))).read_all()
            table.validate(full=True)
            column = table.column("name")
        except (pa.ArrowException, OSError, KeyError, ValueError) as error:
            raise self._damaged(NAMES, "cannot be read") from error
        if len(column) != self.about["nodes"] or column.type != pa.string():
            raise self._damaged(NAMES, "holds other names")
        return MappedNames(column)

    def graph(self) -> Graph:
        """Return the graph, whose tensors are the mapped arrays."""
        about, files = self.about, self.about["files"]
        x = self._tensor("x.npy") if "x.npy" in files else None
        if "x_values.npy" in files:
            entries = self._tensor("x_indices.npy"), self._tensor("x_values.npy")
            x = coalesced(*entries, (about["nodes"], about["features"]))
        return Graph(
            about["title"],
            self.names(),
            self._tensor(LINKS),
            x,
            tuple(about["notes"]),
            sides=self._tensor("sides.npy") if "sides.npy" in files else None,
            feature_names=tuple(about["feature_names"]),
        )

    def _tensor(self, name: str) -> Tensor:
        return torch.from_numpy(self.array(name))

    def verify(self) -> None:
        """Compare every byte with the checksums.

        Raises:
            GraphFormatError: One is another.
        """
        for name, told in self.about["files"].items():
            if checksum(self.path / name) != told["sha256"]:
                raise self._damaged(name, "has other bytes than were written: its checksum differs")

    def _damaged(self, name: str, what: str) -> GraphFormatError:
        return GraphFormatError(f"The store {self.path} is damaged: {name} {what}.\n{_AGAIN}")


def open_store(path: Path) -> Store:
    """Open a store; its manifest is checked and the sizes of its files, nothing is read of them.

    Raises:
        GraphFormatError: It is no store, of another version, or not whole.
    """
    try:
        about = parse_json((path / MANIFEST).read_bytes())
    except FileNotFoundError as error:
        raise GraphFormatError(
            f"The store {path} is not whole: {MANIFEST} is missing.\n{_AGAIN}"
        ) from error
    except (OSError, ValueError) as error:
        raise GraphFormatError(
            f"The store {path} is damaged: {MANIFEST} cannot be read.\n{_AGAIN}"
        ) from error
    kind = about.get("kind") if isinstance(about, dict) else None
    if not isinstance(kind, str) or not kind.startswith("cgcl store "):
        raise GraphFormatError(
            f"{path} is no store: its {MANIFEST} is not one of cgcl's.\n"
            f"Make a store from a file of links: cgcl store FILE DIR"
        )
    if kind != KIND:
        raise GraphFormatError(
            f"The store {path} is of another version: '{kind}', expected '{KIND}'.\n"
            f"Open it with the cgcl that made it. {_AGAIN}"
        )
    if misfits(about, _SHAPE) or about["sha256"] != signature(about):
        raise GraphFormatError(
            f"The store {path} is damaged: {MANIFEST} was changed (checksum).\n{_AGAIN}"
        )
    for name, told in about["files"].items():
        file = path / name
        if Path(name).name != name or not file.is_file():
            raise GraphFormatError(f"The store {path} is not whole: {name} is missing.\n{_AGAIN}")
        if (size := file.stat().st_size) != told["bytes"]:
            raise GraphFormatError(
                f"The store {path} is damaged: {name} has {size:,} bytes, expected "
                f"{told['bytes']:,}.\n{_AGAIN}"
            )
    return Store(path, about)


def signature(about: Mapping[str, Any]) -> str:
    """Return the SHA-256 of all else that a manifest says."""
    rest = {name: own for name, own in about.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
