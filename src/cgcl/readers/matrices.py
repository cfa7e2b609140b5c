"""Matrices and lists of node numbers: adjacency, edge_index, and features without names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from cgcl.errors import ConfigError, FeatureError, GraphFormatError
from cgcl.graph.features import compact
from cgcl.readers.edge_table import EdgeTable, LinkOptions
from cgcl.readers.node_names import require_names, sorted_names
from cgcl.readers.npz import npz_array_names, read_npz_arrays
from cgcl.readers.regular_file import told
from cgcl.readers.sparse import PARTS, Entries, as_float32, check_shape, stored_entries
from cgcl.readers.tables import read_times
from cgcl.wording import counted, listed, shown

MAX_ISOLATED = 10_000_000
"""Nodes without links that a number may claim: a name for each of them takes memory."""
_UNDERSTOOD = (
    "Understood are: a matrix from scipy.sparse.save_npz (csr, csc or coo); adj_data, adj_indices, "
    "adj_indptr,\nadj_shape (and attr_... for features); or edge_index (and x, num_nodes). "
    "Also names, a text per node."
)


# --- Links between numbered nodes ---


def index_columns(array: np.ndarray | Tensor, place: str) -> np.ndarray:
    """Return an edge_index as int64 [2, e], or refuse what is not one.

    Raises:
        GraphFormatError: It has another shape, or holds no whole numbers.
    """
    if isinstance(array, Tensor):
        if array.layout != torch.strided:
            raise GraphFormatError(
                f"{place} is a sparse tensor.\nGive its entries: matrix.coalesce().indices()."
            )
        with told(f"{place} cannot be read", "Give a plain tensor of whole numbers."):
            array = array.detach().cpu().numpy()
    shape = " x ".join(f"{length:,}" for length in array.shape) or "no dimensions"
    if array.ndim != 2 or array.shape[0] != 2:
        advice = (
            "Is it a list of pairs? Turn it round: edge_index.T."
            if array.ndim == 2 and array.shape[1] == 2
            else "An adjacency matrix must be a scipy sparse matrix: scipy.sparse.coo_array(a)."
        )
        raise GraphFormatError(
            f"{place} has the shape {shape}, expected 2 x links: sources, then targets.\n{advice}"
        )
    if array.dtype.kind not in "iu":
        raise GraphFormatError(
            f"{place} holds {array.dtype}, expected whole numbers: the nodes of each link."
        )
    if array.dtype == np.uint64 and array.size and int(array.max()) >= 2**63:
        raise GraphFormatError(f"{place} holds numbers of 2^63 and more. Use smaller ones.")
    return np.ascontiguousarray(array, dtype=np.int64)


def links_of_index(
    pairs: np.ndarray,
    place: str,
    *,
    num_nodes: int | None = None,
    names: Sequence[str] | None = None,
    notes: tuple[str, ...] = (),
) -> EdgeTable:
    """Return the links between numbered nodes.

    Args:
        pairs: Node numbers, int64 [2, e].
        place: What messages call them.
        num_nodes: The nodes are 0..num_nodes-1. If neither this nor `names` is given, only the
            numbers that occur are nodes, so that huge numbers and gaps cost nothing.
        names: The name of node 0, 1, ...; if not given, a node is called its number.
        notes: Sentences to begin the notes with.

    Raises:
        GraphFormatError: A number is outside the nodes, or a name is impossible.
    """
    if names is not None:
        num_nodes = len(names)
        sorted_names(names, place)  # for its checks: the order of rows is that of the features
    if num_nodes is None:
        distinct, places = np.unique(pairs, return_inverse=True)
        require_names(len(distinct))
        called = tuple(map(str, distinct.tolist()))
        below = int((distinct < 0).sum())
        if below:
            what = counted(below, "negative number is a node", "negative numbers are nodes")
            notes += (f"{what}, such as {distinct[0]}: if they stand for no node, leave them out.",)
        pairs = places.reshape(2, -1).astype(np.int64)
    else:
        _check_range(pairs, num_nodes, place)
        called = tuple(names) if names is not None else tuple(map(str, range(num_nodes)))
    found = torch.from_numpy(pairs)
    return EdgeTable(called, found, notes, ends=("source", "target"), lists_both_ways=True)


def links_of_entries(entries: Entries, names: Sequence[str] | None = None) -> EdgeTable:
    """Return the links of an adjacency matrix: its entries that are not zero.

    Args:
        entries: The matrix; what its values are does not matter unless they are zero.
        names: The name of each row.

    Raises:
        GraphFormatError: The matrix is not square, or an entry is not a finite number.
    """
    place, shape, values = entries.place, entries.shape, entries.values
    if len(shape) != 2 or shape[0] != shape[1]:
        raise GraphFormatError(
            f"{place} has the shape {' x '.join(f'{n:,}' for n in shape)}, but an adjacency matrix "
            f"is square: a row and a column per node."
        )
    if values.dtype.kind not in "iufb" or not np.isfinite(values).all():
        raise GraphFormatError(
            f"{place} holds values that are no finite numbers.\nExpected 1 where a link is."
        )
    if names is not None and len(names) != shape[0]:
        raise GraphFormatError(
            f"{place} has {shape[0]:,} rows and {len(names):,} names. Expected a name per row."
        )
    kept = values != 0
    pairs = np.stack([entries.row[kept], entries.column[kept]]).astype(np.int64)
    notes: tuple[str, ...] = ()
    if (values[kept] != 1).any():
        notes = ("The matrix's values ignored: only the two ends of each link are used.",)
    return links_of_index(pairs, place, num_nodes=shape[0], names=names, notes=notes)


def links_beside_index(
    parts: Mapping[str, Any],
    place: str,
    time: str | None,
    names: Sequence[str] | None = None,
    notes: tuple[str, ...] = (),
) -> EdgeTable:
    """Return the links of an edge_index with what may stand beside it: x, num_nodes and times.

    Args:
        parts: Arrays or tensors by their names; others than these are not looked at.
        place: What messages call them together.
        time: Which of them holds the time of each link.
        names: The name of node 0, 1, ...
        notes: Sentences to begin the notes with.

    Raises:
        GraphFormatError: A part is missing or none of a graph.
        FeatureError: There is not a row of numbers in x for each node.
    """
    pairs = index_columns(parts["edge_index"], f"{place}: edge_index")
    x, num_nodes = parts.get("x"), parts.get("num_nodes")
    if num_nodes is None and x is not None:
        num_nodes = len(x)
    table = links_of_index(
        pairs,
        place,
        num_nodes=None if num_nodes is None else int(num_nodes),
        names=names,
        notes=notes,
    )
    if time is not None:
        times = parts[time]
        values = times.detach().cpu().numpy() if isinstance(times, Tensor) else np.asarray(times)
        if values.size != pairs.shape[1]:
            raise GraphFormatError(
                f"{place}: '{shown(time)}' has the shape {values.shape}, expected a time for each "
                f"of {pairs.shape[1]:,} links."
            )
        cells = pa.chunked_array([pa.array(values.reshape(-1))])
        found = read_times(cells, time, lambda row: f"{place}, link {row + 1:,}")
        table = replace(table, times=found)
    return table if x is None else _with_features(table, x, f"{place}: x")


def _with_features(table: EdgeTable, matrix: Any, place: str) -> EdgeTable:  # noqa: ANN401
    x = matrix_of_object(matrix, place)
    if len(x) != len(table.names):
        raise FeatureError(
            f"{place} has {len(x):,} rows, expected a row for each of {len(table.names):,} nodes."
        )
    return replace(table, x=compact(x))


def _check_range(pairs: np.ndarray, num_nodes: int, place: str) -> None:
    if pairs.size and (pairs.min() < 0 or pairs.max() >= num_nodes):
        raise GraphFormatError(
            f"{place}: node numbers must lie in 0..{num_nodes - 1:,}, "
            f"found {shown(str(pairs.min()))}..{shown(str(pairs.max()))}."
        )
    if num_nodes > MAX_ISOLATED + pairs.size:
        raise GraphFormatError(
            f"{place} claims {num_nodes:,} nodes for {pairs.shape[1]:,} links.\n"
            f"At most {MAX_ISOLATED:,} nodes without links are accepted."
        )
    require_names(num_nodes)


# --- NumPy archives ---


def read_npz_links(path: Path, options: LinkOptions) -> EdgeTable:
    """Read the links, and features if there are some, of an .npz file.

    Args:
        path: The file.
        options: Says which array holds the time of each link; only beside an edge_index.

    Raises:
        GraphFormatError: The arrays are damaged or not those of a graph.
        ConfigError: Columns or times were asked for where there can be none.
    """
    options.refuse_columns(path.name)
    found, time = npz_array_names(path), options.time
    arrays_found = f"Arrays found: {listed(found, 10, quoted=False) or 'none'}."
    with told(f"{path.name} does not describe a graph", _UNDERSTOOD):
        names = _names(path) if "names" in found else None
        if "edge_index" in found:
            if time is not None and time not in found:
                raise GraphFormatError(
                    f"{path.name} has no array '{shown(time)}' for the times. {arrays_found}"
                )
            keys = [key for key in ("edge_index", "x", "num_nodes", time) if key in found]
            return links_beside_index(read_npz_arrays(path, keys), path.name, time, names)
        if time is not None:
            raise ConfigError(
                f"{path.name} holds a matrix, which has no times.\nLeave out `time`, or save "
                f"edge_index and an array of times."
            )
        if "format" in found:
            return links_of_entries(_scipy_entries(path), names)
        if all(f"adj_{part}" in found for part in PARTS["csr"]):
            # The layout of the Amazon and other co-purchase and citation graphs.
            table = links_of_entries(_entries(path, "csr", "adj_"), names)
            if "attr_data" not in found:
                return table
            x = _entries(path, "csr", "attr_")
            return _with_features(table, x.tensor(), x.place)
    raise GraphFormatError(f"{path.name} holds no graph. {arrays_found}\n{_UNDERSTOOD}")


def read_npz_matrix(path: Path) -> Tensor:
    """Read a sparse matrix that scipy saved; float32, coalesced, not yet checked for NaN.

    Raises:
        GraphFormatError: The file is damaged or holds something else.
    """
    return _scipy_entries(path).tensor()


def _scipy_entries(path: Path) -> Entries:
    (kind,) = read_npz_arrays(path, ["format"])["format"].reshape(-1)[:1].tolist() or [""]
    kind = kind.decode("ascii", "replace") if isinstance(kind, bytes) else str(kind)
    if kind not in PARTS:
        raise GraphFormatError(
            f"{path.name} holds a matrix of the format '{shown(kind)}'; csr, csc and coo are read."
            f"\nSave it with: scipy.sparse.save_npz(file, matrix.tocsr())"
        )
    return _entries(path, kind)


def _entries(path: Path, kind: str, prefix: str = "") -> Entries:
    arrays = read_npz_arrays(path, [f"{prefix}{part}" for part in PARTS[kind]])
    return stored_entries(arrays, kind, path.name, prefix)


def _names(path: Path) -> list[str]:
    names = read_npz_arrays(path, ["names"])["names"]
    if names.ndim != 1 or names.dtype.kind not in "US":
        raise GraphFormatError(
            f"{path.name}: names is an array of {names.dtype} with {names.ndim} dimensions.\n"
            f"Expected a text per node, such as np.array(['Anna', 'Bob'])."
        )
    try:
        return [n if isinstance(n, str) else n.decode() for n in names.tolist()]
    except UnicodeDecodeError as error:
        raise GraphFormatError(
            f"{path.name}: a name is not UTF-8. Save the names as text (dtype U)."
        ) from error


# --- Features ---


def matrix_of_object(matrix: Any, place: str) -> Tensor:  # noqa: ANN401
    """Return a numpy array, scipy sparse matrix or torch tensor as float32, dense or sparse COO.

    Numbers that are too large for 32 bits become infinite.

    Args:
        matrix: A row per node, a column per feature.
        place: What messages call it.

    Raises:
        FeatureError: It has not two dimensions, or holds no real numbers.
        GraphFormatError: It is larger than anything that can be trained on.
    """
    shape = tuple(matrix.shape)
    if len(shape) != 2:
        raise FeatureError(
            f"{place} has the shape {list(shape)}, expected two dimensions: nodes and features."
        )
    check_shape(place, shape)
    if isinstance(matrix, Tensor):
        # A tensor may be without values (meta), quantised, ...
        with told(f"{place} cannot be read", "Give a plain tensor of numbers."):
            matrix = matrix.detach().cpu()
            if matrix.layout is not torch.strided:
                matrix = matrix.to_sparse_coo().coalesce()
                row, column = matrix.indices().numpy()
                return Entries(place, shape, row, column, matrix.values().numpy()).tensor()
            matrix = (matrix.float() if matrix.dtype is torch.bfloat16 else matrix).numpy()
    if hasattr(matrix, "tocoo"):
        found = matrix.tocoo()
        return Entries(place, shape, found.row, found.col, found.data).tensor()
    return torch.from_numpy(as_float32(place, np.asarray(matrix)).copy(order="C"))
