from __future__ import annotations

import csv
import json
import tomllib
from dataclasses import replace

import pytest
import torch

from cgcl.errors import ConfigError, ResourceError, RunFolderError, SplitError, TrainingError
from cgcl.experiments import Listener
from cgcl.experiments.search import BEST, STUDY, TABLE, TRIALS, Space, Trial, tune
from cgcl.split import random_split
from cgcl.train.config import Resources
from cgcl.train.trainer import Stopped

from .conftest import diverge


def without_time(trials: tuple[Trial, ...]) -> list[Trial]:
    return [replace(trial, seconds=0.0) for trial in trials]


def test_defaults_come_first_then_the_authors_then_the_search(two_cliques, split, fake) -> None:
    tuned = tune(two_cliques, split, "cgcl", 6, train=fake)
    assert [trial.origin for trial in tuned.trials] == ["defaults", "authors", *["search"] * 4]
    assert [trial.number for trial in tuned.trials] == [1, 2, 3, 4, 5, 6]
    assert fake.calls[0]["hidden"] == 128
    assert fake.calls[1]["views"] == "directed"
    assert all(call["views"] == "disjoint" for call in fake.calls[2:])
    assert tuned.stopped is None


def test_the_test_links_are_out_of_reach(two_cliques, split, fake) -> None:
    tune(two_cliques, split, "mlp", 2, train=fake)
    for graph, seen in fake.seen:
        assert seen.test.shape == seen.test_negatives.shape == (2, 0)
        assert graph.num_edges == split.train.shape[1] + split.val.shape[1]
        seen.require_parts_of(graph)
        assert torch.equal(seen.train, split.train)
        assert torch.equal(seen.val, split.val)
        assert torch.equal(seen.val_negatives, split.val_negatives)


def test_more_trials_go_on_where_fewer_ended(two_cliques, split, fake, tmp_path) -> None:
    longer = tune(two_cliques, split, "mlp", 9, train=fake)
    fake.calls.clear()
    for trials in (2, 2, 5, 9):
        tuned = tune(two_cliques, split, "mlp", trials, folder=tmp_path / "s", train=fake)
    assert without_time(tuned.trials) == without_time(longer.trials)
    assert len(fake.calls) == 9
    fewer = tune(two_cliques, split, "mlp", 3, folder=tmp_path / "s", train=fake)
    assert fewer.trials == tuned.trials


def test_a_lost_trial_is_run_again_and_no_other(two_cliques, split, fake, tmp_path) -> None:
    folder = tmp_path / "s"
    before = tune(two_cliques, split, "mlp", 7, folder=folder, train=fake)
    lines = (folder / TRIALS).read_bytes().splitlines(keepends=True)
    (folder / TRIALS).write_bytes(b"".join([*lines[:3], b"{damaged}\n", *lines[4:]]))
    fake.calls.clear()
    after = tune(two_cliques, split, "mlp", 7, folder=folder, train=fake)
    assert without_time(after.trials) == without_time(before.trials)
    assert (len(fake.calls), after.damaged_lines) == (1, 1)


@pytest.mark.parametrize("stop_after", [1, 4, 10])
def test_a_stopped_trial_does_not_count_and_is_run_again(
    two_cliques, split, fake, tmp_path, stop_after: int
) -> None:
    whole = tune(two_cliques, split, "mlp", 5, train=fake)
    fake.calls.clear()
    epochs = 0

    class Counting(Listener):
        def epoch_ends(self, record) -> None:
            nonlocal epochs
            epochs += 1

    stopped = tune(
        two_cliques, split, "mlp", 5, folder=tmp_path / "s", train=fake, listener=Counting(),
        should_stop=lambda: epochs >= stop_after,
    )  # fmt: skip
    # Three epochs a trial; asked after all but a trial's last one.
    assert (stopped.stopped, len(stopped.trials)) == ("request", (stop_after - 1) // 3)
    fake.calls.clear()
    resumed = tune(two_cliques, split, "mlp", 5, folder=tmp_path / "s", train=fake)
    assert without_time(resumed.trials) == without_time(whole.trials)
    assert len(fake.calls) == 5 - len(stopped.trials)


def test_after_the_time_limit_no_trial_begins_and_the_running_one_is_dropped(
    two_cliques, split, fake, monkeypatch
) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)

    def take_a_minute(_: object) -> None:
        nonlocal now
        now += 60

    fake.before = take_a_minute
    resources = Resources(time_limit="150s")
    tuned = tune(two_cliques, split, "mlp", 9, resources=resources, train=fake)
    assert (tuned.stopped, len(tuned.trials), len(fake.calls)) == ("time limit", 2, 3)
    fake.calls.clear()
    # A single epoch is never asked whether to stop: the trial that ran over counts.
    fake.epochs, now = 1, 0.0
    tuned = tune(two_cliques, split, "mlp", 9, resources=resources, train=fake)
    assert (tuned.stopped, len(tuned.trials), len(fake.calls)) == ("time limit", 3, 3)
    assert {one.time_limit for one in fake.resources} == {""}


def test_stopped_before_a_first_trial_there_is_no_best(two_cliques, split, fake) -> None:
    tuned = tune(two_cliques, split, "mlp", 3, train=fake, should_stop=lambda: True)
    assert (tuned.trials, tuned.stopped, fake.calls) == ((), "request", [])
    with pytest.raises(TrainingError, match="before a first trial was finished"):
        _ = tuned.best


def test_a_failed_trial_is_noted_and_stops_nothing(two_cliques, split, fake, tmp_path) -> None:
    fake.before = diverge
    tuned = tune(two_cliques, split, "mlp", 8, folder=tmp_path / "s", train=fake)
    failed = [trial for trial in tuned.trials if trial.has_failed]
    assert len(tuned.trials) == 8
    assert tuned.trials[0] in failed  # the defaults have that learning rate
    assert {trial.failure for trial in failed} == {"The loss became NaN. Lower `lr`."}
    assert not tuned.best.has_failed
    fake.before = lambda _: pytest.fail("nothing is left to run")
    again = tune(two_cliques, split, "mlp", 8, folder=tmp_path / "s", train=fake)
    assert again.trials == tuned.trials
    rows = list(csv.DictReader((tmp_path / "s" / TABLE).read_text().splitlines()))
    assert [row["failure"] for row in rows] == [trial.failure for trial in tuned.trials]


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB"),
    ],
)
def test_settings_that_need_too_much_memory_fail(two_cliques, split, fake, error) -> None:
    def greedy(settings: dict) -> None:
        if settings["hidden"] == 128:
            raise error

    fake.before = greedy
    tuned = tune(two_cliques, split, "mlp", 3, train=fake)
    assert tuned.trials[0].failure == "There is not enough memory for these settings."
    assert tuned.best.number != 1


def test_a_loss_that_is_not_finite_fails_a_trial_and_a_collapse_does_not(
    two_cliques, split, fake
) -> None:
    def train(*args: object, **kwargs: object):
        trained = fake(*args, **kwargs)
        reason = "loss is not finite" if len(fake.calls) == 2 else "collapse"
        return replace(trained, stopped=Stopped(reason, 2, f"Stopped: {reason}."))

    tuned = tune(two_cliques, split, "mlp", 3, train=train)
    failures = [trial.failure for trial in tuned.trials]
    assert failures == ["", "Stopped: loss is not finite.", ""]


def test_a_bug_is_not_a_failed_trial(two_cliques, split, fake, tmp_path) -> None:
    def broken(_: object) -> None:
        raise RuntimeError("index out of range")

    fake.before = broken
    with pytest.raises(RuntimeError, match="index out of range"):
        tune(two_cliques, split, "mlp", 3, folder=tmp_path / "s", train=fake)


def test_if_all_trials_fail_the_first_reason_is_told(two_cliques, split, fake, tmp_path) -> None:
    def fail(_: object) -> None:
        raise SplitError("No counter-examples.")

    fake.before = fail
    tuned = tune(two_cliques, split, "mlp", 3, folder=tmp_path / "s", train=fake)
    with pytest.raises(TrainingError, match=r"All 3 trials failed\. The first one: No counter"):
        _ = tuned.settings
    assert not (tmp_path / "s" / BEST).exists()


def test_when_everything_has_been_tried_the_search_ends(two_cliques, split, fake) -> None:
    fixed = {"lr": 0.01, "hidden": 8, "weight_decay": 0.0}
    tuned = tune(two_cliques, split, "mlp", 20, fixed=fixed, train=fake)
    assert (tuned.stopped, len(tuned.trials)) == ("all tried", 3)


def test_the_best_settings_are_written_with_where_they_come_from(
    two_cliques, split, fake, tmp_path
) -> None:
    fake.before = diverge
    tuned = tune(
        two_cliques, split, "mlp", 5, seed=4, folder=tmp_path / "s", train=fake,
        fixed={"val": 0.1, "test": 0.2, "epochs": 9}, command="cgcl tune toy.csv --seed 4",
    )  # fmt: skip
    text = (tmp_path / "s" / BEST).read_text()
    failed = sum(trial.has_failed for trial in tuned.trials)
    assert text.splitlines()[1:6] == [
        f"# Graph: toy, 20 nodes, 91 links, fingerprint {two_cliques.fingerprint[:12]}",
        "# Split: 64 links to learn from, 9 to choose by, 18 to test on, which were not looked at; "
        "seed 4",
        f"# Trials: 5 of 5, of which {failed} failed; this is trial {tuned.best.number}",
        f"# Validation: AUC {tuned.value:.4f}, AP {tuned.value - 0.01:.4f} at epoch 3",
        "# Command: cgcl tune toy.csv --seed 4",
    ]
    assert tomllib.loads(text)["train"] == {
        "method": "mlp", "val": 0.1, "test": 0.2, "seed": 4, **tuned.settings
    }  # fmt: skip
    assert {call["val"] for call in fake.calls} == {0.1}


def test_a_resumed_search_computes_with_as_many_threads_as_before(
    two_cliques, split, fake, tmp_path
) -> None:
    def threads(trials: int, asked: int) -> int:
        resources = Resources(threads=asked)
        folder = tmp_path / "s"
        tune(two_cliques, split, "mlp", trials, resources=resources, folder=folder, train=fake)
        return fake.resources[-1].threads

    assert [threads(1, 3), threads(2, 0), threads(3, 2), threads(4, 0)] == [3, 3, 2, 3]
    assert json.loads((tmp_path / "s" / STUDY).read_text())["threads"] == 3


@pytest.mark.parametrize("what", ["graph", "split", "method", "seed", "fixed"])
def test_another_search_in_the_same_folder_is_refused(
    two_cliques, split, fake, tmp_path, what: str
) -> None:
    tune(two_cliques, split, "mlp", 2, folder=tmp_path / "s", train=fake)
    graph, method, seed, fixed = two_cliques, "mlp", 0, {}
    if what == "graph":
        graph = replace(two_cliques, x=None)
    if what == "split":
        split = random_split(two_cliques, 0.1, 0.2, 1)
    method = "cgcl" if what == "method" else method
    seed = 1 if what == "seed" else seed
    fixed = {"epochs": 5} if what == "fixed" else fixed
    words = "with epochs 200; you asked for epochs 5" if what == "fixed" else f"with {what} "
    with pytest.raises(RunFolderError, match=words):
        tune(graph, split, method, 2, seed, folder=tmp_path / "s", fixed=fixed, train=fake)
    assert len(fake.calls) == 2


def test_what_cannot_work_is_refused_before_a_trial(two_cliques, split, fake, monkeypatch) -> None:
    no_val = random_split(two_cliques, 0, 0.2, 0)
    with pytest.raises(ConfigError, match="There are no validation links"):
        tune(two_cliques, no_val, "mlp", train=fake)
    with pytest.raises(ConfigError, match="trials is 0; it must be at least 1"):
        tune(two_cliques, split, "mlp", 0, train=fake)
    with pytest.raises(ConfigError, match="There is nothing to tune"):
        tune(two_cliques, split, "adamic-adar", train=fake)
    with pytest.raises(SplitError, match="Split the graph that you train on"):
        tune(two_cliques, replace(split, val=split.val[:, 1:]), "mlp", train=fake)
    with pytest.raises(ResourceError, match="CUDA device"):
        tune(two_cliques, split, "mlp", resources=Resources(device="cuda:99"), train=fake)
    monkeypatch.setitem(__import__("sys").modules, "optuna", None)
    with pytest.raises(ResourceError, match="Tuning needs optuna"):
        tune(two_cliques, split, "mlp", train=fake)
    assert fake.calls == []


def test_the_goal_decides_which_trial_is_best(two_cliques, split, fake, tmp_path) -> None:
    by_auc = tune(two_cliques, split, "mlp", 8, train=fake)
    fake.calls.clear()
    by_rank = tune(
        two_cliques, split, "mlp", 8, train=fake, goal="node_mrr", folder=tmp_path / "rank"
    )
    assert (by_auc.goal, by_rank.goal) == ("auc", "node_mrr")
    assert all(settings["choose_by"] == "node_mrr" for settings in fake.calls)
    assert by_rank.best.auc == min(trial.auc for trial in by_rank.trials)
    assert by_rank.value == by_rank.best.node_mrr == 1 - by_rank.best.auc
    assert by_auc.best.auc == max(trial.auc for trial in by_auc.trials)
    best = (tmp_path / "rank" / "best.toml").read_text()
    assert 'choose_by = "node_mrr"' in best
    assert f"# Validation: node MRR {by_rank.value:.4f}, AUC {by_rank.best.auc:.4f}, AP " in best
    again = tune(two_cliques, split, "mlp", 8, goal="node_mrr", folder=tmp_path / "rank")
    assert again == by_rank


def test_ap_is_a_goal_without_other_trainings(two_cliques, split, fake, tmp_path) -> None:
    folder = tmp_path / "study"
    by_auc = tune(two_cliques, split, "mlp", 4, train=fake, folder=folder)
    by_ap = tune(two_cliques, split, "mlp", 4, train=fake, folder=folder, goal="ap")
    assert len(fake.calls) == 4
    assert (by_ap.value, by_auc.value) == (by_auc.best.ap, by_auc.best.auc)


def test_node_mrr_that_cannot_be_measured_or_chosen_by_is_no_goal(two_cliques, split, fake) -> None:
    fake.top = lambda _: {}
    tuned = tune(two_cliques, split, "mlp", 2, train=fake, goal="node_mrr")
    with pytest.raises(TrainingError, match=r"Node MRR takes too long to measure on this graph\."):
        _ = tuned.best
    with pytest.raises(ConfigError, match="katz is not trained, so its goal can be auc or ap"):
        tune(two_cliques, split, "katz", 2, goal="node_mrr")
    assert tune(two_cliques, split, "katz", 2, goal="ap").value > 0


def test_someone_can_watch(two_cliques, split, fake) -> None:
    heard: list[tuple] = []

    class Story(Listener):
        def opens(self, done) -> None:
            heard.append(("opens", done))

        def begins(self, job) -> None:
            heard.append((job.number, job.origin))

        def epoch_ends(self, record) -> None:
            heard.append(("epoch", record.epoch))

        def ends(self, job, result, *, is_best=False) -> None:
            heard.append((job.number, result.number, is_best))

    fake.epochs = 1
    tuned = tune(two_cliques, split, "mlp", 2, train=fake, listener=Story())
    is_better = tuned.trials[1].auc > tuned.trials[0].auc
    first = [("opens", 0), (1, "defaults"), ("epoch", 1), (1, 1, True)]
    assert heard == [*first, (2, "search"), ("epoch", 1), (2, 2, is_better)]


def test_a_method_without_training_can_be_tuned(two_cliques, split) -> None:
    tuned = tune(two_cliques, split, "katz", 4)
    assert not any(trial.has_failed for trial in tuned.trials)
    space = Space.of("katz", "toy", {})
    assert all(space.contains(trial.settings) for trial in tuned.trials[1:])
