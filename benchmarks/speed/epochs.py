"""Milliseconds and memory of an epoch: plain PyG, our readable torch and our fast engine.

    python benchmarks/speed/epochs.py --device cpu --threads 2
    python benchmarks/speed/epochs.py --device cuda --graphs cora,computers --seconds 240
    python benchmarks/speed/epochs.py --device cuda --method cgcl-rank

All of them are timed in one process, in turn, round after round, so that whatever else slows the
machine slows them alike; the ratio to plain PyG is that of the same round. Memory is measured with
one of them alone: on the CPU in a process of its own, as resident memory beyond the imports, on a
GPU as torch counts it. The yardstick of CGCL-rank is our readable torch: there is no other. A line
for each graph and way goes to benchmarks/results/ as it comes.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics

import torch
from measuring import (
    GRAPHS,
    Clock,
    Line,
    Lines,
    Run,
    about,
    burst_ms,
    in_child,
    options,
    peak_resident,
    resident_after_imports,
)
from ours import Strategy, ranking_recipe, recipe_for, resources_for, trainer_for
from plain_pyg import PlainModel, plain_epoch, plain_optimizer
from torch import Tensor

import cgcl
from cgcl.graph import Graph
from cgcl.graph.features import prepare
from cgcl.model import symmetric
from cgcl.split import Split, random_split
from cgcl.train.execution import computing_with

__all__ = ["WAYS", "make_run", "summary"]

YARDSTICK = "plain PyG"
WAYS = {
    "readable": Strategy(engine="plain"),
    "fast": Strategy(),
    "fast, directed": Strategy(views="directed"),
    "fast, fp32": Strategy(precision="fp32"),
    "fast, deterministic": Strategy(deterministic=True),
}
"""Our ways by name; the last two differ from `fast` on a GPU only."""
_USUAL = (YARDSTICK, "readable", "fast", "fast, directed")
# Kernels are compiled at first use, and epochs may be recorded at the second.
_GPU_WARM_UPS = 2


def load(request: Line) -> tuple[Graph, Tensor, Split]:
    """Return a graph, its features as training gets them, and its split."""
    graph = cgcl.read(request["graph"], data_root=request["data_root"])
    split = random_split(graph, 0.05, 0.10, seed=0)
    x = prepare(graph, split.train).x
    if x is None:
        raise ValueError(f"{graph.title} has no features, and the yardstick makes none.")
    return graph, x, split


def make_run(way: str, graph: Graph, x: Tensor, split: Split, request: Line) -> tuple[Run, str]:
    """Return what runs epochs one way, and the name of the engine."""
    device, hidden = torch.device(request["device"]), request["hidden"]
    if way == YARDSTICK:
        dense = (x.to_dense() if x.is_sparse else x).to(device)
        edge_index = symmetric(split.train).to(device)
        model = PlainModel(x.shape[1], hidden).to(device)
        optimizer = plain_optimizer(model)

        def run_plain() -> int:
            plain_epoch(model, optimizer, dense, edge_index)
            return 1

        return run_plain, "PyG"
    own = WAYS[way]
    resources = resources_for(own, device, request["threads"])
    is_ranking = request.get("method", "cgcl") != "cgcl"
    recipe = ranking_recipe(graph, hidden) if is_ranking else recipe_for(hidden, own.views)
    trainer = trainer_for(x, split, recipe, device, resources)

    def run_ours() -> int:
        with computing_with(resources):
            return len(trainer.run_epochs())

    return run_ours, "" if trainer.engine is None else trainer.engine.name


def memory_of(way: str, request: Line) -> int:
    """Return the most bytes that training one way holds: on a GPU there, else beyond imports."""
    if request["device"] == "cpu":
        imports = resident_after_imports()
        run, _ = make_run(way, *load(request), request)
        run()
        return peak_resident() - imports
    loaded = load(request)
    gc.collect()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    run, _ = make_run(way, *loaded, request)
    for _ in range(_GPU_WARM_UPS):
        run()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def time_all(request: Line, clock: Clock) -> dict[str, Line]:
    """Return for each way its milliseconds in every round, and its engine."""
    loaded = load(request)
    device = torch.device(request["device"])
    runs: dict[str, Run] = {}
    found: dict[str, Line] = {}
    for way in request["ways"]:
        runs[way], engine = make_run(way, *loaded, request)
        found[way] = {"engine": engine, "ms": []}
        # All that is made at first use is made here.
        for _ in range(1 if device.type == "cpu" else _GPU_WARM_UPS):
            runs[way]()
    longest = 0.0
    for number in range(request["rounds"]):
        if number and clock.left < 1.2 * longest:
            break
        before = clock.left
        for way, run in runs.items():
            found[way]["ms"].append(burst_ms(run, request["burst"], device))
        longest = max(longest, before - clock.left)
    return found


def summary(ms: list[float], yardstick: list[float] | None) -> Line:
    """Return the middle and the smallest of the rounds, and the middle ratio to the yardstick.

    Args:
        ms: Milliseconds of an epoch, in each round.
        yardstick: Those of the yardstick in the same rounds; None if it was not timed.
    """
    ratios = [theirs / own for theirs, own in zip(yardstick or (), ms, strict=bool(yardstick))]
    return {
        "ms": round(statistics.median(ms), 4),
        "ms_smallest": round(min(ms), 4),
        "ratio": round(statistics.median(ratios), 3) if ratios else None,
        "rounds": [round(value, 4) for value in ms],
    }


def child(request: Line) -> Line:
    """Measure in a process of its own."""
    torch.set_num_threads(request["threads"])
    if request["measure"] == "memory":
        return {request["ways"][0]: memory_of(request["ways"][0], request)}
    clock = Clock(request["seconds"])
    memory: dict[str, int] = {}
    if request["device"] != "cpu":
        memory = {way: memory_of(way, request) for way in request["ways"]}
        gc.collect()
        torch.cuda.empty_cache()
    return {"times": time_all(request, clock), "memory": memory}


def measure(graph: str, asked: argparse.Namespace, clock: Clock, share: float) -> list[Line]:
    """Return a line for each way on one graph."""
    request: Line = {
        "graph": graph,
        "ways": asked.ways,
        "seconds": min(share, clock.left),
        "measure": "times",
        **{
            name: getattr(asked, name)
            for name in ("device", "threads", "hidden", "rounds", "burst", "data_root", "method")
        },
    }
    done = in_child(__file__, request, clock.left)
    if "failure" in done:
        return [{"kind": "epoch", "graph": graph, **done}]
    memory, times = done["memory"], done["times"]
    for way in asked.ways if asked.device == "cpu" else ():
        alone = {**request, "measure": "memory", "ways": [way]}
        memory |= in_child(__file__, alone, clock.left)
    is_ranking = asked.method != "cgcl"
    yardstick = times.get("readable" if is_ranking else YARDSTICK, {}).get("ms")
    return [
        {
            "kind": f"{asked.method} epoch" if is_ranking else "epoch",
            "graph": graph,
            "way": way,
            "engine": times[way]["engine"],
            "hidden": asked.hidden,
            **summary(times[way]["ms"], yardstick),
            "memory_bytes": memory.get(way),
        }
        for way in asked.ways
    ]


def main() -> None:
    """Measure every graph and write a line for each way."""
    parser = options(__doc__, "speed-epochs.jsonl")
    parser.add_argument("--graphs", default=",".join(GRAPHS))
    parser.add_argument("--method", choices=["cgcl", "cgcl-rank"], default="cgcl")
    parser.add_argument("--ways", help=f"of {'; '.join(WAYS)}")
    parser.add_argument("--hidden", type=int, default=512, help="width of the embeddings, d_v")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--burst", type=float, default=0.5, help="seconds of each way in a round")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        print(json.dumps(child(json.loads(asked.child))))
        return
    usual = _USUAL if asked.method == "cgcl" else ("readable", "fast")
    asked.ways = asked.ways.split(";") if asked.ways else list(usual)
    clock, lines, graphs = Clock(asked.seconds), Lines(asked.out), asked.graphs.split(",")
    for number, graph in enumerate(graphs):
        where = about(asked.device, asked.threads)
        for line in measure(graph, asked, clock, clock.left / (len(graphs) - number)):
            lines.add({**line, **where})
            print({name: value for name, value in line.items() if name != "rounds"}, flush=True)


if __name__ == "__main__":
    main()
