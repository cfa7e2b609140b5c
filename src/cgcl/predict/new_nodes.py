"""Nodes that joined after training: with a few links, and features if the others have some."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from cgcl.errors import FeatureError, GraphContentError
from cgcl.graph import Graph
from cgcl.graph.features import has_structural_features, scaled
from cgcl.wording import counted, listed, shown

if TYPE_CHECKING:
    from cgcl.readers.features import FeatureOptions

_MOST_CHARACTERS = 10_000


def with_new_nodes(
    graph: Graph,
    names: Sequence[str],
    links: Sequence[tuple[str, str]],
    x_new: Tensor | None = None,
) -> Graph:
    """Return a fitted predictor's graph with nodes it was not trained on.

    The known nodes keep their numbers, the new ones follow in the order given. Where features are
    made of links, those of the new nodes are made of their links to the nodes of the training.

    Args:
        graph: The graph as the predictor keeps it, features prepared.
        names: Names of the new nodes.
        links: Pairs of names; one or both of each pair are new.
        x_new: Features of the new nodes in the units of the user's file, [k, d], dense or sparse.

    Raises:
        GraphContentError: A name is taken, empty or not known, a link joins two known nodes, a
            node has neither links nor features, or a bipartite graph would not be one any more.
        FeatureError: Features are missing, not wanted, not finite or of another shape.
    """
    _check_names(graph, names)
    pairs = _numbered(graph, names, links)
    x = _extended_features(graph, names, x_new, pairs)
    if x_new is None:
        _check_linked(graph, names, pairs)
    joined = Graph.from_pairs(
        graph.title,
        (*graph.names, *names),
        torch.cat([graph.edges, pairs], dim=1),
        x,
        graph.notes,
        sides=None if graph.sides is None else _extended_sides(graph, graph.sides, names, pairs),
        feature_names=graph.feature_names,
    )
    structure = None if graph.structure is None else graph.structure.with_new_nodes(len(names))
    return replace(joined, feature_scale=graph.feature_scale, structure=structure)


def _check_names(graph: Graph, names: Sequence[str]) -> None:
    for name in names:
        is_text = isinstance(name, str) and not re.search("[\ud800-\udfff]", name)
        if not is_text or not 0 < len(name) <= _MOST_CHARACTERS:  # half a character fits no file
            raise GraphContentError(
                f"A new node is called {shown(repr(name))}. Give a name of 1 to "
                f"{_MOST_CHARACTERS:,} characters, as valid text."
            )
    known = [name for name in names if name in graph.node_of]
    if known:
        raise GraphContentError(
            f"Already in the graph '{shown(graph.title)}': {listed(known)}.\n"
            f"Give new nodes names of their own, or ask for the links of the known ones."
        )
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise GraphContentError(f"New nodes are listed twice: {listed(twice)}. Keep one of each.")


def _numbered(graph: Graph, names: Sequence[str], links: Sequence[tuple[str, str]]) -> Tensor:
    """Return the links as node numbers of the extended graph, int64 [2, any]."""
    new = {name: graph.num_nodes + number for number, name in enumerate(names)}
    # All others must be known.
    known = [name for link in links for name in link if name not in new]
    number = new | dict(zip(known, graph.nodes_named(known).tolist(), strict=True))
    for one, other in links:
        if one not in new and other not in new:
            raise GraphContentError(
                f"The link '{shown(one)}', '{shown(other)}' joins two known nodes.\n"
                f"Every link here needs a new node; train again to learn from new links."
            )
    pairs = [(number[one], number[other]) for one, other in links]
    return torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).T


def _check_linked(graph: Graph, names: Sequence[str], pairs: Tensor) -> None:
    # A link to itself is dropped and tells nothing.
    linked = set(pairs[:, pairs[0] != pairs[1]].flatten().tolist())
    alone = [name for number, name in enumerate(names, graph.num_nodes) if number not in linked]
    if alone:
        raise GraphContentError(
            f"Nothing is known about {listed(alone)}: neither links nor features.\n"
            f"Give each new node at least one link."
        )


def _extended_features(
    graph: Graph, names: Sequence[str], x_new: Tensor | None, pairs: Tensor
) -> Tensor | None:
    x = graph.x
    if x_new is not None and (x is None or has_structural_features(graph)):
        raise FeatureError(
            f"'{shown(graph.title)}' was trained without features, so new nodes cannot bring "
            f"any.\nGive their links only."
        )
    if x is None:  # features are made of links, or the method looks at links only
        return None
    shape = (len(names), x.shape[1])
    if has_structural_features(graph):
        x_new = _stored_structure(graph, pairs, shape)
    elif x_new is None:
        raise FeatureError(
            f"The new nodes have no features; '{shown(graph.title)}' was trained with "
            f"{x.shape[1]:,}.\nGive them, in the units of the file it was trained on."
        )
    if x_new.shape != shape:
        raise FeatureError(
            f"The features of {shape[0]:,} new nodes must have the shape {list(shape)}, found "
            f"{list(x_new.shape)}.\nGive a row per new node and every feature of the training."
        )
    fresh = x_new.to(torch.float32).to_sparse_coo().coalesce()
    fresh = fresh if graph.feature_scale is None else scaled(fresh, graph.feature_scale)
    bad = fresh.indices()[:, ~torch.isfinite(fresh.values())].T
    if len(bad):
        row, column = bad[0].tolist()
        label = graph.feature_names[column] if graph.feature_names else str(column)
        raise FeatureError(
            f"Feature '{shown(label)}' of the new node '{shown(names[row])}' is not a finite "
            f"number.\nEvery feature must be one that fits into 32 bits."
        )
    return torch.cat([x, fresh]).coalesce() if x.is_sparse else torch.cat([x, fresh.to_dense()])


def _stored_structure(graph: Graph, pairs: Tensor, shape: tuple[int, int]) -> Tensor:
    """Return rows for structural features that an earlier version stored, sparse [k, d]."""
    # Where nodes share features, or others joined before, neighbours alone speak for a new one.
    if graph.num_nodes != shape[1]:
        return torch.zeros(shape, layout=torch.sparse_coo)
    known, new = pairs.amin(dim=0), pairs.amax(dim=0)
    joins = (known < graph.num_nodes) & (new >= graph.num_nodes)
    ends = torch.stack([new[joins] - graph.num_nodes, known[joins]])
    ones = torch.ones(ends.shape[1])
    return torch.sparse_coo_tensor(ends, ones, shape, check_invariants=True).coalesce()


def _extended_sides(graph: Graph, sides: Tensor, names: Sequence[str], pairs: Tensor) -> Tensor:
    """Return the side of every node: opposite to whatever it is linked to."""
    one, other = torch.cat([pairs, pairs.flip(0)], dim=1)
    found = torch.cat([sides.long(), torch.full((len(names),), -1)])
    while (spreads := (found[one] >= 0) & (found[other] < 0)).any():
        found[other[spreads]] = 1 - found[one[spreads]]
    undecided = [name for number, name in enumerate(names, len(sides)) if found[number] < 0]
    if undecided:
        raise GraphContentError(
            f"'{shown(graph.title)}' is bipartite, and no link says on which side "
            f"{listed(undecided)} belongs.\nGive each new node a link, so that a known one is "
            f"reached."
        )
    return found == 1  # that no link joins two of the same side is checked where a graph is made


def read_new_features(
    graph: Graph, path: Path, names: Collection[str], options: FeatureOptions
) -> tuple[list[str], Tensor, tuple[str, ...]]:
    """Read the features of new nodes into the columns that the graph was trained with.

    A category or a word that was not there in training is left out, with a note; one that is not
    there now counts as zero. Every column of numbers must be there, and no other.

    Args:
        graph: The graph that knows what its features are called.
        path: A table whose first column names the node.
        names: New nodes that have links; each needs a row. The table may name others.
        options: How the table is written; categories and words as in training.

    Returns:
        The names of all new nodes in order, their features, dense [k, d], and notes.

    Raises:
        FeatureError: A row or a column is missing, or is not known.
        GraphFormatError: The file is not a table.
    """
    from cgcl.readers.formats import read_features  # a file is read for the command alone

    if has_structural_features(graph):
        raise FeatureError(
            f"'{shown(graph.title)}' was trained without features, so new nodes need none.\n"
            f"Leave out `new_features`."
        )
    table = read_features(path, names, **asdict(options))
    taken = [name for name in table.names if name in graph.node_of]
    if taken:
        raise FeatureError(
            f"{path.name} has rows of nodes that are known already: {listed(taken)}.\n"
            f"Keep the rows of new nodes only."
        )
    words = [f"{options.words}:"] if options.words else []
    marks = (*(f"{column}=" for column in options.one_hot), *words)
    x, notes = _aligned(graph, path.name, table.feature_names, table.x.to_dense(), marks)
    return list(table.names), x, notes


def _aligned(
    graph: Graph, file: str, columns: Sequence[str], values: Tensor, marks: tuple[str, ...]
) -> tuple[Tensor, tuple[str, ...]]:
    """Put each column where the graph has it.

    Args:
        graph: Knows the order.
        file: For messages.
        columns: What the columns of `values` are called.
        values: Dense, [k, columns].
        marks: How the names of features begin that need not be on both sides.
    """
    wanted = graph.feature_names
    if not wanted or not columns:
        if values.shape[1] != graph.num_features:
            raise FeatureError(
                f"{file} has {values.shape[1]:,} features; '{shown(graph.title)}' was trained with "
                f"{graph.num_features:,}.\nGive the same columns in the same order."
            )
        return values, ()
    place = {name: number for number, name in enumerate(wanted)}
    here = set(columns)
    missing = [name for name in wanted if name not in here and not name.startswith(marks)]
    unknown = [name for name in columns if name not in place]
    strange = [name for name in unknown if not name.startswith(marks)]
    for wrong, what, remedy in (
        (missing, "lacks", "Give every column that was trained with, `one_hot` and `words` alike"),
        (strange, "has, but training had not,", "Leave them out, or correct the names"),
    ):
        if wrong:
            raise FeatureError(
                f"{file} {what} {counted(len(wrong), 'feature')}: {listed(wrong)}.\n{remedy}."
            )
    x = torch.zeros(values.shape[0], len(wanted))
    for number, name in enumerate(columns):
        if name in place:
            x[:, place[name]] = values[:, number]
    note = f"{len(unknown):,} values not seen in training left out: {listed(unknown)}."
    return x, (note,) if unknown else ()
