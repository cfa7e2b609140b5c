import csv
import json
import tomllib
from dataclasses import replace

import pytest
import torch

from cgcl.errors import ConfigError, ResourceError, RunFolderError, SplitError, TrainingError
from cgcl.experiments import Listener
from cgcl.experiments.search import BEST, STUDY, TABLE, TRIALS, Space, tune
from cgcl.split import random_split
from cgcl.train.config import Resources
from cgcl.train.trainer import Stopped

from .conftest import diverge


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "s"


@pytest.fixture
def search(two_cliques, split, fake):
    """Search for settings of MLP in no time, or as asked; the stand-in forgets earlier searches."""

    def run(trials=3, method="mlp", *, graph=two_cliques, split=split, seed=0, **asked):
        fake.calls.clear()
        return tune(graph, split, method, trials, seed, **{"train": fake, **asked})

    return run


def without_time(tuned):
    return [replace(trial, seconds=0.0) for trial in tuned.trials]


def test_defaults_come_first_then_the_authors_then_the_search(search, fake):
    tuned = search(6, "cgcl")
    assert [trial.origin for trial in tuned.trials] == ["defaults", "authors", *["search"] * 4]
    assert [trial.number for trial in tuned.trials] == [1, 2, 3, 4, 5, 6]
    assert fake.calls[0]["hidden"] == 128
    assert [call["views"] for call in fake.calls[1:]] == ["directed", *["disjoint"] * 4]
    assert tuned.stopped is None


def test_the_test_links_are_out_of_reach(search, split, fake):
    search(2)
    for graph, seen in fake.seen:
        assert seen.test.shape == seen.test_negatives.shape == (2, 0)
        assert graph.num_edges == split.train.shape[1] + split.val.shape[1]
        seen.require_parts_of(graph)
        for part in ("train", "val", "val_negatives"):
            assert torch.equal(getattr(seen, part), getattr(split, part))


def test_more_trials_go_on_where_fewer_ended(search, fake, folder):
    longer, made = search(9), 0
    for trials in (2, 2, 5, 9):
        tuned = search(trials, folder=folder)
        made += len(fake.calls)
    assert without_time(tuned) == without_time(longer)
    assert made == 9
    assert search(3, folder=folder).trials == tuned.trials


@pytest.mark.parametrize("lost", [b"{damaged}", b'{"settings": {}}'])
def test_a_lost_trial_is_run_again_and_no_other(search, fake, folder, lost):
    before = search(7, folder=folder)
    lines = (folder / TRIALS).read_bytes().splitlines(keepends=True)
    is_line = lost != b"{damaged}"  # of a trial that does not say what it was of
    wrong = json.dumps(json.loads(lines[3]) | json.loads(lost)).encode() if is_line else lost
    (folder / TRIALS).write_bytes(b"".join([*lines[:3], wrong + b"\n", *lines[4:]]))
    after = search(7, folder=folder)
    assert without_time(after) == without_time(before)
    assert (len(fake.calls), after.damaged_lines) == (1, 0 if is_line else 1)


@pytest.mark.parametrize("stop_after", [0, 1, 4, 10])
def test_a_stopped_trial_does_not_count_and_is_run_again(search, fake, folder, stop_after):
    whole, story = search(5), Story()
    stopped = search(
        5, folder=folder, listener=story, should_stop=lambda: story.epochs >= stop_after
    )
    # Three epochs a trial; asked after all but a trial's last one.
    done = max(stop_after - 1, 0) // 3
    assert (stopped.stopped, len(stopped.trials)) == ("request", done)
    if not done:
        with pytest.raises(TrainingError, match="before a first trial was finished"):
            _ = stopped.best
    assert without_time(search(5, folder=folder)) == without_time(whole)
    assert len(fake.calls) == 5 - done


def test_after_the_time_limit_no_trial_begins_and_the_running_one_is_dropped(
    search, fake, monkeypatch
):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])

    def take_a_minute(_):
        now[0] += 60

    fake.before = take_a_minute
    resources = Resources(time_limit="150s")
    tuned = search(9, resources=resources)
    assert (tuned.stopped, len(tuned.trials), len(fake.calls)) == ("time limit", 2, 3)
    # A single epoch is never asked whether to stop: the trial that ran over counts.
    fake.epochs, now[0] = 1, 0.0
    tuned = search(9, resources=resources)
    assert (tuned.stopped, len(tuned.trials), len(fake.calls)) == ("time limit", 3, 3)
    assert {one.time_limit for one in fake.resources} == {""}


def test_a_failed_trial_is_noted_and_stops_nothing(search, fake, folder):
    fake.before = diverge
    tuned = search(8, folder=folder)
    failed = [trial for trial in tuned.trials if trial.has_failed]
    assert len(tuned.trials) == 8
    assert tuned.trials[0] in failed  # the defaults have that learning rate
    assert {trial.failure for trial in failed} == {"The loss became NaN. Lower `lr`."}
    assert not tuned.best.has_failed
    fake.before = lambda _: pytest.fail("nothing is left to run")
    assert search(8, folder=folder).trials == tuned.trials
    rows = list(csv.DictReader((folder / TABLE).read_text().splitlines()))
    assert [row["failure"] for row in rows] == [trial.failure for trial in tuned.trials]


def failing_with(error, width=None):
    def fail(settings):
        if width in (None, settings["hidden"]):
            raise error

    return fail


# What else says so is in tests/experiments/compare/test_comparison.py.
@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("can't allocate memory: 9 bytes")])
def test_settings_that_need_too_much_memory_fail(search, fake, error):
    fake.before = failing_with(error, width=128)
    tuned = search()
    assert tuned.trials[0].failure == "There is not enough memory for these settings."
    assert tuned.best.number != 1


def test_a_loss_that_is_not_finite_fails_a_trial_and_a_collapse_does_not(search, fake):
    def train(*args, **kwargs):
        trained = fake(*args, **kwargs)
        reason = "loss is not finite" if len(fake.calls) == 2 else "collapse"
        trained.stopped = Stopped(reason, 2, f"Stopped: {reason}.")
        return trained

    failures = [trial.failure for trial in search(train=train).trials]
    assert failures == ["", "Stopped: loss is not finite.", ""]


def test_a_bug_is_not_a_failed_trial(search, fake, folder):
    fake.before = failing_with(RuntimeError("index out of range"))
    with pytest.raises(RuntimeError, match="index out of range"):
        search(folder=folder)


def test_if_all_trials_fail_the_first_reason_is_told(search, fake, folder):
    fake.before = failing_with(SplitError("No counter-examples."))
    tuned = search(folder=folder)
    with pytest.raises(TrainingError, match=r"All 3 trials failed\. The first one: No counter"):
        _ = tuned.best
    assert not (folder / BEST).exists()


def test_when_everything_has_been_tried_the_search_ends(search):
    tuned = search(20, fixed={"lr": 0.01, "hidden": 8, "weight_decay": 0.0})
    assert (tuned.stopped, len(tuned.trials)) == ("all tried", 3)


def test_the_best_settings_are_written_with_where_they_come_from(search, two_cliques, fake, folder):
    fake.before = diverge
    fixed, command = {"val": 0.1, "test": 0.2, "epochs": 9}, "cgcl tune toy.csv --seed 4"
    tuned = search(5, seed=4, folder=folder, fixed=fixed, command=command)
    text = (folder / BEST).read_text()
    failed = sum(trial.has_failed for trial in tuned.trials)
    assert text.splitlines()[1:6] == [
        f"# Graph: toy, 20 nodes, 91 links, fingerprint {two_cliques.fingerprint[:12]}",
        "# Split: 64 links to learn from, 9 to choose by, 18 to test on, which were not looked at; "
        "seed 4",
        f"# Trials: 5 of 5, of which {failed} failed; this is trial {tuned.best.number}",
        f"# Validation: AUC {tuned.value:.4f}, AP {tuned.value - 0.01:.4f} at epoch 3",
        "# Command: cgcl tune toy.csv --seed 4",
    ]
    train = {"method": "mlp", "val": 0.1, "test": 0.2, "seed": 4, **tuned.best.settings}
    assert tomllib.loads(text)["train"] == train
    assert {call["val"] for call in fake.calls} == {0.1}


def test_a_resumed_search_computes_with_as_many_threads_as_before(search, fake, folder):
    def threads(trials, asked):
        search(trials, resources=Resources(threads=asked), folder=folder)
        return fake.resources[-1].threads

    assert [threads(1, 3), threads(2, 0), threads(3, 2), threads(4, 0)] == [3, 3, 2, 3]
    assert json.loads((folder / STUDY).read_text())["threads"] == 3


def test_another_search_in_the_same_folder_is_refused(search, two_cliques, fake, folder):
    search(2, folder=folder)
    others = {
        "graph": {"graph": replace(two_cliques, x=None)},
        "split": {"split": random_split(two_cliques, 0.1, 0.2, 1)},
        "method": {"method": "cgcl"},
        "seed": {"seed": 1},
        "epochs 200; you asked for epochs 5": {"fixed": {"epochs": 5}},
    }
    for words, other in others.items():
        with pytest.raises(RunFolderError, match=f"with {words}"):
            search(2, folder=folder, **other)
        assert fake.calls == []


def test_what_cannot_work_is_refused_before_a_trial(search, two_cliques, split, fake, monkeypatch):
    def refused(error, text, *asked, **more):
        with pytest.raises(error, match=text):
            search(*asked, **more)
        assert fake.calls == []

    no_val = random_split(two_cliques, 0, 0.2, 0)
    refused(ConfigError, "There are no validation links", split=no_val)
    refused(ConfigError, "trials is 0; it must be at least 1", 0)
    other = replace(split, val=split.val[:, 1:])
    refused(SplitError, "Split the graph that you train on", split=other)
    refused(ResourceError, "CUDA device", resources=Resources(device="cuda:99"))
    monkeypatch.setitem(__import__("sys").modules, "optuna", None)
    refused(ResourceError, "Tuning needs optuna")


def test_the_goal_decides_which_trial_is_best(search, fake, folder):
    by_auc, by_rank = search(8), search(8, goal="node_mrr", folder=folder)
    assert (by_auc.goal, by_rank.goal) == ("auc", "node_mrr")
    assert all(settings["choose_by"] == "node_mrr" for settings in fake.calls)
    assert by_rank.best.auc == min(trial.auc for trial in by_rank.trials)
    assert by_rank.value == by_rank.best.node_mrr == 1 - by_rank.best.auc
    assert by_auc.best.auc == max(trial.auc for trial in by_auc.trials)
    best = (folder / BEST).read_text()
    assert 'choose_by = "node_mrr"' in best
    assert f"# Validation: node MRR {by_rank.value:.4f}, AUC {by_rank.best.auc:.4f}, AP " in best
    assert search(8, goal="node_mrr", folder=folder) == by_rank


def test_ap_is_a_goal_without_other_trainings(search, fake, folder):
    by_auc, by_ap = search(4, folder=folder), search(4, folder=folder, goal="ap")
    assert fake.calls == []
    assert (by_ap.value, by_auc.value) == (by_auc.best.ap, by_auc.best.auc)


def test_node_mrr_that_cannot_be_measured_or_chosen_by_is_no_goal(search, fake):
    fake.measures_top = False
    tuned = search(2, goal="node_mrr")
    with pytest.raises(TrainingError, match=r"Node MRR takes too long to measure on this graph\."):
        _ = tuned.best
    with pytest.raises(ConfigError, match="katz is not trained, so its goal can be auc or ap"):
        search(2, "katz", goal="node_mrr")


class Story(Listener):
    """Writes down what it is told."""

    def __init__(self):
        self.heard, self.epochs = [], 0

    def opens(self, done):
        self.heard.append(("opens", done))

    def begins(self, job):
        self.heard.append((job.number, job.origin))

    def epoch_ends(self, record):
        self.epochs += 1
        self.heard.append(("epoch", record.epoch))

    def ends(self, job, result, *, is_best=False):
        self.heard.append((job.number, result.number, is_best))


def test_someone_can_watch(search, fake):
    fake.epochs, story = 1, Story()
    tuned = search(2, listener=story)
    is_better = tuned.trials[1].auc > tuned.trials[0].auc
    first = [("opens", 0), (1, "defaults"), ("epoch", 1), (1, 1, True)]
    assert story.heard == [*first, (2, "search"), ("epoch", 1), (2, 2, is_better)]


def test_a_method_without_training_can_be_tuned(search):
    tuned = search(4, "katz", goal="ap", train=None)
    assert not any(trial.has_failed for trial in tuned.trials)
    space = Space.of("katz", "toy", {})
    assert all(space.contains(trial.settings) for trial in tuned.trials[1:])
    assert tuned.value == tuned.best.ap > 0
