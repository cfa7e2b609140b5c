"""What SEAL and S3GRL cost, part by part: what is cut out, a step, a look, the test.

Prints a line of JSON for each case. Run it by hand:

    python benchmarks/surroundings.py --device cuda --data-root FOLDER

On a GPU it also counts how often the CPU waits for it in the steps of an epoch.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import torch

import cgcl
from cgcl.methods.method import Epoch
from cgcl.methods.subgraphs import SubgraphLearner
from cgcl.seeds import seeded
from cgcl.split import random_split
from cgcl.train.config import Resources, RunConfig
from cgcl.train.execution import computing_with, resolve_device
from cgcl.train.fit import _features, prepared
from cgcl.train.top_of_list import ranking_metrics
from cgcl.train.trainer import Trainer

__all__: list[str] = []

# Name, method, settings. The last two are their authors'.
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "seal-2-32": ("seal", {"hops": 2, "hidden": 32, "nodes_per_hop": 0}),
    "seal-3-256": ("seal", {"hops": 3, "hidden": 256, "nodes_per_hop": 0}),
    "s3grl": ("s3grl", {"lr": 1e-4, "batch": 32, "nodes_per_hop": 0}),
}
T = TypeVar("T")


def measure(name: str, told: argparse.Namespace) -> dict[str, Any]:
    """Train some epochs, look and test; return the seconds of each part."""
    method, settings = CASES[name]
    graph = cgcl.read(told.graph, data_root=told.data_root)
    split = random_split(graph, 0.05, 0.1, 0)
    recipe = RunConfig.for_graph(method, {**settings, "seed": 0, "val": 0.05, "test": 0.1}, graph)
    resources = Resources(device=told.device, threads=told.threads)
    device = resolve_device(resources)
    found: dict[str, Any] = {"case": name, "graph": told.graph, "device": told.device}

    def timed(part: str, work: Callable[[], T], times: int = 1) -> T:
        start = time.perf_counter()
        result = work()
        if device.type == "cuda":
            torch.cuda.synchronize()
        found[part] = round((time.perf_counter() - start) / times, 4)
        return result

    with computing_with(resources):
        graph = prepared(graph, split, recipe)
        trainer = Trainer(_features(graph, recipe), split, recipe, device, resources)
        learner = trainer.learner
        assert isinstance(learner, SubgraphLearner)
        timed("cut out", lambda: learner.examples_of(trainer.known, 0))
        if device.type == "cuda":
            found["waits in an epoch"] = waits(trainer)
        timed("first epoch and look", trainer.run_epoch)
        epochs = told.epochs - 1
        engine = trainer.engine
        assert engine is not None
        timed("epoch", lambda: [engine.run(2 + i, 1) for i in range(epochs)], times=epochs)
        steps = len(learner.batches(torch.arange(2 * split.train.shape[1])))
        found |= {"steps": steps, "ms a step": round(1000 * found["epoch"] / steps, 3)}
        timed("look", trainer._look)
        test = timed("test", lambda: trainer.measure(top_of_list=False))
        scorer, few = learner.scorer(trainer.known), told.links
        top = timed(
            f"{few} links among all nodes",
            lambda: ranking_metrics(scorer, split, budget=math.inf, most_links=few),
        )
    found |= {"val": trainer.best_val, "auc": (test or {}).get("auc"), **top.metrics}
    if device.type == "cuda":
        found["MiB on the GPU"] = torch.cuda.max_memory_allocated() >> 20
    return {**found, "se": top.errors}


def waits(trainer: Trainer) -> int:
    """Return how often the steps of an epoch wait for the GPU; nothing is learned in it."""
    trainer.learner.train()
    with seeded(0, "epoch", 1, trainer.known.device), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        for loss in trainer.learner.steps(trainer.known, Epoch(1, 0)):
            loss.backward()
        torch.cuda.set_sync_debug_mode("default")
    for own in trainer.learner.parameters():
        own.grad = None
    return len(told)


def main() -> None:
    """Measure each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--data-root")
    parser.add_argument("--graph", default="cora")
    parser.add_argument("--epochs", type=int, default=3, help="two at least")
    parser.add_argument("--links", type=int, default=50)
    parser.add_argument("--cases", nargs="*", choices=[*CASES], default=[*CASES])
    told = parser.parse_args()
    os.environ.setdefault("CGCL_CACHE", "off")
    for name in told.cases:
        print(json.dumps(measure(name, told)), flush=True)


if __name__ == "__main__":
    main()
