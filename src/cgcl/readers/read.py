"""One door for every graph: a data set's name, a file of links, or an object."""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cgcl.errors import ConfigError, GraphFormatError
from cgcl.graph.graph import Graph
from cgcl.memory import reading_at_most
from cgcl.readers.datasets import DATASETS, load_dataset
from cgcl.readers.edge_table import Bipartite, Directed, EdgeTable, LinkOptions, as_one, settled
from cgcl.readers.store import READ_WHOLE, is_store, open_store
from cgcl.tensors import usual_defaults
from cgcl.wording import counted, shown

# Formats bring Arrow with them, which a data set does without: they are imported when needed.
_MAX_TITLE_LENGTH = 60  # four bytes a character still fit into a folder name


@usual_defaults()
def read(
    graph: Any,  # noqa: ANN401 (objects of packages that need not be there)
    *,
    features: Any = None,  # noqa: ANN401 (what read_features takes)
    source: str | None = None,
    target: str | None = None,
    separator: str | None = None,
    header: bool | None = None,
    time: str | None = None,
    directed: Directed = "drop",
    bipartite: Bipartite = "auto",
    one_hot: Sequence[str] = (),
    words: str | None = None,
    feature_separator: str | None = None,
    row_names: str | Path | Sequence[str] | None = None,
    also: Sequence[str | Path] = (),
    max_memory: str | float | None = None,
    data_root: str | Path | None = None,
    download: bool = True,
) -> Graph:
    """Return a graph from a file, an object, or a data set; its `notes` say what became of it.

    Args:
        graph: A file (see `FORMATS`), a store, an object (see `read_object`), or a data set's
            name (see `DATASETS`). A `Path` is a file; for a file called cora: "./cora".
        features: A file with a row per node, linked or not; see `read_features`.
        source: The column with one end of each link: "source", or the first of two columns.
        target: The column with the other end: "target", or the second of two columns.
        separator: The character between columns of text; see `read_text_links`.
        header: Whether text files begin with column names; see `read_text_links`.
        time: Column or link attribute with times: numbers, or ISO dates.
        directed: "error" refuses links with a direction instead of dropping it with a note.
        bipartite: See `find_sides`; with "columns", equal names in two columns are two nodes.
        one_hot: Feature columns that hold categories.
        words: The feature column that holds words.
        feature_separator: As `separator`; None means the same for files of the same suffix.
        row_names: A text file with the node of each row of a matrix.
        also: Files with further links of the graph, such as those held out for a test.
        max_memory: What reading may take, such as "8GB"; four fifths of what is free if None.
        data_root: The folder with the data sets; see `load_dataset`.
        download: Whether a missing data set may be fetched.

    Raises:
        CGCLError: A file, an option or the data is not right; the subclass says which.

    Example:
        >>> assert read("cora").names[0] == "1000012"
    """
    about = {"one_hot": one_hot, "words": words, "row_names": row_names}
    _refuse_features(graph, features, any(about.values()) or feature_separator is not None)
    if _is_data_set(graph):
        return load_dataset(graph, data_root, download=download)
    options = LinkOptions(source, target, separator, header, time)
    if is_store(graph):
        return _stored(Path(graph), options, features, also, directed, bipartite)
    with reading_at_most(max_memory):
        table = as_one(_tables(graph, also, options), directed, bipartite)
        about["separator"] = feature_separator or _shared(separator, graph, features)
        table, labels = _with_features(table, features, header is not False, about)
    return _assembled(title_of(graph), settled(table, directed, bipartite), labels)


def _stored(
    path: Path,
    options: LinkOptions,
    features: object,
    also: Sequence[str | Path],
    directed: str,
    bipartite: str,
) -> Graph:
    """Return the graph of a store, whose bytes are compared with its checksums if they are few."""
    told = {**vars(options), "features": features, "directed": directed, "bipartite": bipartite}
    usual = {**vars(LinkOptions()), "features": None, "directed": "drop", "bipartite": "auto"}
    given = [name for name, own in told.items() if own != usual[name]]
    if given or also:
        raise ConfigError(
            f"The store {path} is read as it is; `{[*given, 'also'][0]}` is for files.\n"
            f"Leave it out, or make another store with it."
        )
    store = open_store(path)
    if store.size < READ_WHOLE:
        store.verify()
    return store.graph()


def _assembled(title: str, table: EdgeTable, feature_names: tuple[str, ...]) -> Graph:
    return Graph.from_pairs(
        title,
        table.names,
        table.pairs,
        table.x,
        (*table.notes, *_blank_note(table.names), *_alike_note(table.names)),
        sides=table.sides,
        times=table.times,
        feature_names=feature_names,
    )


def _tables(graph: object, also: Sequence[str | Path], options: LinkOptions) -> list[EdgeTable]:
    """Return the links of all files, of which only the first one's may have times."""
    from cgcl.readers.formats import read_links

    for file in (graph, *also):
        _check_readable(file)
    first = read_links(graph, options)
    others = replace(options, time=None, nodes=frozenset(first.names) if also else ())
    return [first, *(read_links(file, others) for file in also)]


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
    from cgcl.readers.formats import read_features

    nodes = read_features(features, table.names, header=header, **about)
    moved = table.numbers_among(nodes.names)
    sides, notes = table.sides, (*table.notes, *nodes.notes)
    unknown = len(nodes.names) - len(table.names)
    if sides is not None:
        sides = sides.new_zeros(len(nodes.names)).index_copy_(0, moved, sides)
        if unknown:
            notes += (f"{counted(unknown, 'node')} without links counted with 'side 0'.",)
    pairs = moved[table.pairs]
    joined = replace(table, names=nodes.names, pairs=pairs, sides=sides, x=nodes.x, notes=notes)
    return joined, tuple(nodes.feature_names)


def _blank_note(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return a note about names with blanks at an end, which are easily overlooked."""
    if names == tuple(map(str.strip, names)):
        return ()
    blank = [name for name in names if name != name.strip()]
    begin = counted(len(blank), "name begins or ends", "names begin or end")
    return (f"{begin} with a blank, such as '{shown(blank[0])}': blanks belong to a name.",)


def _alike_note(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return a note about names that look alike: the same characters, composed or not."""
    if "".join(names).isascii():
        return ()
    first_of: dict[str, str] = {}
    firsts = [first_of.setdefault(unicodedata.normalize("NFC", name), name) for name in names]
    alike = [(one, other) for one, other in zip(firsts, names, strict=True) if one != other]
    if not alike:
        return ()
    differ = counted(len(alike), "name differs", "names differ")
    one, other = (shown(text.encode("unicode_escape").decode()) for text in alike[0])
    return (
        f"{differ} from another only in how Unicode writes it, such as '{one}' and '{other}': "
        f"these are nodes of their own. If they are one, normalise the names.",
    )


def _check_readable(graph: object) -> None:
    """Refuse a file that is not there, which may be a data set's name with a typo."""
    with contextlib.suppress(OSError, ValueError):  # too long, or a NUL byte: no file is called so
        if not isinstance(graph, (str, os.PathLike)) or Path(graph).exists():
            return
    from cgcl.readers.formats import suffixes

    typed = f"'{shown(str(graph), 200)}'"
    problem = f"No such file: {typed}."
    for near in difflib.get_close_matches(str(graph).lower(), DATASETS, n=1):
        problem = f"{typed} is neither a file nor a data set. Did you mean '{near}'?"
    raise GraphFormatError(
        f"{problem}\nGive a file of links ({' '.join(suffixes('links'))}),\n"
        f"or one of the data sets: {', '.join(DATASETS)}."
    )


def title_of(graph: object) -> str:
    """Return a name that is safe as the name of a folder.

    Example:
        >>> title_of("my friends (2024).csv"), title_of("..."), title_of(".hidden"), title_of(7)
        ('my-friends-2024', 'graph', 'hidden', 'graph')
    """
    is_file = isinstance(graph, (str, os.PathLike))
    # A networkx graph may have a name.
    name = Path(graph).stem if is_file else getattr(graph, "name", None)
    name = name if isinstance(name, str) else ""
    return re.sub(r"[^\w.-]+", "-", name)[:_MAX_TITLE_LENGTH].strip("-.") or "graph"
