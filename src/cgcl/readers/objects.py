"""Graphs that are in memory already: whose they are decides how they are read.

No package is imported to find out. An object of networkx means that networkx is there.
"""

from __future__ import annotations

import datetime
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from cgcl.errors import ConfigError, GraphFormatError
from cgcl.readers.edge_table import EdgeTable, LinkOptions, ignored_note
from cgcl.readers.matrices import (
    index_columns,
    links_beside_index,
    links_of_entries,
    links_of_index,
)
from cgcl.readers.node_names import sorted_names
from cgcl.readers.sparse import Entries
from cgcl.readers.tables import frame_table, links_of, read_times
from cgcl.wording import listed, shown

if TYPE_CHECKING:
    import networkx as nx

_ACCEPTED = (
    "Give a file, a data set's name, a networkx or igraph graph, a scipy sparse matrix, a PyG Data,"
    "\nan edge_index (tensor or array, 2 x links), or a table (pandas, polars, pyarrow)."
)


def read_object(graph: Any, options: LinkOptions) -> EdgeTable:  # noqa: ANN401
    """Return the links of an object.

    Args:
        graph: A graph of networkx or igraph, a scipy sparse matrix, PyG's Data, an edge_index, or
            any table that speaks the Arrow protocol.
        options: The columns of a table; the column or link attribute with the time of each link.

    Raises:
        GraphFormatError: It is none of these, or not a graph.
        ConfigError: Options do not fit the object.
    """
    kind, time = type(graph).__name__, options.time
    home = {parent.__module__.partition(".")[0] for parent in type(graph).__mro__}
    if hasattr(graph, "__arrow_c_stream__") or "pandas" in home:
        return links_of(frame_table(graph, f"The {kind}"), options)
    options.refuse_columns(f"A {kind}")
    if "networkx" in home and hasattr(graph, "edges"):
        return links_of_networkx(graph, "The networkx graph", time)
    if hasattr(graph, "get_edgelist") and hasattr(graph, "vcount"):
        return _links_of_igraph(graph, time)
    if "torch_geometric" in home:
        return _links_of_pyg(graph, time)
    if time is not None:
        raise ConfigError(f"A {kind} has no link attributes, so no times either.")
    if "scipy" in home and hasattr(graph, "tocoo"):
        found = graph.tocoo()
        shape, place = tuple(map(int, found.shape)), "The sparse matrix"
        return links_of_entries(Entries(place, shape, found.row, found.col, found.data))
    if isinstance(graph, (np.ndarray, Tensor)):
        place = "The edge_index"
        return links_of_index(index_columns(graph, place), place)
    raise GraphFormatError(f"A {kind} is not a graph that is read.\n{_ACCEPTED}")


# --- networkx and igraph ---


def links_of_networkx(
    graph: nx.Graph[Any], place: str, time: str | None, names: Mapping[Hashable, str] | None = None
) -> EdgeTable:
    """Return the links of a networkx graph of any kind. Isolated nodes are kept.

    Args:
        graph: The graph. A node is called what `str` makes of it.
        place: What messages call it.
        time: Link attribute with the time of each link.
        names: Other names for the nodes.

    Raises:
        GraphFormatError: Two nodes would have the same name, or a name or a time is missing.
    """
    nodes = list(graph.nodes)
    called = [str(node) for node in nodes] if names is None else [names[node] for node in nodes]
    number = {node: place_of for place_of, node in enumerate(nodes)}
    ordered, rank = sorted_names(called, place, nodes)
    links = list(graph.edges(data=True))
    of_nodes = [data for _, data in graph.nodes(data=True)]
    others = [name for name in _distinct(of_nodes) if name not in ("bipartite", "label", "viz")]
    return EdgeTable(
        ordered,
        _pairs([(number[one], number[other]) for one, other, _ in links], rank),
        _ignored(_distinct(data for _, _, data in links), others, time),
        None if time is None else _times([data.get(time) for _, _, data in links], time, place),
        ("source", "target") if graph.is_directed() else None,
        graph.is_directed(),
        sides=_sides([data.get("bipartite") for data in of_nodes], rank),
    )


def _links_of_igraph(graph: Any, time: str | None) -> EdgeTable:  # noqa: ANN401
    """Return the links of an igraph graph: its vertices' "name" attribute, or their numbers."""
    place, links, attributes = "The igraph graph", graph.get_edgelist(), graph.es.attributes()
    is_named = "name" in graph.vs.attributes()
    called = graph.vs["name"] if is_named else range(int(graph.vcount()))
    ordered, rank = sorted_names([str(name) for name in called], place)
    others = [name for name in graph.vs.attributes() if name != "name"]
    times = graph.es[time] if time in attributes else [None] * len(links)
    return EdgeTable(
        ordered,
        _pairs(links, rank),
        _ignored(attributes, others, time),
        None if time is None else _times(times, time, place),
        ("source", "target") if graph.is_directed() else None,
        bool(graph.is_directed()),
    )


def _pairs(links: Sequence[tuple[int, int]], rank: np.ndarray) -> Tensor:
    return torch.from_numpy(rank[np.array(links, dtype=np.int64).reshape(-1, 2).T])


def _ignored(of_links: Sequence[str], of_nodes: list[str], time: str | None) -> tuple[str, ...]:
    """Return the notes about attributes that are not used."""
    notes = ignored_note("Link attribute", [name for name in of_links if name != time])
    if not of_nodes:
        return notes
    which = f"Node attribute{'' if len(of_nodes) == 1 else 's'} {listed(of_nodes)}"
    return (*notes, f"{which} ignored: give features as a table with `features`.")


def _times(values: Sequence[object], time: str, place: str) -> Tensor:
    cells = pa.chunked_array([pa.array([_time_as_text(value) for value in values], pa.string())])
    return read_times(cells, time, lambda row: f"{place}, link {row + 1:,}")


def _distinct(attributes: Iterable[Mapping[Any, Any]]) -> list[str]:
    """Return the names of all attributes, in order of appearance."""
    return list(dict.fromkeys(str(name) for data in attributes for name in data))


def _sides(marks: list[object], rank: np.ndarray) -> Tensor | None:
    """Return the sides that the node attribute `bipartite` gives, or None."""
    try:
        are_sides = set(marks) == {0, 1}
    except TypeError:  # a mark that cannot be hashed is no side
        are_sides = False
    if not are_sides:
        return None
    sides = torch.empty(len(marks), dtype=torch.bool)
    sides[torch.from_numpy(rank)] = torch.tensor([bool(mark) for mark in marks])
    return sides


def _time_as_text(value: object) -> str | None:
    """Return a number as it is read back, and a date as the seconds since 1970."""
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        value = datetime.datetime.combine(value, datetime.time())
    if isinstance(value, datetime.datetime):
        zoned = value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
        value = zoned.timestamp()
    if isinstance(value, (int, float, np.number)) and not isinstance(value, bool):
        try:
            return repr(float(value))
        except OverflowError:
            return "inf"
    return None if value is None else shown(str(value), 100)


# --- PyTorch Geometric ---


def _links_of_pyg(data: Any, time: str | None) -> EdgeTable:  # noqa: ANN401
    place = f"The {type(data).__name__}"
    if hasattr(data, "edge_types") and hasattr(data, "node_types"):
        raise GraphFormatError(
            f"{place} has several kinds of nodes and links; graphs of one kind are read.\n"
            f"Use data.to_homogeneous(), or give the edge_index of one kind."
        )
    keys = set(data.keys()) if callable(getattr(data, "keys", None)) else set()
    if "edge_index" not in keys:
        remedy = "Give one graph of it: dataset[0]." if hasattr(data, "__len__") else ""
        raise GraphFormatError(f"{place} has no edge_index, so no links.\n{remedy}".rstrip())
    if time is not None and not isinstance(data[time] if time in keys else None, Tensor):
        raise GraphFormatError(
            f"{place} has no attribute '{shown(time)}' with a time for each link."
        )
    ignored = [key for key in ("edge_attr", "edge_weight") if key in keys and key != time]
    notes = ignored_note("Link attribute", ignored)
    return links_beside_index({key: data[key] for key in keys}, place, time, notes=notes)
