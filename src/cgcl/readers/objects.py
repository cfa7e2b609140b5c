"""Graphs that are in memory already: whose they are decides how they are read.

No package is imported to find out. An object of networkx means that networkx is there.
"""

from __future__ import annotations

import datetime
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from cgcl.errors import ConfigError, FeatureError, GraphFormatError
from cgcl.graph.features import compact
from cgcl.graph.wording import listed, shown
from cgcl.readers.edge_table import EdgeTable, LinkOptions, ignored_note
from cgcl.readers.matrices import (
    Entries,
    index_columns,
    links_of_entries,
    links_of_index,
    times_of_links,
)
from cgcl.readers.node_names import sorted_names
from cgcl.readers.tables import columns_of_links, frame_table, links_of, read_times

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
        table = frame_table(graph, f"The {kind}")
        columns_of_links(table.place, table.columns, options)
        return links_of(table, options)
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
        return links_of_index(_index(graph, "The edge_index"), "The edge_index")
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
    _refuse_clash(nodes, called, place)
    number = {node: place_of for place_of, node in enumerate(nodes)}
    links = list(graph.edges(data=True))
    of_nodes = [data for _, data in graph.nodes(data=True)]
    table, rank = _links_of_attributes(
        called,
        [(number[one], number[other]) for one, other, _ in links],
        place,
        link_attributes=_distinct(data for _, _, data in links),
        node_attributes=[a for a in _distinct(of_nodes) if a not in ("bipartite", "label", "viz")],
        times=None if time is None else [data.get(time) for _, _, data in links],
        time=time,
        is_directed=graph.is_directed(),
    )
    return replace(table, sides=_sides([data.get("bipartite") for data in of_nodes], rank))


def _links_of_igraph(graph: Any, time: str | None) -> EdgeTable:  # noqa: ANN401
    """Return the links of an igraph graph: its vertices' "name" attribute, or their numbers."""
    links, attributes = graph.get_edgelist(), list(graph.es.attributes())
    is_named = "name" in graph.vs.attributes()
    names = graph.vs["name"] if is_named else range(int(graph.vcount()))
    times = graph.es[time] if time in attributes else [None] * len(links)
    return _links_of_attributes(
        [str(name) for name in names],
        links,
        "The igraph graph",
        link_attributes=attributes,
        node_attributes=[name for name in graph.vs.attributes() if name != "name"],
        times=None if time is None else times,
        time=time,
        is_directed=bool(graph.is_directed()),
    )[0]


def _links_of_attributes(
    called: list[str],
    links: Sequence[tuple[int, int]],
    place: str,
    *,
    link_attributes: list[str],
    node_attributes: list[str],
    times: Sequence[object] | None,
    time: str | None,
    is_directed: bool,
) -> tuple[EdgeTable, np.ndarray]:
    """Return links between named nodes, and the place of each name among the sorted ones."""
    ordered, rank = sorted_names(called, place)
    pairs = np.array(links, dtype=np.int64).reshape(-1, 2).T
    others = [f"'{shown(name)}'" for name in link_attributes if name != time]
    notes = ignored_note("Link attribute", others)
    if node_attributes:
        plural = "" if len(node_attributes) == 1 else "s"
        advice = "give features as a table with `features`."
        notes += (f"Node attribute{plural} {listed(node_attributes)} ignored: {advice}",)
    found = None
    if times is not None:
        cells = pa.chunked_array([pa.array([_time_as_text(value) for value in times], pa.string())])
        found = read_times(cells, time or "", lambda row: f"{place}, link {row + 1:,}")
    ends = ("source", "target") if is_directed else None
    pairs_by_name = torch.from_numpy(rank[pairs])
    return EdgeTable(ordered, pairs_by_name, notes, found, ends, is_directed), rank


def _refuse_clash(nodes: list[Hashable], called: list[str], place: str) -> None:
    if len(set(called)) == len(called):
        return
    first: dict[str, Hashable] = {}
    for node, name in zip(nodes, called, strict=True):
        if name in first:
            raise GraphFormatError(
                f"{place}: the nodes {shown(repr(first[name]))} and {shown(repr(node))} are both "
                f"called '{shown(name)}'.\nEvery node needs a name of its own: rename one of them."
            )
        first[name] = node


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


# --- PyTorch Geometric and lists of node numbers ---


def _index(array: np.ndarray | Tensor, place: str) -> np.ndarray:
    if isinstance(array, Tensor):
        if array.layout != torch.strided:
            raise GraphFormatError(
                f"{place} is a sparse tensor.\nGive its entries: matrix.coalesce().indices()."
            )
        array = array.detach().cpu().numpy()
    return index_columns(array, place)


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
    x = data["x"] if "x" in keys else None
    num_nodes = int(data["num_nodes"]) if "num_nodes" in keys else None
    if num_nodes is None and x is not None:
        num_nodes = len(x)
    pairs = _index(data["edge_index"], f"{place}'s edge_index")
    ignored = [key for key in ("edge_attr", "edge_weight") if key in keys and key != time]
    notes = ignored_note("Link attribute", [f"'{key}'" for key in ignored])
    table = links_of_index(pairs, place, num_nodes=num_nodes, notes=notes)
    if time is not None:
        values = data[time] if time in keys else None
        if not isinstance(values, Tensor) or values.numel() != pairs.shape[1]:
            raise GraphFormatError(
                f"{place} has no attribute '{shown(time)}' with a time for each of "
                f"{pairs.shape[1]:,} links."
            )
        numbers = values.detach().cpu().reshape(-1).numpy()
        table = replace(table, times=times_of_links(numbers, pairs.shape[1], time, place))
    return table if x is None else replace(table, x=_pyg_features(x, len(table.names), place))


def _pyg_features(x: Tensor, num_nodes: int, place: str) -> Tensor:
    if x.dim() != 2 or len(x) != num_nodes or x.is_complex():
        raise FeatureError(
            f"{place}'s x is {x.dtype} {list(x.shape)}, expected a row of numbers for each of "
            f"{num_nodes:,} nodes."
        )
    x = x.detach().cpu()
    return compact((x if x.layout == torch.strided else x.to_sparse_coo()).to(torch.float32))
