from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cgcl.errors import SplitError
from cgcl.graph import Graph
from cgcl.split import audit_split, time_split

DAY = 86400.0


def path(times: list[float] | torch.Tensor) -> Graph:
    """Nodes in a row; link i appeared at times[i]."""
    times = torch.as_tensor(times, dtype=torch.float64)
    nodes = torch.arange(len(times))
    names = [f"n{i:03d}" for i in range(len(times) + 1)]
    return Graph.from_pairs("path", names, torch.stack([nodes, nodes + 1]), times=times)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 12), min_size=50, max_size=80).filter(lambda t: len(set(t)) > 1),
       st.sampled_from([0.0, 0.1, 0.2]), st.sampled_from([0.1, 0.3]))  # fmt: skip
def test_nothing_learned_from_is_newer_than_what_is_tested(times, val: float, test: float) -> None:
    graph = path([float(time) for time in times])
    split, _ = time_split(graph, val, test)
    # In a row of nodes the number of a link is that of its first node.
    train, chosen, tested = (
        [times[link] for link in part[0].tolist()] for part in (split.train, split.val, split.test)
    )
    assert max(train) <= min(chosen or tested)
    assert max(chosen or train) <= min(tested)
    assert len(tested) == int(test * len(times) + 1e-9)
    assert len(chosen) == int(val * len(times) + 1e-9)
    assert len(train) + len(chosen) + len(tested) == len(times)
    assert {found.kind for found in audit_split(split, graph).findings} <= {"isolated by the split"}


def test_the_newest_links_are_the_test_and_the_borders_are_told() -> None:
    # Link i is the (7 i mod 20)-th to appear.
    graph = path([100.0 + 7 * i % 20 for i in range(20)])
    split, notes = time_split(graph, val=0.1, test=0.25)
    assert split.test[0].tolist() == sorted(i for i in range(20) if 7 * i % 20 >= 15)
    assert split.val[0].tolist() == sorted(i for i in range(20) if 7 * i % 20 in (13, 14))
    assert notes == (
        "Tested on the 5 newest links, from 115 to 119.",
        "The epoch is chosen by the 2 next newest links, from 113 to 114.",
    )


def test_only_the_counter_examples_depend_on_the_seed() -> None:
    graph = path(torch.arange(60.0).flip(0))
    one, other = (time_split(graph, seed=seed)[0] for seed in (0, 1))
    assert torch.equal(one.test, other.test)
    assert not torch.equal(one.test_negatives, other.test_negatives)


def test_times_are_told_as_dates_if_they_are() -> None:
    graph = path([DAY * i for i in range(95)] + [DAY * 19783 + 30.5 * i for i in range(5)])
    assert time_split(graph, val=0.01, test=0.05, as_dates=True)[1] == (
        "Tested on the 5 newest links, from 2024-03-01 to 2024-03-01 00:02:02.",
        "The epoch is chosen by the 1 next newest link, from 1970-04-05 to 1970-04-05.",
    )
    # From 10^8 seconds on, whatever the others are.
    counted, dated = (path([*map(float, range(49)), last]) for last in (1e8 - 1, 1e8))
    assert "to 99999999." in time_split(counted)[1][0]
    assert "to 1973-03-03 09:46:40." in time_split(dated)[1][0]
    late = path([float(i) for i in range(49)] + [1e300])
    assert "to 1e+300." in time_split(late, as_dates=True)[1][0]


def test_a_border_within_links_of_the_same_time_is_told_and_follows_the_nodes() -> None:
    graph = path([0.0] * 90 + [1.0] * 10)
    split, notes = time_split(graph, val=0.0, test=0.05)
    assert split.test[0].tolist() == [95, 96, 97, 98, 99]
    assert notes == (
        "Tested on the 5 newest links, from 1 to 1. 10 links have the time of the border: some "
        "are before it, some after, in the order of their nodes.",
    )
    assert "border" not in time_split(graph, val=0.0, test=0.10)[1][0]
    one_before = path([0.0] * 94 + [1.0] * 6)
    assert "6 links have the time" in time_split(one_before, val=0.0, test=0.05)[1][0]


def test_without_a_test_the_newest_links_choose_the_epoch() -> None:
    split, notes = time_split(path(torch.arange(40.0)), val=0.05, test=0.0)
    assert split.val[0].tolist() == [38, 39]
    assert notes == ("The epoch is chosen by the 2 newest links, from 38 to 39.",)


def test_links_without_times_or_of_one_time_only_are_refused(two_cliques: Graph) -> None:
    message = r"does not say when its links appeared.\nName .*`time=COLUMN`"
    with pytest.raises(SplitError, match=message):
        time_split(two_cliques)
    with pytest.raises(SplitError, match="All 60 links of 'path' have the same time, 1970-01-02,"):
        time_split(path([DAY] * 60), as_dates=True)
