"""DGCNN: a score for each of many small graphs (Zhang et al., AAAI 2018), as SEAL uses it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from cgcl.methods.drnl import LARGEST_LABEL
from cgcl.methods.labelled import Batch

__all__ = ["DGCNN", "Rows", "row_sums", "sort_pooled"]

_CHANNELS = (16, 32)
_KERNEL = 5
_DENSE = 128
_FEWEST_SORTED = 10


@dataclass(frozen=True, eq=False)
class Rows:
    """A sparse matrix, row after row."""

    start: Tensor
    """Where each row begins in `index`, int64 [r]."""
    index: Tensor
    """The column of each entry, int64 [e]."""
    weight: Tensor | None = None
    """The value of each entry, float32 [e]; None if all are 1."""

    def times(self, h: Tensor) -> Tensor:
        """Return the product with a dense matrix, [r, any]."""
        return functional.embedding_bag(
            self.index, h, self.start, mode="sum", per_sample_weights=self.weight
        )


class _RowSums(torch.autograd.Function):
    """A sparse product whose gradient is one, too: several times as fast as torch's own."""

    @staticmethod
    def forward(*args: Any, **_: Any) -> Tensor:  # noqa: ANN401
        ctx, h, rows, transposed = args
        ctx.transposed = transposed
        product: Tensor = rows.times(h)
        return product

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:  # noqa: ANN401
        return ctx.transposed.times(gradients[0].contiguous()), None, None


def row_sums(h: Tensor, rows: Rows, transposed: Rows) -> Tensor:
    """Return the product of a sparse matrix with `h`, [r, any].

    Args:
        h: What is multiplied, [c, any].
        rows: The matrix, [r, c].
        transposed: The same matrix the other way round, for the gradient.
    """
    product: Tensor = _RowSums.apply(h, rows, transposed)
    return product


def sort_pooled(h: Tensor, owner: Tensor, start: Tensor, size: int) -> Tensor:
    """Return the nodes of each graph with the largest last entries, in falling order.

    A graph with fewer nodes is filled up with zeros; of equal nodes the earlier one comes first.

    Args:
        h: A row for each node, [t, width].
        owner: Which graph each belongs to, int64 [t]; it never falls.
        start: Where each graph begins, int64 [b + 1].
        size: How many nodes of each are kept.

    Returns:
        The rows of each graph, [b, size, width].
    """
    by_value = h.detach()[:, -1].argsort(descending=True, stable=True)
    order = by_value.index_select(0, owner.index_select(0, by_value).argsort(stable=True))
    rank = torch.arange(owner.numel(), device=h.device) - start.index_select(0, owner)
    kept = (rank < size).nonzero().squeeze(1)
    place = owner.index_select(0, kept) * size + rank.index_select(0, kept)
    num_graphs = start.numel() - 1
    empty = h.new_zeros(num_graphs * size, h.shape[1])
    filled = empty.index_copy(0, place, h.index_select(0, order.index_select(0, kept)))
    return filled.view(num_graphs, size, h.shape[1])


class DGCNN(nn.Module):
    r"""One number for each labelled subgraph.

    Layers of graph convolutions, $H_{l+1} = \tanh(\hat A H_l W_l + b_l)$, the last one of a single
    channel; all their outputs side by side; the first k nodes by the last channel; a convolution
    over each node, pooling, a convolution over five, and two dense layers.

    k is only known when the training links are. The dense layer is therefore made for the largest
    k that can be, a matrix for each place, and the matrices beyond k are never touched.
    """

    sorted_nodes: Tensor

    def __init__(self, num_features: int, hidden: int, layers: int, most_sorted: int) -> None:
        """Create the weights.

        Args:
            num_features: Features of each node, d; 0 for labels only.
            hidden: Width of the layers and of the labels' vectors.
            layers: Graph convolutions before the one of a single channel.
            most_sorted: The largest k.
        """
        super().__init__()
        widths = [hidden] * layers + [1]
        self.label = nn.Parameter(torch.empty(LARGEST_LABEL + 1, hidden))
        self.features = nn.Parameter(torch.empty(num_features, hidden)) if num_features else None
        self.weights = nn.ParameterList(nn.Parameter(torch.empty(hidden, w)) for w in widths)
        self.biases = nn.ParameterList(nn.Parameter(torch.zeros(w)) for w in widths)
        self.per_node = nn.Linear(hidden * layers + 1, _CHANNELS[0])
        self.per_five = nn.Conv1d(*_CHANNELS, _KERNEL)
        self.dense = nn.ParameterList(
            nn.Parameter(torch.empty(_DENSE, _CHANNELS[1])) for _ in range(_remaining(most_sorted))
        )
        self.dense_bias = nn.Parameter(torch.empty(_DENSE))
        self.score = nn.Linear(_DENSE, 1)
        # k, or 0 as long as it is not chosen
        self.register_buffer("sorted_nodes", torch.zeros((), dtype=torch.int64))
        self._most_sorted = most_sorted
        self._reset(num_features)

    def _reset(self, num_features: int) -> None:
        """Draw the weights as the layers of PyTorch and PyTorch Geometric do."""
        nn.init.normal_(self.label)
        for weight in self.weights:
            nn.init.xavier_uniform_(weight)
        # The first layer takes label and features side by side: one matrix, drawn as such.
        hidden = self.label.shape[1]
        bound = math.sqrt(6 / (hidden + num_features + self.weights[0].shape[1]))
        nn.init.uniform_(self.weights[0], -bound, bound)
        if self.features is not None:
            nn.init.uniform_(self.features, -bound, bound)
        bound = 1 / math.sqrt(_CHANNELS[1])
        for weight in (*self.dense, self.dense_bias):
            nn.init.uniform_(weight, -bound, bound)

    @property
    def multiplications_per_node(self) -> float:
        """How many multiplications one node of a subgraph takes, about."""
        convolutions = sum(weight.numel() for weight in self.weights)
        return convolutions + self.per_node.weight.numel()

    @torch.no_grad()
    def choose_sorted_nodes(self, sizes: Tensor) -> None:
        """Let k be the size that 60 % of the subgraphs do not exceed, and ten at least.

        Args:
            sizes: Number of nodes of each subgraph to learn from, int64 [p].
        """
        place = max(math.ceil(0.6 * sizes.numel()) - 1, 0)
        size = int(sizes.sort().values[place]) if sizes.numel() else 0
        self.sorted_nodes.fill_(min(max(size, _FEWEST_SORTED), self._most_sorted))
        # The first weights of a dense layer shrink with the number of its inputs.
        scale = 1 / math.sqrt(_remaining(int(self.sorted_nodes)))
        for weight in (*self.dense, self.dense_bias):
            weight.mul_(scale)

    def forward(self, batch: Batch, features: Tensor | None) -> Tensor:
        """Return the logit of each pair, [b].

        Args:
            batch: The labelled subgraphs.
            features: Each node's features times the first layer's weights, [t, hidden], or None.
        """
        h = self.label.index_select(0, batch.labels)
        scale = (batch.degree + 1).to(h.dtype).rsqrt().unsqueeze(1)  # D~^(-1/2), [t, 1]
        links = Rows(batch.degree.cumsum(0) - batch.degree, batch.neighbours)
        outputs: list[Tensor] = []
        for weight, bias in zip(self.weights, self.biases, strict=True):
            h = _product(h, weight)
            if features is not None and not outputs:
                h = h + features
            h = scale * h
            h = scale * (row_sums(h, links, links) + h)  # D~^(-1/2) (A + I) D~^(-1/2) H
            h = torch.tanh(h + bias)
            outputs.append(h)
        return self._readout(torch.cat(outputs, dim=1), batch)

    def _readout(self, h: Tensor, batch: Batch) -> Tensor:
        size = int(self.sorted_nodes) or _FEWEST_SORTED
        h = sort_pooled(h, batch.owner, batch.start, size)  # [b, k, layers * hidden + 1]
        h = functional.relu(self.per_node(h)).transpose(1, 2)  # [b, 16, k]
        h = functional.relu(self.per_five(functional.max_pool1d(h, 2)))  # [b, 32, remaining]
        places = h.shape[2]
        dense = torch.cat([self.dense[place] for place in range(places)], dim=1)
        h = h.transpose(1, 2).flatten(1)  # [b, remaining * 32]
        h = functional.relu(functional.linear(h, dense, self.dense_bias))
        h = functional.dropout(h, 0.5, self.training)
        return (_product(h, self.score.weight.T) + self.score.bias).squeeze(1)


def _product(h: Tensor, weight: Tensor) -> Tensor:
    """Return `h @ weight`, each row to the same last bit whatever rows there are besides.

    A product with a single column is computed in another way for every number of rows.
    """
    return h @ weight if weight.shape[1] > 1 else (h * weight.T).sum(dim=1, keepdim=True)


def _remaining(sorted_nodes: int) -> int:
    """Return how many places are left of k after pooling pairs and a convolution over five."""
    return sorted_nodes // 2 - _KERNEL + 1
