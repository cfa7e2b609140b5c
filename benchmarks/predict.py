"""Time and peak memory of `cgcl predict`, as a user sees them: a process of its own.

    python benchmarks/predict.py --run runs/pubmed-1
    python benchmarks/predict.py --nodes 1000000

With `--run`, the best 1,000 links of that run. With `--nodes`, a random graph of so many nodes and
three times as many links is written, trained on for an epoch, and asked for the links of one node.
Results are added to results/predict.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

__all__: list[str] = []

RESULTS = Path(__file__).parent / "results" / "predict.json"


def measured(words: list[str], folder: Path | None = None) -> dict[str, Any]:
    """Run cgcl in a process of its own; return its wall time and the peak of its memory."""
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "cgcl", *words], cwd=folder, stdout=subprocess.PIPE
    )
    out = process.stdout.read() if process.stdout else b""
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"cgcl {' '.join(words)} failed with {status}")
    return {
        "command": " ".join(["cgcl", *words]),
        "seconds": round(time.perf_counter() - started, 2),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 2),
        "peak_mib": round(usage.ru_maxrss / 1024),
        "bytes": len(out),
    }


def write_random_graph(path: Path, nodes: int) -> None:
    """Write a random graph with names, three times as many links as nodes."""
    import numpy as np
    import pyarrow as pa
    from pyarrow import csv

    rng = np.random.default_rng(0)
    ends = [rng.integers(nodes, size=3 * nodes) for _ in range(2)]
    names = pa.array([f"node {number}" for number in range(nodes)])
    csv.write_csv(pa.table({"source": names.take(ends[0]), "target": names.take(ends[1])}), path)


def large_graph(nodes: int) -> list[dict[str, Any]]:
    """Train on a random graph for an epoch and ask for the links of one node."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        # In a process of its own: a child begins with the peak of its parent.
        write = [
            sys.executable,
            str(Path(__file__).absolute()),
            "--nodes",
            str(nodes),
            "--write",
            "large.csv",
        ]
        subprocess.run(write, cwd=path, check=True)
        settings = "--method cgcl --epochs 1 --hidden 32 --no-compare --quiet"
        found = [measured(["train", "large.csv", *settings.split()], path)]
        for _ in range(3):
            ask = ["predict", "runs/large-1", "--node", "node 7", "--top", "10", "--quiet"]
            found.append(measured(ask, path))
    return found


def main() -> None:
    """Measure what was asked for and add it to the results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--run", help="a run folder")
    parser.add_argument("--nodes", type=int, help="measure on a random graph of so many nodes")
    parser.add_argument("--write", type=Path, help="only write that graph to this file")
    arguments = parser.parse_args()
    if arguments.write:
        write_random_graph(arguments.write, arguments.nodes)
        return
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    about = {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "torch": version("torch"),
        "memory_of_import_torch_mib": _import_peak(),
    }
    if arguments.run:
        ask = ["predict", arguments.run, "--top", "1000", "--format", "csv"]
        found["top_1000"] = {**about, "run": Path(arguments.run).name, "calls": [measured(ask)]}
    if arguments.nodes:
        found["one_node"] = {
            **about,
            "nodes": arguments.nodes,
            "calls": large_graph(arguments.nodes),
        }
    RESULTS.write_text(json.dumps(found, indent=2) + "\n")
    print(json.dumps(found, indent=2))


def _import_peak() -> int:
    """Return the peak memory of a process that only imports torch, in MiB."""
    code = "import resource, torch; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return round(int(done.stdout) / 1024)


if __name__ == "__main__":
    main()
