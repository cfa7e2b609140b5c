"""One door for every graph: a data set's name or a file of links."""

from __future__ import annotations

import difflib
import re
from pathlib import Path

from cgcl.errors import ConfigError, GraphFormatError
from cgcl.graph.graph import Graph
from cgcl.graph.wording import shown
from cgcl.readers.datasets import DATASETS, load_dataset
from cgcl.readers.features import read_features
from cgcl.readers.table import read_edge_table

__all__ = ["TABLE_SUFFIXES", "read"]

TABLE_SUFFIXES = (".csv", ".tsv", ".tab", ".txt", ".edges")
_MAX_TITLE_LENGTH = 60  # four bytes a character still fit into a folder name


def read(
    graph: str | Path,
    *,
    features: str | Path | None = None,
    source: str = "source",
    target: str = "target",
    separator: str | None = None,
    header: bool = True,
    data_root: str | Path | None = None,
    download: bool = True,
) -> Graph:
    """Return a graph from a file of links, or one of the paper's data sets by its name.

    Node names are kept exactly as written: "007" and "NA" are names like any other. Nodes are in
    the order of their names, so the order of rows, columns and ends never matters.

    Args:
        graph: A CSV or TSV file, or cora, citeseer, pubmed, photo or computers. A `Path` is always
            a file; for a file called cora write "./cora".
        features: A CSV or TSV file with a row per node, linked or not: its name, then numbers.
        source: The column with the one end of each link.
        target: The column with the other end.
        separator: The character between columns, in both files; None means a tab for .tsv and .tab
            files and a comma for all others.
        header: Whether both files begin with column names; without, the first two columns count.
        data_root: The folder with the data sets; see `load_dataset`.
        download: Whether a missing data set may be fetched.

    Raises:
        GraphFormatError: There is no such file or data set, or the file cannot be read as a graph.
        FeatureError: The features are not finite numbers or do not match the nodes.
        ConfigError: The options contradict each other.
        ResourceError: A data set is missing and cannot be fetched.

    Example:
        >>> graph = read("cora")
        >>> graph.names[:2]
        ('1000012', '100197')
    """
    if isinstance(graph, str) and graph.lower() in DATASETS:
        if features is not None:
            raise ConfigError(
                f"The data set {graph.lower()} has its own features.\n"
                f"Leave out --features, or give a file of links instead of the data set's name."
            )
        return load_dataset(graph, data_root, download=download)
    path = Path(graph)
    _check_readable(graph, path)
    table = read_edge_table(path, source=source, target=target, separator=separator, header=header)
    title = _safe_title(path.stem)
    if features is None:
        return Graph.from_pairs(title, table.names, table.pairs, notes=table.notes)
    _check_suffix(Path(features))
    nodes = read_features(Path(features), table.names, separator=separator, header=header)
    number = {name: node for node, name in enumerate(nodes.names)}
    moved = table.pairs.new_tensor([number[name] for name in table.names])
    return Graph.from_pairs(
        title, nodes.names, moved[table.pairs], nodes.x, (*table.notes, *nodes.notes)
    )


def _check_readable(graph: str | Path, path: Path) -> None:
    typed = shown(str(graph), 200)
    accepted = (
        f"Give a CSV or TSV file of links ({' '.join(TABLE_SUFFIXES)}),\n"
        f"or one of the data sets: {', '.join(DATASETS)}."
    )
    if not _exists(path):
        near = difflib.get_close_matches(str(graph).lower(), DATASETS, n=1)
        if near:
            raise GraphFormatError(
                f"'{typed}' is neither a file nor a data set. Did you mean '{near[0]}'?\n{accepted}"
            )
        raise GraphFormatError(f"No such file: '{typed}'.\n{accepted}")
    _check_suffix(path)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # too long, or a NUL byte: no file is called that
        return False


def _check_suffix(path: Path) -> None:
    suffix = path.suffix.lower()
    if suffix and suffix not in TABLE_SUFFIXES and not path.is_dir():
        raise GraphFormatError(
            f"{path.name}: files of the kind '{shown(suffix)}' are not read.\n"
            f"Save it as CSV or TSV (one of {' '.join(TABLE_SUFFIXES)}): "
            f"a header line, then a row per link or node."
        )


def _safe_title(stem: str) -> str:
    """Return a name that is safe as the name of a folder.

    Example:
        >>> _safe_title("my friends (2024)"), _safe_title("..."), _safe_title(".hidden")
        ('my-friends-2024', 'graph', 'hidden')
    """
    title = re.sub(r"[^\w.-]+", "-", stem)[:_MAX_TITLE_LENGTH].strip("-.")
    return title or "graph"
