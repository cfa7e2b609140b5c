"""Two columns that use the same names for different things."""

from __future__ import annotations

from dataclasses import replace

import torch

from cgcl.errors import ConfigError
from cgcl.readers.edge_table import EdgeTable

__all__ = ["kept_apart"]


def kept_apart(table: EdgeTable) -> EdgeTable:
    """Return the links with every node named after its column, too: customer 5 is not product 5.

    Raises:
        ConfigError: The source has no two columns.

    Example:
        >>> links = torch.tensor([[0, 1], [1, 0]])
        >>> kept_apart(EdgeTable(("1", "2"), links, ends=("buyer", "item"))).names
        ('buyer:1', 'buyer:2', 'item:1', 'item:2')
    """
    if table.ends is None:
        raise ConfigError(
            "`bipartite=columns` is for tables with two columns of names, which this is not.\n"
            "Use `bipartite=yes`."
        )
    nodes: list[str] = []
    pairs = torch.empty_like(table.pairs)
    for end, column in enumerate(table.ends):
        distinct, places = table.pairs[end].unique(return_inverse=True)
        pairs[end] = places + len(nodes)
        nodes += [f"{column}:{table.names[node]}" for node in distinct.tolist()]
    order = sorted(range(len(nodes)), key=nodes.__getitem__)
    rank = torch.empty(len(nodes), dtype=torch.int64)
    rank[torch.tensor(order, dtype=torch.int64)] = torch.arange(len(nodes))
    return replace(table, names=tuple(nodes[node] for node in order), pairs=rank[pairs])
