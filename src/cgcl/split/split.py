"""Known links divided into those to learn from, to choose by and to test on.

At random, by time, or as the user chose; and the file that keeps a split beside the model.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from cgcl.errors import GraphContentError, ModelFileError, SplitError
from cgcl.graph import Graph
from cgcl.graph.graph import check_pairs, distinct_links
from cgcl.graph.pairs import decode, encode_ordered, is_in
from cgcl.seeds import stream
from cgcl.split.negatives import NegativeSampler
from cgcl.stored import fits
from cgcl.tensors import read_tensors, usual_defaults, write_tensors
from cgcl.wording import counted, listed

PARTS = ("train", "val", "test", "val_negatives", "test_negatives")
"""The parts of a split: links, then the counter-examples to set against them."""
MIN_TEST_LINKS = 5
"""Fewer test links than this give a figure that says nothing."""
MIN_VAL_LINKS = 1
"""As many links are needed to choose an epoch by."""
MIN_TRAIN_LINKS = 2
"""Two views need at least one link each."""


@dataclass(frozen=True, eq=False)
class Split:
    """Links and counter-examples for learning, choosing and testing.

    All tensors are int64 [2, any] with the smaller node number first. The three sets of links
    share no pair. The counter-examples are no link of the graph at all and share no pair
    either. There are none for training: those are drawn anew at every step.
    """

    num_nodes: int
    train: Tensor
    val: Tensor
    test: Tensor
    val_negatives: Tensor
    test_negatives: Tensor
    sides: Tensor | None = None
    """The side of every node of a bipartite graph, bool [n]; None if any two may be linked."""

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of all pairs: equal for equal splits."""
        digest = hashlib.sha256(str(self.num_nodes).encode())
        for part in (getattr(self, name) for name in PARTS):
            digest.update(f" {part.shape[1]} ".encode() + part.contiguous().numpy().tobytes())
        if self.sides is not None:
            digest.update(b"sides" + self.sides.numpy().tobytes())
        return digest.hexdigest()

    def require_parts_of(self, graph: Graph) -> None:
        """Refuse a split whose links are not those of `graph`, each in one part.

        Raises:
            SplitError: They are others.
        """
        links = torch.cat([self.train, self.val, self.test], dim=1)
        codes = encode_ordered(links[0], links[1], self.num_nodes).sort().values
        own = graph.codes
        if self.num_nodes != graph.num_nodes or not torch.equal(codes, own):
            raise SplitError(
                f"The split has {links.shape[1]:,} links among {self.num_nodes:,} nodes, the graph "
                f"'{graph.title}' {graph.num_edges:,} among {graph.num_nodes:,}, or they are "
                f"others.\nSplit the graph that you train on."
            )

    @property
    def sizes(self) -> dict[str, int]:
        """Number of links in each part."""
        return {part: getattr(self, part).shape[1] for part in PARTS[:3]}


@usual_defaults()
def random_split(graph: Graph, val: float = 0.05, test: float = 0.10, seed: int = 0) -> Split:
    """Hide a random part of the links, and draw as many unlinked pairs to set against them.

    Differs from PyTorch Geometric's `RandomLinkSplit` on purpose: links are unordered pairs, so
    no direction of a hidden link stays visible; no counter-example appears in two parts; and
    everything follows from `seed` alone.

    Args:
        graph: The graph whose links are divided.
        val: Share of links to choose the best epoch by; 0 for none.
        test: Share of links to test on; 0 for none.
        seed: The same seed and graph give the same split.

    Raises:
        SplitError: There are too few links or too few unlinked pairs for these shares.
        GraphContentError: The graph has no links.
    """
    num_links, num_val, num_test = part_sizes(graph, val, test)
    order = torch.randperm(num_links, generator=stream(seed, "split"))
    test_links, val_links, train_links = order.split(
        [num_test, num_val, num_links - num_test - num_val]
    )
    return divide(graph, train_links, val_links, test_links, seed)


def divide(graph: Graph, train: Tensor, val: Tensor, test: Tensor, seed: int) -> Split:
    """Return the split with these links in each part, and unlinked pairs to set against them.

    Args:
        graph: The graph whose links are divided.
        train: Which links to learn from: columns of `graph.edges`, each in one part only.
        val: Which to choose the best epoch by.
        test: Which to test on.
        seed: Decides the counter-examples.

    Raises:
        SplitError: There are too few unlinked pairs.
    """
    num_val, num_test = val.numel(), test.numel()
    negatives = NegativeSampler(graph.edges, graph.num_nodes, graph.sides).draw_distinct(
        num_val + num_test, stream(seed, "split negatives")
    )
    # Sorted, so that the order of training links carries no trace of how they were chosen.
    links = [graph.edges.index_select(1, part.sort().values) for part in (train, val, test)]
    # Training needs counter-examples, too.
    NegativeSampler(links[0], graph.num_nodes, graph.sides).require(1)
    return Split(
        graph.num_nodes,
        *links,
        val_negatives=negatives[:, :num_val],
        test_negatives=negatives[:, num_val:],
        sides=graph.sides,
    )


def part_sizes(graph: Graph, val: float, test: float) -> tuple[int, int, int]:
    """Return the numbers of links in all, for validation and for the test.

    Args:
        graph: The graph whose links are divided.
        val: Share of links for validation; 0 for none.
        test: Share of links for the test; 0 for none.

    Raises:
        SplitError: The shares make no sense, or there are too few links for them.
        GraphContentError: The graph has no links.
    """
    if not (val >= 0 and test >= 0 and val + test < 1):
        raise SplitError(
            f"val is {val} and test is {test}; both must be at least 0 and together below 1."
        )
    num_links = graph.num_edges
    if num_links == 0:
        raise GraphContentError(
            f"The graph '{graph.title}' has {graph.num_nodes:,} nodes and no links. "
            f"At least {MIN_TRAIN_LINKS} links are needed to learn from."
        )
    num_val, num_test = _share(val, num_links), _share(test, num_links)
    parts = (
        (test, num_test, MIN_TEST_LINKS, "test", "`test=0`"),
        (val, num_val, MIN_VAL_LINKS, "validation", "`val=0`"),
    )
    if short := [part for part in parts if part[0] > 0 and part[1] < part[2]]:
        share, count, _, what, _ = short[0]
        needed = max(math.ceil(least / max(share, 1e-12) - 1e-9) for share, _, least, _, _ in short)
        sets = "test and validation sets" if len(short) == 2 else f"a {what} set"
        raise SplitError(
            f"The graph has {counted(num_links, 'link')}; a {100 * share:.3g} % {what} set would "
            f"hold {counted(count, 'link')}, which cannot be measured.\n"
            f"Use at least {needed:,} links, or train without {sets}: "
            f"{' '.join(flag for *_, flag in short)}."
        )
    remedy = ": use smaller `val` and `test`." if num_val or num_test else "."
    _check_rest(num_links, num_val, num_test, remedy)
    return num_links, num_val, num_test


def _share(share: float, count: int) -> int:
    # The small term undoes rounding such as 0.29 * 100 = 28.999999999999996.
    return int(share * count + 1e-9)


def _check_rest(num_links: int, num_val: int, num_test: int, remedy: str) -> None:
    rest = num_links - num_val - num_test
    if rest < MIN_TRAIN_LINKS:
        raise SplitError(
            f"The graph has {counted(num_links, 'link')}; {num_val:,} are for validation and "
            f"{num_test:,} for the test, so {rest} would be left to learn from.\n"
            f"At least {MIN_TRAIN_LINKS} are needed{remedy}"
        )


# Seconds since 1970 are at least this large from 1973 on; years and counters are smaller.
_SECONDS = 1e8
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@usual_defaults()
def time_split(
    graph: Graph,
    val: float = 0.05,
    test: float = 0.10,
    seed: int = 0,
    *,
    as_dates: bool | None = None,
) -> tuple[Split, tuple[str, ...]]:
    """Hide the newest links, and draw as many unlinked pairs to set against them.

    The newest links are the test, the next newest choose the epoch, the oldest are learned from:
    what a prediction made at that time would have been worth. Links of the same time are taken in
    the order of their nodes.

    Args:
        graph: A graph that knows when each link appeared.
        val: Share of links to choose the best epoch by; 0 for none.
        test: Share of links to test on; 0 for none.
        seed: Decides the counter-examples, nothing else.
        as_dates: Whether times are seconds since 1970, to be told as dates; None if they are by
            their size.

    Returns:
        The split, and where its borders lie, a sentence each.

    Raises:
        SplitError: No times are known, all are equal, or there are too few links.
        GraphContentError: The graph has no links.
    """
    num_links, num_val, num_test = part_sizes(graph, val, test)
    if graph.times is None:
        raise SplitError(
            f"The graph '{graph.title}' does not say when its links appeared.\n"
            f"Name the column that holds their times: `time=COLUMN`."
        )
    if as_dates is None:
        as_dates = float(graph.times.abs().max()) >= _SECONDS
    if bool((graph.times == graph.times[0]).all()):
        raise SplitError(
            f"All {num_links:,} links of '{graph.title}' have the same time, "
            f"{_in_words(float(graph.times[0]), as_dates)}, so none is the newest.\n"
            f"Choose another `time` column, or split at random by leaving it out."
        )
    order = torch.argsort(graph.times, stable=True)  # edges are in node order
    times = graph.times.index_select(0, order)
    train, chosen, tested = order.split([num_links - num_val - num_test, num_val, num_test])
    notes = []
    for first, count, fate in (
        (num_links - num_test, num_test, "Tested on"),
        (num_links - num_test - num_val, num_val, "The epoch is chosen by"),
    ):
        if count:
            newest = "newest" if first + count == num_links else "next newest"
            what = f"{fate} the {counted(count, f'{newest} link')}"
            notes.append(_border(times, first, count, what, as_dates))
    return divide(graph, train, chosen, tested, seed), tuple(notes)


def _border(times: torch.Tensor, first: int, count: int, what: str, as_dates: bool) -> str:
    """Return a sentence on the part of the sorted `times` that starts at `first`."""
    border = float(times[first])
    sentence = (
        f"{what}, from {_in_words(border, as_dates)} "
        f"to {_in_words(float(times[first + count - 1]), as_dates)}."
    )
    if float(times[first - 1]) < border:
        return sentence
    same = int((times == border).sum())
    return (
        f"{sentence} {same:,} links have the time of the border: some are before it, some after, "
        f"in the order of their nodes."
    )


def _in_words(time: float, as_date: bool) -> str:
    """Return a time as a date, if it is one, else as the number it is.

    Example:
        >>> _in_words(86400.0, True), _in_words(86399.5, True), _in_words(86400.0, False)
        ('1970-01-02', '1970-01-01 23:59:59', '86400')
    """
    if as_date:
        with contextlib.suppress(OverflowError):
            moment = _EPOCH + timedelta(seconds=time)
            return moment.strftime("%Y-%m-%d" if time % 86400 == 0 else "%Y-%m-%d %H:%M:%S")
    return f"{time:.15g}"


@usual_defaults()
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
    remedy = ": give more links, or hide fewer."
    _check_rest(graph.num_edges, chosen.numel(), tested.numel(), remedy)
    train = _others(graph.num_edges, torch.cat([tested, chosen]))
    return divide(graph, train, chosen, tested, seed), notes


def _positions(graph: Graph, pairs: Tensor, what: str) -> tuple[Tensor, tuple[str, ...]]:
    """Return which columns of `graph.edges` the pairs are, each once, and what was dropped."""
    n = graph.num_nodes
    check_pairs(pairs, n, f"The {what} links", f"Node numbers of the {what} links")
    _, distinct, notes = distinct_links(pairs, n)
    known = graph.codes
    unknown = distinct[~is_in(distinct, known)]
    if unknown.numel():
        raise SplitError(
            f"{unknown.numel():,} of the {what} links are no links of the graph "
            f"'{graph.title}': {_named(graph, decode(unknown, n))}.\n"
            f"Only links can be hidden. Are these the counter-examples?"
        )
    places = torch.searchsorted(known, distinct)
    return places, tuple(f"{note} among the {what} links." for note in notes)


def _others(count: int, taken: Tensor) -> Tensor:
    """Return the numbers below `count` that are not in `taken`, sorted."""
    return torch.ones(count, dtype=torch.bool).index_fill_(0, taken, False).nonzero().squeeze(1)


def _drawn(rest: Tensor, share: float, seed: int) -> Tensor:
    """Return a random share of the links in `rest`."""
    count = _share(share, rest.numel())
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
            f"There {'is' if count == 1 else 'are'} {counted(count, f'{what} link')}; at least "
            f"{least} {'is' if least == 1 else 'are'} needed to {aim}.\n"
            f"Give more of them, or let a share be drawn: `test=0.1` `val=0.05`."
        )


def _check_disjoint(graph: Graph, val: Tensor, test: Tensor) -> None:
    both = test[torch.isin(test, val)]
    if both.numel():
        raise SplitError(
            f"{counted(both.numel(), 'link is', 'links are')} both for validation and for the "
            f"test: {_named(graph, graph.edges[:, both])}.\n"
            f"What chooses the epoch cannot test it. Leave each link in one of the two."
        )


def _named(graph: Graph, pairs: Tensor) -> str:
    """Return up to five pairs in words."""
    return listed([f"{graph.names[a]} - {graph.names[b]}" for a, b in pairs.T.tolist()])


_KIND = "cgcl split 1"


def write_split(path: Path, split: Split) -> None:
    """Write a split to one file that `read_split` gives back unchanged.

    Raises:
        ResourceError: The disk is full or the folder cannot be written.
    """
    tensors = {part: getattr(split, part) for part in PARTS}
    if split.sides is not None:
        tensors["sides"] = split.sides
    write_tensors(path, _KIND, tensors, {"num_nodes": split.num_nodes})


def read_split(path: Path) -> Split:
    """Return the split that `write_split` stored.

    Raises:
        ModelFileError: The file is missing, damaged or not one of ours.
    """
    tensors, about = read_tensors(path, _KIND)
    missing = [part for part in PARTS if part not in tensors]
    if missing:
        raise ModelFileError(f"{path} lacks {', '.join(missing)}.")
    nodes, sides = about.get("num_nodes"), tensors.get("sides")
    try:
        if (
            not isinstance(nodes, int)
            or not fits(nodes, int)
            or (sides is not None and sides.shape != (nodes,))
        ):
            raise GraphContentError("The number of nodes is missing or another")
        for part in PARTS:
            check_pairs(tensors[part], nodes, f"The part {part}", "Its node numbers")
    except GraphContentError as error:
        raise ModelFileError(f"{path} does not hold a split ({error}).") from error
    return Split(nodes, *(tensors[part] for part in PARTS), sides=sides)
