"""kill -9 at any moment, then --resume: the same bits as if nothing had happened."""

import hashlib
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

FRIENDS = "source,target\n" + "".join(
    f"n{a:02d},n{b:02d}\n"
    for a in range(24)
    for b in range(a + 1, 24)
    if a % 3 == b % 3 or a == b - 1
)


@pytest.fixture(autouse=True)
def friends(tmp_path: Path) -> None:
    (tmp_path / "friends.csv").write_text(FRIENDS)


@pytest.mark.parametrize(("method", "first"), [("cgcl-rank", 1), ("cgcl", 4)])
def test_killed_at_every_kind_of_moment_a_run_ends_with_the_same_bits(
    start, method: str, first: int
) -> None:
    """At 28 moments, up to three times a run: before a write reaches the disk, before it takes its
    name, before the folder is synced, between two steps of an epoch.
    """
    disk, steps = list(range(first, 80, 9)), [1, 2, 3, 13, 24]
    script = Path(__file__).with_name("kill_trials.py")
    process = start(json.dumps(disk), json.dumps(steps), method, program=(str(script),))
    out, err = process.communicate()
    assert process.returncode == 0, err
    untouched, *trials = map(json.loads, out.splitlines())
    assert (untouched["kills"], untouched["code"]) == (0, 0)
    assert len(trials) == len(disk) + len(steps)
    for trial in trials:
        assert trial["kills"] >= 1, trial
        assert trial["hashes"] == untouched["hashes"], trial
        assert not trial["leftovers"]


TRAIN = [
    "train", "friends.csv", "--hidden", "16", "--threads", "1", "--checkpoint-every", "0",
    "--no-compare", "--epochs",
]  # fmt: skip
LONG = [*TRAIN, "400"]
RESUME = ["train", "--resume", "runs/friends-1", "--quiet", "--no-compare"]


def wait_for(process: subprocess.Popen, text: str) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if text in line:
            return
    pytest.fail(f"the program ended without saying {text!r}")


def model_hash(run: Path) -> str:
    return hashlib.sha256((run / "model.safetensors").read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The model of a run that nothing disturbed."""
    folder = tmp_path_factory.mktemp("untouched")
    (folder / "friends.csv").write_text(FRIENDS)
    command = [sys.executable, "-m", "cgcl", *LONG, "--quiet"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return model_hash(folder / done.stdout.strip())


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_polite_signal_saves_and_says_how_to_go_on(
    start, cgcl, untouched: str, tmp_path: Path, number, code: int
) -> None:
    process = start(*LONG)
    wait_for(process, "epoch 120/400")
    process.send_signal(number)
    out, err = process.communicate()
    assert process.returncode == code
    assert out == ""
    assert "Traceback" not in err
    last = err.strip().splitlines()[-1]
    assert last.startswith("Stopped at epoch ")
    assert last.endswith("Continue with: cgcl train --resume runs/friends-1")
    about = json.loads((tmp_path / "runs/friends-1/run.json").read_text())
    assert (about["status"], about["stopped"]["reason"]) == ("interrupted", "signal")
    assert about["epochs"] == about["stopped"]["epoch"] >= 120
    assert about["best_epoch"] is not None
    assert cgcl(*RESUME) == "runs/friends-1\n"
    assert model_hash(tmp_path / "runs/friends-1") == untouched


WAITING = """
import sys
from cgcl.cli import terminal
from cgcl.cli.main import main

sign = sys.argv.pop(1)

def waiting(show):
    def wait(line, *told):
        show(line, *told)
        if sign in str(told):
            print("Here:", sign, file=sys.stderr, flush=True)
            sys.stdin.read()
    return wait

for line in (terminal.TrainingLine, terminal.StepLine):
    line.show = waiting(line.show)
main()
"""
"""The program, but where it comes to a sign it waits until its input is closed."""


@pytest.mark.parametrize(
    ("sign", "number", "code"),
    [
        ("epoch=20", signal.SIGTERM, 143),
        ("Testing", signal.SIGINT, 130),
        ("Calibrating", signal.SIGTERM, 143),
        ("Comparing with", signal.SIGINT, 130),
        ("Looking for new links", signal.SIGTERM, 143),
    ],
)
def test_a_signal_after_the_last_epoch_ends_at_once_and_a_report_does_the_rest(
    start, cgcl, tmp_path: Path, sign: str, number, code: int
) -> None:
    told = ["train", "friends.csv", "--epochs", "20", "--hidden", "8", "--threads", "1"]
    process = start(sign, *told, program=("-c", WAITING))
    wait_for(process, f"Here: {sign}")
    process.send_signal(number)
    out, err = process.communicate(timeout=2)
    assert (process.returncode, out) == (code, "")
    assert err.strip().splitlines()[-1] == (
        "Stopped. The trained model is kept in runs/friends-1. What is left, from the test to the "
        "page: cgcl report runs/friends-1"
    )
    run = tmp_path / "runs/friends-1"
    assert (run / "model.safetensors").exists()
    assert cgcl("report", "runs/friends-1") == "runs/friends-1/report.html\n"
    about = json.loads((run / "run.json").read_text())
    assert about["status"] == "finished"
    assert about["test"] is not None
    assert (run / "suggestions.json").exists()


def test_a_full_disk_is_told_and_the_last_checkpoint_survives(start, cgcl, tmp_path) -> None:
    """A limit on file sizes stands in for a full disk: the checkpoint outgrows it."""
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000));"
        "from cgcl.cli.main import main; main(sys.argv[1:])"
    )
    process = start(*TRAIN, "40", program=("-c", code))
    _, err = process.communicate()
    assert process.returncode == 1
    assert "No space left in runs/friends-1" in err
    assert "Traceback" not in err
    assert not list((tmp_path / "runs/friends-1").glob("*.tmp"))
    assert cgcl(*RESUME) == "runs/friends-1\n"
