"""Nodes that joined after training: with a few links, and features if the others have some."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from cgcl.errors import FeatureError, GraphContentError
from cgcl.graph import Graph
from cgcl.graph.features import has_structural_features
from cgcl.graph.wording import listed, shown

__all__ = ["with_new_nodes"]

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
        links: Pairs of names; at least one of each pair is new.
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
        if not isinstance(name, str) or not 0 < len(name) <= _MOST_CHARACTERS or _is_broken(name):
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


def _is_broken(name: str) -> bool:
    """Return whether a name holds half a character, which no file can store."""
    return any("\ud800" <= character <= "\udfff" for character in name)


def _numbered(graph: Graph, names: Sequence[str], links: Sequence[tuple[str, str]]) -> Tensor:
    """Return the links as node numbers of the extended graph, int64 [2, any]."""
    if any(isinstance(link, str) or len(link) != 2 for link in links):
        raise GraphContentError(
            "Links of new nodes must be pairs of names, such as [('Zoe', 'Anna'), ('Zoe', 'Bob')]."
        )
    new = {name: graph.num_nodes + number for number, name in enumerate(names)}
    mentioned = dict.fromkeys(name for link in links for name in link if name not in new)
    known = dict(zip(mentioned, graph.nodes_named(list(mentioned)).tolist(), strict=True))
    for one, other in links:
        if one in known and other in known:
            raise GraphContentError(
                f"The link '{shown(one)}', '{shown(other)}' joins two known nodes.\n"
                f"Every link here needs a new node; train again to learn from new links."
            )
    number = {**known, **new}
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
    fresh = x_new.to(torch.float32)
    if not x.is_sparse:
        fresh = fresh.to_dense() if fresh.is_sparse else fresh
        fresh = fresh if graph.feature_scale is None else fresh * graph.feature_scale
        _check_finite(graph, names, fresh.flatten(), shape[1])
        return torch.cat([x, fresh])
    fresh = (fresh if fresh.is_sparse else fresh.to_sparse_coo()).coalesce()
    (rows, columns), values = fresh.indices(), fresh.values()
    values = values if graph.feature_scale is None else values * graph.feature_scale[columns]
    _check_finite(graph, names, values, shape[1], rows * shape[1] + columns)
    return _sparse(
        torch.cat([x.indices(), torch.stack([rows + x.shape[0], columns])], dim=1),
        torch.cat([x.values(), values]),
        (x.shape[0] + shape[0], x.shape[1]),
    )


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


def _check_finite(
    graph: Graph, names: Sequence[str], values: Tensor, width: int, places: Tensor | None = None
) -> None:
    bad = (~torch.isfinite(values)).nonzero().flatten()
    if len(bad):
        row, column = divmod(int(bad[0] if places is None else places[bad[0]]), width)
        label = graph.feature_names[column] if graph.feature_names else str(column)
        raise FeatureError(
            f"Feature '{shown(label)}' of the new node '{shown(names[row])}' is not a finite "
            f"number.\nEvery feature must be one that fits into 32 bits."
        )


def _sparse(indices: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    return torch.sparse_coo_tensor(
        indices, values, shape, check_invariants=False, is_coalesced=True
    )


def _extended_sides(graph: Graph, sides: Tensor, names: Sequence[str], pairs: Tensor) -> Tensor:
    """Return the side of every node: opposite to whatever it is linked to."""
    linked: dict[int, list[int]] = {graph.num_nodes + number: [] for number in range(len(names))}
    for one, other in pairs.T.tolist():
        for new, partner in ((one, other), (other, one)):
            if new in linked and one != other:
                linked[new].append(partner)
    found = torch.cat([sides, torch.zeros(len(names), dtype=torch.bool)])
    decided = {
        new: not bool(sides[partner])
        for new, partners in linked.items()
        for partner in partners
        if partner not in linked
    }
    waiting = deque(decided)
    while waiting:
        new = waiting.popleft()
        for partner in linked[new]:
            if partner in linked and partner not in decided:
                decided[partner] = not decided[new]
                waiting.append(partner)
    undecided = [name for number, name in enumerate(names, len(sides)) if number not in decided]
    if undecided:
        raise GraphContentError(
            f"'{shown(graph.title)}' is bipartite, and no link says on which side "
            f"{listed(undecided)} belongs.\nGive each new node a link, so that a known one is "
            f"reached."
        )
    for new, side in decided.items():
        found[new] = side
    _check_sides(graph, names, found, pairs)
    return found


def _check_sides(graph: Graph, names: Sequence[str], sides: Tensor, pairs: Tensor) -> None:
    everyone = (*graph.names, *names)
    for one, other in pairs.T.tolist():
        if one != other and sides[one] == sides[other]:
            raise GraphContentError(
                f"'{shown(graph.title)}' is bipartite, but the new links put "
                f"'{shown(everyone[one])}' and '{shown(everyone[other])}' on the same side.\n"
                f"A new node may have links to one side only."
            )
