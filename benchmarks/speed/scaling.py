"""Cost against size: milliseconds and memory of an epoch on random graphs of 10^4 to 10^7 links.

    python benchmarks/speed/scaling.py --device cpu --threads 2 --most 1e6 --seconds 120
    python benchmarks/speed/scaling.py --device cuda --seconds 240

The graphs are made in memory from a seed: 20 links a node on average, a few nodes with very many,
128 features of which 8 are not zero. Each size is trained in a process of its own, at d_v 128. A
line for each goes to benchmarks/results/ as it comes, then the slope on a log-log plot is printed:
1 means that twice the links take twice the time.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import statistics

import numpy as np
import torch
from measuring import (
    Clock,
    Line,
    Lines,
    about,
    burst_ms,
    in_child,
    options,
    peak_resident,
    resident_after_imports,
)
from ours import Strategy, recipe_for, resources_for, trainer_for
from torch import Tensor

from cgcl.seeds import stream
from cgcl.split import Split

__all__ = ["random_features", "random_links", "sizes_between", "slope"]

_LINKS_PER_NODE = 10  # so that a node has 20 on average
_FEATURES, _NOT_ZERO = 128, 8
_FEWEST = 10_000


def sizes_between(least: int, most: int) -> list[int]:
    """Return 10^4, 3 * 10^4, 10^5, ... from a number of links to another."""
    sizes = [base * 10**power for power in range(4, 12) for base in (1, 3)]
    return [size for size in sizes if least <= size <= most]


def random_links(count: int, seed: int = 0) -> tuple[Tensor, int]:
    """Return a random graph with skewed degrees: its links, int64 [2, count], and its nodes.

    The ends of a link are drawn with the chance of node i falling as 1 / sqrt(i); what is drawn
    twice counts once.

    Args:
        count: How many links.
        seed: The same seed gives the same graph.
    """
    nodes = max(count // _LINKS_PER_NODE, 64)
    coins = stream(seed, "benchmark links")
    codes = torch.empty(0, dtype=torch.int64)
    while codes.numel() < count:
        missing = int(1.1 * (count - codes.numel())) + 16
        ends = (nodes * torch.rand(2, missing, generator=coins, dtype=torch.float64) ** 2).long()
        low, high = ends.min(dim=0).values, ends.max(dim=0).values
        codes = torch.unique(torch.cat([codes, (low * nodes + high)[low < high]]))
    # The codes are sorted: a random choice, not their head, keeps the graph what was drawn.
    codes = codes[torch.randperm(codes.numel(), generator=coins)[:count]].sort().values
    return torch.stack([codes // nodes, codes % nodes]), nodes


def random_features(nodes: int, seed: int = 0) -> Tensor:
    """Return features of which few are not zero, coalesced sparse COO [nodes, 128]."""
    coins = stream(seed, "benchmark features")
    columns = torch.randint(_FEATURES, (nodes, _NOT_ZERO), generator=coins)
    rows = torch.arange(nodes).unsqueeze(1).expand_as(columns)
    indices = torch.stack([rows.reshape(-1), columns.reshape(-1)])
    x = torch.sparse_coo_tensor(
        indices, torch.ones(indices.shape[1]), (nodes, _FEATURES), check_invariants=False
    )
    return x.coalesce()


def slope(sizes: list[int], values: list[float]) -> float:
    """Return the power of the size that fits the values best: their slope on a log-log plot."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def child(request: Line) -> Line:
    """Train on one graph and return its milliseconds and memory."""
    torch.set_num_threads(request["threads"])
    device, clock = torch.device(request["device"]), Clock(request["seconds"])
    if device.type == "cpu" and request["gib"]:
        limit = int(request["gib"] * 2**30)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    imports = resident_after_imports()
    links, nodes = random_links(request["links"])
    nothing = torch.empty(2, 0, dtype=torch.int64)
    split = Split(nodes, links, nothing, nothing, nothing, nothing)
    resources = resources_for(Strategy(request["engine"]), device, request["threads"])
    recipe = recipe_for(request["hidden"], "disjoint")
    trainer = trainer_for(random_features(nodes), split, recipe, device, resources)

    def run() -> int:
        return len(trainer.run_epochs())

    before = clock.left
    burst_ms(run, 0, device)  # all that is made at first use is made here
    first = before - clock.left
    ms: list[float] = []
    while len(ms) < request["rounds"] and (not ms or clock.left > 1.5 * first):
        ms.append(burst_ms(run, request["burst"], device))
    on_gpu = device.type == "cuda"
    memory = torch.cuda.max_memory_allocated() if on_gpu else peak_resident() - imports
    return {
        "engine": "" if trainer.engine is None else trainer.engine.name,
        "nodes": nodes,
        "largest_degree": int(torch.bincount(links.reshape(-1)).max()),
        "ms": round(statistics.median(ms), 4),
        "ms_smallest": round(min(ms), 4),
        "rounds": [round(value, 4) for value in ms],
        "memory_bytes": memory,
    }


def main() -> None:
    """Measure every size and print the slopes."""
    parser = options(__doc__, "speed-scaling.jsonl")
    parser.add_argument("--least", type=float, default=_FEWEST, help="links of the smallest graph")
    parser.add_argument("--most", type=float, default=1e7, help="links of the largest graph")
    parser.add_argument("--engine", default="auto", help="auto or plain")
    parser.add_argument("--hidden", type=int, default=128, help="width of the embeddings, d_v")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--burst", type=float, default=0.3, help="seconds of a round")
    parser.add_argument("--gib", type=float, default=0, help="address space of a child on the CPU")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        print(json.dumps(child(json.loads(asked.child))))
        return
    clock, lines = Clock(asked.seconds), Lines(asked.out)
    found: list[Line] = []
    names = ("device", "threads", "engine", "hidden", "rounds", "burst", "gib")
    chosen = {name: getattr(asked, name) for name in names}
    for links in sizes_between(int(asked.least), int(asked.most)):
        where = about(asked.device, asked.threads)
        request = {"links": links, "seconds": clock.left / 2, **chosen}
        line = {
            "kind": "scaling",
            "links": links,
            "asked_engine": asked.engine,
            "hidden": asked.hidden,
            **in_child(__file__, request, clock.left),
        }
        lines.add({**line, **where})
        print({name: value for name, value in line.items() if name != "rounds"}, flush=True)
        if "failure" in line:
            break
        found.append(line)
    for what in ("ms", "memory_bytes") if len(found) > 1 else ():
        power = slope([line["links"] for line in found], [line[what] for line in found])
        print(f"slope of {what}: {power:.2f}" if math.isfinite(power) else f"no slope of {what}")


if __name__ == "__main__":
    main()
