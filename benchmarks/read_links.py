"""Time to read three million links from CSV: `cgcl.read` beside pyarrow's own reader.

    python benchmarks/read_links.py

Both read the same file in turn, several times, in one process; medians are compared. The file is
made anew, from a seed, in a temporary folder: 3,000,000 rows of two names drawn from a million
names of 1 to 26 characters, in no order, which is the hardest case for a table of names.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from pyarrow import csv as arrow_csv

import cgcl

__all__ = ["main", "write_links"]

ROWS = 3_000_000
NAMES = 1_000_000
SEED = 0
ROUNDS = 7
RESULT = Path(__file__).parent / "results" / "read_links.json"


def write_links(path: Path, rows: int = ROWS, num_names: int = NAMES, seed: int = SEED) -> None:
    """Write random links between names of mixed length."""
    chance = np.random.default_rng(seed)
    kinds = chance.integers(0, 4, num_names).tolist()
    shapes: tuple[Callable[[int], str], ...] = (
        str,
        lambda number: f"user{number}",
        lambda number: f"person-{number:012d}-{number * 7919 % 99991:x}",
        lambda number: f"N{number:x}",
    )
    names = pa.array([shapes[kind](number) for number, kind in enumerate(kinds)])
    ends = (pa.array(chance.integers(0, num_names, rows)) for _ in range(2))
    columns = [names.take(end).to_pylist() for end in ends]
    with path.open("w") as file:
        file.write("source,target\n")
        file.writelines(f"{a},{b}\n" for a, b in zip(*columns, strict=True))


def _seconds(action: Callable[[], object]) -> tuple[float, float]:
    """Return the time on the clock and the time of all processors."""
    start, start_cpu = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - start, time.process_time() - start_cpu


def _medians(measured: list[tuple[float, float]]) -> dict[str, object]:
    clock, cpu = zip(*measured, strict=True)
    return {
        "seconds": round(statistics.median(clock), 3),
        "cpu_seconds": round(statistics.median(cpu), 3),
        "rounds": [round(value, 3) for value in clock],
    }


def main() -> None:
    """Measure, print and store the result."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "links.csv"
        write_links(path)
        graph = cgcl.read(path)  # warms up both: the file is in memory, the modules are imported
        arrow_csv.read_csv(path)
        ours: list[tuple[float, float]] = []
        theirs: list[tuple[float, float]] = []
        for _ in range(ROUNDS):
            theirs.append(_seconds(lambda: arrow_csv.read_csv(path)))
            ours.append(_seconds(lambda: cgcl.read(path)))
        size = path.stat().st_size
    own, other = _medians(ours), _medians(theirs)
    ratio = statistics.median(t for t, _ in ours) / statistics.median(t for t, _ in theirs)
    result = {
        "rows": ROWS,
        "nodes": graph.num_nodes,
        "links": graph.num_edges,
        "file_bytes": size,
        "cgcl_read": own,
        "pyarrow_read_csv": other,
        "ratio": round(ratio, 2),
        "load_average": [round(value, 2) for value in os.getloadavg()],
        "cores": os.cpu_count(),
        "versions": {
            "python": platform.python_version(),
            "cgcl": cgcl.__version__,
            "numpy": np.__version__,
            "pyarrow": pa.__version__,
            "torch": torch.__version__,
        },
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=2) + "\n")
    print(
        f"cgcl.read         {own['seconds']} s (median of {ROUNDS}; {own['cpu_seconds']} s of CPU)"
    )
    print(f"pyarrow.read_csv  {other['seconds']} s ({other['cpu_seconds']} s of CPU)")
    print(f"ratio             {ratio:.1f}")


if __name__ == "__main__":
    main()
