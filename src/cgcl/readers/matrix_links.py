"""Links from numbers: adjacency matrices and lists of node numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from cgcl.errors import GraphFormatError
from cgcl.graph.wording import shown
from cgcl.readers.edge_table import EdgeTable
from cgcl.readers.node_names import sorted_names

__all__ = ["MAX_ISOLATED", "edges_from_entries", "edges_from_index", "index_columns"]

MAX_ISOLATED = 10_000_000
"""Nodes without links that a number may claim: a name for each of them takes memory."""


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


def edges_from_index(
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
    return EdgeTable(
        called,
        torch.from_numpy(pairs),
        notes,
        ends=("source", "target"),
        lists_both_ways=True,
    )


def edges_from_entries(
    row: np.ndarray,
    column: np.ndarray,
    values: np.ndarray,
    shape: tuple[int, ...],
    place: str,
    names: Sequence[str] | None = None,
) -> EdgeTable:
    """Return the links of an adjacency matrix: its entries that are not zero.

    Args:
        row: Row of each entry.
        column: Column of each entry.
        values: The entries; what they are does not matter unless they are zero.
        shape: Rows and columns.
        place: What messages call the matrix.
        names: The name of each row.

    Raises:
        GraphFormatError: The matrix is not square, or an entry is not a finite number.
    """
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
    pairs = np.stack([row[kept], column[kept]]).astype(np.int64)
    notes = (
        ("The matrix's values ignored: only the two ends of each link are used.",)
        if (values[kept] != 1).any()
        else ()
    )
    return edges_from_index(pairs, place, num_nodes=int(shape[0]), names=names, notes=notes)


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
