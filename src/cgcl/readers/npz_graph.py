"""Graphs in NumPy archives: a sparse matrix, or an edge_index."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from cgcl.errors import CGCLError, ConfigError, GraphFormatError
from cgcl.graph.feature_matrix import compact, from_compressed_rows
from cgcl.graph.wording import listed, shown
from cgcl.readers.edge_table import EdgeTable
from cgcl.readers.matrix_links import edges_from_entries, edges_from_index, index_columns
from cgcl.readers.npz import npz_array_names, read_npz_arrays
from cgcl.readers.times import read_times

__all__ = ["read_npz_graph"]

_COMPRESSED = ("data", "indices", "indptr", "shape")
_UNDERSTOOD = (
    "Understood are: a matrix from scipy.sparse.save_npz (csr, csc or coo); adj_data, adj_indices, "
    "adj_indptr,\nadj_shape (and attr_... for features); or edge_index (and x, num_nodes). "
    "Also names, a text per node."
)


def read_npz_graph(path: Path, *, time: str | None = None) -> EdgeTable:
    """Read the links, and features if there are some, of an .npz file.

    Args:
        path: The file.
        time: Array with the time of each link; only beside an edge_index.

    Raises:
        GraphFormatError: The arrays are damaged or not those of a graph.
        ConfigError: Times were asked for where there can be none.
    """
    found = npz_array_names(path)
    extra = [key for key in ("names",) if key in found]
    try:
        if "edge_index" in found:
            return _from_index(path, found, extra, time)
        if time is not None:
            raise ConfigError(
                f"{path.name} holds a matrix, which has no times.\nLeave out `time`, or save "
                f"edge_index and an array of times."
            )
        if "format" in found:
            return _from_scipy(path, extra)
        if all(f"adj_{part}" in found for part in _COMPRESSED):
            return _from_adjacency(path, found, extra)
    except CGCLError:
        raise
    except Exception as error:  # arrays of odd shapes and types break in many ways
        raise GraphFormatError(
            f"{path.name} does not describe a graph: {shown(str(error), 120)}\n{_UNDERSTOOD}"
        ) from error
    raise GraphFormatError(
        f"{path.name} holds no graph. Arrays found: {listed(found, 10, quoted=False) or 'none'}.\n"
        f"{_UNDERSTOOD}"
    )


def _from_index(
    path: Path, found: tuple[str, ...], extra: list[str], time: str | None
) -> EdgeTable:
    known = [key for key in ("x", "num_nodes") if key in found]
    if time is not None and time not in found:
        raise GraphFormatError(
            f"{path.name} has no array '{shown(time)}' for the times. "
            f"Arrays found: {listed(found, 10, quoted=False)}."
        )
    wanted = ["edge_index", *extra, *known, *([] if time is None else [time])]
    arrays = read_npz_arrays(path, wanted)
    place = f"edge_index in {path.name}"
    pairs = index_columns(arrays["edge_index"], place)
    num_nodes = int(arrays["num_nodes"]) if "num_nodes" in arrays else None
    x = torch.from_numpy(arrays["x"].astype(np.float32)) if "x" in arrays else None
    if num_nodes is None and x is not None:
        num_nodes = len(x)
    table = edges_from_index(pairs, place, num_nodes=num_nodes, names=_names(arrays, path.name))
    if time is not None:
        table = replace(table, times=_times(arrays[time], pairs.shape[1], time, path.name))
    if x is None:
        return table
    if x.dim() != 2 or len(x) != len(table.names):
        raise GraphFormatError(
            f"{path.name}: x has the shape {list(x.shape)}, expected a row for each of "
            f"{len(table.names):,} nodes."
        )
    return replace(table, x=compact(x))


def _from_scipy(path: Path, extra: list[str]) -> EdgeTable:
    kind = read_npz_arrays(path, ["format"])["format"].item()
    kind = kind.decode("ascii", "replace") if isinstance(kind, bytes) else str(kind)
    keys = {"coo": ("data", "row", "col", "shape"), "csr": _COMPRESSED, "csc": _COMPRESSED}.get(
        kind
    )
    if keys is None:
        raise GraphFormatError(
            f"{path.name} holds a matrix in the format '{shown(kind)}'; csr, csc and coo are read."
            f"\nSave it with: scipy.sparse.save_npz(file, matrix.tocsr())"
        )
    arrays = read_npz_arrays(path, [*keys, *extra])
    shape = _shape(arrays["shape"], path.name)
    names, place = _names(arrays, path.name), f"The matrix in {path.name}"
    if kind == "coo":
        ends = index_columns(np.stack([arrays["row"], arrays["col"]]), place)
        return edges_from_entries(ends[0], ends[1], arrays["data"], shape, place, names)
    return _from_compressed(arrays, "", shape, place, names)


def _from_adjacency(path: Path, found: tuple[str, ...], extra: list[str]) -> EdgeTable:
    """Read the layout of the Amazon and other co-purchase and citation graphs."""
    matrices = ["adj", *(["attr"] if "attr_data" in found else [])]
    keys = [f"{matrix}_{part}" for matrix in matrices for part in _COMPRESSED]
    arrays = read_npz_arrays(path, [*keys, *extra])
    shape = _shape(arrays["adj_shape"], path.name)
    place = f"The adjacency matrix in {path.name}"
    table = _from_compressed(arrays, "adj_", shape, place, _names(arrays, path.name))
    if "attr" not in matrices:
        return table
    x = from_compressed_rows(
        arrays["attr_indptr"],
        arrays["attr_indices"],
        arrays["attr_data"],
        _shape(arrays["attr_shape"], path.name),
    )
    if len(x) != len(table.names):
        raise GraphFormatError(
            f"{path.name} has {len(x):,} rows of features for {len(table.names):,} nodes.\n"
            f"Expected as many rows in attr as in adj."
        )
    return replace(table, x=compact(x))


def _from_compressed(
    arrays: dict[str, np.ndarray],
    prefix: str,
    shape: tuple[int, int],
    place: str,
    names: list[str] | None,
) -> EdgeTable:
    values = arrays[f"{prefix}data"]
    indptr, indices = arrays[f"{prefix}indptr"], arrays[f"{prefix}indices"]
    # Values stay behind: as float32 they could vanish, and duplicates must not be added up.
    from_compressed_rows(indptr, indices, np.ones(len(values)), shape)
    rows = np.repeat(np.arange(shape[0]), np.diff(indptr.astype(np.int64)))
    return edges_from_entries(rows, indices, values, shape, place, names)


def _shape(shape: np.ndarray, file: str) -> tuple[int, int]:
    if shape.shape != (2,) or shape.dtype.kind not in "iu" or (shape < 0).any():
        raise GraphFormatError(f"{file}: the shape of a matrix must be two whole numbers.")
    return int(shape[0]), int(shape[1])


def _names(arrays: dict[str, np.ndarray], file: str) -> list[str] | None:
    if "names" not in arrays:
        return None
    names = arrays["names"]
    if names.ndim != 1 or names.dtype.kind not in "US":
        raise GraphFormatError(
            f"{file}: names is an array of {names.dtype} with {names.ndim} dimensions.\n"
            f"Expected a text per node, such as np.array(['Anna', 'Bob'])."
        )
    try:
        return [n if isinstance(n, str) else n.decode() for n in names.tolist()]
    except UnicodeDecodeError as error:
        raise GraphFormatError(
            f"{file}: a name is not UTF-8. Save the names as text (dtype U)."
        ) from error


def _times(values: np.ndarray, links: int, time: str, file: str) -> torch.Tensor:
    import pyarrow as pa

    if values.shape != (links,):
        raise GraphFormatError(
            f"{file}: '{shown(time)}' has the shape {values.shape}, expected a time for each of "
            f"{links:,} links."
        )
    cells = pa.chunked_array([pa.array(values)])
    return torch.from_numpy(read_times(cells, time, lambda row: f"{file}, link {row + 1:,}"))
