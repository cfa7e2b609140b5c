"""Mini-batches of links: what a step has to know of a graph, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from cgcl.graph.adjacency import Adjacency
from cgcl.model.ops import LinearMap, Rows, sparse


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    r"""Some rows of a view's $\tilde D^{-1/2} \tilde A \tilde D^{-1/2}$   (Eq. 1)."""

    nodes: Tensor
    """The columns: all nodes that are looked at, ascending, int64 [u]."""
    rows: Rows
    """The rows asked for, [r, u]."""
    back: Rows
    """The same the other way round, [u, r]."""

    def sums(self, h: Tensor) -> Tensor:
        """Return what arrives at each node that was asked for, [r, any], from rows of `nodes`."""
        return LinearMap.apply(h, self.rows.times, self.back.times)


def neighbourhood(
    near: Adjacency,
    wanted: Tensor,
    degree: Tensor,
    is_seen: Callable[[Tensor, Tensor], Tensor],
) -> Neighbourhood:
    """Return what arrives at some nodes along the links of a view, exactly.

    Args:
        near: All links that may be in the view.
        wanted: Different nodes, int64 [r].
        degree: How many links of the view each node has, int64 [n].
        is_seen: Whether links are in the view, bool, by their smaller and their larger end.
    """
    which, other = near.neighbours(wanted)
    here = wanted.index_select(0, which)
    seen = is_seen(torch.minimum(here, other), torch.maximum(here, other)).nonzero().squeeze(1)
    own = torch.arange(wanted.numel(), device=wanted.device)  # a node hears itself, too
    row = torch.cat([which.index_select(0, seen), own])
    column = torch.cat([other.index_select(0, seen), wanted])
    nodes, place = torch.unique(column, return_inverse=True)
    scale = (degree + 1).to(torch.get_default_dtype()).rsqrt()
    weight = scale.index_select(0, column) * scale.index_select(0, wanted.index_select(0, row))
    return Neighbourhood(
        nodes,
        _rows(row, place, weight, wanted.numel()),
        _rows(place, row, weight, nodes.numel()),
    )


def _rows(row: Tensor, column: Tensor, weight: Tensor, count: int) -> Rows:
    row, order = row.sort(stable=True)
    start = torch.searchsorted(row, torch.arange(count, device=row.device))
    return Rows(start, column.index_select(0, order), weight.index_select(0, order))


class FeatureRows:
    """Features, of which some rows are asked for."""

    def __init__(self, x: Tensor) -> None:
        """Take features, [n, d], dense or coalesced sparse COO."""
        self._x = x
        self._rows: Adjacency | None = None
        if x.is_sparse:
            row, column = x.indices()
            starts = torch.searchsorted(row, torch.arange(x.shape[0] + 1, device=row.device))
            self._rows = Adjacency(starts, column, x.shape[1])

    def of(self, nodes: Tensor) -> Tensor:
        """Return the rows of some nodes, in the form of all, [any, d]."""
        if self._rows is None:
            return self._x.index_select(0, nodes)
        row, place = self._rows.places(nodes)
        column, values = (
            own.index_select(0, place) for own in (self._rows.indices, self._x.values())
        )
        shape = (nodes.numel(), self._x.shape[1])
        return sparse(torch.stack([row, column]), values, shape, is_coalesced=True)
