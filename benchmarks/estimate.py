"""How well the estimate of memory and time agrees with real training.

Each case is trained in a process of its own, whose peak memory the system counts, and
timed in this one. Run it by hand; it takes a few minutes and writes results/estimate.json:

    CGCL_DATA=folder-with-the-data-sets python benchmarks/estimate.py
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from cgcl.graph import Graph
from cgcl.graph.prepare import features_of, prepare
from cgcl.methods.cgcl_settings import CGCLSettings
from cgcl.readers import read
from cgcl.settings import pick
from cgcl.split import random_split
from cgcl.train.config import Resources, SplitConfig
from cgcl.train.estimate import estimate_graph
from cgcl.train.recipe import Recipe
from cgcl.train.start import start_run
from cgcl.train.trainer import Trainer

__all__: list[str] = []

# Data set, width, views, epochs.
CASES = [
    ("cora", 128, "disjoint", 30),
    ("cora", 512, "directed", 12),
    ("citeseer", 128, "disjoint", 30),
    ("citeseer", 512, "directed", 12),
    ("pubmed", 128, "disjoint", 10),
    ("pubmed", 512, "directed", 3),
    ("photo", 128, "disjoint", 3),
    ("photo", 512, "disjoint", 2),
]


def train(dataset: str, settings: dict[str, Any]) -> int:
    """Read, train, calibrate and write a run, as `cgcl train` does; return the peak in bytes."""
    recipe = Recipe.of("cgcl", settings)
    with tempfile.TemporaryDirectory() as folder:
        run = start_run(read(dataset), recipe, Resources(threads=1), Path(folder), "")
        with run.folder:
            run.train()
    # Not getrusage: what it says of a child may be the peak of its parent.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


def peak_memory(dataset: str, settings: dict[str, Any]) -> int:
    """Train once in a process of its own and return its peak memory in bytes."""
    words = [sys.executable, __file__, dataset, json.dumps(settings)]
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True)
    return int(done.stdout)


def epoch_seconds(graph: Graph, recipe: Recipe) -> float:
    """Return the processor time of an epoch on one thread, whatever else the machine does."""
    split = random_split(graph, recipe.split.val, recipe.split.test)
    trainer = Trainer(features_of(graph), split, recipe, torch.device("cpu"))
    trainer.run_epoch()  # the first one also warms up
    start = time.process_time()
    for _ in range(recipe.epochs - 1):
        trainer.run_epoch()
    return (time.process_time() - start) / (recipe.epochs - 1)


def main() -> None:
    """Train every case, print it beside its estimate and write all of them down."""
    os.environ["OMP_NUM_THREADS"] = "1"  # for the children
    torch.set_num_threads(1)
    results = []
    for dataset, hidden, views, epochs in CASES:
        settings: dict[str, Any] = {"hidden": hidden, "views": views, "epochs": epochs}
        network, shares = pick(CGCLSettings, settings), SplitConfig()
        graph = read(dataset)
        graph = prepare(graph, graph.edges)
        expected = estimate_graph(graph, network, shares)
        peak, seconds = (
            peak_memory(dataset, settings),
            epoch_seconds(graph, Recipe("cgcl", network, shares)),
        )
        results.append(
            {
                "dataset": dataset,
                **settings,
                "measured": {"peak_bytes": peak, "epoch_seconds": seconds},
                "estimated": {
                    "peak_bytes": expected.memory_bytes,
                    "epoch_seconds": expected.epoch_seconds,
                    "parts": dict(expected.parts),
                },
                "memory_ratio": expected.memory_bytes / peak,
                "time_ratio": expected.epoch_seconds / seconds,
            }
        )
        sys.stdout.write(
            f"{dataset:<9} {hidden:>4} {views:<9} {peak / 1e9:6.2f} GB, estimated "
            f"{expected.memory_bytes / peak:.2f} times; {seconds:8.4f} s an epoch, estimated "
            f"{expected.epoch_seconds / seconds:.2f} times\n"
        )
        sys.stdout.flush()
    (Path(__file__).parent / "results" / "estimate.json").write_text(
        json.dumps({"threads": 1, "cases": results}, indent=2) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.stdout.write(str(train(sys.argv[1], json.loads(sys.argv[2]))))
    else:
        main()
