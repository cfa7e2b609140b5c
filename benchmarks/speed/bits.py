"""Whether a run gives the same bits twice, with and without `--deterministic`, and what it takes.

    python benchmarks/speed/bits.py --device cuda --graph cora

Each way trains twice from the same seed; weights, losses and test scores are compared bit by bit.
The time is that of the second run, with everything: preparing, training, looking and testing.
"""

from __future__ import annotations

import time

import torch
from measuring import Line, Lines, about, options
from ours import Strategy, resources_for
from torch import Tensor

import cgcl
from cgcl.graph import Graph
from cgcl.split import random_split
from cgcl.train.config import Resources, RunConfig
from cgcl.train.execution import computing_with
from cgcl.train.fit import fit

__all__ = ["WAYS", "compare"]

WAYS = {
    "fast": Strategy(),
    "readable": Strategy(engine="plain"),
    "deterministic": Strategy(deterministic=True),
}
_CGCL = {"hidden": 512, "lr": 0.005}


def compare(graph: Graph, method: str, settings: Line, resources: Resources) -> Line:
    """Train twice and return how far the results are apart."""
    recipe = RunConfig.of(method, {**settings, "seed": 0})
    split = random_split(graph, recipe.split.val, recipe.split.test, seed=0)
    found: list[tuple[list[Tensor], list[list[float]]]] = []
    seconds = 0.0
    for _ in range(2):
        start = time.perf_counter()
        trained = fit(graph, split, recipe, resources, top_of_list=False)
        seconds = time.perf_counter() - start
        with computing_with(resources):
            scores = trained.scorer(split.train).logits(split.test)
        weights = [weight.detach().cpu() for weight in trained.learner.parameters()]
        found.append(([*weights, scores], [record["losses"] for record in trained.history]))
    (ours, losses), (again, losses_again) = found
    return {
        "same_bits": losses == losses_again and all(map(torch.equal, ours, again)),
        "largest_difference": max(
            float((one - other).abs().max()) for one, other in zip(ours, again, strict=True)
        ),
        "seconds": round(seconds, 3),
    }


def main() -> None:
    """Compare CGCL's ways, then the other methods with `deterministic`."""
    parser = options(__doc__, "speed-bits.jsonl")
    parser.add_argument("--graph", default="cora")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--methods", default="gcn,graphsage,vgae,s2gae,maskgae,ncn,mlp")
    asked = parser.parse_args()
    lines = Lines(asked.out)
    graph = cgcl.read(asked.graph, data_root=asked.data_root)
    jobs = [("cgcl", way, {**_CGCL, "epochs": asked.epochs}) for way in WAYS]
    jobs += [(name, "deterministic", {"epochs": 5}) for name in asked.methods.split(",") if name]
    for method, way, settings in jobs:
        resources = resources_for(WAYS[way], torch.device(asked.device), asked.threads)
        line = {"kind": "bits", "graph": asked.graph, "method": method, "way": way, **settings}
        line |= compare(graph, method, settings, resources)
        lines.add({**line, **about(asked.device, asked.threads)})
        print(line, flush=True)


if __name__ == "__main__":
    main()
