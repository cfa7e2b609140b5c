"""A graph kept beside the model that was trained on it, with names, links and features."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cgcl.errors import CGCLError, ModelFileError
from cgcl.graph.graph import Graph
from cgcl.graph.structure import Structure
from cgcl.tensors import read_tensors, write_tensors

__all__ = ["read_stored_graph", "write_graph"]

_KIND = "cgcl graph 1"
_OPTIONAL = ("sides", "times", "feature_scale")


def write_graph(path: Path, graph: Graph) -> None:
    """Write a graph to one file that `read_stored_graph` gives back unchanged.

    Raises:
        ResourceError: The disk is full or the folder cannot be written.
    """
    encoded = [name.encode() for name in graph.names]
    ends = np.cumsum([len(name) for name in encoded], dtype=np.int64)
    tensors: dict[str, Tensor] = {
        "edges": graph.edges,
        "name_bytes": torch.frombuffer(
            bytearray(b"".join(encoded)) or bytearray(1), dtype=torch.uint8
        ),
        "name_ends": torch.from_numpy(ends),
    }
    if graph.x is not None and graph.x.is_sparse:
        tensors["x_indices"] = graph.x.indices()
        tensors["x_values"] = graph.x.values()
    elif graph.x is not None:
        tensors["x"] = graph.x
    for part in _OPTIONAL:
        if getattr(graph, part) is not None:
            tensors[part] = getattr(graph, part)
    if graph.structure is not None:
        tensors["feature_of_node"] = graph.structure.feature_of_node
    about = {
        "title": graph.title,
        "notes": list(graph.notes),
        "num_features": graph.num_features,
        "num_nonzeros": graph.num_nonzeros,
        "feature_names": list(graph.feature_names),
        "fingerprint": graph.fingerprint,
    }
    write_tensors(path, _KIND, tensors, about)


def read_stored_graph(path: Path) -> Graph:
    """Return the graph that `write_graph` stored.

    Raises:
        ModelFileError: The file is missing, damaged or not one of ours.
    """
    tensors, about = read_tensors(path, _KIND)
    try:
        graph = Graph(
            title=about["title"],
            names=_names(tensors["name_bytes"], tensors["name_ends"]),
            edges=tensors["edges"],
            x=_features(tensors, about["num_features"]),
            notes=tuple(about["notes"]),
            feature_names=tuple(about.get("feature_names", ())),
            structure=_structure(tensors, about),
            **{part: tensors.get(part) for part in _OPTIONAL},
        )
    except (KeyError, CGCLError) as error:
        raise ModelFileError(f"{path} does not hold a whole graph ({error}).") from error
    if graph.fingerprint != about["fingerprint"]:
        raise ModelFileError(f"{path} is damaged (its graph is not the one that was stored).")
    return graph


def _names(name_bytes: Tensor, name_ends: Tensor) -> tuple[str, ...]:
    joined = name_bytes.numpy().tobytes()
    ends = name_ends.tolist()
    return tuple(joined[a:b].decode() for a, b in zip([0, *ends[:-1]], ends, strict=True))


def _structure(tensors: dict[str, Tensor], about: dict[str, Any]) -> Structure | None:
    """Return how features are made; graphs of earlier versions hold the features themselves."""
    if "feature_of_node" not in tensors:
        return None
    return Structure(tensors["feature_of_node"], about["num_features"], about["num_nonzeros"])


def _features(tensors: dict[str, Tensor], num_features: int) -> Tensor | None:
    if "x_indices" not in tensors:
        return tensors.get("x")
    return torch.sparse_coo_tensor(
        tensors["x_indices"],
        tensors["x_values"],
        (tensors["name_ends"].numel(), num_features),
        check_invariants=True,
        is_coalesced=True,
    )
