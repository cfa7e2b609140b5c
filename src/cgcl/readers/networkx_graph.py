"""Links from a networkx graph, or from an igraph graph, which is asked the same questions."""

from __future__ import annotations

import datetime
import math
from collections.abc import Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from cgcl.errors import GraphFormatError
from cgcl.graph.wording import listed, shown
from cgcl.readers.edge_table import EdgeTable, ignored_note
from cgcl.readers.node_names import sorted_names
from cgcl.readers.times import read_times

if TYPE_CHECKING:
    import networkx as nx

__all__ = ["edges_from_igraph", "edges_from_networkx"]


def edges_from_networkx(
    graph: nx.Graph[Any],
    place: str = "The networkx graph",
    *,
    time: str | None = None,
    names: Mapping[Hashable, str] | None = None,
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
    ordered, rank = sorted_names(called, place)
    number = dict(zip(nodes, rank.tolist(), strict=True))
    links = list(graph.edges(data=True))
    pairs = np.array(
        [[number[end] for end, _, _ in links], [number[end] for _, end, _ in links]],
        dtype=np.int64,
    ).reshape(2, -1)
    times = None if time is None else _times([data for _, _, data in links], time, place)
    used: set[str] = set() if time is None else {time}
    attributes = _distinct(data for _, _, data in links)
    of_nodes = _distinct(data for _, data in graph.nodes(data=True))
    return EdgeTable(
        ordered,
        torch.from_numpy(pairs),
        (
            *ignored_note("Link attribute", [f"'{shown(a)}'" for a in attributes if a not in used]),
            *_node_note([name for name in of_nodes if name not in ("bipartite", "label", "viz")]),
        ),
        times=None if times is None else torch.from_numpy(times),
        ends=("source", "target") if graph.is_directed() else None,
        is_directed=graph.is_directed(),
        sides=_sides(graph, nodes, rank),
    )


def edges_from_igraph(graph: Any, *, time: str | None = None) -> EdgeTable:  # noqa: ANN401
    """Return the links of an igraph graph: its vertices' "name" attribute, or their numbers.

    Args:
        graph: An object with `vcount`, `get_edgelist`, `is_directed`, `vs` and `es`.
        time: Edge attribute with the time of each link.

    Raises:
        GraphFormatError: Two nodes have the same name, or a name or a time is missing.
    """
    place, count = "The igraph graph", int(graph.vcount())
    is_named = "name" in graph.vs.attributes()
    called = [str(name) for name in graph.vs["name"]] if is_named else list(map(str, range(count)))
    ordered, rank = sorted_names(called, place)
    pairs = np.array(graph.get_edgelist(), dtype=np.int64).reshape(-1, 2).T
    attributes = list(graph.es.attributes())
    times = None
    if time is not None:
        values = graph.es[time] if time in attributes else [None] * pairs.shape[1]
        times = _times([{time: value} for value in values], time, place)
    others = [f"'{shown(name)}'" for name in attributes if name != time]
    directed = bool(graph.is_directed())
    return EdgeTable(
        ordered,
        torch.from_numpy(rank[pairs]),
        (
            *ignored_note("Link attribute", others),
            *_node_note([name for name in graph.vs.attributes() if name != "name"]),
        ),
        times=None if times is None else torch.from_numpy(times),
        ends=("source", "target") if directed else None,
        is_directed=directed,
    )


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


def _node_note(names: list[str]) -> tuple[str, ...]:
    if not names:
        return ()
    return (
        f"Node attribute{'' if len(names) == 1 else 's'} {listed(names)} ignored: "
        f"give features as a table with `features`.",
    )


def _sides(graph: nx.Graph[Any], nodes: list[Hashable], rank: np.ndarray) -> torch.Tensor | None:
    """Return the sides that the node attribute `bipartite` gives, or None."""
    marks = [graph.nodes[node].get("bipartite") for node in nodes]
    try:
        are_sides = set(marks) == {0, 1}
    except TypeError:  # a mark that cannot be hashed is no side
        are_sides = False
    if not are_sides:
        return None
    sides = torch.empty(len(nodes), dtype=torch.bool)
    sides[torch.from_numpy(rank)] = torch.tensor([bool(mark) for mark in marks])
    return sides


def _times(rows: list[Mapping[Any, Any]], time: str, place: str) -> np.ndarray:
    """Return the attribute `time` of every link as float64."""
    import pyarrow as pa

    values = [_plain_time(data.get(time)) for data in rows]
    if all(isinstance(value, float) for value in values):
        cells = pa.chunked_array([pa.array(values, pa.float64())])
    else:
        texts = [repr(v) if isinstance(v, float) else v for v in values]
        cells = pa.chunked_array([pa.array(texts, pa.string())])
    return read_times(cells, time, lambda row: f"{place}, link {row + 1:,}")


def _plain_time(value: object) -> float | str | None:
    """Return a number as a float, and a date or text as ISO text in UTC."""
    if value is None:
        return None
    if isinstance(value, datetime.datetime):
        zoned = value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
        return zoned.timestamp()
    if isinstance(value, datetime.date):
        return _plain_time(datetime.datetime.combine(value, datetime.time()))
    if isinstance(value, (int, float, np.number)) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            return math.inf
    return shown(str(value), 100)
