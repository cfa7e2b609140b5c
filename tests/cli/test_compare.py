"""`cgcl compare` as a user meets it: the table, going on, failures, signals."""

import csv
import io
import json
import signal
from pathlib import Path

import pytest

SMALL = {
    "features": "nodes.csv",
    "methods": "cgcl,mlp,adamic-adar",
    "epochs": "3",
    "runs": "2",
    "test": "0.2",
    "val": "0.1",
    "threads": "1",
    "device": "cpu",
}
FOLDER = Path("runs/compare-friends")


def command(*flags: str, graph: str = "friends.csv", **options: str) -> list[str]:
    """Return the words of a small comparison, with other options."""
    given = {**SMALL, **options}.items()
    words = [word for name, value in given for word in (f"--{name.replace('_', '-')}", value)]
    return ["compare", graph, *words, *flags]


def results(folder: Path = FOLDER) -> list[dict]:
    return [json.loads(line) for line in (folder / "runs.jsonl").read_text().splitlines()]


def without_times(found: list[dict]) -> list[dict]:
    changing = {"train_seconds", "test_seconds", "ended"}
    return [{k: v for k, v in one.items() if k not in changing} for one in found]


@pytest.fixture
def compared(cli, friends):
    result = cli(*command())
    assert result.code == 0, result.err
    return result


def test_the_table_is_the_answer_and_the_story_goes_to_stderr(compared):
    assert compared.out.startswith("method ")
    assert compared.out.count("CGCL") >= 2
    assert "2 random splits of the links (seeds 0 to 1)" in compared.out
    assert "Run 2/2" in compared.err
    assert "runs/compare-friends/comparison.html" in compared.err
    page = (FOLDER / "comparison.html").read_text()
    assert "cgcl compare friends.csv" in page
    assert len(results()) == 6


def test_what_is_there_is_not_done_again_and_what_nobody_asked_for_is_mentioned(compared, cli):
    before = (FOLDER / "runs.jsonl").read_bytes()
    again = cli(*command())
    assert again.out == compared.out
    assert "6 of 6 results are there" in again.err
    assert (FOLDER / "runs.jsonl").read_bytes() == before
    part = cli(*command(methods="mlp"))
    assert "The folder also holds results of adamic-adar, cgcl; name them in --methods" in part.out


def test_what_is_printed_for_programs(compared, cli):
    found = json.loads(cli(*command("--json")).out)
    assert [row["method"] for row in found["rows"]] == ["cgcl", "mlp", "adamic-adar"]
    rows = list(csv.DictReader(io.StringIO(cli(*command(format="csv")).out)))
    assert float(rows[0]["auc"]) == found["rows"][0]["metrics"]["auc"]["mean"]
    assert cli(*command(format="markdown")).out.startswith("| method | node MRR |")
    quiet = cli(*command("--quiet", format="json"))
    assert (json.loads(quiet.out), quiet.err) == (found, "")


def test_which_settings_and_which_metric(compared, cli):
    plain = cli(*command(settings="default", metric="mrr"))
    assert plain.code == 0, plain.err
    assert "MRR vs CGCL" in plain.out
    assert "authors" not in plain.out
    assert [one["settings"]["hidden"] for one in results() if one["method"] == "cgcl"] == [
        512, 512, 128, 128,
    ]  # fmt: skip


def test_a_method_that_fails_is_shown_and_stops_nothing(cli, friends, monkeypatch):
    from cgcl.methods.networks import FeaturesMLP

    def broken(*_):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried 9 bytes.")

    with monkeypatch.context() as patch:
        patch.setattr(FeaturesMLP, "steps", broken)
        result = cli(*command())
    assert result.code == 0
    assert "Warning: Features only (MLP) failed in run 1. out of memory:" in result.err
    assert "Features only (MLP) failed in runs 1 and 2: out of memory: Default" in result.out
    assert "failed in runs 1 and 2" in (FOLDER / "comparison.html").read_text()
    again = cli(*command())
    assert again.code == 0
    assert "failed" not in again.out
    assert len(results()) == 8  # six of the first time, two tried again
    monkeypatch.setattr(FeaturesMLP, "steps", lambda *_: 1 / 0)
    result = cli(*command(methods="mlp", out="other"))
    assert result.code == 1
    assert "ZeroDivisionError" in result.out


def test_tuned_settings_get_a_row_of_their_own(cli, friends):
    Path("best").mkdir()
    Path("best/mlp.toml").write_text('# Trials: 4 of 4\n[train]\nmethod = "mlp"\nhidden = 4\n')
    result = cli(*command(tuned="best", methods="mlp"))
    assert result.code == 0, result.err
    assert "Features only (MLP) tuned" in result.out
    assert "tuned, 4 trials, epochs 3" in result.out
    assert {one["settings"]["hidden"] for one in results()} == {128, 4}


def test_a_command_with_odd_words_can_be_pasted(cli, friends, tmp_path):
    odd = tmp_path / "my graph.csv"
    odd.write_bytes(friends.read_bytes())
    found = cli(*command("--by-degree", graph=odd.name, out="my results"))
    assert found.code == 0, found.err
    assert "AUC among test pairs whose end with fewer training links" in found.out
    told = json.loads(Path("my results/plan.json").read_text())["command"]
    assert told.startswith("cgcl compare 'my graph.csv' --methods cgcl,mlp,adamic-adar --runs 2")
    assert " --by-degree --features nodes.csv" in told
    assert told.endswith("--out 'my results'")


def test_ctrl_c_says_how_to_go_on(friends, interrupted):
    # Epochs enough that the second method is still in its first training.
    words = command(epochs="100000", methods="adamic-adar,mlp")
    code, out, err = interrupted(words, "Adamic-Adar", signal.SIGINT)
    assert (code, out) == (130, "")
    last = err.strip().splitlines()[-1]
    assert last.startswith("Stopped: 1 of 4 results are there. Go on with: cgcl compare ")
    assert "--epochs 100000" in last
    folder = friends.parent / FOLDER
    assert len(results(folder)) == 1
    assert (folder / "comparison.html").exists()


def test_kill_9_loses_at_most_the_running_cell(compared, cli, interrupted):
    killed = interrupted(command(out="killed"), "Run 1/2     CGCL", signal.SIGKILL)
    assert killed.code == -signal.SIGKILL
    before = results(Path("killed"))
    assert 2 <= len(before) < 6
    again = cli(*command(out="killed"))
    assert again.code == 0
    assert f"{len(before)} of 6 results are there" in again.err
    assert results(Path("killed"))[: len(before)] == before
    assert without_times(results(Path("killed"))) == without_times(results())
