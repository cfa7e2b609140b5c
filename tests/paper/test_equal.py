"""The equal search does what experiments/equal.toml says, and its committed trials are its own."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "experiments"))
equal, run = map(importlib.import_module, ["equal", "run"])
METHODS = tuple(equal.ASKED["methods"])
FEW = ("seal", "s3grl")


@pytest.mark.parametrize("method", METHODS)
def test_every_search_has_twelve_trials_but_those_of_few_which_have_four(method: str) -> None:
    """SEAL and S3GRL have three draws and one neighbour, on Cora and CiteSeer alone."""
    rule = equal.rule(method)
    assert (rule["trials"], rule["drawn"]) == ((4, 3) if method in FEW else (12, 8))
    graphs = [graph for graph, _ in equal.asked(equal.ASKED["graphs"], [method])]
    assert graphs == (["cora", "citeseer"] if method in FEW else equal.ASKED["graphs"])


def test_seal_starts_as_its_authors_have_it() -> None:
    told = equal.lengthened(equal.authors("seal", "cora"))
    expected = {"hops": 3, "hidden": 256, "nodes_per_hop": 0, "batch": 32, "lr": 1e-4}
    expected |= {"epochs": 150, "patience": 25, "use_features": True, "share": 1.0}
    assert {name: told[name] for name in expected} == expected
    of_seal = equal.ASKED["caps"]["seal"]
    assert of_seal["citeseer"] == of_seal["cora"]


def step_of(name: str, value) -> int:
    ladder = equal.LADDERS[name]
    return min(range(len(ladder)), key=lambda step: abs(ladder[step] - value))


@pytest.mark.parametrize("method", METHODS)
def test_draws_stay_in_their_ranges_and_neighbours_leave_them_by_one_step(method: str) -> None:
    start, ranges = equal.authors(method, "cora"), equal.ASKED["methods"][method]
    rule = equal.rule(method)
    drawn = equal.proposals(method, "cora", start, [])
    assert len(drawn) == rule["drawn"]
    assert drawn[0] == start
    reached = [0.5, 0.9, 0.7, 0.6, 0.1, 0.2, 0.3, 0.4][: len(drawn)]
    tried = equal.proposals(method, "cora", start, reached)
    assert tried[: len(drawn)] == drawn
    assert len({str(own) for own in tried}) == len(tried) == rule["trials"]
    best = drawn[1]
    for name, ends in ranges.items():
        low, high = map(equal.LADDERS[name].index, ends)
        assert all(low <= equal.LADDERS[name].index(own[name]) <= high for own in drawn[1:])
        for own in tried[len(drawn) :]:
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
    methods = [method for graph, method in best if graph == "cora"]
    assert {*methods} >= {*METHODS} - {*FEW}
    for method in methods:
        own, rule = there["cora", method], equal.rule(method)
        reached = [equal.reached(own[number]) for number in range(1, rule["drawn"] + 1)]
        tried = equal.proposals(method, "cora", equal.authors(method, "cora"), reached)
        assert [own[number]["tried"] for number in range(1, rule["trials"] + 1)] == tried
        assert best["cora", method]["val"] == max(
            (line["val"] for line in own.values()), key=lambda val: val[equal.goal_of(method)]
        )
    for line in run.sound("equal"):
        if line["stage"] != "search":
            chosen = equal.ASKED["choices"][line["method"]] if line["stage"] == "choice" else {}
            assert line["tried"] == {**best[line["graph"], line["method"]]["tried"], **chosen}
        else:
            assert line["test"] is None
