"""How long an epoch of `cgcl train cora --method cgcl` takes beside `import torch`; its imports.

    python benchmarks/speed/startup.py --seconds 120

Both are processes of their own, started in turn. Wall time counts from the start of the process to
its end. The line goes to benchmarks/results/.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measuring import Clock, Lines, about, options

__all__ = ["HEAVY", "imported", "wall_seconds"]

HEAVY = ("torch_geometric", "matplotlib", "networkx", "sklearn", "pyarrow", "scipy")
"""Packages that take long to import."""
_TRAIN = ["-m", "cgcl", "train", "cora", "--method", "cgcl", "--epochs", "1"]
_TORCH = ["-c", "import torch"]


def wall_seconds(words: list[str], folder: Path) -> float:
    """Run Python with these words and return how long it took."""
    start = time.perf_counter()
    subprocess.run([sys.executable, *words], check=True, cwd=folder, capture_output=True)
    return time.perf_counter() - start


def imported(importtime: str, packages: tuple[str, ...] = HEAVY) -> dict[str, bool]:
    """Say which packages a run imported.

    Args:
        importtime: What `python -X importtime` wrote: a line per module, its name last.
        packages: Those to look for.
    """
    lines = re.findall(r"^import time:.*\|\s*(\S+)$", importtime, re.MULTILINE)
    found = {name.partition(".")[0] for name in lines}
    return {package: package in found for package in packages}


def main() -> None:
    """Measure in turn and write the line."""
    parser = options(__doc__, "speed-startup.jsonl")
    parser.add_argument("--rounds", type=int, default=7)
    asked = parser.parse_args()
    clock, lines = Clock(asked.seconds), Lines(asked.out)
    os.environ["OMP_NUM_THREADS"] = str(asked.threads)
    train = [*_TRAIN, "--device", asked.device, "--threads", str(asked.threads)]
    ours: list[float] = []
    theirs: list[float] = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for words in (_TORCH, train):  # afterwards both are in the system's memory
            wall_seconds(words, folder)
        for _ in range(asked.rounds):
            if ours and clock.left < 2 * (max(ours) + max(theirs)):
                break
            theirs.append(wall_seconds(_TORCH, folder))
            ours.append(wall_seconds(train, folder))
        listed = subprocess.run(
            [sys.executable, "-X", "importtime", *train],
            check=True,
            cwd=folder,
            capture_output=True,
            text=True,
        )
    line = {
        "kind": "startup",
        "command": "cgcl train cora --epochs 1",
        "seconds": round(statistics.median(ours), 3),
        "seconds_smallest": round(min(ours), 3),
        "import_torch": round(statistics.median(theirs), 3),
        "import_torch_smallest": round(min(theirs), 3),
        "rounds": len(ours),
        "imported": imported(listed.stderr),
        **about(asked.device, asked.threads),
    }
    lines.add(line)
    print(line)


if __name__ == "__main__":
    main()
