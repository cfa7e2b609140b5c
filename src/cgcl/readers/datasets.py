"""The five graphs of the paper: where they come from, and that they are what they should be.

Fetching is all or nothing: verified connection, verified content.
"""

from __future__ import annotations

import contextlib
import difflib
import http.client
import os
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import resources
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np
import torch

from cgcl.errors import GraphFormatError, ResourceError
from cgcl.files import writing_atomically
from cgcl.graph.features import compact
from cgcl.graph.graph import Graph
from cgcl.readers.npz import arrays_sha256, read_npz_arrays
from cgcl.readers.planetoid import check_sha256, read_planetoid
from cgcl.readers.sparse import PARTS, entries_of_rows, stored_entries
from cgcl.wording import shown

_PLANETOID_URL = "https://github.com/kimiyoung/planetoid/raw/master/data/"
_AMAZON_URL = "https://github.com/shchur/gnn-benchmark/raw/master/data/npz/"
_AMAZON = "amazon_electronics_"
_AMAZON_KEYS = tuple(f"{prefix}{part}" for prefix in ("adj_", "attr_") for part in PARTS["csr"])
_CORA_KEYS = ("names", "edges", "indptr", "indices", "num_features")
_MAX_BYTES = 200_000_000
_CHUNK_BYTES = 1 << 16
# A server that sends a little now and then has so many of its longest silences in all.
_PATIENCE = 60.0


@dataclass(frozen=True)
class Dataset:
    """A data set: what it must contain, and the files it is read from."""

    name: str
    kind: Literal["bundled", "planetoid", "amazon"]
    folder: str
    """Its folder under the data root, as PyTorch Geometric calls it; empty if bundled."""
    num_nodes: int
    num_edges: int
    num_features: int
    num_nonzeros: int
    files: Mapping[str, str]
    """The SHA-256 of every file, or for Amazon of its arrays: those files are saved in several
    ways."""

    def url(self, file: str) -> str:
        """Return the address a file is published at."""
        return (_PLANETOID_URL if self.kind == "planetoid" else _AMAZON_URL) + file

    def missing_files(self, root: Path) -> list[str]:
        """Return the files that are not in the data folder `root`; none if bundled."""
        folder = root / self.folder / "raw"
        return [file for file in self.files if not (folder / file).exists()]

    def is_present(self, root: Path) -> bool:
        """Return whether nothing would have to be fetched; the content is not looked at."""
        return not self.missing_files(root)


_CITESEER_FILES = {
    "ind.citeseer.allx": "2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668",
    "ind.citeseer.tx": "539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21",
    "ind.citeseer.graph": "d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7",
    "ind.citeseer.test.index": "2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4",
}
_PUBMED_FILES = {
    "ind.pubmed.allx": "508e538e2abdccdd54c4d3e9f49d638b4af7107d85845f66ddea5a5152658b7e",
    "ind.pubmed.tx": "4eb5f5d0f30f26497eb0ac6ac9719d09c67e284f1ed0385c93f3ef27a671da3d",
    "ind.pubmed.graph": "5b89f0036ca22909471f1e6558eb42fa06e0c730a577bde5b058b40638f81dc9",
    "ind.pubmed.test.index": "b101d421688bbaecbd82e8a18f1e282378d6830f3a37666f28ebc47f844341b5",
}
_PHOTO_FILES = {
    _AMAZON + "photo.npz": "56d3213900ee01fedbce864bf44b38b97b53de14557c9b4030d8d8ff9aaacbb8"
}
_COMPUTERS_FILES = {
    _AMAZON + "computers.npz": "eba7bae0a8160e8e9e7e70862f257550fefd572ad79e05a1c0ac7789c2123ca7"
}

DATASETS: dict[str, Dataset] = {
    row.name: row
    for row in (
        Dataset("cora", "bundled", "", 2_708, 5_278, 1_433, 49_216, {}),
        Dataset("citeseer", "planetoid", "CiteSeer", 3_327, 4_552, 3_703, 105_165, _CITESEER_FILES),
        Dataset("pubmed", "planetoid", "PubMed", 19_717, 44_324, 500, 988_031, _PUBMED_FILES),
        Dataset("photo", "amazon", "Photo", 7_650, 119_081, 745, 1_979_909, _PHOTO_FILES),
        Dataset(
            "computers", "amazon", "Computers", 13_752, 245_861, 767, 3_675_081, _COMPUTERS_FILES
        ),
    )
}
"""The data sets by name, in the paper's order."""


def load_dataset(name: str, data_root: str | Path | None = None, *, download: bool = True) -> Graph:
    """Return one of the paper's graphs.

    Cora comes with the package. The others are read from `data_root`, else from the folder that
    the environment variable CGCL_DATA names, else from the user's cache, in PyTorch Geometric's
    layout (`ROOT/PubMed/raw/...`); what is missing is fetched from the authors' repositories.

    Args:
        name: cora, citeseer, pubmed, photo or computers, in any case.
        data_root: The folder with the data sets.
        download: Whether missing files may be fetched.

    Raises:
        GraphFormatError: No data set has this name, or a file is not the published one.
        ResourceError: Files are missing and cannot be fetched; the message says what to do.

    Example:
        >>> load_dataset("cora")
        Graph(2,708 nodes, 5,278 links, 1,433 features)
    """
    dataset = DATASETS.get(name.lower())
    if dataset is None:
        near = difflib.get_close_matches(name.lower(), DATASETS, n=1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        raise GraphFormatError(
            f"No data set is called '{shown(name)}'.{hint}\nThere are: {', '.join(DATASETS)}."
        )
    if dataset.kind == "bundled":
        graph = _read_cora()
    else:
        root = data_folder(data_root)
        folder = root / dataset.folder / "raw"
        _provide_files(dataset, root, download=download)
        read = _read_planetoid if dataset.kind == "planetoid" else _read_amazon
        graph = read(dataset, folder)
    _check_counts(dataset, graph)
    return graph


def data_folder(data_root: str | Path | None = None) -> Path:
    """Return the folder with the data sets: the one given, CGCL_DATA, or the user's cache."""
    if data_root is not None:
        return Path(data_root)
    if os.environ.get("CGCL_DATA"):
        return Path(os.environ["CGCL_DATA"])
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "cgcl"


def _provide_files(dataset: Dataset, root: Path, *, download: bool) -> None:
    folder = root / dataset.folder / "raw"
    missing = dataset.missing_files(root)
    if missing and not download:
        listed = ", ".join(missing)
        raise ResourceError(
            f"The data set {dataset.name} is not in {folder}: {listed} missing.\n"
            f"Fetch from {dataset.url(missing[0]).rpartition('/')[0]}/ and put them there,\n"
            f"or name a folder that has {dataset.folder}/raw in it: `data_root` or CGCL_DATA."
        )
    for number, file in enumerate(missing):
        by_kind = _check_amazon if dataset.kind == "amazon" else check_sha256
        check = partial(by_kind, sha256=dataset.files[file])
        try:
            fetch(dataset.url(file), folder / file, check=check)
        except ResourceError as error:
            others = ", ".join(missing[number + 1 :])
            also = f"\nAlso missing, same address, same folder: {others}." if others else ""
            raise ResourceError(f"{error}{also}") from error


def _read_cora() -> Graph:
    with resources.as_file(resources.files("cgcl.readers") / "data" / "cora.npz") as path:
        arrays = read_npz_arrays(path, _CORA_KEYS)
    names = [name.decode() for name in arrays["names"].tolist()]
    ones = np.ones(len(arrays["indices"]), dtype=np.float32)
    shape = (len(names), int(arrays["num_features"]))
    x = entries_of_rows(arrays["indptr"], arrays["indices"], ones, shape, "cora.npz").tensor()
    edges = torch.from_numpy(arrays["edges"].astype(np.int64))
    return Graph.from_pairs("cora", names, edges, compact(x))


def _read_planetoid(dataset: Dataset, folder: Path) -> Graph:
    pairs, x = read_planetoid(folder, dataset.name, dataset.files)
    # Planetoid lists every link at both ends, a loop twice at one. Listing each once here keeps the
    # notes true: they count what the authors' data repeats, not how it is written down.
    low, high = pairs
    loops = torch.unique(low[low == high])
    pairs = torch.cat([pairs[:, low < high], loops.repeat(2, 1)], dim=1)
    return Graph.from_pairs(dataset.name, list(map(str, range(len(x)))), pairs, x)


def _check_amazon(path: Path, sha256: str) -> dict[str, np.ndarray]:
    """Return the arrays of an Amazon file after comparing them with the published ones."""
    arrays = read_npz_arrays(path, _AMAZON_KEYS)
    found = arrays_sha256(arrays)
    if found != sha256:
        raise GraphFormatError(
            f"{path.name} does not hold the published arrays: SHA-256 {found[:12]}…, expected "
            f"{sha256[:12]}….\nDelete {path}\nand fetch it again."
        )
    return arrays


def _read_amazon(dataset: Dataset, folder: Path) -> Graph:
    ((file, sha256),) = dataset.files.items()
    arrays = _check_amazon(folder / file, sha256)
    # Word counts become presence, as in PyTorch Geometric.
    arrays |= {key: arrays[key] > 0 for key in ("adj_data", "attr_data")}
    links, words = (
        stored_entries(arrays, "csr", file, prefix).tensor() for prefix in ("adj_", "attr_")
    )
    return Graph.from_pairs(
        dataset.name, list(map(str, range(len(links)))), links.indices(), compact(words)
    )


def _check_counts(dataset: Dataset, graph: Graph) -> None:
    counts = ("num_nodes", "num_edges", "num_features", "num_nonzeros")
    found, expected = (tuple(getattr(row, count) for count in counts) for row in (graph, dataset))
    if found != expected:
        raise GraphFormatError(
            f"{dataset.name} has {found} nodes, links, features and nonzeros; expected {expected}."
            f"\nIts files are damaged: delete them and fetch them again."
        )


# --- Fetching ---


def fetch(
    url: str,
    target: Path,
    *,
    check: Callable[[Path], object],
    timeout_s: float = 30,
    opener: urllib.request.OpenerDirector | None = None,
) -> None:
    """Fetch `url` to `target`, unless it is there already; either way its content is checked.

    The bytes take the name only after `check` accepted them, so a cut connection or a wrong file
    leaves nothing behind, and asking again begins anew. Redirects are followed to other hosts, too,
    as GitHub's must be, ten times at most: what counts is the content.

    Args:
        url: An https address.
        target: The file to make; its folder is made too.
        check: Called with a file; raises GraphFormatError if it is not the published one.
        timeout_s: Longest silence of the server; all of it may take sixty times as long.
        opener: Another way to open addresses; the default speaks https only, redirects included.

    Raises:
        ResourceError: The network or the disk failed; the message says how to do it by hand.
        GraphFormatError: What is there, or what came, is not the published file.
    """
    if target.exists():
        check(target)
        return
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _by_hand(url, target, _reason(error)) from error
    with writing_atomically(target) as file:
        try:
            limit_s = _PATIENCE * timeout_s
            read = partial(_fetch, opener or _https_only(), url, file, timeout_s)
            if not _ends_within(limit_s, read):
                raise OSError(f"only {file.tell():,} bytes came in {limit_s:,.0f} s")
            file.flush()
            check(Path(file.name))
        except GraphFormatError as error:
            raise _by_hand(url, target, "what came is not the published file") from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise _by_hand(url, target, _reason(error)) from error


def _https_only() -> urllib.request.OpenerDirector:
    """Return an opener that knows no scheme but https, so no redirect can leave it either."""
    opener = urllib.request.OpenerDirector()
    handlers: tuple[urllib.request.BaseHandler, ...] = (
        urllib.request.ProxyHandler(),
        urllib.request.UnknownHandler(),
        urllib.request.HTTPSHandler(context=ssl.create_default_context()),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPRedirectHandler(),
        urllib.request.HTTPErrorProcessor(),
    )
    for handler in handlers:
        opener.add_handler(handler)
    return opener


def _fetch(
    opener: urllib.request.OpenerDirector, url: str, file: BinaryIO, timeout_s: float
) -> None:
    with opener.open(url, timeout=timeout_s) as response:
        length = response.headers.get("Content-Length") or ""
        promised = int(length) if length.isdecimal() else None
        received = 0
        while chunk := response.read1(_CHUNK_BYTES):
            received += len(chunk)
            if received > _MAX_BYTES:
                raise OSError(f"it is larger than {_MAX_BYTES / 1e6:,.0f} MB")
            file.write(chunk)
    if promised is not None and received != promised:
        raise OSError(f"the connection ended after {received:,} of {promised:,} bytes")


def _ends_within(seconds: float, work: Callable[[], None]) -> bool:
    """Do something in a thread of its own; raise what it raises, return whether it ended in time.

    Headers, too, may trickle without end, while nothing of ours looks at the clock. A thread that
    is left behind fails when it next writes to the file, and no process waits for it.
    """
    failed: list[Exception] = []

    def run() -> None:
        try:
            work()
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if failed:
        raise failed[0]
    return not thread.is_alive()


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        with contextlib.closing(error):
            if 300 <= error.code < 400:
                return f"the server answered {error.code} and sends to nowhere that is followed"
            return f"the server answered {error.code} {shown(str(error.reason))}"
    if isinstance(error, urllib.error.URLError):
        return shown(str(error.reason), 120)
    if isinstance(error, TimeoutError):
        return "the server stopped answering"
    if isinstance(error, http.client.HTTPException):
        return "what the server answered broke off or makes no sense"
    said = error.strerror if isinstance(error, OSError) else None
    return shown(said or str(error) or type(error).__name__, 120)


def _by_hand(url: str, target: Path, reason: str) -> ResourceError:
    return ResourceError(
        f"Cannot download {target.name}: {reason}.\n"
        f"Fetch {url}\n"
        f"and save it as {target}, or name a folder that has it: `data_root` or CGCL_DATA."
    )
