"""kill -9 at any moment, then --resume: the same bits as if nothing had happened."""

from __future__ import annotations

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


@pytest.mark.parametrize(("method", "first"), [("cgcl-rank", 1), ("cgcl", 4)])
def test_killed_at_every_kind_of_moment_a_run_ends_with_the_same_bits(
    tmp_path: Path, method: str, first: int
) -> None:
    """At 28 moments, up to three times a run: before a write reaches the disk, before it takes its
    name, before the folder is synced, between two steps of an epoch.
    """
    (tmp_path / "toy.csv").write_text(FRIENDS)
    disk, steps = list(range(first, 80, 9)), [1, 2, 3, 13, 24]
    script = Path(__file__).with_name("kill_trials.py")
    done = subprocess.run(
        [sys.executable, str(script), json.dumps(disk), json.dumps(steps), method],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    untouched, *trials = map(json.loads, done.stdout.splitlines())
    assert (untouched["kills"], untouched["code"]) == (0, 0)
    assert len(trials) == len(disk) + len(steps)
    for trial in trials:
        assert trial["kills"] >= 1, trial
        assert trial["hashes"] == untouched["hashes"], trial
        assert not trial["leftovers"]


LONG = [
    "train", "friends.csv", "--epochs", "400", "--hidden", "16", "--threads", "1",
    "--checkpoint-every", "0", "--no-compare",
]  # fmt: skip


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


@pytest.fixture(autouse=True)
def friends(tmp_path: Path) -> None:
    (tmp_path / "friends.csv").write_text(FRIENDS)


def test_kill_9_from_outside(start, cgcl, untouched: str, tmp_path: Path) -> None:
    process = start(*LONG)
    wait_for(process, "epoch 120/400")
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not (tmp_path / "runs/friends-1/model.safetensors").exists()
    assert cgcl("train", "--resume", "runs/friends-1", "--no-compare") == "runs/friends-1\n"
    assert model_hash(tmp_path / "runs/friends-1") == untouched


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
    assert cgcl("train", "--resume", "runs/friends-1", "--no-compare") == "runs/friends-1\n"
    assert model_hash(tmp_path / "runs/friends-1") == untouched


def test_a_full_disk_is_told_and_the_last_checkpoint_survives(start, cgcl, tmp_path) -> None:
    """A limit on file sizes stands in for a full disk: the checkpoint outgrows it."""
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000));"
        "from cgcl.cli.main import main; main(sys.argv[1:])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *LONG], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "No space left in runs/friends-1" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list((tmp_path / "runs/friends-1").glob("*.tmp"))
    assert (
        cgcl("train", "--resume", "runs/friends-1", "--quiet", "--no-compare") == "runs/friends-1\n"
    )
