"""Kill a training run at the Nth disk call or the Nth training step, resume it, print hashes.

Started once by test_crash_safety.py: it imports torch once and forks a child for each attempt,
so that dozens of kills take seconds. A child that dies leaves nothing behind but its files.
"""

import contextlib
import hashlib
import io
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sklearn.metrics  # noqa: F401  imported before the fork

import cgcl.report.results
import cgcl.train.run  # noqa: F401  imported before the fork
from cgcl.cli.main import main
from cgcl.train.engines.plain import Adam

TRAIN = [
    "train", "friends.csv", "--epochs", "12", "--evaluate-every", "3", "--hidden", "8", "--threads",
    "1", "--checkpoint-every", "0", "--quiet", "--no-compare", "--method",
]  # fmt: skip
RESUME = ["train", "--resume", "runs/friends-1", "--quiet", "--no-compare"]


def kill_at(number: int, kind: str) -> None:
    """Arrange for SIGKILL right before the given call."""
    left = number

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **kwargs)

        return wrapper

    if kind == "disk":
        os.fsync = counted(os.fsync)
        os.link = counted(os.link)
        Path.replace = counted(Path.replace)  # type: ignore[method-assign]
        Path.unlink = counted(Path.unlink)  # type: ignore[method-assign]
    else:
        Adam.step = counted(Adam.step)  # type: ignore[method-assign]


def attempt(arguments: list[str], number: int, kind: str) -> int:
    """Run the command line in a child that is killed at the given call; 0 means never."""
    child = os.fork()
    if child == 0:
        if number:
            kill_at(number, kind)
        with contextlib.redirect_stdout(io.StringIO()):
            main(arguments)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def hashes(run: Path) -> dict[str, str]:
    """Return what must not depend on how often the run was killed."""
    found = {
        name: hashlib.sha256((run / name).read_bytes()).hexdigest()
        for name in ("model.safetensors", "metrics.jsonl", "split.safetensors")
    }
    about = json.loads((run / "run.json").read_text())
    return found | {key: json.dumps(about[key]) for key in ("val", "test", "best_epoch", "status")}


def trial(folder: Path, kind: str, number: int) -> dict[str, Any]:
    """Kill, resume and kill again until the run ends; say how often it was killed."""
    folder.mkdir()
    (folder / "friends.csv").symlink_to(Path("friends.csv").absolute())
    os.chdir(folder)
    kills = 0
    told = first = [*TRAIN, sys.argv[3]]
    while (code := attempt(told, number if kills < 3 else 0, kind)) == -signal.SIGKILL:
        kills += 1
        # Killed before there was a run: there is nothing to resume, so train anew.
        told = RESUME if Path("runs/friends-1/run.json").exists() else first
    runs = sorted(Path("runs").iterdir())
    result = {"kind": kind, "number": number, "kills": kills, "code": code}
    result["hashes"] = hashes(runs[-1]) if code == 0 else None
    result["leftovers"] = [str(p) for p in runs[-1].glob("*.tmp")]
    os.chdir("..")
    return result


if __name__ == "__main__":
    trials = [("disk", n) for n in (0, *json.loads(sys.argv[1]))]
    trials += [("step", n) for n in json.loads(sys.argv[2])]
    for trial_kind, trial_number in trials:
        found = trial(Path(f"{trial_kind}-{trial_number}"), trial_kind, trial_number)
        print(json.dumps(found), flush=True)
