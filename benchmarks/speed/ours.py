"""Our own training, ready to be timed: the trainer of `cgcl train` without its looks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from cgcl.graph import Graph
from cgcl.methods.settings import PRESETS
from cgcl.split import Split
from cgcl.train.config import Resources, RunConfig
from cgcl.train.trainer import Trainer

__all__ = ["Strategy", "ranking_recipe", "recipe_for", "resources_for", "trainer_for"]


@dataclass(frozen=True)
class Strategy:
    """One way to train."""

    engine: Literal["auto", "plain"] = "auto"
    """`auto` is the fast one, `plain` the readable torch path."""
    views: str = "disjoint"
    precision: Literal["tf32", "fp32"] = "tf32"
    """Of matrix products on a GPU; a CPU always computes in fp32."""
    deterministic: bool = False
    """Whether the last bits repeat on a GPU."""


# No look at validation links falls into the time of an epoch.
_NEVER = 10_000_000
_ENDLESS = {"epochs": _NEVER, "evaluate_every": _NEVER}


def recipe_for(hidden: int, views: str, **settings: float) -> RunConfig:
    """Return the `paper` preset with another width and other views, for epochs without end."""
    chosen = {**PRESETS["paper"], **_ENDLESS, "hidden": hidden, "views": views, **settings}
    return RunConfig.of("cgcl", chosen)


def ranking_recipe(graph: Graph, hidden: int) -> RunConfig:
    """Return what the rule for CGCL-rank chooses as `best`, of a width, for epochs without end."""
    return RunConfig.for_graph("cgcl-rank", {"preset": "best", **_ENDLESS, "hidden": hidden}, graph)


def resources_for(way: Strategy, device: torch.device, threads: int) -> Resources:
    """Return where and how to compute."""
    return Resources(
        device=str(device),
        threads=threads,
        engine=way.engine,
        precision=way.precision,
        deterministic=way.deterministic,
    )


def trainer_for(
    x: Tensor, split: Split, recipe: RunConfig, device: torch.device, resources: Resources
) -> Trainer:
    """Return a trainer that has not begun."""
    return Trainer(x, split, recipe, device, resources=resources)
