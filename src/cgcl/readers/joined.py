"""The links of several files as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from cgcl.errors import ConfigError
from cgcl.readers.edge_table import EdgeTable

__all__ = ["joined"]


def joined(first: EdgeTable, others: Sequence[EdgeTable]) -> EdgeTable:
    """Return the links of all tables, the nodes of all tables, and all else of the first.

    Names are in the order of code points, as in a single table. Links that the first table has
    already are not added again, so that nothing counts them as repetitions. If the first has sides,
    its links tell those of new nodes.

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
    known = _codes(pairs[0], len(names)).unique()
    for place, table_pairs in enumerate(pairs[1:], start=1):
        codes = _codes(table_pairs, len(names))
        pairs[place] = table_pairs[:, ~torch.isin(codes, known)]
        known = torch.cat([known, codes.unique()])
    together = torch.cat(pairs, dim=1)
    sides, order = None, torch.empty(len(names), dtype=torch.int64)
    order[moved[0]] = torch.arange(len(first.names))
    if first.sides is not None:
        sides = _extended(first.sides, moved[0], together, len(names))
    return replace(
        first,
        names=tuple(names),
        pairs=together,
        times=None,
        sides=sides,
        x=first.x.index_select(0, order) if first.x is not None else None,
    )


def _codes(pairs: Tensor, num_nodes: int) -> Tensor:
    return pairs.amin(dim=0) * num_nodes + pairs.amax(dim=0)


def _extended(sides: Tensor, moved: Tensor, pairs: Tensor, num_nodes: int) -> Tensor:
    """Return the sides of all nodes: a link joins the two, one without links is on the first."""
    found = torch.full((num_nodes,), -1)
    found[moved] = sides.long()
    while True:
        before = int((found >= 0).sum())
        for one, other in (pairs, pairs.flip(0)):
            tells = (found[one] >= 0) & (found[other] < 0)
            found[other[tells]] = 1 - found[one[tells]]
        if int((found >= 0).sum()) == before:
            return found == 1
