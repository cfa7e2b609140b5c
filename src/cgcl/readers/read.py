"""One door for every graph: a data set's name, a file of links, or an object."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from cgcl.errors import ConfigError, GraphFormatError
from cgcl.graph.graph import Graph
from cgcl.graph.wording import shown
from cgcl.readers.apart import kept_apart
from cgcl.readers.columnar import read_parquet
from cgcl.readers.datasets import DATASETS, load_dataset
from cgcl.readers.direction import drop_direction
from cgcl.readers.edge_list import EDGE_LIST_SUFFIXES
from cgcl.readers.edge_table import EdgeTable
from cgcl.readers.features import read_features
from cgcl.readers.joined import joined
from cgcl.readers.npz_graph import read_npz_graph
from cgcl.readers.objects import read_object
from cgcl.readers.sides import Bipartite, find_sides
from cgcl.readers.table import read_edge_table
from cgcl.readers.xml_graph import read_xml_graph

__all__ = ["GRAPH_SUFFIXES", "TABLE_SUFFIXES", "read", "read_links"]

TABLE_SUFFIXES = (".csv", ".tsv", ".tab", *EDGE_LIST_SUFFIXES)
"""Files of text."""
GRAPH_SUFFIXES = (*TABLE_SUFFIXES, ".parquet", ".pq", ".graphml", ".gexf", ".npz")
"""All files of links."""
_MAX_TITLE_LENGTH = 60  # four bytes a character still fit into a folder name


def read(
    graph: Any,  # noqa: ANN401 (objects of packages that need not be there)
    *,
    features: Any = None,  # noqa: ANN401 (what read_features takes)
    source: str | None = None,
    target: str | None = None,
    separator: str | None = None,
    header: bool | None = None,
    time: str | None = None,
    directed: Literal["drop", "error"] = "drop",
    bipartite: Bipartite = "auto",
    one_hot: Sequence[str] = (),
    words: str | None = None,
    feature_separator: str | None = None,
    row_names: str | Path | Sequence[str] | None = None,
    also: Sequence[str | Path] = (),
    data_root: str | Path | None = None,
    download: bool = True,
) -> Graph:
    """Return a graph from a file, an object, or a data set; its `notes` say what became of it.

    Args:
        graph: A file (see `GRAPH_SUFFIXES`), an object (see `read_object`), or the name of a data
            set (see `DATASETS`). A `Path` is a file; for a file called cora: "./cora".
        features: A file with a row per node, linked or not; see `read_features`.
        source: The column with the one end of each link; "source" if not given.
        target: The column with the other end; "target" if not given.
        separator: The character between columns of text; see `read_edge_table`.
        header: Whether text files begin with column names; see `read_edge_table`.
        time: Column or link attribute with times: numbers, or ISO dates.
        directed: "error" refuses links with a direction instead of dropping it with a note.
        bipartite: "auto" finds out (see `find_sides`), "yes" demands it, "no" rules it out,
            "columns" also takes equal names in the two columns for different nodes.
        one_hot: Feature columns that hold categories.
        words: The feature column that holds words.
        feature_separator: As `separator`; None means the same for files of the same suffix.
        row_names: A text file with the node of each row of a matrix.
        also: Files with further links of the graph, such as those held out for a test.
        data_root: The folder with the data sets; see `load_dataset`.
        download: Whether a missing data set may be fetched.

    Raises:
        CGCLError: A file, an option or the data is not right; the subclass says which.

    Example:
        >>> read("cora").names[:2]
        ('1000012', '100197')
    """
    about = {"one_hot": one_hot, "words": words, "row_names": row_names}
    _refuse_features(graph, features, any(about.values()) or feature_separator is not None)
    if _is_data_set(graph):
        return load_dataset(graph, data_root, download=download)
    columns = {"source": source, "target": target, "separator": separator, "header": header}
    files = [read_links(graph, **columns, time=time)]
    files += [read_links(file, **columns) for file in also]
    table = _as_one(files, directed, bipartite)
    about["separator"] = feature_separator or _shared(separator, graph, features)
    table, labels = _with_features(table, features, header is not False, about)
    return _assembled(_title(graph), _settled(table, directed, bipartite), labels)


def read_links(
    graph: Any,  # noqa: ANN401
    *,
    source: str | None = None,
    target: str | None = None,
    separator: str | None = None,
    header: bool | None = None,
    time: str | None = None,
    usage: str = "cgcl train {file}",
) -> EdgeTable:
    """Return the links of a file or an object as they are written; see `read` for the arguments.

    `usage` is the command that a message should show as a remedy.

    Raises:
        GraphFormatError: There is no such file, or it cannot be read as links.
        ConfigError: The options contradict each other.
        ResourceError: Memory does not suffice.
    """
    if not isinstance(graph, (str, os.PathLike)):
        return read_object(graph, source=source, target=target, time=time)
    path = Path(graph)
    _check_readable(str(graph), path)
    suffix = path.suffix.lower()
    if suffix in (".parquet", ".pq"):
        return read_parquet(path, source=source, target=target, time=time)
    if suffix in (".graphml", ".gexf", ".npz"):
        if source not in (None, "source") or target not in (None, "target"):
            raise ConfigError(
                f"{path.name} has no columns.\nLeave out `source` and `target` for this file."
            )
        if suffix == ".npz":
            return read_npz_graph(path, time=time)
        return read_xml_graph(path, time=time)
    return read_edge_table(
        path,
        source=source,
        target=target,
        separator=separator,
        header=header,
        time=time,
        usage=usage,
    )


def _as_one(
    tables: list[EdgeTable], directed: Literal["drop", "error"], bipartite: Bipartite
) -> EdgeTable:
    """Return the links of all files, the first of which decides about direction and sides."""
    if bipartite == "columns":
        tables = [kept_apart(table) for table in tables]
    first, *others = tables
    return joined(_settled(first, directed, bipartite), others) if others else first


def _is_data_set(graph: object) -> bool:
    return isinstance(graph, str) and graph.lower() in DATASETS


def _refuse_features(graph: object, features: object, has_options: bool) -> None:
    if features is None and has_options:
        raise ConfigError("Options about features need features.\nName their file: `features=FILE`")
    if features is not None and _is_data_set(graph):
        raise ConfigError(
            f"The data set {str(graph).lower()} has its own features.\n"
            f"Leave out `features`, or give a file of links instead of the data set's name."
        )


def _shared(separator: str | None, graph: object, features: object) -> str | None:
    """Return the links' separator if the features are in a file of the same kind."""
    suffixes = {
        Path(file).suffix.lower() if isinstance(file, (str, os.PathLike)) else None
        for file in (graph, features)
    }
    return separator if len(suffixes) == 1 else None


def _with_features(
    table: EdgeTable,
    features: Any,  # noqa: ANN401
    header: bool,
    about: dict[str, Any],
) -> tuple[EdgeTable, tuple[str, ...]]:
    """Return the links among the nodes of the features, which may be more, and their names."""
    if features is None:
        return table, ()
    if table.x is not None:
        raise ConfigError("The graph has its own features.\nLeave out `features`.")
    nodes = read_features(features, table.names, header=header, **about)
    pairs, sides, unknown = table.pairs, table.sides, ()
    if nodes.names != table.names:
        number = {name: node for node, name in enumerate(nodes.names)}
        moved: Tensor = pairs.new_tensor([number[name] for name in table.names])
        pairs = moved[pairs]
        if sides is not None:
            sides = sides.new_zeros(len(nodes.names)).index_copy_(0, moved, sides)
            count = len(nodes.names) - len(table.names)
            plural = "" if count == 1 else "s"
            unknown = (f"{count:,} node{plural} without links counted with 'side 0'.",)
    notes = (*table.notes, *nodes.notes, *unknown)
    joined = replace(table, names=nodes.names, pairs=pairs, sides=sides, x=nodes.x, notes=notes)
    return joined, tuple(nodes.feature_names)


def _settled(
    table: EdgeTable,
    directed: Literal["drop", "error"],
    bipartite: Bipartite,
) -> EdgeTable:
    """Return the links with their sides found and their direction dropped, which is done once."""
    if table.is_settled:
        return table
    sides, about_sides = find_sides(table, bipartite)
    table, about_direction = drop_direction(table, directed)
    notes = (*table.notes, *about_direction, *about_sides)
    return replace(table, sides=sides, notes=notes, is_settled=True)


def _assembled(title: str, table: EdgeTable, feature_names: tuple[str, ...]) -> Graph:
    return Graph.from_pairs(
        title,
        table.names,
        table.pairs,
        table.x,
        (*table.notes, *_blank_note(table.names)),
        sides=table.sides,
        times=table.times,
        feature_names=feature_names,
    )


def _blank_note(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return a note about names with blanks at an end, which are easily overlooked."""
    # Most tables have no blank in any name, which one look at all of them together tells.
    joined_names = "".join(names)
    ends = joined_names[:1] + joined_names[-1:]
    is_free = len(joined_names.split(None, 1)) == 1 and ends == ends.strip()
    blank = [name for name in names if name != name.strip()] if not is_free else list[str]()
    if not blank:
        return ()
    begin = "1 name begins or ends" if len(blank) == 1 else f"{len(blank):,} names begin or end"
    return (f"{begin} with a blank, such as '{shown(blank[0])}': blanks belong to a name.",)


def _check_readable(typed: str, path: Path) -> None:
    accepted = (
        f"Give a file of links ({' '.join(GRAPH_SUFFIXES)}),\n"
        f"or one of the data sets: {', '.join(DATASETS)}."
    )
    if not _exists(path):
        near = difflib.get_close_matches(typed.lower(), DATASETS, n=1)
        if near:
            raise GraphFormatError(
                f"'{shown(typed, 200)}' is neither a file nor a data set. "
                f"Did you mean '{near[0]}'?\n{accepted}"
            )
        raise GraphFormatError(f"No such file: '{shown(typed, 200)}'.\n{accepted}")
    suffix = path.suffix.lower()
    if suffix and suffix not in GRAPH_SUFFIXES and not path.is_dir():
        raise GraphFormatError(
            f"{path.name}: files of the kind '{shown(suffix)}' are not read.\n"
            f"Save it as one of {' '.join(GRAPH_SUFFIXES)}."
        )


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # too long, or a NUL byte: no file is called that
        return False


def _title(graph: object) -> str:
    if isinstance(graph, (str, os.PathLike)):
        return _safe_title(Path(graph).stem)
    name = getattr(graph, "name", None)  # a networkx graph may have one
    return _safe_title(name) if isinstance(name, str) else "graph"


def _safe_title(stem: str) -> str:
    """Return a name that is safe as the name of a folder.

    Example:
        >>> _safe_title("my friends (2024)"), _safe_title("..."), _safe_title(".hidden")
        ('my-friends-2024', 'graph', 'hidden')
    """
    title = re.sub(r"[^\w.-]+", "-", stem)[:_MAX_TITLE_LENGTH].strip("-.")
    return title or "graph"
