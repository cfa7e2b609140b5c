"""GraphML and GEXF files: checked here, parsed by networkx."""

from __future__ import annotations

import io
import re
from collections.abc import Hashable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.parsers import expat

from cgcl.errors import GraphFormatError
from cgcl.memory import require_readable
from cgcl.readers.edge_table import EdgeTable, LinkOptions
from cgcl.readers.objects import links_of_networkx
from cgcl.readers.regular_file import MAX_NAME_LENGTH, read_bytes, told
from cgcl.wording import shown

if TYPE_CHECKING:
    import networkx as nx

# What networkx takes for a node, for a link with a new node, and for a value of either; measured
# by benchmarks/reading.py.
_BYTES = {"node": 1100, "edge": 1900, "data": 300, "attvalue": 300}
# Deeper than any graph; networkx follows nested nodes by recursion.
_MAX_DEPTH = 100
_NEEDED = {"node": ("id",), "edge": ("source", "target")}
_MADE_UP = re.compile(r"n\d+")


def read_xml_graph(path: Path, options: LinkOptions) -> EdgeTable:
    """Read the links of a GraphML or GEXF file, by its suffix.

    Nodes are called after their ids. In GEXF they are called after their labels if every node has
    one and all are different, as the ids that Gephi writes are often mere numbers. In GraphML the
    attribute "name" or "label" counts in the same way, but only if all ids look made up by a
    program (n0, n1, ...). A note says so.

    Args:
        path: The file.
        options: Says which attribute holds the time of each link.

    Raises:
        GraphFormatError: It is not such a file, too large, or has a document type declaration.
        ConfigError: Columns were asked for.
    """
    options.refuse_columns(path.name)
    is_gexf = path.suffix.lower() == ".gexf"
    content = read_bytes(path)
    _check(path.name, content)
    graph = _parsed(path.name, content, is_gexf)
    if not graph:
        raise GraphFormatError(f"{path.name} has no nodes.\nExpected a graph with links.")
    names, note = _labels(graph, is_gexf)
    table = links_of_networkx(graph, path.name, options.time, names)
    return replace(table, notes=(*note, *table.notes))


def _check(file: str, content: bytes) -> None:
    """Read the elements once, to refuse what networkx would misread or choke on."""
    parser = expat.ParserCreate(namespace_separator=" ")
    graphs = depth = 0
    counts = dict.fromkeys(_BYTES, 0)

    def refuse(problem: str, remedy: str) -> None:
        raise GraphFormatError(f"{file}, line {parser.CurrentLineNumber}: {problem}.\n{remedy}")

    def begin(name: str, attributes: dict[str, str]) -> None:
        nonlocal graphs, depth
        depth += 1
        if depth > _MAX_DEPTH:
            what = f"elements inside elements, more than {_MAX_DEPTH} deep"
            refuse(what, "This is not a graph that a program saved.")
        element = name.rpartition(" ")[2]
        graphs += element == "graph"
        if element in counts:
            counts[element] += 1
        for needed in _NEEDED.get(element, ()):
            if not attributes.get(needed):
                remedy = "Every node needs an id, every link a source and a target."
                refuse(f"<{element}> has no {needed}", remedy)

    def end(_: str) -> None:
        nonlocal depth
        depth -= 1

    parser.StartDoctypeDeclHandler = lambda *_: refuse(
        "a document type declaration (<!DOCTYPE)",
        "It is not opened: such declarations can fill the memory or read other files. "
        "Delete the declaration.",
    )
    parser.StartElementHandler, parser.EndElementHandler = begin, end
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        raise GraphFormatError(
            f"{file}, line {error.lineno}, column {error.offset + 1}: not well-formed XML "
            f"({shown(str(error).partition(':')[0], 60)}).\n"
            f"Save it again with the program that made it."
        ) from error
    except (ValueError, LookupError) as error:  # an encoding that nobody knows
        raise GraphFormatError(
            f"{file} cannot be read: {shown(str(error), 100)}\nSave it as UTF-8."
        ) from error
    needed = len(content) + sum(_BYTES[element] * count for element, count in counts.items())
    require_readable(file, needed, remedy="Save the links as CSV or Parquet")
    if graphs != 1:
        found = f"{graphs:,} <graph> elements" if graphs else "no <graph> element"
        raise GraphFormatError(
            f"{file} has {found}, expected one.\n"
            f"Save one graph, without groups or graphs inside nodes."
        )


def _parsed(file: str, content: bytes, is_gexf: bool) -> nx.Graph[Any]:
    import networkx as nx

    kind = "GEXF" if is_gexf else "GraphML"
    remedy = "Save it again with the program that made it, or as CSV."
    with told(f"{file} is XML but cannot be read as {kind}", remedy):
        return (nx.read_gexf if is_gexf else nx.read_graphml)(io.BytesIO(content))


def _labels(
    graph: nx.Graph[Any], is_gexf: bool
) -> tuple[dict[Hashable, str] | None, tuple[str, ...]]:
    """Return better names than the ids, if there are some, and a note about them."""
    nodes: dict[Hashable, dict[str, Any]] = dict(graph.nodes(data=True))
    if not is_gexf and not all(_MADE_UP.fullmatch(str(node)) for node in nodes):
        return None, ()
    for attribute in ("label",) if is_gexf else ("name", "label"):
        labels = {node: data.get(attribute) for node, data in nodes.items()}
        texts = {n: t for n, t in labels.items() if isinstance(t, str) and t}
        if all(texts.get(node) == node for node in nodes) or not texts:
            continue
        is_usable = len(set(texts.values())) == len(nodes)
        if is_usable and max(map(len, texts.values())) <= MAX_NAME_LENGTH:
            return texts, (f"Nodes are called after their {attribute}s, not after their ids.",)
        return None, (
            f"Nodes are called after their ids: their {attribute}s are not all different.",
        )
    return None, ()
