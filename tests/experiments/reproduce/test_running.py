"""Runs are made and written one by one, never twice, and one that fails stops nothing."""

import json
from dataclasses import asdict, replace
from types import SimpleNamespace

import pytest
import torch

from cgcl.experiments import reproduction as running
from cgcl.experiments.reproduction import RUNS, Records, read_records
from cgcl.split import random_split
from cgcl.train.config import Resources
from cgcl.train.fit import fit

from . import conftest

CPU = Resources(device="cpu", threads=1)
QUICK = {"graph": "sbm", "test": 20}
SMALL = {"cgcl": {"hidden": 8, "epochs": 2, "evaluate_every": 1}, "vgae": {"epochs": 2}}


def job(method="cgcl", split_seed=0, measures=(), **asked):
    return conftest.job(method, split_seed, measures, **{**QUICK, **SMALL.get(method, {}), **asked})


BROKEN = job("vgae", measures=("embeddings",))
"""It has no views to compare, so it fails after its training."""


@pytest.fixture
def graph(sbm):
    return sbm(0)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "out"


@pytest.fixture
def run(graph, path):
    """Make the runs that are missing in one folder; return whether it ended, and what it told.

    That is the key of each run and whether it is good, how many lines the file had then, and how
    often it was asked whether to stop.
    """

    def run_in(*jobs, stop=lambda _: False, read=lambda _: graph, path=path):
        log = SimpleNamespace(ended=[], lines=[], asked=0)

        def ends(job, record):
            log.ended.append((job.key, record.failure == ""))
            log.lines.append((path / RUNS).read_bytes().count(b"\n"))

        def should_stop():
            log.asked += 1
            return stop(log)

        with Records(path) as records:
            return running.run_jobs(jobs, records, read, CPU, ends, should_stop), log

    return run_in


def without_times(path):
    return [asdict(replace(own, seconds=0.0)) for own in read_records(path / RUNS)]


def test_a_run_leaves_all_that_is_known_about_it(graph, run, path):
    own = job(split_seed=3, seed=5, lr=0.02)
    assert run(own)[0]
    [record] = read_records(path / RUNS)
    split = random_split(graph, 0.1, 0.2, 3)
    alone = fit(graph, split, own.recipe, CPU, top_of_list=False)
    assert record.key == own.key
    assert record.asked == own.asked
    assert (record.split, record.fingerprint) == (split.fingerprint, graph.fingerprint)
    assert record.metrics == {name: round(value, 6) for name, value in alone.test.items()}
    assert record.val == {name: round(value, 6) for name, value in alone.val.items()}
    assert (record.epochs, record.best_epoch) == (2, alone.best_epoch)
    assert record.parameters == alone.parameters > 0
    assert (record.device, record.threads) == ("cpu", 1)
    assert record.versions["torch"]
    assert 0 <= record.seconds < 60
    assert (record.failure, record.stopped, record.measured) == ("", None, {})


def test_each_run_is_written_before_the_next_and_what_is_there_is_not_made_again(graph, run, path):
    """Each graph is read once; a run that is asked for twice is made once."""
    jobs = [job(name, graph=graph) for name in ("adamic-adar", "katz") for graph in ("b", "a")]
    read = []
    is_finished, log = run(*jobs, *jobs, read=lambda name: read.append(name) or graph)
    assert (is_finished, read, log.lines) == (True, ["b", "a"], [1, 2, 3, 4])
    assert log.ended == [(jobs[place].key, True) for place in (0, 2, 1, 3)]
    before = (path / RUNS).read_bytes()
    is_finished, log = run(*jobs, read=pytest.fail)
    assert (is_finished, log.ended) == (True, [])
    assert (path / RUNS).read_bytes() == before
    more = job(graph="b", seed=2)
    _, log = run(*jobs, more)
    assert log.ended == [(more.key, True)]
    assert (path / RUNS).read_bytes().startswith(before)


def test_a_failure_is_written_down_stops_nothing_and_is_tried_again(run, path):
    jobs = [job(), BROKEN, job(seed=1)]
    is_finished, log = run(*jobs)
    assert is_finished
    assert log.ended == [(jobs[0].key, True), (BROKEN.key, False), (jobs[2].key, True)]
    failed = read_records(path / RUNS)[1]
    assert failed.failure == "TypeError: vgae has no views to compare"
    assert (failed.metrics, failed.measured, failed.key) == (None, {}, BROKEN.key)
    is_finished, log = run(*jobs)
    assert is_finished
    assert log.ended == [(BROKEN.key, False)]


@pytest.mark.parametrize("count", range(3))
def test_a_stop_between_runs_is_gone_on_from(run, tmp_path, count):
    jobs = [job("adamic-adar"), job("common-neighbours"), job("katz")]
    cut, whole = tmp_path / "cut", tmp_path / "whole"
    is_finished, log = run(*jobs, stop=lambda log: len(log.ended) >= count, path=cut)
    assert not is_finished
    assert log.ended == [(own.key, True) for own in jobs[:count]]
    is_finished, log = run(*jobs, path=cut)
    assert is_finished
    assert log.ended == [(own.key, True) for own in jobs[count:]]
    assert run(*jobs, path=whole)[0]
    assert without_times(cut) == without_times(whole)


def test_a_stop_in_the_middle_of_a_training_leaves_no_result(run, path):
    """The first question comes before the training, the others in it."""
    own = job(epochs=500)
    is_finished, log = run(own, stop=lambda log: log.asked > 3)
    assert (is_finished, log.ended) == (False, [])
    assert 3 < log.asked < 100
    assert (path / RUNS).read_bytes() == b""


def test_what_else_is_measured_is_kept_and_serves_the_same_run_without(run, path):
    plain, measured, traced = job(), job(measures=("embeddings",)), job(measures=("trace",))
    _, log = run(plain, measured, plain)
    assert log.ended == [(measured.key, True)]
    _, log = run(plain)
    assert log.ended == []
    with Records(path) as records:
        assert records.found[plain.key] == records.found[measured.key]
        # The other way round it must be: nobody looked.
        assert running.pending_jobs([traced], records) == [traced]
    run(traced)
    one, other = read_records(path / RUNS)
    assert one.measured.keys() == {"embeddings"}
    assert other.measured["trace"]["epoch"] == [1, 2]
    # Only where it is asked for are the terms of Eq. 10 and 11 followed; looking changes nothing.
    assert "gap" in other.measured["trace"]
    assert one.metrics == other.metrics


def test_one_batch_differs_in_seed_split_and_learning_rate_alone():
    alike = [job(), job(seed=1), job(split_seed=1), job(lr=0.5)]
    alike += [job(seed=2, split_seed=2, lr=0.05), job(seed=3, measures=("embeddings",))]
    others = [job(hidden=16), job(test=10), job(views="one"), job(epochs=3), job("vgae")]
    others += [job("adamic-adar"), *(job(seed=seed, measures=("trace",)) for seed in range(2))]
    mixed = [alike[0], *others[:4], *alike[1:], *others[4:]]
    found = list(running._batches(mixed, 10))
    assert found[0] == alike
    assert found[1:] == [[own] for own in others]


@pytest.fixture
def batched(monkeypatch):
    """Make batches as on a GPU, and compute as ever; return the sizes of the batches."""
    sizes, real = [], running.fit_many

    def counted(graph, splits, recipes, resources, **more):
        sizes.append(len(recipes))
        return real(graph, splits, recipes, resources, **more)

    monkeypatch.setattr(running, "resolve_device", lambda _: torch.device("cuda"))
    monkeypatch.setattr(running, "machine", lambda *_: {"device": "cpu", "threads": 1})
    monkeypatch.setattr(running, "fit_many", counted)
    return sizes


JOBS = [
    *(job(seed=seed, split_seed=seed) for seed in range(3)),
    *(job("katz", split_seed=seed) for seed in range(2)),
    *(job(lr=lr) for lr in (0.1, 0.2)),
    job(seed=7, measures=("trace",)),
]


def test_runs_in_batches_are_what_they_are_one_by_one(run, tmp_path, batched, monkeypatch):
    assert run(*JOBS, path=tmp_path / "batches")[0]
    assert batched == [5, 1, 1, 1]
    monkeypatch.undo()
    assert run(*JOBS, path=tmp_path / "alone")[0]
    assert len(batched) == 4

    batches, alone = (
        sorted(without_times(tmp_path / name), key=json.dumps) for name in ("batches", "alone")
    )
    assert batches == alone
    assert len(alone) == len(JOBS)


def test_a_stop_in_a_batch_leaves_no_result_of_it(run, path, batched):
    jobs = [job(seed=seed, epochs=500) for seed in range(2)]
    is_finished, log = run(job("katz"), *jobs, stop=lambda log: log.asked > 4)
    assert not is_finished
    assert log.ended == [(job("katz").key, True)]
    assert len(read_records(path / RUNS)) == 1


def test_a_run_that_fails_costs_no_other_of_its_batch(run, batched, monkeypatch):
    real = running.fit_many

    def broken(graph, splits, recipes, *others, **more):
        if any(own.split.seed == 1 for own in recipes):
            raise RuntimeError("no finite scores")
        return real(graph, splits, recipes, *others, **more)

    monkeypatch.setattr(running, "fit_many", broken)
    jobs = [job(seed=seed) for seed in range(3)]
    _, log = run(*jobs)
    assert dict(log.ended) == {own.key: own is not jobs[1] for own in jobs}
