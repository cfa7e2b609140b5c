"""`cgcl tune`: the search itself is tested in tests/experiments/tune."""

import json
import re
import signal
import tomllib
from pathlib import Path

import pytest

SMALL = ["--test", "0.2", "--threads", "1", "--features", "nodes.csv"]
MLP = [*SMALL, "--val", "0.2", "--method", "mlp"]
QUICK = [*MLP, "--epochs", "3", "--trials", "3"]
FOLDER = Path("runs/tune-friends-mlp")


@pytest.fixture
def tuned(cli, friends):
    """Search, and return what was told."""

    def run(*words: str, asked=QUICK):
        found = cli("tune", "friends.csv", *asked, *words)
        assert found.code == 0, found.err
        return found

    return run


@pytest.fixture
def trained(cli):
    """Train with the settings of a file; return what the run says of itself, and what was told."""

    def run(file: str, *words: str) -> tuple[dict, str]:
        words = ("--config", file, "--threads", "1", "--no-compare", *words)
        found = cli("train", "friends.csv", *words)
        assert found.code == 0, found.err
        return json.loads(Path(found.out.strip(), "run.json").read_text()), found.err

    return run


def test_what_is_found_can_be_trained_and_gives_what_was_promised(tuned, trained) -> None:
    found = tuned("--seed", "2")
    assert found.out == f"{FOLDER}/best.toml\n"
    lines = [line for line in found.err.splitlines() if line.startswith("  Trial ")]
    assert [line.split()[1] for line in lines] == ["1/3", "2/3", "3/3"]
    assert "(the defaults; " in lines[0]
    assert found.err.splitlines()[-1].split(maxsplit=1) == [
        "Next",
        f"cgcl train friends.csv --features nodes.csv --config {FOLDER}/best.toml",
    ]
    settings = tomllib.loads((FOLDER / "best.toml").read_text())["train"]
    assert (settings["seed"], settings["val"], settings["epochs"]) == (2, 0.2, 3)
    trials = [json.loads(line) for line in (FOLDER / "trials.jsonl").read_text().splitlines()]
    best = max(trials, key=lambda trial: (trial["auc"], trial["ap"], -trial["number"]))
    run, _ = trained(f"{FOLDER}/best.toml", "--features", "nodes.csv")
    assert run["val"] == {"auc": best["auc"], "ap": best["ap"]}
    assert {name: run["config"][name] for name in best["settings"]} == best["settings"]


def test_a_goal_is_told_and_reaches_the_training(tuned, trained) -> None:
    found = tuned("--goal", "node_mrr")
    assert re.search(r"  Best        trial \d of 3: validation node MRR 0\.\d{4}   AUC", found.err)
    answer = json.loads(tuned("--goal", "node_mrr", "--json").out)
    assert answer["file"] == f"{FOLDER}/best.toml"
    assert [trial["number"] for trial in answer["trials"]] == [1, 2, 3]
    assert answer["best"] in answer["trials"]
    about = (answer["method"], answer["goal"], answer["stopped"])
    assert about == ("mlp", "node_mrr", None)
    run, told = trained(found.out.strip(), "--features", "nodes.csv")
    assert run["config"]["choose_by"] == "node_mrr"
    assert set(run["val"]) == {"auc", "ap", "node_mrr"}
    assert re.search(r"  Validation  node MRR 0\.\d{4}   AUC 0\.", told)


def test_the_same_command_goes_on_and_finds_nothing_left_to_do(tuned) -> None:
    first, longer = tuned(), [*MLP, "--epochs", "3", "--trials", "5"]
    more = tuned(asked=longer)
    assert "Resuming    3 trials finished before" in more.err
    assert more.err.count("  Trial ") == 2
    again = tuned("--quiet", asked=longer)
    assert (again.out, again.err) == (first.out, "")


def test_a_time_limit_ends_the_search_with_what_there_is(cli, friends, monkeypatch) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])

    from cgcl.train.fit import fit

    def slow(*args: object, **kwargs: object):
        now[0] += 40
        return fit(*args, **kwargs)

    monkeypatch.setattr("cgcl.experiments.search.fit", slow)
    result = cli("tune", "friends.csv", *QUICK, "--time-limit", "1m")
    assert (result.code, result.out) == (0, f"{FOLDER}/best.toml\n")
    text = " ".join(result.err.split())
    assert "Stopped by the time limit after 1 of 3 trials; continue with: cgcl tune fr" in text


def test_ctrl_c_keeps_what_is_finished_and_says_how_to_go_on(friends, interrupted) -> None:
    words = ["tune", "friends.csv", *MLP, "--trials", "40", "--epochs", "60"]
    code, out, err = interrupted(words, "Trial 2/40", signal.SIGINT)
    assert (code, out) == (130, "")
    last = err.strip().splitlines()[-1]
    match = re.match(r"Stopped\. (\d+) of 40 trials are finished and kept\. Continue with: ", last)
    assert match is not None, err
    folder = friends.parent / FOLDER
    assert len((folder / "trials.jsonl").read_text().splitlines()) == int(match[1])
    assert last.endswith(
        "cgcl tune friends.csv --method mlp --trials 40 --epochs 60 --features nodes.csv "
        "--val 0.2 --test 0.2 --threads 1"
    )
    assert (folder / "best.toml").exists()
