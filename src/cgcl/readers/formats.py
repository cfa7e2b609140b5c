"""What is read, and by whom: the table of formats, and the doors for links and for features.

A new format is a reader and a line in `FORMATS`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from torch import Tensor

from cgcl.errors import ConfigError, FeatureError, GraphFormatError
from cgcl.readers.edge_table import EdgeTable, LinkOptions
from cgcl.readers.features import (
    FeatureOptions,
    FeatureTable,
    features_of_matrix,
    features_of_table,
)
from cgcl.readers.matrices import matrix_of_object, read_npz_links, read_npz_matrix
from cgcl.readers.matrix_market import read_matrix_market
from cgcl.readers.objects import read_object
from cgcl.readers.tables import Table, frame_table, links_of, open_parquet
from cgcl.readers.text import open_table, read_edge_list, read_text_links
from cgcl.readers.xml_graph import read_xml_graph
from cgcl.wording import shown


@dataclass(frozen=True)
class Format:
    """A kind of file: who reads links from it, and who reads features.

    Links are an `EdgeTable`. Features are a table that names its nodes, or a matrix that does not;
    what becomes of either is the same for all formats.
    """

    suffixes: tuple[str, ...]
    """How the names of such files end."""
    what: str
    """What it is."""
    links: Callable[[Path, LinkOptions], EdgeTable] | None = None
    """Reads links; None if there are none in it."""
    features: Callable[[Path, FeatureOptions], Table | Tensor] | None = None
    """Reads a row of features per node; None if there are none in it."""


def _parquet_links(path: Path, options: LinkOptions) -> EdgeTable:
    return links_of(open_parquet(path), options)


def _parquet_features(path: Path, _: FeatureOptions) -> Table:
    return open_parquet(path)


def _text_features(path: Path, options: FeatureOptions) -> Table:
    needed = "a node name and at least one feature"
    return open_table(path, options.separator, header=options.header, needed=needed)


FORMATS = [
    Format((".csv", ".tsv", ".tab"), "a table of text", read_text_links, _text_features),
    Format((".txt",), "a table or list of text", read_edge_list, _text_features),
    Format((".edges", ".edgelist"), "an edge list", read_edge_list),
    Format((".parquet", ".pq"), "Apache Parquet", _parquet_links, _parquet_features),
    Format((".graphml",), "GraphML", read_xml_graph),
    Format((".gexf",), "GEXF, as Gephi saves it", read_xml_graph),
    Format((".npz",), "a NumPy archive", read_npz_links, lambda path, _: read_npz_matrix(path)),
    Format((".mtx",), "Matrix Market", features=lambda path, _: read_matrix_market(path)),
]
"""All kinds of files; one without a suffix is a table of text."""


def suffixes(what: Literal["links", "features"]) -> list[str]:
    """Return the suffixes of all files that links, or features, are read from."""
    return [suffix for kind in FORMATS if getattr(kind, what) for suffix in kind.suffixes]


def _reader(path: Path, what: Literal["links", "features"]) -> Callable[[Path, Any], Any]:
    """Return who reads links, or features, from a file, by its suffix."""
    suffix = path.suffix.lower()
    found = next((kind for kind in FORMATS if suffix in kind.suffixes), None)
    is_folder = False
    with contextlib.suppress(OSError):
        is_folder = path.is_dir()  # which every reader refuses
    if found is None and (not suffix or is_folder):
        found = FORMATS[0]
    reader = getattr(found, what, None)
    if reader is None:
        as_what, shape = ("", "") if what == "links" else (" as features", ": a row per node")
        raise GraphFormatError(
            f"{shown(path.name)}: files of the kind '{shown(suffix)}' are not read{as_what}.\n"
            f"Save it as one of {' '.join(suffixes(what))}{shape}."
        )
    return reader


def read_links(graph: Any, options: LinkOptions = LinkOptions()) -> EdgeTable:  # noqa: ANN401, B008
    """Return the links of a file or an object as they are written.

    Raises:
        GraphFormatError: There is no such file, or it cannot be read as links.
        ConfigError: The options contradict each other.
        ResourceError: Memory does not suffice.
    """
    if not isinstance(graph, (str, os.PathLike)):
        return read_object(graph, options)
    return _reader(Path(graph), "links")(Path(graph), options)


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
    options = FeatureOptions(separator, header, tuple(dict.fromkeys(one_hot)), words)
    is_file = isinstance(source, (str, os.PathLike))
    place = Path(source).name if is_file else f"features ({type(source).__name__})"
    if is_file:
        found = _reader(Path(source), "features")(Path(source), options)
    elif isinstance(source, (Tensor, np.ndarray)) or hasattr(source, "tocoo"):
        found = matrix_of_object(source, place)
    elif any(hasattr(source, mark) for mark in ("__arrow_c_stream__", "__dataframe__")):
        found = frame_table(source, place)
    else:
        raise FeatureError(
            f"Features of the type {type(source).__name__} are not read.\nGive a file, a table "
            f"(pandas, polars, pyarrow), or a matrix (numpy, scipy.sparse, torch)."
        )
    if isinstance(found, Tensor):
        options.refuse_text()
        listed_in = Path(row_names) if isinstance(row_names, (str, os.PathLike)) else row_names
        return features_of_matrix(found, place, listed_in, linked)
    if row_names is not None:
        raise ConfigError(
            "A table names its nodes in the first column.\n"
            "Leave out `row_names`; it is for matrices (.npz, .mtx)."
        )
    return features_of_table(found, options, linked)
