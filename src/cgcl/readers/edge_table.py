"""Links as a reader hands them over, and what becomes of them before they are a graph.

Nothing is merged or dropped by a reader. Here several files become one, equal names in two columns
are kept apart, the sides of a bipartite graph are found, and directions are dropped.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from cgcl.errors import ConfigError, GraphContentError
from cgcl.graph.adjacency import two_sides
from cgcl.graph.pairs import encode, encode_ordered
from cgcl.wording import counted, listed, shown

if TYPE_CHECKING:
    from cgcl.graph import Graph

Bipartite = Literal["auto", "yes", "no", "columns"]
"""Whether a graph has two sides; see `find_sides`."""
Directed = Literal["drop", "error"]
"""What to do with links that have a direction."""
DROPPED = "Direction dropped: links are treated as undirected."
_EVIDENCE = 10
# What the two columns are called where both hold nodes of one kind, and which share of rows may be
# there the other way round where they hold two.
_ONE_KIND = {
    frozenset(pair)
    for pair in (
        ("source", "target"),
        ("from", "to"),
        ("src", "dst"),
        ("head", "tail"),
        ("node1", "node2"),
        ("node_1", "node_2"),
        ("id1", "id2"),
        ("id_1", "id_2"),
        ("a", "b"),
        ("u", "v"),
        ("i", "j"),
        ("x", "y"),
        ("citing", "cited"),
        ("follower", "followee"),
        ("column 1", "column 2"),
    )
}
_FEW_MIRRORED = 0.02
# Numbers that nobody counts to.
_MANY_DIGITS = 12


@dataclass(frozen=True)
class LinkOptions:
    """How links are written in a file."""

    source: str | None = None
    """The column with the one end of each link; if neither is given, "source" and "target", or
    the two columns of a table that has no more."""
    target: str | None = None
    """The column with the other end."""
    separator: str | None = None
    """The character between columns of text; None finds it by the file."""
    header: bool | None = None
    """Whether a text file begins with column names; None finds out."""
    time: str | None = None
    """The column or link attribute with times, if they are wanted."""
    nodes: Container[str] = ()
    """Names of nodes that are known already: no column is called so."""
    usage: str = "cgcl train {file}"
    """The command that a message shows as a remedy."""

    @property
    def ends(self) -> tuple[str, str]:
        """The columns with the two ends."""
        source = "source" if self.source is None else self.source
        return source, "target" if self.target is None else self.target

    def refuse_columns(self, place: str) -> None:
        """Refuse columns for a source that has none.

        Raises:
            ConfigError: A column is named.
        """
        if self.ends != ("source", "target"):
            raise ConfigError(
                f"{place} has no columns.\n"
                f"Leave out `source` and `target`, which name columns of a table."
            )


@dataclass(frozen=True)
class EdgeTable:
    """The links of a file or an object, as written: not yet merged, loops not yet dropped."""

    names: tuple[str, ...]
    """The name of every node."""
    pairs: Tensor
    """Node numbers of every row: int64 [2, rows]."""
    notes: tuple[str, ...] = ()
    """What was ignored, a sentence each."""
    times: Tensor | None = None
    """When each row appeared, float64 [rows]; None if that was not asked for."""
    ends: tuple[str, str] | None = None
    """What the two ends are called; None if it means nothing which of them comes first."""
    is_directed: bool | None = None
    """Whether the source says that links have a direction; None if it does not say."""
    lists_both_ways: bool = False
    """Whether an undirected link is written as two, as in a matrix or an edge_index."""
    sides: Tensor | None = None
    """The side of every node, bool [n], where the source itself says so."""
    x: Tensor | None = None
    """Node features, float32 [n, d], where the source itself has them."""
    is_settled: bool = False
    """Whether `sides` are final and directions dropped; nobody looks again."""

    def numbers_among(self, names: Sequence[str]) -> Tensor:
        """Return the number of each node in a longer list of names, int64 [n]."""
        if tuple(names) == self.names:
            return torch.arange(len(names))
        number = {name: node for node, name in enumerate(names)}
        return torch.tensor([number[name] for name in self.names], dtype=torch.int64)


def check_word(option: str, word: str, words: object) -> None:
    """Refuse a word that an option does not know.

    Args:
        option: What it is called.
        word: What was given.
        words: A `Literal` of those that it knows.

    Raises:
        ConfigError: It is none of them.
    """
    known = get_args(words)
    if word not in known:
        either = " or ".join(map(repr, known))
        told = either if len(known) == 2 else f"one of {', '.join(map(repr, known))}"
        raise ConfigError(f"{option} must be {told}, found {word!r}.")


def ignored_note(what: str, names: Sequence[str], *, quoted: bool = True) -> tuple[str, ...]:
    """Return the note about columns or attributes of links that are not used.

    Example:
        >>> ignored_note("Column", ["weight"])
        ("Column 'weight' ignored: only the two ends of each link are used.",)
    """
    if not names:
        return ()
    which = f"{what}{'' if len(names) == 1 else 's'} {listed(names, quoted=quoted)}"
    return (f"{which} ignored: only the two ends of each link are used.",)


def as_one(tables: Sequence[EdgeTable], directed: Directed, bipartite: Bipartite) -> EdgeTable:
    """Return the links of all tables, the first of which decides about direction and sides.

    Raises:
        ConfigError: An option is none of its words, or does not fit the links.
        GraphContentError: The links are directed or not bipartite, against what was said.
    """
    if bipartite == "columns":
        tables = [prefix_names_by_column(table) for table in tables]
    first, *others = tables
    return merge_edge_tables(settled(first, directed, bipartite), others) if others else first


def settled(table: EdgeTable, directed: Directed, bipartite: Bipartite) -> EdgeTable:
    """Return the links with their sides found and their direction dropped, which is done once.

    Raises:
        ConfigError: An option is none of its words.
        GraphContentError: The links are directed or not bipartite, against what was said.
    """
    if table.is_settled:
        return table
    sides, about_sides = find_sides(table, bipartite)
    table, about_direction = drop_direction(table, directed)
    notes = (*table.notes, *about_direction, *about_sides)
    return replace(table, sides=sides, notes=notes, is_settled=True)


def prefix_names_by_column(table: EdgeTable) -> EdgeTable:
    """Return the links with every node named after its column, too: customer 5 is not product 5.

    Raises:
        ConfigError: The source has no two columns.

    Example:
        >>> links = torch.tensor([[0, 1], [1, 0]])
        >>> prefix_names_by_column(EdgeTable(("1", "2"), links, ends=("buyer", "item"))).names
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
    rank = torch.tensor(order, dtype=torch.int64).argsort()
    return replace(table, names=tuple(nodes[node] for node in order), pairs=rank[pairs])


def has_prefixes(graph: Graph, ends: tuple[str, str]) -> bool:
    """Return whether the names of its two sides begin with these columns, in either order."""
    if graph.sides is None:
        return False
    sides = graph.sides.tolist()
    return any(
        all(
            name.startswith(f"{order[side]}:")
            for name, side in zip(graph.names, sides, strict=True)
        )
        for order in (ends, ends[::-1])
    )


def names_of_pairs(table: EdgeTable, graph: Graph) -> list[tuple[str, str]]:
    """Return the names in each row, as the graph has them.

    Where the graph's names begin with the column that they were in, and the table has the same
    columns, its names get the same beginning, unless they have it.
    """
    ends = table.ends
    called: list[Sequence[str]] = [table.names, table.names]
    if ends is not None and has_prefixes(graph, ends):
        called = [
            [name if name.startswith(f"{end}:") else f"{end}:{name}" for name in table.names]
            for end in ends
        ]
    return [(called[0][a], called[1][b]) for a, b in table.pairs.T.tolist()]


def merge_edge_tables(first: EdgeTable, others: Sequence[EdgeTable]) -> EdgeTable:
    """Return the links of all tables, the nodes of all tables, and all else of the first.

    Names are in the order of code points, as in a single table. Links that the first table has
    already are not added again, so that nothing counts them as repetitions. If the first has sides,
    its links tell those of new nodes.

    Raises:
        ConfigError: The first table has features of its own, which the others' nodes may lack.
    """
    names = sorted({name for table in (first, *others) for name in table.names})
    if first.x is not None and len(names) > len(first.names):
        raise ConfigError(
            "The graph brings its own features, and further files name nodes that have none.\n"
            "Use only nodes of the graph in them."
        )
    moved = first.numbers_among(names)
    pairs = moved[first.pairs]
    for table in others:
        more = table.numbers_among(names)[table.pairs]
        codes, known = (encode(one, other, len(names)) for one, other in (more, pairs))
        pairs = torch.cat([pairs, more[:, ~torch.isin(codes, known)]], dim=1)
    return replace(
        first,
        names=tuple(names),
        pairs=pairs,
        times=None,
        sides=None if first.sides is None else _extended(first.sides, moved, pairs, len(names)),
        x=None if first.x is None else first.x.index_select(0, moved.argsort()),
    )


def _extended(sides: Tensor, moved: Tensor, pairs: Tensor, num_nodes: int) -> Tensor:
    """Return the sides of all nodes: a link joins the two, one without links is on the first."""
    found = torch.full((num_nodes,), -1)
    found[moved] = sides.long()
    before = -1
    while before != (before := int((found >= 0).sum())):
        for one, other in (pairs, pairs.flip(0)):
            tells = (found[one] >= 0) & (found[other] < 0)
            found[other[tells]] = 1 - found[one[tells]]
    return found == 1


def drop_direction(table: EdgeTable, directed: Directed) -> tuple[EdgeTable, tuple[str, ...]]:
    """Return the links, sorted and smaller node first, with a note if they had a direction.

    A source may say that its links are directed. If it does not say, links of which some are listed
    in both directions and some in one only look directed.

    Args:
        table: The links.
        directed: "error" refuses links with a direction.

    Raises:
        GraphContentError: The links are directed, and that was to be refused.
        ConfigError: `directed` is neither of the two words.
    """
    check_word("directed", directed, Directed)
    if table.is_directed is False or table.pairs.shape[1] == 0:
        return table, ()
    n, (source, target) = len(table.names), table.pairs.numpy()
    # A number for each row; the two directions of a link are side by side.
    link = np.minimum(source, target) * n + np.maximum(source, target)
    ways = np.sort(2 * link + (source < target))
    both, single = _count_ways(ways, n)
    notes = (DROPPED,) if table.is_directed else direction_notes(both, single)
    if notes and directed == "error":
        raise has_direction(notes[0])
    if table.times is not None:  # they belong to the rows in the order they have
        return table, notes
    pairs = np.stack(np.divmod(ways >> 1, n))
    if table.lists_both_ways and both and not single:
        # Each link once, so that no note counts its second direction as a repetition.
        pairs = pairs[:, (ways % 2 == 1) | (pairs[0] == pairs[1])]
    return replace(table, pairs=torch.from_numpy(pairs)), notes


def direction_notes(both: int, single: int) -> tuple[str, ...]:
    """Return the note about links of which some are listed in both directions, some in one."""
    if not (both and single):
        return ()
    listed_both = counted(both, "link is", "links are")
    return (f"{listed_both} listed in both directions, {single:,} in one. {DROPPED}",)


def has_direction(note: str) -> GraphContentError:
    """Return what to say of links with a direction, where that is to be refused."""
    reason = note.removesuffix(DROPPED).strip() or "The source says that links are directed."
    return GraphContentError(
        f"{reason}\nThis method knows undirected links only. "
        f"Leave out `directed=error` to drop the direction."
    )


def _count_ways(ways: np.ndarray, num_nodes: int) -> tuple[int, int]:
    """Return how many links are listed in both directions, and how many in one."""
    links = ways[np.append(True, ways[1:] != ways[:-1])] >> 1
    both = int((links[1:] == links[:-1]).sum())
    loops = int((links // num_nodes == links % num_nodes).sum())
    return both, links.size - 2 * both - loops


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
            were kept apart (`prefix_names_by_column`), and then as "yes".

    Raises:
        GraphContentError: The graph was said to be bipartite and is not.
        ConfigError: `bipartite` is none of the four words.
    """
    check_word("bipartite", bipartite, Bipartite)
    if bipartite == "no" or table.pairs.shape[1] == 0:
        return None, ()
    if table.sides is not None:
        low, high = table.pairs[:, table.pairs[0] != table.pairs[1]]
        within = int((table.sides[low] == table.sides[high]).sum())
        if within == 0:
            return table.sides, (_note(table, table.sides, ("side 0", "side 1")),)
        if bipartite == "auto":
            found = counted(within, "link joins", "links join")
            return None, (f"Node attribute 'bipartite' ignored: {found} nodes of the same side.",)
    by_column = _by_column(table)
    if by_column is not None and (bipartite != "auto" or _is_convincing(table, by_column)):
        return by_column, (*_unlinked(table), _note(table, by_column, table.ends))
    if bipartite == "auto":
        return None, _perhaps_two_kinds(table) if by_column is None else ()
    sides, components = _by_colour(table)
    notes = (*_unlinked(table), _note(table, sides, None))
    if components > 1:
        guess = "which of their sides belong together is a guess."
        notes += (f"{components:,} separate components: {guess}",)
    return sides, notes


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
    return are_apart(degree, sides)


def are_apart(degree: Tensor, sides: Tensor) -> bool:
    """Say whether two columns without a common name are apart by more than chance.

    Args:
        degree: The number of links of each node.
        sides: Which nodes are in the second column.
    """
    if int(degree.sum()) - int((degree > 0).sum()) < _EVIDENCE:
        return False
    return all(int((degree[side] > 1).sum()) >= 2 for side in (sides, ~sides))


def _perhaps_two_kinds(table: EdgeTable) -> tuple[str, ...]:
    """Return a note where numbers in two columns may count different things, as in ratings.

    The numbers overlap, next to no row is there the other way round, and the columns are called
    differently, or each counts up to a number of its own without many gaps.
    """
    if table.ends is None or table.lists_both_ways or table.is_directed is not None:
        return ()
    columns = [end.unique() for end in table.pairs]
    both = columns[0][torch.isin(columns[0], columns[1])]
    names, n = [table.names[node] for node in both.tolist()], len(table.names)
    if not names or not all(name.isdecimal() for name in names):
        return ()
    is_called_apart = frozenset(map(str.lower, table.ends)) not in _ONE_KIND
    if not (is_called_apart or _count_apart(table)):
        return ()
    source, target = table.pairs
    rows = torch.unique(encode_ordered(source, target, n))
    mirrored = int(torch.isin(rows, encode_ordered(target, source, n)).sum())
    by_chance = len(rows) / (len(columns[0]) * len(columns[1]))
    if mirrored > len(rows) * max(_FEW_MIRRORED, 2 * by_chance):
        return ()
    first, second = map(shown, table.ends)
    what = counted(len(names), "number is", "numbers are")
    return (
        f"{what} in both columns, such as '{names[0]}', and taken for one node each. If '{first}' "
        f"and '{second}' are two kinds of things, use `bipartite=columns`.",
    )


def _count_apart(table: EdgeTable) -> bool:
    """Return whether both columns count from 0 or 1 with few gaps, but not equally far."""
    is_small = [name.isdecimal() and len(name) < _MANY_DIGITS for name in table.names]
    if not all(is_small):
        return False
    number = torch.tensor([int(name) for name in table.names])
    columns = [number[end].unique() for end in table.pairs]
    low, high = ([int(one.min()) for one in columns], [int(one.max()) for one in columns])
    is_dense = all(len(one) > 0.8 * (top + 1) for one, top in zip(columns, high, strict=True))
    return set(low) <= {0, 1} and is_dense and max(high) > 1.2 * min(high)


def _by_colour(table: EdgeTable) -> tuple[Tensor, int]:
    """Return sides that every link crosses, and the number of components with links."""
    ends = table.pairs.numpy()
    ends = ends[:, ends[0] != ends[1]]
    component, sides, is_odd = two_sides(ends, len(table.names))
    if is_odd.any():
        cycle = [table.names[node] for node in _odd_cycle(int(is_odd.argmax()), *ends)]
        raise GraphContentError(
            f"The graph is not bipartite: {len(cycle)} nodes form an odd cycle, "
            f"{listed(cycle, 9)}.\nIf equal names in the two columns are different things, use "
            f"`bipartite=columns`; else leave out `bipartite=yes`, or correct these links."
        )
    # Of the two ways of colouring, the one with more of the sources on the first side.
    source = ends[0]
    votes = np.bincount(component[source], np.where(sides[source], 1, -1), 2 * len(sides))
    return torch.from_numpy(sides ^ (votes[component] > 0)), len(np.unique(component[source]))


def _odd_cycle(start: int, source: np.ndarray, target: np.ndarray) -> list[int]:
    """Return the nodes of an odd cycle in the component of `start`, in order."""
    import networkx as nx

    graph = nx.Graph(zip(source.tolist(), target.tolist(), strict=True))
    depth = nx.single_source_shortest_path_length(graph, start)
    level = [edge for edge in graph.edges(depth) if depth[edge[0]] == depth[edge[1]]]
    nearest = min(level, key=lambda edge: depth[edge[0]])
    one, other = (nx.shortest_path(graph, start, end) for end in nearest)
    # Both paths have the same length; behind the last node they share they make the cycle.
    fork = max(step for step, (a, b) in enumerate(zip(one, other, strict=True)) if a == b)
    return one[fork:] + other[:fork:-1]


def _unlinked(table: EdgeTable) -> tuple[str, ...]:
    """Return a note about nodes whose side no link tells."""
    count = len(table.names) - int(torch.unique(table.pairs).numel())
    if count == 0:
        return ()
    first = f"'{shown(table.ends[0])}'" if table.ends else "the first side"
    return (f"{counted(count, 'node')} without links counted with {first}.",)


def _note(table: EdgeTable, sides: Tensor, ends: tuple[str, str] | None) -> str:
    return sides_note(len(table.names), int(sides.sum()), ends)


def sides_note(nodes: int, second: int, ends: tuple[str, str] | None) -> str:
    """Return the note about a graph of two sides, so many of whose nodes are on the second."""
    first = counted(nodes - second, "node")
    where = f"{first} on one side, {second:,} on the other"
    if ends:
        where = f"{first} in '{shown(ends[0])}', {second:,} in '{shown(ends[1])}'"
    return (
        f"Bipartite: {where}; counter-examples and suggestions join the two sides only. "
        f"If that is wrong, use `bipartite=no`."
    )
