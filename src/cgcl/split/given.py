"""The user's own split: these links are the test, those choose the epoch."""

from __future__ import annotations

import torch
from torch import Tensor

from cgcl.errors import GraphContentError, SplitError
from cgcl.graph import Graph
from cgcl.graph.wording import listed
from cgcl.seeds import stream
from cgcl.split.split import MIN_TEST_LINKS, MIN_TRAIN_LINKS, MIN_VAL_LINKS, Split, divide

__all__ = ["given_split"]


def given_split(
    graph: Graph,
    *,
    test: Tensor,
    val: Tensor | None = None,
    val_share: float = 0.05,
    seed: int = 0,
) -> tuple[Split, tuple[str, ...]]:
    """Hide the links that the user chose, and draw as many unlinked pairs to set against them.

    The hidden links are taken out of training wherever they stand. Their order, their direction
    and repetitions do not matter.

    Args:
        graph: All links: to learn from, to choose by and to test on.
        test: The links to test on, node numbers of `graph`, int64 [2, any].
        val: The links to choose the best epoch by; None to draw them.
        val_share: Share of the remaining links to draw for validation if `val` is None; 0 for none.
        seed: Decides what is drawn: counter-examples, and validation links if there are none.

    Returns:
        The split, and what was dropped or merged on the way, a sentence each.

    Raises:
        SplitError: A pair is in both sets or no link of the graph, or a part has too few links.
        GraphContentError: The pairs have another type or shape, or a node is outside the graph.
    """
    if not 0 <= val_share < 1:
        raise SplitError(f"val is {val_share}; it must be at least 0 and below 1.")
    tested, notes = _positions(graph, test, "test")
    _require(tested.numel(), MIN_TEST_LINKS, "test", "be measured")
    rest = _others(graph.num_edges, tested)
    if val is None:
        chosen = _drawn(rest, val_share, seed)
    else:
        chosen, more = _positions(graph, val, "validation")
        notes += more
        _require(chosen.numel(), MIN_VAL_LINKS, "validation", "choose an epoch")
        _check_disjoint(graph, chosen, tested)
    train = _others(graph.num_edges, torch.cat([tested, chosen]))
    if train.numel() < MIN_TRAIN_LINKS:
        raise SplitError(
            f"The graph has {graph.num_edges:,} links; {chosen.numel():,} are for validation and "
            f"{tested.numel():,} for the test, so {train.numel()} would be left to learn from.\n"
            f"At least {MIN_TRAIN_LINKS} are needed: give more links, or hide fewer."
        )
    return divide(graph, train, chosen, tested, seed), notes


def _positions(graph: Graph, pairs: Tensor, what: str) -> tuple[Tensor, tuple[str, ...]]:
    """Return which columns of `graph.edges` the pairs are, each once, and what was dropped."""
    if pairs.dtype != torch.int64 or pairs.dim() != 2 or pairs.shape[0] != 2:
        raise GraphContentError(
            f"The {what} links must be an int64 tensor of shape [2, any], found {pairs.dtype} "
            f"{list(pairs.shape)}."
        )
    if pairs.numel() and (int(pairs.min()) < 0 or int(pairs.max()) >= graph.num_nodes):
        raise GraphContentError(
            f"Node numbers of the {what} links must lie in 0..{graph.num_nodes - 1}, found "
            f"{int(pairs.min())}..{int(pairs.max())}."
        )
    low, high = pairs.amin(dim=0), pairs.amax(dim=0)
    links = low != high
    codes = (low * graph.num_nodes + high)[links]
    distinct = torch.unique(codes)
    known = graph.edges[0] * graph.num_nodes + graph.edges[1]  # sorted
    unknown = distinct[~torch.isin(distinct, known)]
    if unknown.numel():
        raise SplitError(
            f"{unknown.numel():,} of the {what} links are no links of the graph "
            f"'{graph.title}': {_named(graph, unknown)}.\n"
            f"Only links can be hidden. Are these the counter-examples?"
        )
    counts = (
        (int((~links).sum()), "self-link", "dropped"),
        (codes.numel() - distinct.numel(), "repeated link", "merged"),
    )
    notes = tuple(
        f"{count:,} {thing}{'' if count == 1 else 's'} {fate} among the {what} links."
        for count, thing, fate in counts
        if count
    )
    return torch.searchsorted(known, distinct), notes


def _others(count: int, taken: Tensor) -> Tensor:
    """Return the numbers below `count` that are not in `taken`, sorted."""
    is_free = torch.ones(count, dtype=torch.bool)
    is_free[taken] = False
    return is_free.nonzero().squeeze(1)


def _drawn(rest: Tensor, share: float, seed: int) -> Tensor:
    """Return a random share of the links in `rest`."""
    # The small term undoes rounding such as 0.29 * 100 = 28.999999999999996.
    count = int(share * rest.numel() + 1e-9)
    if share > 0 and count < MIN_VAL_LINKS:
        raise SplitError(
            f"{rest.numel():,} links are left beside the test; {100 * share:.3g} % of them for "
            f"validation would be none.\nGive more links, a larger `val`, or `val=0`."
        )
    order = torch.randperm(rest.numel(), generator=stream(seed, "split"))
    return rest.index_select(0, order[:count])


def _require(count: int, least: int, what: str, aim: str) -> None:
    if count < least:
        raise SplitError(
            f"There {'is 1' if count == 1 else f'are {count}'} {what} "
            f"link{'' if count == 1 else 's'}; at least {least} "
            f"{'is' if least == 1 else 'are'} needed to {aim}.\n"
            f"Give more of them, or let a share be drawn: `test=0.1` `val=0.05`."
        )


def _check_disjoint(graph: Graph, val: Tensor, test: Tensor) -> None:
    both = test[torch.isin(test, val)]
    if both.numel():
        codes = graph.edges[0, both] * graph.num_nodes + graph.edges[1, both]
        verb = "link is" if both.numel() == 1 else "links are"
        raise SplitError(
            f"{both.numel():,} {verb} both for validation and for the test: "
            f"{_named(graph, codes)}.\n"
            f"What chooses the epoch cannot test it. Leave each link in one of the two."
        )


def _named(graph: Graph, codes: Tensor) -> str:
    """Return up to five pairs in words."""
    pairs = [
        f"{graph.names[code // graph.num_nodes]} - {graph.names[code % graph.num_nodes]}"
        for code in codes[:5].tolist()
    ]
    more = f" and {codes.numel() - 5:,} more" if codes.numel() > 5 else ""
    return listed(pairs) + more
