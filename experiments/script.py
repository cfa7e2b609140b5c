"""What the scripts have in common: options, the log of results, and how the missing ones are made.

A result is one line of JSON in experiments/results/. What is there is not computed again, so an
interrupted call goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from cgcl.experiments.log import AppendOnlyLog, read_log, run_side_by_side

RESULTS = Path(__file__).parent / "results"

Job = dict[str, Any]
Result = dict[str, Any]
Where = dict[str, Any]


def results_of(name: str, needed: Sequence[str] = (), folder: Path = RESULTS) -> list[Result]:
    """Return all results of a kind: those of an older file that is one list, then the log's."""
    older = folder / f"{name}.json"
    found = json.loads(older.read_text(encoding="utf-8")) if older.exists() else []
    return [*found, *read_log(folder / f"{name}.jsonl", needed)]


def options(doc: str | None, threads: int = 1) -> argparse.ArgumentParser:
    """Return a parser for what every script can be told."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0] if doc else None)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=threads)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9, help="begin nothing after so long")
    parser.add_argument("--data-root")
    parser.add_argument("--out", type=Path, default=RESULTS, help="the folder of the results")
    return parser


def listed(text: str) -> list[str]:
    """Return the parts of a list with commas."""
    return [part for part in text.split(",") if part]


def place_of(chosen: argparse.Namespace) -> Where:
    """Return what every run is told besides its job."""
    place: Where = {name: getattr(chosen, name) for name in ("device", "threads", "data_root")}
    return {**place, "out": str(chosen.out), "deadline": time.time() + chosen.seconds}


def stamp(place: Where) -> dict[str, Any]:
    """Return what decides the last bits of a result: the device, threads and versions."""
    import torch

    from cgcl.train.execution import versions

    cuda = torch.cuda.is_available() and place["device"] != "cpu"
    kept = ("cgcl", "python", "torch", "numpy")
    return {
        "device": torch.cuda.get_device_name() if cuda else "cpu",
        "threads": place["threads"],
        "versions": {name: versions()[name] for name in kept},
    }


def key_of(line: Job, key: Sequence[str]) -> tuple[Any, ...]:
    """Return what tells one run from another."""
    return tuple(line[name] for name in key)


def run_missing(
    name: str,
    jobs: Iterable[Job],
    work: Callable[[Job, Where], Result | None],
    shown: Callable[[Result], str],
    chosen: argparse.Namespace,
    key: Sequence[str] = (),
    place: Where | None = None,
    *,
    is_fresh: bool = True,
) -> None:
    """Make the results that are missing in a log, and tell of each.

    Args:
        name: Of the log.
        jobs: What is asked for.
        work: Makes one result, in another process; None if there is nothing to keep.
        shown: A result in a line.
        chosen: The options.
        key: What tells one run from another; a job with a result is left out. Empty if `work`
            decides itself.
        place: What `work` is told besides its job; by default what `place_of` returns.
        is_fresh: Every job has a process of its own.
    """
    place = place or place_of(chosen)
    there = results_of(name, key, chosen.out) if key else []
    done = {key_of(line, key) for line in there if "failure" not in line}
    todo = [job for job in jobs if key_of(job, key) not in done or not key]
    chosen.out.mkdir(parents=True, exist_ok=True)
    with AppendOnlyLog(chosen.out / f"{name}.jsonl") as log:
        results = run_side_by_side(
            todo, work, place, chosen.workers, place["deadline"], print, is_fresh=is_fresh
        )
        for number, result in enumerate(results, start=1):
            log.append(json.dumps(result).encode() + b"\n")
            print(f"{number}/{len(todo)} {shown(result)}", flush=True)
