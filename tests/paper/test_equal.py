"""The equal search does what experiments/equal.toml says, and its committed trials are its own."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "experiments"))
equal, run = map(importlib.import_module, ["equal", "run"])
DRAWN, TRIALS = equal.SEARCH["drawn"], equal.SEARCH["trials"]
METHODS = tuple(equal.ASKED["methods"])


def step_of(name: str, value) -> int:
    ladder = equal.LADDERS[name]
    return min(range(len(ladder)), key=lambda step: abs(ladder[step] - value))


@pytest.mark.parametrize("method", METHODS)
def test_draws_stay_in_their_ranges_and_neighbours_leave_them_by_one_step(method: str) -> None:
    start, ranges = equal.authors(method, "cora"), equal.ASKED["methods"][method]
    drawn = equal.proposals(method, "cora", start, [])
    assert len(drawn) == DRAWN
    assert drawn[0] == start
    reached = [0.5, 0.9, 0.7, 0.6, 0.1, 0.2, 0.3, 0.4]
    tried = equal.proposals(method, "cora", start, reached)
    assert tried[:DRAWN] == drawn
    assert len({str(own) for own in tried}) == len(tried) == TRIALS
    best = drawn[1]
    for name, ends in ranges.items():
        low, high = map(equal.LADDERS[name].index, ends)
        assert all(low <= equal.LADDERS[name].index(own[name]) <= high for own in drawn[1:])
        for own in tried[DRAWN:]:
            assert abs(step_of(name, own[name]) - step_of(name, best[name])) <= 1
            assert low - 1 <= step_of(name, own[name]) <= high + 1
    assert all({**own, **{name: start[name] for name in ranges}} == start for own in tried)


def test_training_may_last_three_times_as_long_and_ends_by_its_patience() -> None:
    found = equal.lengthened({"epochs": 50, "evaluate_every": 20, "lr": 0.1})
    assert found == {"epochs": 150, "evaluate_every": 20, "lr": 0.1, "patience": 40}


def test_what_is_committed_was_tried_by_these_rules_and_tested_as_chosen() -> None:
    """What was drawn, what its neighbours are and which one was tested follow from the log."""
    there = equal.searched({"out": run.RESULTS})
    best = equal.chosen({"out": run.RESULTS})
    for method in METHODS:
        own = there["cora", method]
        reached = [equal.reached(own[number]) for number in range(1, DRAWN + 1)]
        tried = equal.proposals(method, "cora", equal.authors(method, "cora"), reached)
        assert [own[number]["tried"] for number in range(1, TRIALS + 1)] == tried
        assert best["cora", method]["val"] == max(
            (line["val"] for line in own.values()), key=lambda val: val[equal.goal_of(method)]
        )
    for line in run.sound("equal"):
        if line["stage"] != "search":
            chosen = equal.ASKED["choices"][line["method"]] if line["stage"] == "choice" else {}
            assert line["tried"] == {**best[line["graph"], line["method"]]["tried"], **chosen}
        else:
            assert line["test"] is None
