"""Matrices and lists of node numbers: adjacency, edge_index, and features without names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from cgcl.errors import ConfigError, FeatureError, GraphFormatError
from cgcl.graph.features import compact
from cgcl.graph.wording import listed, shown
from cgcl.readers.edge_table import EdgeTable, LinkOptions
from cgcl.readers.node_names import sorted_names
from cgcl.readers.npz import npz_array_names, read_npz_arrays
from cgcl.readers.regular_file import told
from cgcl.readers.tables import read_times

MAX_ISOLATED = 10_000_000
"""Nodes without links that a number may claim: a name for each of them takes memory."""
_MAX_ROWS, _MAX_COLUMNS = 10_000_000, 1_000_000
_COMPRESSED = ("data", "indices", "indptr", "shape")
_UNDERSTOOD = (
    "Understood are: a matrix from scipy.sparse.save_npz (csr, csc or coo); adj_data, adj_indices, "
    "adj_indptr,\nadj_shape (and attr_... for features); or edge_index (and x, num_nodes). "
    "Also names, a text per node."
)


@dataclass(frozen=True)
class Entries:
    """The entries of a sparse matrix."""

    place: str
    """What messages call the matrix."""
    shape: tuple[int, ...]
    """Rows and columns."""
    row: np.ndarray
    """The row of each entry."""
    column: np.ndarray
    """The column of each entry."""
    values: np.ndarray
    """What the entries are."""


# --- Links between numbered nodes ---


def index_columns(array: np.ndarray, place: str) -> np.ndarray:
    """Return an edge_index as int64 [2, e], or refuse what is not one.

    Raises:
        GraphFormatError: It has another shape, or holds no whole numbers.
    """
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
        called = tuple(map(str, distinct.tolist()))
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


def times_of_links(values: np.ndarray, num_links: int, time: str, place: str) -> Tensor:
    """Return the time of each link from an array of them.

    Raises:
        GraphFormatError: There are more or fewer, or one is no time.
    """
    if values.shape != (num_links,):
        raise GraphFormatError(
            f"{place}: '{shown(time)}' has the shape {values.shape}, expected a time for each of "
            f"{num_links:,} links."
        )
    cells = pa.chunked_array([pa.array(values)])
    return read_times(cells, time, lambda row: f"{place}, link {row + 1:,}")


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
    found = npz_array_names(path)
    with told(f"{path.name} does not describe a graph", _UNDERSTOOD):
        if "edge_index" in found:
            return _links_beside_index(path, found, options.time)
        if options.time is not None:
            raise ConfigError(
                f"{path.name} holds a matrix, which has no times.\nLeave out `time`, or save "
                f"edge_index and an array of times."
            )
        if "format" in found:
            return links_of_entries(_scipy_entries(path), _names(path, found))
        if all(f"adj_{part}" in found for part in _COMPRESSED):
            return _adjacency_and_attributes(path, found)
    raise GraphFormatError(
        f"{path.name} holds no graph. Arrays found: {listed(found, 10, quoted=False) or 'none'}.\n"
        f"{_UNDERSTOOD}"
    )


def read_npz_matrix(path: Path) -> Tensor:
    """Read a sparse matrix that scipy saved; float32, coalesced, not yet checked for NaN.

    Raises:
        GraphFormatError: The file is damaged or holds something else.
    """
    return sparse_tensor(_scipy_entries(path))


def _links_beside_index(path: Path, found: tuple[str, ...], time: str | None) -> EdgeTable:
    if time is not None and time not in found:
        raise GraphFormatError(
            f"{path.name} has no array '{shown(time)}' for the times. "
            f"Arrays found: {listed(found, 10, quoted=False)}."
        )
    wanted = [key for key in ("edge_index", "x", "num_nodes", time) if key in found]
    arrays = read_npz_arrays(path, [key for key in wanted if key is not None])
    place = f"edge_index in {path.name}"
    pairs = index_columns(arrays["edge_index"], place)
    x = torch.from_numpy(arrays["x"].astype(np.float32)) if "x" in arrays else None
    num_nodes = int(arrays["num_nodes"]) if "num_nodes" in arrays else None
    if num_nodes is None and x is not None:
        num_nodes = len(x)
    table = links_of_index(pairs, place, num_nodes=num_nodes, names=_names(path, found))
    if time is not None:
        times = times_of_links(arrays[time], pairs.shape[1], time, path.name)
        table = replace(table, times=times)
    if x is None:
        return table
    if x.dim() != 2 or len(x) != len(table.names):
        raise GraphFormatError(
            f"{path.name}: x has the shape {list(x.shape)}, expected a row for each of "
            f"{len(table.names):,} nodes."
        )
    return replace(table, x=compact(x))


def _adjacency_and_attributes(path: Path, found: tuple[str, ...]) -> EdgeTable:
    """Read the layout of the Amazon and other co-purchase and citation graphs."""
    table = links_of_entries(_entries_of(path, "adj_", "csr"), _names(path, found))
    if "attr_data" not in found:
        return table
    x = sparse_tensor(_entries_of(path, "attr_", "csr"))
    if len(x) != len(table.names):
        raise GraphFormatError(
            f"{path.name} has {len(x):,} rows of features for {len(table.names):,} nodes.\n"
            f"Expected as many rows in attr as in adj."
        )
    return replace(table, x=compact(x))


def _scipy_entries(path: Path) -> Entries:
    (kind,) = read_npz_arrays(path, ["format"])["format"].reshape(-1)[:1].tolist() or [""]
    kind = kind.decode("ascii", "replace") if isinstance(kind, bytes) else str(kind)
    if kind not in ("csr", "csc", "coo"):
        raise GraphFormatError(
            f"{path.name} holds a matrix of the format '{shown(kind)}'; csr, csc and coo are read."
            f"\nSave it with: scipy.sparse.save_npz(file, matrix.tocsr())"
        )
    return _entries_of(path, "", kind)


def _entries_of(path: Path, prefix: str, kind: str) -> Entries:
    """Return the entries of a matrix from its arrays, which may be of any shape and type."""
    parts = ("data", "row", "col", "shape") if kind == "coo" else _COMPRESSED
    arrays = read_npz_arrays(path, [f"{prefix}{part}" for part in parts])
    values, one, other, shape = (arrays[f"{prefix}{part}"] for part in parts)
    place = f"The matrix '{prefix[:-1]}' in {path.name}" if prefix else path.name
    if shape.shape != (2,) or shape.dtype.kind not in "iu" or (shape < 0).any():
        raise GraphFormatError(
            f"{place} has the shape {shown(str(shape.tolist()))}, expected two whole numbers."
        )
    size = (int(shape[0]), int(shape[1]))
    if kind != "coo":
        # `one` are columns, `other` says where each row starts.
        length = size[0] if kind == "csr" else size[1]
        one, other = _expanded(other, length, values.size, place, size), one
    if kind == "csc":
        one, other = other, one
    is_sound = one.ndim == 1 and one.shape == other.shape == values.shape
    if not is_sound or one.dtype.kind not in "iu" or other.dtype.kind not in "iu":
        raise _damaged(place, size)
    if one.size and (
        min(one.min(), other.min()) < 0 or one.max() >= size[0] or other.max() >= size[1]
    ):
        raise _damaged(place, size)
    return Entries(place, size, one, other, values)


def _expanded(
    starts: np.ndarray, length: int, entries: int, place: str, shape: tuple[int, ...]
) -> np.ndarray:
    """Return the row of each entry, from where each row starts."""
    if starts.shape != (length + 1,) or starts.dtype.kind not in "iu":
        raise _damaged(place, shape)
    starts = starts.astype(np.int64)
    sizes = np.diff(starts)
    if starts[0] != 0 or (sizes < 0).any() or starts[-1] != entries:
        raise _damaged(place, shape)
    return np.repeat(np.arange(length), sizes)


def _names(path: Path, found: tuple[str, ...]) -> list[str] | None:
    if "names" not in found:
        return None
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


def _damaged(place: str, shape: tuple[int, ...]) -> GraphFormatError:
    size = " and ".join(f"{n:,} {what}" for n, what in zip(shape, ("rows", "columns"), strict=True))
    return GraphFormatError(
        f"{place}: its arrays do not describe a matrix of {size}.\n"
        f"The file is damaged; save it again."
    )


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
        matrix = matrix.detach().cpu()
        if matrix.layout is not torch.strided:
            matrix = matrix.to_sparse_coo().coalesce()
            row, column = matrix.indices().numpy()
            return sparse_tensor(Entries(place, shape, row, column, matrix.values().numpy()))
        matrix = (matrix.float() if matrix.dtype is torch.bfloat16 else matrix).numpy()
    if hasattr(matrix, "tocoo"):
        found = matrix.tocoo()
        return sparse_tensor(Entries(place, shape, found.row, found.col, found.data))
    return torch.from_numpy(as_float32(place, np.asarray(matrix)).copy(order="C"))


def sparse_tensor(entries: Entries) -> Tensor:
    """Return a sparse matrix as a coalesced tensor, float32; what is listed twice is added up.

    Raises:
        GraphFormatError: It is empty, or larger than anything that can be trained on.
        FeatureError: It holds no real numbers.
    """
    check_shape(entries.place, entries.shape)
    return torch.sparse_coo_tensor(
        torch.from_numpy(np.stack([entries.row, entries.column]).astype(np.int64)),
        torch.from_numpy(as_float32(entries.place, entries.values).copy()),
        entries.shape,
        check_invariants=True,
    ).coalesce()


def check_shape(place: str, shape: tuple[int, ...]) -> None:
    """Refuse a matrix that cannot be the features of a graph.

    Raises:
        GraphFormatError: It is empty, or larger than anything that can be trained on.
    """
    rows, columns = shape
    if not (0 < rows <= _MAX_ROWS and 0 < columns <= _MAX_COLUMNS):
        raise GraphFormatError(
            f"{place} is a matrix of {rows:,} rows and {columns:,} columns.\n"
            f"Features need a row per node (up to {_MAX_ROWS:,}) and a column per feature (up to "
            f"{_MAX_COLUMNS:,})."
        )


def as_float32(place: str, values: np.ndarray) -> np.ndarray:
    """Return numbers as float32; those that are too large become infinite.

    Raises:
        FeatureError: They are no real numbers.
    """
    if values.dtype.kind not in "biuf":
        raise FeatureError(
            f"{place} holds values of the type {shown(str(values.dtype))}, expected real numbers."
        )
    with np.errstate(over="ignore"):  # too large becomes infinite, which is refused later
        return values.astype(np.float32)
