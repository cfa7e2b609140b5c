"""Kill a search at its Nth disk call or in its Nth trial, go on with it, print what it found.

Started once by test_killed.py: it imports torch once and forks a child for each attempt.
"""

import itertools
import json
import os
import signal
import sys
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import optuna.samplers  # noqa: F401  imported before the fork
import torch

from cgcl.experiments.search import tune
from cgcl.graph import Graph
from cgcl.split import random_split

TRIALS = 8
PAIRS = torch.tensor([*combinations(range(10), 2), *combinations(range(10, 20), 2)]).T
GRAPH = Graph.from_pairs("toy", [str(node) for node in range(20)], PAIRS, torch.eye(20))
SPLIT = random_split(GRAPH, 0.1, 0.2, 0)
DISK = [(os, "fsync"), (os, "truncate"), *((Path, own) for own in ("replace", "open", "mkdir"))]


def kill_at(number: int, calls: list[tuple[Any, str]]) -> None:
    """Arrange for SIGKILL right before the Nth of these calls in all."""
    count = itertools.count(1)

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if next(count) == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **kwargs)

        return wrapper

    for owner, name in calls:
        setattr(owner, name, counted(getattr(owner, name)))


def attempt(folder: Path, number: int, kind: str) -> int:
    """Search in a child that is killed at the given call; 0 means never."""
    from conftest import FakeTrain

    child = os.fork()
    if child == 0:
        train = FakeTrain()
        kill_at(number, DISK if kind == "disk" else [(train, "before")])
        tune(GRAPH, SPLIT, "mlp", TRIALS, folder=folder, train=train)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def killed_and_resumed(folder: Path, number: int, kind: str) -> dict[str, Any]:
    """Kill up to three times, then let the search end."""
    kills = 0
    while (code := attempt(folder, number if kills < 3 else 0, kind)) == -signal.SIGKILL:
        kills += 1
    trials = [json.loads(line) for line in (folder / "trials.jsonl").read_bytes().splitlines()]
    return {
        "kills": kills,
        "code": code,
        "trials": [{**trial, "seconds": 0.0} for trial in trials],
        "best": (folder / "best.toml").read_text(),
        "files": sorted(path.name for path in folder.iterdir()),
    }


if __name__ == "__main__":
    for case, at in json.loads(sys.argv[1]):
        print(json.dumps(killed_and_resumed(Path(f"{case}-{at}"), at, case)), flush=True)
