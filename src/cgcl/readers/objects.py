"""Graphs that are in memory already: whose they are decides how they are read.

No package is imported to find out. An object of networkx means that networkx is there.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from cgcl.errors import ConfigError, FeatureError, GraphFormatError
from cgcl.graph.features import compact
from cgcl.graph.wording import shown
from cgcl.readers.columnar import edges_from_columns
from cgcl.readers.edge_table import EdgeTable, ignored_note
from cgcl.readers.matrix_links import edges_from_entries, edges_from_index, index_columns
from cgcl.readers.networkx_graph import edges_from_igraph, edges_from_networkx
from cgcl.readers.times import read_times

__all__ = ["read_object"]

_ACCEPTED = (
    "Give a file, a data set's name, a networkx or igraph graph, a scipy sparse matrix, a PyG Data,"
    "\nan edge_index (tensor or array, 2 x links), or a table (pandas, polars, pyarrow)."
)


def read_object(
    graph: Any,  # noqa: ANN401
    *,
    source: str | None = None,
    target: str | None = None,
    time: str | None = None,
) -> EdgeTable:
    """Return the links of an object.

    Args:
        graph: A graph of networkx or igraph, a scipy sparse matrix, PyG's Data, an edge_index, or
            any table that speaks the Arrow protocol.
        source: For a table, the column with the one end of each link.
        target: For a table, the column with the other end.
        time: Column or link attribute with the time of each link.

    Raises:
        GraphFormatError: It is none of these, or not a graph.
        ConfigError: Options do not fit the object.
    """
    home = {kind.__module__.partition(".")[0] for kind in type(graph).__mro__}
    is_table = hasattr(graph, "__arrow_c_stream__") or "pandas" in home
    if not is_table and (source not in (None, "source") or target not in (None, "target")):
        raise ConfigError(
            f"source and target name the columns of a table; this is a {type(graph).__name__}."
        )
    if "networkx" in home and hasattr(graph, "edges"):
        return edges_from_networkx(graph, time=time)
    if hasattr(graph, "get_edgelist") and hasattr(graph, "vcount"):
        return edges_from_igraph(graph, time=time)
    if "torch_geometric" in home:
        return _from_pyg(graph, time)
    if is_table:
        return _from_table(graph, source, target, time)
    if time is not None:
        raise ConfigError(f"A {type(graph).__name__} has no link attributes, so no times either.")
    if "scipy" in home and hasattr(graph, "tocoo"):
        matrix = graph.tocoo()
        place = "The sparse matrix"
        return edges_from_entries(matrix.row, matrix.col, matrix.data, matrix.shape, place)
    if isinstance(graph, (np.ndarray, torch.Tensor)):
        return edges_from_index(_index(graph, "The edge_index"), "The edge_index")
    raise GraphFormatError(f"A {type(graph).__name__} is not a graph that is read.\n{_ACCEPTED}")


def _index(array: np.ndarray | torch.Tensor, place: str) -> np.ndarray:
    if isinstance(array, torch.Tensor):
        if array.layout != torch.strided:
            raise GraphFormatError(
                f"{place} is a sparse tensor.\nGive its entries: matrix.coalesce().indices()."
            )
        array = array.detach().cpu().numpy()
    return index_columns(array, place)


def _from_pyg(data: Any, time: str | None) -> EdgeTable:  # noqa: ANN401
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
    ignored = [f"'{shown(str(key))}'" for key in ("edge_attr", "edge_weight") if key in keys]
    notes = ignored_note("Link attribute", [name for name in ignored if name != f"'{time}'"])
    table = edges_from_index(pairs, place, num_nodes=num_nodes, notes=notes)
    if time is not None:
        table = replace(table, times=_pyg_times(data, keys, time, pairs.shape[1], place))
    return table if x is None else replace(table, x=_pyg_features(x, len(table.names), place))


def _pyg_features(x: torch.Tensor, num_nodes: int, place: str) -> torch.Tensor:
    if x.dim() != 2 or len(x) != num_nodes or x.is_complex():
        raise FeatureError(
            f"{place}'s x is {x.dtype} {list(x.shape)}, expected a row of numbers for each of "
            f"{num_nodes:,} nodes."
        )
    x = x.detach().cpu()
    return compact((x if x.layout == torch.strided else x.to_sparse_coo()).to(torch.float32))


def _pyg_times(
    data: Any,  # noqa: ANN401
    keys: set[str],
    time: str,
    links: int,
    place: str,
) -> torch.Tensor:
    import pyarrow as pa

    values = data[time] if time in keys else None
    if not isinstance(values, torch.Tensor) or values.numel() != links:
        raise GraphFormatError(
            f"{place} has no attribute '{shown(time)}' with a time for each of {links:,} links."
        )
    cells = pa.chunked_array([pa.array(values.detach().cpu().reshape(-1).numpy())])
    return torch.from_numpy(read_times(cells, time, lambda row: f"{place}, link {row + 1:,}"))


def _from_table(
    graph: Any,  # noqa: ANN401
    source: str | None,
    target: str | None,
    time: str | None,
) -> EdgeTable:
    import pyarrow as pa

    place = f"The {type(graph).__name__}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            table = pa.table(graph)
            table.validate(full=True)
    except Exception as error:  # foreign code hands the columns over
        raise GraphFormatError(
            f"{place} cannot be read as a table: {shown(str(error), 120)}\n"
            f"Expected columns of one type each, text or whole numbers."
        ) from error
    return edges_from_columns(table, place, source=source, target=target, time=time)
