"""Where the time of an epoch goes, by part, and on a GPU by kernel, beside the least possible.

    python benchmarks/speed/breakdown.py --device cpu --threads 2 --graphs cora,photo
    python benchmarks/speed/breakdown.py --device cuda --seconds 120

torch's profiler says how the time is shared out; the milliseconds are those of the same epochs
without it. The least possible is arithmetic and memory traffic against the machine: on a GPU
against the figures given as options, on a CPU against what the same run measures.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from importlib import import_module
from typing import Any
from unittest import mock

import torch
from epochs import WAYS, load, make_run
from floor import Machine, floor_ms, work_of
from measuring import GRAPHS, Clock, Line, Lines, Run, about, burst_ms, in_child, options
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile, record_function

__all__ = ["PARTS", "WATCHED", "part_of_kernel", "shares", "watching"]

PARTS = ("features", "propagation", "decoder", "optimizer", "draws", "other")
_MARK = "part: "

# Functions to watch on the CPU, by part; the innermost one that is running counts.
WATCHED: dict[str, tuple[str, ...]] = {
    "draws": ("cgcl.methods.cgcl:draw", "cgcl.train.engines.blocked:draw"),
    "features": (
        "cgcl.model.encoder:GCNEncoder.forward",
        *(
            f"cgcl.train.engines.blocked_features:{kind}.{name}"
            for kind in ("DenseFeatures", "SparseFeatures")
            for name in ("drop", "times", "transposed_times")
        ),
    ),
    "propagation": (
        "cgcl.model.encoder:propagate",
        "cgcl.train.engines.blocked:BlockedEncoder.forth",
        "cgcl.train.engines.blocked:BlockedEncoder.back",
    ),
    "decoder": (
        "cgcl.model.decoder:PairDecoder.forward",
        "cgcl.model.cgcl:consistency_loss",
        "cgcl.train.engines.blocked:scored_pairs",
        "cgcl.train.engines.blocked:BlockedDecoder.run",
    ),
}
# Kernels of a GPU, by part; the first that fits counts.
_KERNELS = (
    ("optimizer", r"adam"),
    ("decoder", r"decod|layer_gradient|_tiles|link_costs|add_up|add_links|normalise"),
    ("draws", r"draw_|scale_nodes|see_links|sort_links"),
    ("propagation", r"propagate|elu|send|first_layer|activate|add_columns"),
    ("features", r"multiply|drop_features|gemm|nvjet|cutlass|bmm"),
)
_TOP_KERNELS = 15


def part_of_kernel(name: str) -> str:
    """Return the part of an epoch that a kernel of the fast engine belongs to."""
    return next((part for part, words in _KERNELS if re.search(words, name)), "other")


@contextmanager
def watching(watched: dict[str, tuple[str, ...]]) -> Iterator[None]:
    """Mark in the profile when one of these functions runs, for a while.

    Args:
        watched: By part, `module:name` or `module:Class.name`.
    """
    with ExitStack() as stack:
        for part, places in watched.items():
            for place in places:
                module, _, path = place.partition(":")
                owner: Any = import_module(module)
                *outer, name = path.split(".")
                for step in outer:
                    owner = getattr(owner, step)
                stack.enter_context(
                    mock.patch.object(owner, name, _marked(getattr(owner, name), part))
                )
        yield


def _marked(function: Callable[..., Any], part: str) -> Callable[..., Any]:
    @wraps(function)
    def marked(*values: Any, **named: Any) -> Any:  # noqa: ANN401
        with record_function(_MARK + part):
            return function(*values, **named)

    return marked


def shares(events: list[Any]) -> dict[str, float]:
    """Return which share of the operators' time each part takes.

    An operator belongs to the innermost mark around it; in a backward pass, where there is none,
    to the part of the forward operator with the same sequence number.

    Args:
        events: What torch's profiler saw on the CPU.
    """
    forward: dict[int, str] = {}
    for event in events:
        part = _marked_part(event)
        if part and event.sequence_nr >= 0 and not event.fwd_thread:
            forward[event.sequence_nr] = part
    spent: dict[str, float] = defaultdict(float)
    for event in events:
        part = _marked_part(event) or _backward_part(event, forward) or "other"
        spent[part] += event.self_cpu_time_total
    whole = sum(spent.values())
    return {part: spent[part] / whole if whole else 0.0 for part in PARTS}


def _marked_part(event: Any) -> str | None:  # noqa: ANN401
    while event is not None:
        if event.name.startswith(_MARK):
            return event.name.removeprefix(_MARK)
        if event.name.startswith(("Optimizer.", "aten::_fused_adam")):
            return "optimizer"
        event = event.cpu_parent
    return None


def _backward_part(event: Any, forward: dict[int, str]) -> str | None:  # noqa: ANN401
    while event is not None:
        if event.fwd_thread and event.sequence_nr in forward:
            return forward[event.sequence_nr]
        event = event.cpu_parent
    return None


def profile_cpu(run: Run, seconds: float) -> Line:
    """Return the shares of the parts on the CPU."""
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        burst_ms(run, seconds, torch.device("cpu"))
    return {"shares": shares(list(seen.events() or ()))}


def profile_gpu(run: Run, seconds: float, ms: float) -> Line:
    """Return what each kernel takes of an epoch, and the shares of the parts."""
    done = 0

    def counted() -> int:
        nonlocal done
        epochs = run()
        done += epochs
        return epochs

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        burst_ms(counted, seconds, torch.device("cuda"))
    kernels = [
        {
            "name": event.key[:80],
            "part": part_of_kernel(event.key),
            "ms": event.self_device_time_total / 1e3 / done,
            "calls": event.count / done,
        }
        for event in seen.key_averages()
        # Marks around several kernels are not kernels.
        if event.device_type == DeviceType.CUDA and not event.is_user_annotation
    ]
    kernels.sort(key=lambda kernel: -kernel["ms"])
    busy = dict.fromkeys(PARTS, 0.0)
    for kernel in kernels:
        busy[kernel["part"]] += kernel["ms"]
    whole = max(ms, sum(busy.values()))
    parts = {part: value / whole for part, value in busy.items()}
    # What no kernel fills: the device waits for the host or between kernels.
    return {
        "shares": {**parts, "idle": 1 - sum(parts.values())},
        "kernels": kernels[:_TOP_KERNELS],
    }


def cpu_machine() -> Machine:
    """Measure the best matrix product and the best copy on this machine, now."""
    a, b = torch.rand(4096, 512), torch.rand(512, 256)
    big = torch.rand(2**25)
    there = torch.empty_like(big)
    product = _best_seconds(lambda: torch.mm(a, b))
    copied = _best_seconds(lambda: there.copy_(big))
    return Machine(2 * 4096 * 512 * 256 / product / 1e12, 2 * 4 * big.numel() / copied / 1e12)


def _best_seconds(action: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(9):
        start = time.perf_counter()
        action()
        best = min(best, time.perf_counter() - start)
    return best


def child(request: Line) -> Line:
    """Profile one way on one graph."""
    torch.set_num_threads(request["threads"])
    device = torch.device(request["device"])
    graph, x, split = load(request)
    run, engine = make_run(request["way"], graph, x, split, request)
    for _ in range(2):
        run()
    ms = burst_ms(run, request["burst"], device)
    if device.type == "cpu":
        machine = cpu_machine()
        with watching(WATCHED):
            seen = profile_cpu(run, request["burst"])
    else:
        machine = Machine(request["tflops"], request["tb_per_s"])
        seen = profile_gpu(run, request["burst"], ms)
    nonzeros = x.values() if x.is_sparse else x
    work = work_of(
        nodes=x.shape[0],
        features=x.shape[1],
        nonzeros=int(nonzeros.count_nonzero()),
        links=split.train.shape[1],
        hidden=request["hidden"],
        views=WAYS[request["way"]].views,
    )
    return {
        "engine": engine,
        "ms": ms,
        **seen,
        "floor_ms": floor_ms(work, machine),
        "tflop": sum(part.flops for part in work.values()) / 1e12,
        "gigabytes": sum(part.bytes for part in work.values()) / 1e9,
        "machine": {"tflops": machine.tflops, "tb_per_s": machine.tb_per_s},
    }


def main() -> None:
    """Profile every graph and write a line for each."""
    parser = options(__doc__, "speed-breakdown.jsonl")
    parser.add_argument("--graphs", default=",".join(GRAPHS))
    parser.add_argument("--ways", default="fast", help=f"apart by ;, of {'; '.join(WAYS)}")
    parser.add_argument("--hidden", type=int, default=512, help="width of the embeddings, d_v")
    parser.add_argument("--burst", type=float, default=1.0, help="seconds to time and to profile")
    parser.add_argument("--tflops", type=float, default=494, help="of the GPU; H200 in TF32: 494")
    parser.add_argument("--tb-per-s", type=float, default=4.8, help="of its memory; H200: 4.8")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        print(json.dumps(child(json.loads(asked.child))))
        return
    clock, lines = Clock(asked.seconds), Lines(asked.out)
    names = ("device", "threads", "hidden", "burst", "tflops", "tb_per_s", "data_root")
    chosen = {name: getattr(asked, name) for name in names}
    for graph in asked.graphs.split(","):
        for way in asked.ways.split(";"):
            where = about(asked.device, asked.threads)
            found = in_child(__file__, {"graph": graph, "way": way, **chosen}, clock.left)
            line = {"kind": "breakdown", "graph": graph, "way": way, "hidden": asked.hidden}
            lines.add({**line, **found, **where})
            print({**line, **found}, flush=True)


if __name__ == "__main__":
    main()
