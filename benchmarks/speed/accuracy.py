"""Test AUC over seeds: the fast engine against the readable torch path.

    python benchmarks/speed/accuracy.py --device cuda --graphs cora,citeseer,pubmed --seeds 10
    python benchmarks/speed/accuracy.py --device cuda --graphs photo,computers --seeds 3

The `paper` preset (d_v 512, 800 epochs) on the same splits. A line for each run goes to
benchmarks/results/ as it comes; runs that are there are not made again, so that a command which
ran out of time goes on where it stopped.
"""

from __future__ import annotations

import time
from typing import Any

import torch
from measuring import GRAPHS, Clock, Line, Lines, about, options
from ours import Strategy, resources_for

import cgcl
from cgcl.graph import Graph
from cgcl.methods.settings import PRESETS
from cgcl.split import random_split
from cgcl.train.config import Resources, RunConfig
from cgcl.train.fit import fit

__all__ = ["ENGINES", "key_of", "train_and_test"]

ENGINES = ("auto", "plain")
_KEY = ("graph", "seed", "asked_engine", "epochs", "views", "lr", "precision", "on")


def key_of(line: Line) -> tuple[Any, ...]:
    """Return what tells one run from another."""
    return tuple(line[name] for name in _KEY)


def train_and_test(graph: Graph, job: Line, resources: Resources) -> Line:
    """Train once and return the metrics on the test links."""
    settings = {name: job[name] for name in ("epochs", "views", "lr", "seed")}
    recipe = RunConfig.of("cgcl", {**PRESETS["paper"], **settings})
    split = random_split(graph, recipe.split.val, recipe.split.test, job["seed"])
    trained = fit(graph, split, recipe, resources, top_of_list=False)
    return {
        "test": trained.test,
        "val": trained.val,
        "best_epoch": trained.best_epoch,
        "stopped": trained.stopped.reason if trained.stopped else None,
        "train_seconds": round(trained.seconds, 3),
        "fingerprint": graph.fingerprint,
    }


def main() -> None:
    """Run what is missing while there is time."""
    parser = options(__doc__, "speed-accuracy.jsonl")
    parser.add_argument("--graphs", default=",".join(GRAPHS))
    parser.add_argument("--seeds", type=int, default=10, help="how many, from 0")
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--epochs", type=int, default=PRESETS["paper"]["epochs"])
    parser.add_argument("--views", default=PRESETS["paper"]["views"])
    parser.add_argument("--lr", type=float, default=PRESETS["paper"]["lr"])
    parser.add_argument("--precision", default="tf32", help="of matrix products on a GPU")
    asked = parser.parse_args()
    clock, lines = Clock(asked.seconds), Lines(asked.out)
    torch.set_num_threads(asked.threads)
    done = {key_of(line) for line in lines.before}
    where, graphs = about(asked.device, asked.threads), dict[str, Graph]()
    # By graph and engine, how long the last run took: none begins that would not end in time.
    took: dict[tuple[str, str], float] = {}
    for graph in asked.graphs.split(","):
        for seed in range(asked.seeds):
            for engine in asked.engines.split(","):
                job: Line = {
                    "kind": "accuracy",
                    "graph": graph,
                    "seed": seed,
                    "asked_engine": engine,
                    "epochs": asked.epochs,
                    "views": asked.views,
                    "lr": asked.lr,
                    "precision": asked.precision if asked.device != "cpu" else "fp32",
                    "on": asked.device,
                }
                expected = took.get((graph, engine), max(took.values(), default=0.0))
                if key_of(job) in done or clock.left <= 1.1 * expected:
                    continue
                if graph not in graphs:
                    graphs[graph] = cgcl.read(graph, data_root=asked.data_root)
                device = torch.device(asked.device)
                way = Strategy(engine, precision=asked.precision)
                resources = resources_for(way, device, asked.threads)
                start = time.monotonic()
                line = {**job, **train_and_test(graphs[graph], job, resources)}
                took[graph, engine] = time.monotonic() - start
                lines.add({**line, **where})
                print(
                    f"{graph}, seed {seed}, {engine}: AUC {line['test']['auc']:.4f}, "
                    f"{line['train_seconds']:.1f} s",
                    flush=True,
                )


if __name__ == "__main__":
    main()
