"""Whole commands on a quiet machine and beside busy processes, in turn: what company costs.

    python benchmarks/speed/busy.py --busy 3

A busy process does nothing but count. Each round runs a command quietly, then beside them; a ratio
is that of one round. Before anything is measured the machine must be quiet. Lines go to
benchmarks/results/.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from measuring import Clock, Lines, about, options
from startup import wall_seconds

_TRAIN = ["-m", "cgcl", "train", "cora", "--quiet"]
_BUSY = "while True:\n    pass"
# More runnable processes than this before the start, and no figure says anything.
_QUIET = 0.5


@contextmanager
def company(number: int) -> Iterator[None]:
    """Keep so many other processes busy for a while."""
    busy = [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(number)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def commands(folder: Path, threads: int) -> dict[str, list[str]]:
    """Return the commands to time, by name; the runs that they ask are trained first."""
    told = ["--device", "cpu", "--threads", str(threads)]
    found: dict[str, list[str]] = {}
    for method in ("cgcl", "cgcl-rank"):
        run = folder / method
        train = [*_TRAIN, "--method", method, *told]
        wall_seconds([*train, "--out", str(run)], folder)
        found[f"train cora --method {method}"] = [*train, "--out", str(folder / "again")]
        predict = ["-m", "cgcl", "predict", str(run / "cora-1"), "--top", "1000"]
        found[f"predict --top 1000, {method}"] = predict
    return found


def main() -> None:
    """Measure in turn and write a line for each command."""
    parser = options(__doc__, "speed-busy.jsonl")
    parser.add_argument("--busy", type=int, default=3, help="how many busy processes")
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    if os.getloadavg()[0] > _QUIET:
        sys.exit(f"The machine is not quiet: its load is {os.getloadavg()[0]:.1f}. Wait a minute.")
    clock, lines = Clock(asked.seconds), Lines(asked.out)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name, words in commands(folder, asked.threads).items():
            quiet: list[float] = []
            busy: list[float] = []
            for _ in range(asked.rounds):
                if quiet and clock.left < 2 * (max(quiet) + max(busy)):
                    break
                quiet.append(wall_seconds(words, folder))
                with company(asked.busy):
                    busy.append(wall_seconds(words, folder))
            ratios = [b / q for q, b in zip(quiet, busy, strict=True)]
            line = {
                "kind": "busy",
                "command": f"cgcl {name}",
                "busy": asked.busy,
                "quiet_s": [round(seconds, 2) for seconds in quiet],
                "busy_s": [round(seconds, 2) for seconds in busy],
                "ratio": round(statistics.median(ratios), 2),
                **about(asked.device, asked.threads),
            }
            lines.add(line)
            print(line["command"], line["quiet_s"], line["busy_s"], line["ratio"], flush=True)


if __name__ == "__main__":
    main()
