"""The links of several files as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from cgcl.errors import ConfigError
from cgcl.readers.edge_table import EdgeTable

__all__ = ["joined"]


def joined(first: EdgeTable, others: Sequence[EdgeTable]) -> EdgeTable:
    """Return the links of all tables, the nodes of all tables, and all else of the first.

    Names are in the order of code points, as in a single table, so that it makes no difference
    which file a link stands in.

    Raises:
        ConfigError: The first table has features of its own, which the others' nodes may lack.
    """
    tables = [first, *others]
    names = sorted({name for table in tables for name in table.names})
    if first.x is not None and len(names) > len(first.names):
        raise ConfigError(
            "The graph brings its own features, and further files name nodes that have none.\n"
            "Use only nodes of the graph in them."
        )
    number = {name: node for node, name in enumerate(names)}
    moved = [torch.tensor([number[name] for name in table.names]) for table in tables]
    pairs = [move[table.pairs] for move, table in zip(moved, tables, strict=True)]
    order = torch.empty(len(names), dtype=torch.int64)
    order[moved[0]] = torch.arange(len(first.names))
    is_same = len(names) == len(first.names)
    return replace(
        first,
        names=tuple(names),
        pairs=torch.cat(pairs, dim=1),
        times=None,
        sides=first.sides[order] if first.sides is not None and is_same else None,
        x=first.x.index_select(0, order) if first.x is not None else None,
    )
