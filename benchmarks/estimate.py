"""How well the estimate of memory and time agrees with real training.

Each case is trained in a process of its own, whose peak memory the system counts, and
timed in this one. Run it by hand; it takes some minutes, prints each beside its estimate, and
writes what was measured to results/estimate.json. A test holds the formula to that:

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
from cgcl.graph.features import features_of, prepare
from cgcl.methods.settings import CGCLSettings, RankSettings
from cgcl.readers import read
from cgcl.split import random_split
from cgcl.train.config import Resources, RunConfig
from cgcl.train.estimate import estimate_graph
from cgcl.train.run import start_run
from cgcl.train.trainer import Trainer

__all__: list[str] = []

# Data set, method, settings.
CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("cora", "cgcl", {"hidden": 128, "views": "disjoint", "epochs": 30}),
    ("cora", "cgcl", {"hidden": 512, "views": "directed", "epochs": 12}),
    ("citeseer", "cgcl", {"hidden": 128, "views": "disjoint", "epochs": 30}),
    ("citeseer", "cgcl", {"hidden": 512, "views": "directed", "epochs": 12}),
    ("pubmed", "cgcl", {"hidden": 128, "views": "disjoint", "epochs": 10}),
    ("pubmed", "cgcl", {"hidden": 512, "views": "directed", "epochs": 3}),
    ("photo", "cgcl", {"hidden": 128, "views": "disjoint", "epochs": 3}),
    ("photo", "cgcl", {"hidden": 512, "views": "disjoint", "epochs": 3}),
    ("cora", "cgcl-rank", {"preset": "quick", "epochs": 12}),
    ("cora", "cgcl-rank", {"preset": "best", "evaluate_every": 10, "epochs": 12}),
    ("citeseer", "cgcl-rank", {"preset": "quick", "epochs": 12}),
    ("pubmed", "cgcl-rank", {"preset": "quick", "epochs": 12}),
    ("pubmed", "cgcl-rank", {"preset": "quick", "hidden": 256, "layers": 3, "epochs": 12}),
    ("photo", "cgcl-rank", {"preset": "quick", "epochs": 12}),
    ("photo", "cgcl-rank", {"preset": "best", "hidden": 256, "evaluate_every": 10, "epochs": 12}),
]


def train(dataset: str, method: str, settings: dict[str, Any]) -> int:
    """Read, train, calibrate and write a run, as `cgcl train` does; return the peak in bytes."""
    graph = read(dataset)
    recipe = RunConfig.for_graph(method, settings, graph)
    with tempfile.TemporaryDirectory() as folder:
        run = start_run(graph, recipe, Resources(threads=1), Path(folder), "")
        with run.folder:
            run.train()
    # Not getrusage: what it says of a child may be the peak of its parent.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


def peak_memory(dataset: str, method: str, settings: dict[str, Any]) -> int:
    """Train once in a process of its own and return its peak memory in bytes."""
    words = [sys.executable, __file__, dataset, method, json.dumps(settings)]
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True)
    return int(done.stdout)


def epoch_seconds(graph: Graph, recipe: RunConfig) -> float:
    """Return the processor time of an epoch on one thread, whatever else the machine does."""
    split = random_split(graph, recipe.split.val, recipe.split.test)
    trainer = Trainer(features_of(graph), split, recipe, torch.device("cpu"))
    # The first one also warms up, and the last one always looks at the validation links.
    timed = recipe.epochs - 2
    trainer.run_epoch()
    start = time.process_time()
    for _ in range(timed):
        trainer.run_epoch()
    return (time.process_time() - start) / timed


def main() -> None:
    """Train every case, print it beside its estimate and write all of them down."""
    os.environ["OMP_NUM_THREADS"] = "1"  # for the children
    torch.set_num_threads(1)
    results = []
    for dataset, method, settings in CASES:
        graph = read(dataset)
        recipe = RunConfig.for_graph(method, settings, graph)
        graph = prepare(graph, graph.edges)
        assert isinstance(recipe.settings, (CGCLSettings, RankSettings))
        expected = estimate_graph(graph, recipe.settings, recipe.split)
        peak, seconds = (
            peak_memory(dataset, method, settings),
            epoch_seconds(graph, recipe),
        )
        results.append(
            {
                "dataset": dataset,
                "method": method,
                "settings": recipe.settings.to_json(),
                "measured": {"peak_bytes": peak, "epoch_seconds": seconds},
            }
        )
        sys.stdout.write(
            f"{dataset:<9} {method:<9} {expected.hidden:>4} {peak / 1e9:6.2f} GB, estimated "
            f"{expected.memory_bytes / peak:.2f} times; {seconds:8.4f} s an epoch, estimated "
            f"{expected.epoch_seconds / seconds:.2f} times\n"
        )
        sys.stdout.flush()
    (Path(__file__).parent / "results" / "estimate.json").write_text(
        json.dumps({"threads": 1, "cases": results}, indent=2) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.stdout.write(str(train(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))))
    else:
        main()
