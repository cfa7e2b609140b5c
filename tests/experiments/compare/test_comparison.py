"""The order of work, what is done again and what is not."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from cgcl.errors import TrainingError
from cgcl.experiments import Listener
from cgcl.split import random_split


class Log(Listener):
    """Writes down what it is told; asks to stop after so many cells."""

    def __init__(self, stop_after=99):
        self.ended, self.runs, self.stop_after = [], [], stop_after

    def ends(self, job, result, *, is_best=False):
        self.ended.append((job.run, job.spec.name, result.failure is None))

    def run_ends(self, run):
        self.runs.append((run, len(self.ended)))

    def should_stop(self):
        return len(self.ended) >= self.stop_after


@pytest.fixture
def all_win(scripted):
    return lambda *methods: scripted({method: [5] * 99 for method in methods})


def test_run_by_run_the_cheap_methods_first_each_with_the_split_and_seed_of_its_run(
    opened, two_cliques, all_win, cpu
):
    log, methods = Log(), ["cgcl", "mlp", "adamic-adar"]
    train = all_win(*methods)
    assert opened(methods, runs=2).run(cpu, log, train=train)
    prints = [random_split(two_cliques, 0.05, 0.1, seed).fingerprint for seed in range(2)]
    # A formula starts from nothing that a seed could change.
    assert train.asked == [
        (name, run * (name != "adamic-adar"), prints[run])
        for run in range(2)
        for name in ("adamic-adar", "cgcl", "mlp")
    ]
    assert log.runs == [(0, 3), (1, 6)]


def test_the_papers_protocol_has_one_split_and_many_weights(opened, two_cliques, all_win, cpu):
    train = all_win("cgcl", "adamic-adar")
    opened(["cgcl", "adamic-adar"], runs=3, protocol="paper").run(cpu, train=train)
    split = random_split(two_cliques, 0.05, 0.1, 10).fingerprint
    # The formula has nothing that first weights could change: once is enough.
    assert train.asked == [("adamic-adar", 0, split), *(("cgcl", run, split) for run in range(3))]


@pytest.mark.parametrize("stop_after", range(6))
def test_interrupted_anywhere_it_goes_on_to_the_same_results(opened, stop_after, scripted, cpu):
    def found(out):
        return [(one.key, one.test) for one in opened(out=out).folder.results]

    log, wins = Log(stop_after), {"cgcl": [1, 2, 3], "mlp": [4, 5, 6]}
    train = scripted(wins)
    assert not opened(out="cut").run(cpu, log, log.should_stop, train)
    for _ in range(2):  # the second time there is nothing to do
        assert opened(out="cut").run(cpu, train=train)
        assert len(train.asked) == 6
    opened(out="whole").run(cpu, train=scripted(wins))
    assert found("cut") == found("whole")


def test_a_signal_in_the_middle_of_a_training_leaves_no_result(opened, all_win, cpu):
    train = all_win("cgcl", "mlp")
    train.stopped = SimpleNamespace(reason="signal")
    comparison = opened()
    assert not comparison.run(cpu, train=train)
    assert comparison.folder.results == []


def test_more_methods_and_more_runs_add_to_what_is_there(opened, all_win, cpu):
    opened(["cgcl"], runs=2).run(cpu, train=all_win("cgcl"))
    more = all_win("cgcl", "mlp")
    opened(["cgcl", "mlp"], runs=3).run(cpu, train=more)
    asked = [f"{name} {seed}" for name, seed, _ in more.asked]
    assert asked == ["mlp 0", "mlp 1", "cgcl 2", "mlp 2"]
    assert opened(["mlp"], runs=1).others == ["cgcl"]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (TrainingError("The loss is not finite."), "TrainingError"),
        (MemoryError(), "out of memory"),
        (RuntimeError("[enforce fail] can't allocate memory: 9 bytes"), "out of memory"),
        (torch.OutOfMemoryError("CUDA out of memory."), "out of memory"),
        (RuntimeError("mat1 and mat2 shapes"), "RuntimeError"),
        (IndexError("3"), "IndexError"),
    ],
)
def test_a_failure_stops_nothing_and_is_tried_again(opened, error, kind, scripted, cpu):
    log, train = Log(), scripted({"cgcl": [5, 5, 5], "mlp": [5, error, 5]})
    comparison = opened()
    assert comparison.run(cpu, log, train=train)
    assert [good for _, _, good in log.ended] == [True, True, True, False, True, True]
    failed = comparison.folder.results[3]
    assert (failed.method, failed.test, failed.failure["error"]) == ("mlp", None, kind)
    assert failed.failure["reason"] == (str(error) or "The error says nothing more.")
    again = scripted({"mlp": [7]})
    comparison = opened()
    assert comparison.run(cpu, train=again)
    assert len(again.asked) == 1
    assert all(result.failure is None for result in comparison.found().values())


def test_a_later_failure_does_not_hide_an_earlier_result(opened, all_win, cpu):
    first = opened(["mlp"], runs=1)
    first.run(cpu, train=all_win("mlp"))
    key = first.cells[0].key
    failure = {"error": "E", "reason": "r"}
    first.folder.append(replace(first.folder.results[0], test=None, failure=failure))
    assert first.found()[key].failure is None


def test_what_a_result_says_of_itself(opened, scripted, cpu):
    comparison = opened(["mlp"], runs=1)
    comparison.run(cpu, train=scripted({"mlp": [6]}))
    [line] = (comparison.folder.path / "runs.jsonl").read_text().splitlines()
    found = json.loads(line)
    told = {"method": "mlp", "split_seed": 0, "init_seed": 0, "device": "cpu", "threads": 1}
    told |= {"epochs": 2, "best_epoch": 2, "parameters": 7, "train_seconds": 1.5, "caps": ""}
    told |= {"val": {"auc": 0.5, "ap": 0.5}, "stopped": None, "failure": None}
    assert found.items() >= told.items()
    assert found["settings"]["hidden"] == 128
    assert found["split"] == comparison.cells[0].split
    assert found["test"]["auc"] == pytest.approx(6 / 9)
    assert "torch" in found["versions"]
    assert sum(part["links"] for part in found["by_degree"]) == 9


def test_what_is_left_is_timed_by_what_was_measured(opened, all_win, cpu):
    comparison = opened(["mlp"], runs=3)
    log = Log(1)
    comparison.run(cpu, log, log.should_stop, all_win("mlp"))
    assert comparison.seconds_for(comparison.left(cpu)) == pytest.approx(3.0, abs=0.1)
