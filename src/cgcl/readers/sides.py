"""Bipartite graphs: which node is on which side."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from cgcl.errors import ConfigError, GraphContentError
from cgcl.graph.components import connected_components
from cgcl.graph.wording import listed, shown
from cgcl.readers.edge_table import EdgeTable

__all__ = ["Bipartite", "find_sides"]

Bipartite = Literal["auto", "yes", "no", "columns"]
"""Whether a graph has two sides; see `find_sides`."""
_EVIDENCE = 10


def find_sides(
    table: EdgeTable, bipartite: Bipartite = "auto"
) -> tuple[Tensor | None, tuple[str, ...]]:
    """Return the side of every node, bool [n], and notes; None if the graph has no sides.

    "auto" takes the sides that the source itself names. Otherwise it takes the two columns for
    sides if three things hold: no name occurs in both; on each side at least two nodes have two or
    more links (so a star or a matching has no sides); and `2 links - nodes >= 10`. A node with k
    links falls into one column by chance once in 2^(k-1), so columns that are apart by chance alone
    are rarer than one in a thousand.

    Args:
        table: The links.
        bipartite: "auto"; "yes" takes the columns if no name occurs in both, and else colours the
            nodes with two colours; "no" never finds sides; "columns" is for tables whose columns
            were kept apart (`kept_apart`), and then as "yes".

    Raises:
        GraphContentError: The graph was said to be bipartite and is not.
        ConfigError: `bipartite` is none of the four words.
    """
    if bipartite not in get_args(Bipartite):
        words = ", ".join(map(repr, get_args(Bipartite)))
        raise ConfigError(f"bipartite must be one of {words}, found {bipartite!r}.")
    if bipartite == "no" or table.pairs.shape[1] == 0:
        return None, ()
    if table.sides is not None:
        low, high = table.pairs[:, table.pairs[0] != table.pairs[1]]
        within = int((table.sides[low] == table.sides[high]).sum())
        if within == 0:
            return table.sides, (_note(table, table.sides, ("side 0", "side 1")),)
        if bipartite == "auto":
            return None, (
                f"Node attribute 'bipartite' ignored: {within:,} link"
                f"{' joins' if within == 1 else 's join'} nodes of the same side.",
            )
    by_column = _by_column(table)
    if by_column is not None and (bipartite != "auto" or _is_convincing(table, by_column)):
        return by_column, (*_unlinked(table), _note(table, by_column, table.ends))
    if bipartite == "auto":
        return None, ()
    sides, components = _by_colour(table)
    guess = (
        (f"{components:,} separate components: which of their sides belong together is a guess.",)
        if components > 1
        else ()
    )
    return sides, (*_unlinked(table), _note(table, sides, None), *guess)


def _by_column(table: EdgeTable) -> Tensor | None:
    """Return True for the nodes of the target column; None if a node is in both."""
    if table.ends is None:
        return None
    source, target = (torch.zeros(len(table.names), dtype=torch.bool) for _ in range(2))
    source[table.pairs[0]] = True
    target[table.pairs[1]] = True
    return None if bool((source & target).any()) else target


def _is_convincing(table: EdgeTable, sides: Tensor) -> bool:
    n = len(table.names)
    links = torch.unique(table.pairs[0] * n + table.pairs[1])
    degree = torch.bincount(torch.cat([links // n, links % n]), minlength=n)
    if 2 * links.numel() - int((degree > 0).sum()) < _EVIDENCE:
        return False
    return all(int((degree[side] > 1).sum()) >= 2 for side in (sides, ~sides))


def _by_colour(table: EdgeTable) -> tuple[Tensor, int]:
    """Return sides that every link crosses, and the number of components with links.

    Every node gets two copies, and every link a - b joins a's first to b's second copy and the
    other way round. A component with an odd cycle is then connected with its own copy; any other
    one falls into two, which are the two ways of colouring it.
    """
    n, (source, target) = len(table.names), table.pairs.numpy()
    links = source != target
    source, target = source[links], target[links]
    ends = np.stack([np.concatenate([source, target]), np.concatenate([target, source]) + n])
    copy = connected_components(ends, 2 * n)
    odd = np.flatnonzero(copy[:n] == copy[n:])
    if len(odd):
        cycle = [table.names[node] for node in _odd_cycle(int(odd[0]), source, target)]
        raise GraphContentError(
            f"The graph is not bipartite: {len(cycle)} nodes form an odd cycle, "
            f"{listed(cycle, 9)}.\nIf equal names in the two columns are different things, use "
            f"`bipartite=columns`; else leave out `bipartite=yes`, or correct these links."
        )
    component = np.minimum(copy[:n], copy[n:])
    sides = copy[:n] != component
    # Of the two ways of colouring, the one with more of the sources on the first side.
    votes = np.bincount(component[source], np.where(sides[source], 1, -1), minlength=2 * n)
    sides = sides ^ (votes[component] > 0)
    return torch.from_numpy(sides), len(np.unique(component[source]))


def _odd_cycle(start: int, source: np.ndarray, target: np.ndarray) -> list[int]:
    """Return the nodes of an odd cycle in the component of `start`, in order."""
    neighbours: dict[int, list[int]] = {}
    for a, b in zip(source.tolist(), target.tolist(), strict=True):
        neighbours.setdefault(a, []).append(b)
        neighbours.setdefault(b, []).append(a)
    parent, depth, queue = {start: start}, {start: 0}, [start]
    for node in queue:
        for other in neighbours[node]:
            if other not in depth:
                parent[other], depth[other] = node, depth[node] + 1
                queue.append(other)
            elif depth[other] == depth[node]:
                left, right = [node], [other]
                while left[-1] != right[-1]:
                    left.append(parent[left[-1]])
                    right.append(parent[right[-1]])
                return left + right[-2::-1]
    raise AssertionError("a component without an odd cycle was taken for one with")


def _unlinked(table: EdgeTable) -> tuple[str, ...]:
    """Return a note about nodes whose side no link tells."""
    count = len(table.names) - int(torch.unique(table.pairs).numel())
    if count == 0:
        return ()
    first = f"'{shown(table.ends[0])}'" if table.ends else "the first side"
    return (f"{count:,} node{'' if count == 1 else 's'} without links counted with {first}.",)


def _note(table: EdgeTable, sides: Tensor, ends: tuple[str, str] | None) -> str:
    second = int(sides.sum())
    first = len(table.names) - second
    plural = "" if first == 1 else "s"
    where = (
        f"{first:,} node{plural} in '{shown(ends[0])}', {second:,} in '{shown(ends[1])}'"
        if ends
        else f"{first:,} node{plural} on one side, {second:,} on the other"
    )
    return (
        f"Bipartite: {where}; counter-examples and suggestions join the two sides only. "
        f"If that is wrong, use `bipartite=no`."
    )
