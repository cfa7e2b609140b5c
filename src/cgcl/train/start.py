"""How a run begins: from a graph, or from the folder of a run that was stopped."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cgcl.errors import ConfigError, RunFolderError
from cgcl.graph import Graph
from cgcl.graph.features import prepare
from cgcl.graph.graph import read_stored_graph, write_graph
from cgcl.methods.settings import CGCLSettings, RankSettings
from cgcl.settings import pick
from cgcl.split import Split, random_split
from cgcl.split.split import read_split, write_split
from cgcl.train.config import Resources
from cgcl.train.estimate import estimate_graph, require_memory
from cgcl.train.execution import machine, resolve_device, versions
from cgcl.train.model_file import count_weights
from cgcl.train.recipe import Recipe
from cgcl.train.run import Run
from cgcl.train.run_folder import GRAPH, SPLIT, RunFolder, read_run

__all__ = ["resume_run", "start_run"]

# Files of a run in units of the weights' size: two checkpoints (weights, best weights, two
# moments each) and the model.
_WEIGHT_COPIES = 9


def start_run(
    graph: Graph,
    recipe: Recipe,
    resources: Resources,
    out: Path,
    command: str,
    split: Split | None = None,
) -> Run:
    """Split the graph and make a run folder that holds all a run needs to begin.

    Args:
        graph: The graph to train on; without features, some are made from the training links if
            the method needs any.
        recipe: The method, its settings and the shares to hold out.
        resources: Where and how long to compute.
        out: The folder to make the run folder in.
        command: How to repeat this run, for the report.
        split: The split of the graph's links; drawn at random if None.

    Raises:
        SplitError: The graph has too few links, or too few unlinked pairs.
        ResourceError: The folder cannot be written, the device does not exist, or there is not
            enough memory.
    """
    device = resolve_device(resources)
    if split is None:
        split = random_split(graph, recipe.split.val, recipe.split.test, recipe.split.seed)
    needs_features = recipe.method.needs_features
    graph = prepare(graph, split.train) if needs_features else graph
    if device.type == "cpu" and isinstance(recipe.settings, (CGCLSettings, RankSettings)):
        require_memory(estimate_graph(graph, recipe.settings, recipe.split, resources=resources))
    weights = count_weights(graph.num_features if needs_features else 0, recipe)
    files = 4 * _WEIGHT_COPIES * weights + 24 * graph.num_nonzeros + 32 * graph.num_edges
    folder = RunFolder.create(out, graph.title, needed_bytes=files)
    run = Run(folder, graph, split, recipe, resources, {})
    run.about |= _first_description(run, command, weights, machine(resources, device))
    try:
        write_graph(folder.path / GRAPH, graph)
        write_split(folder.path / SPLIT, split)
        folder.write_run(run.about)  # last, so that a folder with a run.json is complete
    except BaseException:
        folder.close()
        raise
    return run


def _first_description(
    run: Run, command: str, weights: int, machine: dict[str, Any]
) -> dict[str, Any]:
    """Return what `run.json` says before anything is trained; nothing in it is ever missing."""
    graph = run.graph
    return {
        "format": 1,
        "status": "running",
        "command": command,
        "graph": {
            "title": graph.title,
            "nodes": graph.num_nodes,
            "links": graph.num_edges,
            "features": graph.num_features,
            "feature_nonzeros": graph.num_nonzeros,
            "fingerprint": graph.fingerprint,
            "notes": list(graph.notes),
        },
        "split": run.split.sizes,
        "config": {**run.recipe.to_json(), **asdict(run.resources)},
        "parameters": weights,
        "versions": versions(),
        **machine,
        "engine": None,
        "machines": [],
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "seconds": 0.0,
        "epochs": 0,
        "best_epoch": None,
        "val": None,
        "test": None,
        "stopped": None,
    }


def resume_run(path: Path, resources: Resources | None = None) -> Run:
    """Open a run folder to go on where it was stopped.

    Args:
        path: The run folder.
        resources: Where and how long to compute from here on; as before if None.

    Raises:
        RunFolderError: There is no run in the folder, it is damaged, or in use.
        ModelFileError: The graph or the split in the folder is damaged.
    """
    read_run(path)  # before the lock, which would create a file in a folder that is no run
    folder = RunFolder(path)
    try:
        return _open_run(folder, resources)
    except BaseException:
        folder.close()
        raise


def _open_run(folder: RunFolder, resources: Resources | None) -> Run:
    path, about = folder.path, read_run(folder.path)
    graph, split = read_stored_graph(path / GRAPH), read_split(path / SPLIT)
    if graph.fingerprint != about["graph"]["fingerprint"]:
        raise RunFolderError(
            f"{path} holds another graph than the one its run was started with. Nothing was "
            f"changed. Put the right {GRAPH} back, or train again."
        )
    try:
        recipe = Recipe.from_json(about["config"])
        resources = resources or pick(Resources, about["config"])
    except (KeyError, TypeError, ConfigError) as error:
        raise RunFolderError(
            f"The run's settings in run.json are damaged ({error}). Train again with cgcl train."
        ) from error
    about["config"] |= asdict(resources)
    return Run(folder, graph, split, recipe, resources, about)
