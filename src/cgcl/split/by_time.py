"""The past to learn from, the newest links to test on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import torch

from cgcl.errors import SplitError
from cgcl.graph import Graph
from cgcl.split.split import Split, divide, part_sizes

__all__ = ["time_split"]

# Seconds since 1970 are at least this large from 1973 on; years and counters are smaller.
_SECONDS = 1e8
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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
            notes.append(_border(times, first, count, f"{fate} the {count:,} {newest}", as_dates))
    return divide(graph, train, chosen, tested, seed), tuple(notes)


def _border(times: torch.Tensor, first: int, count: int, what: str, as_dates: bool) -> str:
    """Return a sentence on the part of the sorted `times` that starts at `first`."""
    border = float(times[first])
    sentence = (
        f"{what} link{'' if count == 1 else 's'}, from {_in_words(border, as_dates)} "
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
        try:
            moment = _EPOCH + timedelta(seconds=time)
        except OverflowError:
            return f"{time:.15g}"
        is_midnight = time % 86400 == 0
        return moment.strftime("%Y-%m-%d" if is_midnight else "%Y-%m-%d %H:%M:%S")
    return f"{time:.15g}"
