"""Double-radius node labels: where a node of an enclosing subgraph lies between the two ends."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from cgcl.methods.subgraphs import Subgraphs

__all__ = ["LARGEST_LABEL", "drnl_labels"]

LARGEST_LABEL = 999
"""Nodes that lie further away share this label; the authors' table of labels is as long."""


def drnl_labels(subgraphs: Subgraphs) -> Tensor:
    r"""Return the label of every node, int64 [t].

    $f(i) = 1 + \min(d_x, d_y) + \lfloor d/2 \rfloor (\lfloor d/2 \rfloor + d \bmod 2 - 1)$ with
    $d = d_x + d_y$ (Zhang and Chen, NeurIPS 2018, Eq. 3): $d_x$ is the distance to the source on
    ways that avoid the target, and $d_y$ the other way round. Both ends have label 1, and a node
    that does not reach both of them has label 0.

    Args:
        subgraphs: What to label.
    """
    source, target = subgraphs.start[:-1], subgraphs.start[:-1] + 1
    to_source = _distances(subgraphs, source, avoiding=target)
    to_target = _distances(subgraphs, target, avoiding=source)
    both = to_source + to_target
    half = both // 2
    label = 1 + torch.minimum(to_source, to_target) + half * (half + both % 2 - 1)
    label = label.clamp(max=LARGEST_LABEL)
    label[(to_source < 0) | (to_target < 0)] = 0
    label[source] = 1
    label[target] = 1
    return label


def _distances(subgraphs: Subgraphs, begin: Tensor, avoiding: Tensor) -> Tensor:
    """Return the links between each node and the beginning of its subgraph, -1 for no way.

    All subgraphs are searched at once, one link further in each turn.

    Args:
        subgraphs: Where to go.
        begin: One node of each subgraph, int64 [p].
        avoiding: A node of each subgraph that no way leads through, int64 [p].
    """
    # NumPy picks out entries several times as fast as torch does on one thread.
    distance = np.full(subgraphs.nodes.numel(), -1)
    distance[begin.numpy()] = 0
    is_closed = np.zeros(distance.size, dtype=np.bool_)
    is_closed[avoiding.numpy()] = True
    here, there = subgraphs.edge_index.numpy()
    ahead = np.flatnonzero(~(is_closed[here] | is_closed[there]))
    turn = 0
    while True:
        turn += 1
        here, there = here[ahead], there[ahead]
        found = there[distance[here] == turn - 1]
        distance[found] = turn
        if found.size == 0:
            return torch.from_numpy(distance)
        ahead = np.flatnonzero(distance[there] < 0)
