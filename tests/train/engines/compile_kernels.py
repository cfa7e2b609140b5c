"""Compile every kernel of the GPU engine for a Hopper card, without one; print what was compiled.

    python tests/train/engines/compile_kernels.py 512 tf32 given

Triton's interpreter runs what its compiler may refuse. The arguments are those of a real epoch: the
engine is set up on the CPU, and starting a kernel compiles it instead.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import mangle_type

from cgcl.graph.features import Structure
from cgcl.methods.cgcl import CrossViewLearner
from cgcl.methods.cgcl_rank import RankingLearner
from cgcl.methods.method import TrainingGraph
from cgcl.methods.settings import CGCLSettings, RankSettings
from cgcl.train.engines import all_pairs, fused, gpu, recorded

HOPPER = GPUTarget("cuda", 90, 32)
OPTIONS = {"num_warps", "num_stages"}

compiled: dict[str, int] = {}


def compile_instead(kernel: Any, *grid: int) -> Callable[..., None]:
    def start(*values: Any, **named: Any) -> None:
        options = {name: value for name, value in named.items() if name in OPTIONS}
        given = dict(zip(kernel.arg_names, values, strict=False))
        given |= {name: value for name, value in named.items() if name not in OPTIONS}
        fixed = {param.name for param in kernel.params if param.is_constexpr}
        signature = {
            name: "constexpr" if name in fixed else mangle_type(given[name])
            for name in kernel.arg_names
        }
        source = ASTSource(kernel, signature, {name: given[name] for name in fixed})
        done = triton.compile(source, target=HOPPER, options=options)
        assert done.asm["cubin"]
        name = kernel.fn.__name__
        compiled[name] = max(compiled.get(name, 0), done.metadata.shared)

    return start


def main(width: int, precision: str, features: str) -> None:
    for module in (all_pairs, fused, gpu, recorded):
        module.launch = compile_instead
    settings = CGCLSettings(hidden=width)
    links = torch.combinations(torch.arange(13), 2).T[:, :30]
    x = torch.rand(13, 30) if features == "given" else Structure.of(links, 13)
    known = TrainingGraph(13, links, x)
    learner = CrossViewLearner(known.num_features, settings)
    runs = fused.FusedRuns([learner], [known], [settings], [0], precision)
    runs.run_epoch()
    runs.decoder.logits(links.to(torch.int32)[None])
    if precision == "tf32":  # the others have the same kernels of CGCL-rank
        told = RankSettings(hidden=width, layers=3, norm=features == "given")
        ranking = RankingLearner(known.num_features, told)
        recorded.RecordedEngine(recorded.RankingSteps(ranking, known, told, 0)).run(1, 1)
    print(json.dumps(compiled))


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
