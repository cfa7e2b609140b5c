"""One door for node features: tables and matrices, from files and from memory."""

from __future__ import annotations

import itertools
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cgcl.errors import ConfigError, FeatureError, GraphFormatError
from cgcl.graph.feature_matrix import compact, same_for_every_node
from cgcl.graph.wording import listed, shown
from cgcl.readers.feature_arrow import columns_of_frame, columns_of_parquet
from cgcl.readers.feature_columns import FeatureColumns, TextColumns
from cgcl.readers.feature_csv import columns_of_text_file
from cgcl.readers.feature_file import check_finite, matrix_of_file, matrix_of_object
from cgcl.readers.row_names import names_of_rows

__all__ = ["FEATURE_SUFFIXES", "FeatureTable", "read_features"]

_TEXT = (".csv", ".tsv", ".tab", ".txt")
_PARQUET = (".parquet", ".pq")
_MATRIX = (".npz", ".mtx")
FEATURE_SUFFIXES = (*_TEXT, *_PARQUET, *_MATRIX)
"""The files that features are read from; one without a suffix is read as text."""


@dataclass(frozen=True)
class FeatureTable:
    """The features of all nodes, and with them the node set."""

    names: tuple[str, ...]
    """Every node of the source, sorted by code points: one without links belongs to the graph."""
    x: Tensor
    """Float32 [n, d] in the order of `names`, coalesced sparse COO or dense."""
    notes: tuple[str, ...]
    """What is worth knowing about them, a sentence each."""
    feature_names: tuple[str, ...] = ()
    """What each feature is called; empty if they come from a matrix."""


def read_features(
    source: Any,  # noqa: ANN401 (objects of packages that need not be there)
    linked: Collection[str],
    *,
    separator: str | None = None,
    header: bool = True,
    one_hot: Sequence[str] = (),
    words: str | None = None,
    row_names: str | Path | Sequence[str] | None = None,
) -> FeatureTable:
    """Read the features of every node.

    - A table (CSV, TSV, Parquet, or a frame of pandas, polars or pyarrow): the first column names
      the node, the others hold numbers, or text if `one_hot` or `words` says so.
    - A matrix (.npz as scipy.sparse saves it, .mtx, numpy, scipy.sparse, torch): row k belongs to
      the k-th of `row_names`, or else to the node called k.

    Args:
        source: A path, or an object.
        linked: The nodes that have links; each needs a row. Rows of other nodes are welcome: those
            nodes join the graph without links.
        separator: The character between columns of text; None chooses by the file's suffix.
        header: Whether a table of text begins with column names; without, columns are called 1, 2.
        one_hot: Columns with categories: a feature for each value that occurs.
        words: The column with words: a feature for each word that occurs.
        row_names: For a matrix: a text file with one node name per line, or the names.

    Raises:
        GraphFormatError: The source is not a table or matrix.
        FeatureError: A number is not finite, a node has two rows, or a linked node has none.
        ConfigError: The options contradict each other or the source.
        ResourceError: The features do not fit into memory.
    """
    text = TextColumns(tuple(dict.fromkeys(one_hot)), words)
    kind = _kind(source)
    if kind == "matrix":
        return _from_matrix(source, linked, text, row_names)
    if row_names is not None:
        raise ConfigError(
            "A table names its nodes in the first column.\n"
            "Leave out `row_names`; it is for matrices (.npz, .mtx)."
        )
    columns = _columns(source, kind, text, separator, header)
    x, feature_names, notes = columns.to_features(text)
    return _checked(columns.names, x, columns.place, linked, feature_names, notes)


def _kind(source: object) -> str:
    if isinstance(source, (str, os.PathLike)):
        suffix = Path(source).suffix.lower()
        if suffix in _MATRIX:
            return "matrix"
        if suffix in _PARQUET:
            return "parquet"
        if suffix in ("", *_TEXT) or Path(source).is_dir():
            return "text"
        raise GraphFormatError(
            f"{shown(Path(source).name)}: files of the kind '{shown(suffix)}' are not read as "
            f"features.\nSave it as one of {' '.join(FEATURE_SUFFIXES)}: a row per node."
        )
    if isinstance(source, (Tensor, np.ndarray)) or hasattr(source, "tocoo"):
        return "matrix"
    if any(hasattr(source, mark) for mark in ("__arrow_c_stream__", "__dataframe__")):
        return "frame"
    raise FeatureError(
        f"Features of the type {type(source).__name__} are not read.\n"
        f"Give a file, a table (pandas, polars, pyarrow), or a matrix (numpy, scipy.sparse, torch)."
    )


def _columns(
    source: Any,  # noqa: ANN401
    kind: str,
    text: TextColumns,
    separator: str | None,
    header: bool,
) -> FeatureColumns:
    if kind == "frame":
        return columns_of_frame(source, text)
    if kind == "parquet":
        return columns_of_parquet(Path(source), text)
    return columns_of_text_file(Path(source), text, separator=separator, header=header)


def _from_matrix(
    source: Any,  # noqa: ANN401
    linked: Collection[str],
    text: TextColumns,
    row_names: str | Path | Sequence[str] | None,
) -> FeatureTable:
    if text.all:
        raise ConfigError(
            "A matrix of features has numbers only, no columns of text.\n"
            "Leave out `one_hot` and `words`, or give a table."
        )
    is_file = isinstance(source, (str, os.PathLike))
    place = Path(source).name if is_file else f"features ({type(source).__name__})"
    x = matrix_of_file(Path(source)) if is_file else matrix_of_object(source, place)
    listed_in = Path(row_names) if isinstance(row_names, (str, os.PathLike)) else row_names
    names = names_of_rows(listed_in, x.shape[0], place)
    check_finite(x, names, place)
    if row_names is None:
        _check_numbered(linked, x.shape[0], place)
    return _checked(names, x, place, linked, (), [])


def _check_numbered(linked: Collection[str], rows: int, place: str) -> None:
    known = {str(row) for row in range(rows)}
    others = sorted(name for name in set(linked) if name not in known)
    if others:
        raise FeatureError(
            f"{place} has {rows:,} rows without names, so they belong to the nodes called 0 to "
            f"{rows - 1}.\n{len(others):,} node{'' if len(others) == 1 else 's'} with links "
            f"{'is' if len(others) == 1 else 'are'} called otherwise: {listed(others)}.\n"
            f"Give a text file with the node of each row, one name per line: `row_names=FILE`"
        )


def _checked(
    names: list[str],
    x: Tensor,
    place: str,
    linked: Collection[str],
    feature_names: tuple[str, ...],
    notes: list[str],
) -> FeatureTable:
    """Put the rows in the order of the names, after checking that they are those of the graph."""
    order = sorted(range(len(names)), key=names.__getitem__)
    ordered = tuple(names[row] for row in order)
    _check_unique(place, ordered)
    _check_complete(place, linked, ordered)
    x = compact(x.index_select(0, torch.tensor(order)))
    found = [
        *_extra_note(place, len(ordered) - len(set(linked))),
        *notes,
        *_constant_notes(x, feature_names),
    ]
    return FeatureTable(ordered, x, tuple(found), feature_names)


def _check_unique(place: str, ordered: tuple[str, ...]) -> None:
    twice = [a for a, b in itertools.pairwise(ordered) if a == b]
    if twice:
        distinct = sorted(set(twice))
        raise FeatureError(
            f"{place}: more than one row for node {listed(distinct)}.\n"
            f"Keep one row per node; {len(twice):,} too many."
        )


def _check_complete(place: str, linked: Collection[str], ordered: tuple[str, ...]) -> None:
    missing = sorted(set(linked).difference(ordered))
    if missing:
        raise FeatureError(
            f"{place} has no row for {len(missing):,} node{'' if len(missing) == 1 else 's'} "
            f"with links: {listed(missing)}.\n"
            f"Add a row for each, or leave their links out."
        )


def _extra_note(place: str, extra: int) -> list[str]:
    if extra == 0:
        return []
    return [f"{extra:,} node{'' if extra == 1 else 's'} of {place} without links kept as isolated."]


def _constant_notes(x: Tensor, feature_names: tuple[str, ...]) -> list[str]:
    """Say which features tell no node from another."""
    if x.shape[0] < 2:
        return []
    zero, constant = same_for_every_node(x)
    notes: list[str] = []
    for columns, what in ((constant, "the same"), (zero, "zero")):
        if columns:
            labels = [
                f"'{shown(feature_names[k])}'" if feature_names else f"{k + 1}" for k in columns[:5]
            ]
            more = f" and {len(columns) - 5:,} more" if len(columns) > 5 else ""
            many = len(columns) > 1
            notes.append(
                f"Feature{'s' if many else ''} {', '.join(labels)}{more} "
                f"{'are' if many else 'is'} {what} for every node."
            )
    return notes
