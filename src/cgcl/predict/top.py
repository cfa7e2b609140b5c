"""The best new links, by exact scoring of all pairs, block by block."""

from __future__ import annotations

import time

import torch
from torch import Tensor

from cgcl.errors import ResourceError
from cgcl.graph import Graph
from cgcl.model import CGCL
from cgcl.train.scoring import BLOCK_PAIRS, decode_pairs

__all__ = ["require_affordable", "top_of_node", "top_pairs"]

_ALWAYS_AFFORDABLE = 10**9
_MAX_HOURS = 1.0


def require_affordable(model: CGCL, z: Tensor, graph: Graph) -> None:
    """Refuse to score all pairs of a graph that would keep the machine busy for hours.

    The time is measured on one block of pairs, and only for graphs where it could matter.

    Raises:
        ResourceError: It would take longer than an hour.
    """
    pairs = graph.num_nodes * (graph.num_nodes - 1) // 2
    if pairs <= _ALWAYS_AFFORDABLE:
        return
    block = torch.arange(2 * BLOCK_PAIRS).reshape(2, -1) % graph.num_nodes
    start = time.perf_counter()
    decode_pairs(model, z, block)
    hours = (time.perf_counter() - start) * pairs / BLOCK_PAIRS / 3600
    if hours > _MAX_HOURS:
        raise ResourceError(
            f"Scoring all pairs of {graph.num_nodes:,} nodes means {pairs / 1e9:,.1f} billion "
            f"pairs, about {hours:,.0f} hours.\nAsk for less: --node NAME or --pairs FILE."
        )


def top_pairs(model: CGCL, z: Tensor, graph: Graph, count: int) -> tuple[Tensor, Tensor]:
    """Return the `count` best unlinked pairs of the whole graph and their logits.

    Every pair is scored once; memory is bounded by one block and `count` pairs. Equal logits are
    put in the order of names.

    Args:
        model: The network.
        z: Embeddings of all nodes, [n, d_v].
        graph: Gives the links that are never suggested, and the names.
        count: How many pairs; fewer come back if the graph has fewer unlinked ones.
    """
    rank = _name_rank(graph)
    linked = graph.edges[0] * graph.num_nodes + graph.edges[1]  # sorted
    best_pairs, best_logits = torch.empty(2, 0, dtype=torch.int64), torch.empty(0)
    nodes = torch.arange(graph.num_nodes)
    rows = max(1, BLOCK_PAIRS // max(graph.num_nodes, 1))
    for low in nodes.split(rows):
        block = torch.cartesian_prod(low, nodes).T.contiguous()
        block = block[:, block[0] < block[1]]
        block = block[:, ~_is_in(block[0] * graph.num_nodes + block[1], linked)]
        best_pairs, best_logits = _keep_best(
            torch.cat([best_pairs, block], dim=1),
            torch.cat([best_logits, decode_pairs(model, z, block)]),
            rank,
            count,
        )
    return best_pairs, best_logits


def top_of_node(
    model: CGCL, z: Tensor, graph: Graph, node: int, count: int
) -> tuple[Tensor, Tensor]:
    """Return the `count` best unlinked pairs of one node, itself first in each, and their logits.

    Args:
        model: The network.
        z: Embeddings of all nodes, [n, d_v].
        graph: Gives the links that are never suggested, and the names.
        node: The node's number.
        count: How many pairs; fewer come back if the node has fewer unlinked partners.
    """
    is_neighbour = torch.zeros(graph.num_nodes, dtype=torch.bool)
    is_neighbour[graph.edges[1][graph.edges[0] == node]] = True
    is_neighbour[graph.edges[0][graph.edges[1] == node]] = True
    is_neighbour[node] = True
    partners = (~is_neighbour).nonzero().squeeze(1)
    pairs = torch.stack([torch.full_like(partners, node), partners])
    return _keep_best(pairs, decode_pairs(model, z, pairs), _name_rank(graph), count)


def _name_rank(graph: Graph) -> Tensor:
    """Return the place of each node when nodes are sorted by name."""
    order = sorted(range(graph.num_nodes), key=graph.names.__getitem__)
    rank = torch.empty(graph.num_nodes, dtype=torch.int64)
    rank[torch.tensor(order, dtype=torch.int64)] = torch.arange(graph.num_nodes)
    return rank


def _keep_best(pairs: Tensor, logits: Tensor, rank: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the `count` best, highest logit first, equal ones in the order of names.

    What is not a number comes first, so that it is noticed and not passed over.
    """
    if logits.numel() > count:
        # Everything not below the count-th best, so that ties at the edge are all compared.
        edge = logits.topk(count).values[-1]
        kept = ~(logits < edge)
        pairs, logits = pairs[:, kept], logits[kept]
    by_name = (rank[pairs[0]] * rank.numel() + rank[pairs[1]]).argsort()
    order = by_name[logits[by_name].argsort(descending=True, stable=True)][:count]
    return pairs[:, order], logits[order]


def _is_in(codes: Tensor, sorted_codes: Tensor) -> Tensor:
    if sorted_codes.numel() == 0:
        return torch.zeros_like(codes, dtype=torch.bool)
    place = torch.searchsorted(sorted_codes, codes).clamp(max=sorted_codes.numel() - 1)
    return sorted_codes[place] == codes
