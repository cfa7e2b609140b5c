"""CGCL that ranks: the paper's two views, asked for the top of the list."""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from cgcl.counter_rng import base_key, words
from cgcl.model.ops import LinearMap, dropout_by_bytes, spmm

# Keeps the length of nothing away from zero.
_TINY = 1e-6
# The signs of a node never change: they follow from its number.
_SIGNS = base_key(0, "signatures")


class RankingEncoder(nn.Module):
    r"""Node embeddings from features and one view's links, some layers deep.

    $Z^{(1)} = \mathrm{ELU}(\hat A X W + X W_s + b)$, the paper's Eq. 5 with a term of the node
    itself, then $Z^{(l)} = Z^{(l-1)} + \mathrm{ELU}(\hat A Z^{(l-1)} W_l + b_l)$.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        layers: int = 2,
        *,
        self_term: bool = True,
        input_dropout: float = 0.5,
        hidden_dropout: float = 0.5,
    ) -> None:
        """Create the weights.

        Args:
            in_channels: Number of features per node, d.
            hidden_channels: Width of the embeddings, d_v.
            layers: How many graph convolutions.
            self_term: Whether a node's own features count beside its neighbours'.
            input_dropout: Chance of a feature to be dropped while training.
            hidden_dropout: Chance of an entry between two layers to be dropped while training.
        """
        super().__init__()
        self.input_dropout = input_dropout
        self.hidden_dropout = hidden_dropout
        width = 2 * hidden_channels if self_term else hidden_channels
        # W beside W_s: one product with the features gives both, [d, d_v] or [d, 2 d_v].
        self.weight = nn.Parameter(torch.empty(in_channels, width))
        self.bias = nn.Parameter(torch.zeros(hidden_channels))
        self.deeper = nn.ModuleList(
            nn.Linear(hidden_channels, hidden_channels) for _ in range(layers - 1)
        )
        bound = math.sqrt(6 / (in_channels + hidden_channels))  # Glorot
        nn.init.uniform_(self.weight, -bound, bound)
        for name, weight in self.deeper.named_parameters():
            nn.init.zeros_(weight) if name.endswith("bias") else nn.init.xavier_uniform_(weight)

    def forward(self, x: Tensor, adjacency: Tensor) -> Tensor:
        """Return the embeddings Z, [n, d_v].

        Args:
            x: Features, [n, d], dense or coalesced sparse COO.
            adjacency: The normalised adjacency of Eq. 1, symmetric sparse CSR [n, n].
        """
        return self._deepen(self.inputs(x), adjacency)

    def of_links(self, linked: Tensor, feature_of_node: Tensor, adjacency: Tensor) -> Tensor:
        """Return the embeddings of a graph whose only features are its links, [n, d_v].

        Args:
            linked: Who is linked to whom, after dropout, symmetric sparse CSR [n, n].
            feature_of_node: Which feature speaks of each node, int64 [n]; -1 for none.
            adjacency: As in `forward`.
        """
        return self._deepen(self.inputs_of_links(linked, feature_of_node), adjacency)

    def inputs(self, x: Tensor) -> Tensor:
        """Return X W beside X W_s, [n, d_v] or [n, 2 d_v]; arguments as in `forward`."""
        return spmm(dropout_by_bytes(x, self.input_dropout, self.training), self.weight)

    def inputs_of_links(self, linked: Tensor, feature_of_node: Tensor) -> Tensor:
        """Return the same for a graph whose only features are its links."""
        return symmetric_product(linked, self.of_neighbours(feature_of_node))

    def of_neighbours(self, feature_of_node: Tensor) -> Tensor:
        """Return what a link to each node adds to its other end's inputs, [n, any].

        Args:
            feature_of_node: As in `of_links`; a node of which no feature speaks adds nothing.
        """
        adds_nothing = self.weight.new_zeros(1, self.weight.shape[1])
        place = feature_of_node.where(feature_of_node >= 0, self.weight.shape[0])
        return torch.cat([self.weight, adds_nothing]).index_select(0, place)

    def layer(self, number: int, messages: Tensor, before: Tensor) -> Tensor:
        """Return what a layer makes of what has arrived at each node, [any, d_v].

        Args:
            number: 0 for the first layer.
            messages: The normalised adjacency times the inputs, or the layer before.
            before: The layer before; for the first one the node's own term, if there is any.
        """
        if number:
            return before + functional.elu(self.deeper[number - 1](messages))
        z = messages + self.bias
        return functional.elu(z + before if before.shape[1] else z)

    def _deepen(self, h: Tensor, adjacency: Tensor) -> Tensor:
        width = self.bias.shape[0]
        # Not two slices: the backward pass of each would fill all of h.
        of_neighbours, own = h.split([width, h.shape[1] - width], dim=1)
        z = self.layer(0, symmetric_product(adjacency, of_neighbours), own)
        for number in range(1, 1 + len(self.deeper)):
            dropped = dropout_by_bytes(z, self.hidden_dropout, self.training)
            z = self.layer(number, symmetric_product(adjacency, dropped), z)
        return z


class RankingDecoder(nn.Module):
    r"""A symmetric inner product: all pairs are one matrix product.

    $s_{ij} = \frac{e^t}{\sqrt{d_v}} \sum_k w_k \bar z_{ik} \bar z_{jk} + p(\hat z_i) +
    p(\hat z_j)$ with $\bar z$ a layer norm of z and p, how sought-after a node is, linear in
    $\hat z = z / \sqrt{\lVert z \rVert}$, the length as a root mean square. A hub's z is long: of z
    itself its p would move far in every step, of $\bar z$ it would not know how long z is.

    Some w begin at -1. Were all positive, hardly a pair could score above twins, nodes with the
    same words and neighbours; but twins, such as two versions of a paper, are often not linked.
    """

    def __init__(
        self,
        hidden_channels: int,
        decoder_dropout: float = 0.2,
        *,
        norm: bool = True,
        popularity: bool = True,
        negative_share: float = 0.125,
        signatures: bool = False,
    ) -> None:
        """Create the weights.

        Args:
            hidden_channels: Width of the embeddings, d_v.
            decoder_dropout: Chance of an entry of an embedding to be dropped while training.
            norm: Whether embeddings are normalised first.
            popularity: Whether a node's own term p counts.
            negative_share: The share of the w that begin at -1.
            signatures: Whether shared neighbours count, by the product of signatures.
        """
        super().__init__()
        self.decoder_dropout = decoder_dropout
        self.norm = norm
        w = torch.ones(hidden_channels)
        w[: int(negative_share * hidden_channels)] = -1
        self.scale = nn.Parameter(w)
        self.temperature = nn.Parameter(torch.zeros(()))  # t
        self.popularity = nn.Linear(hidden_channels, 1) if popularity else None
        if self.popularity is not None:
            nn.init.zeros_(self.popularity.weight)
            nn.init.zeros_(self.popularity.bias)
        self.sharing = nn.Parameter(torch.ones(())) if signatures else None

    def forward(self, z: Tensor, signed: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Return left, right, [n, any], and p, [n], with s_ij = left_i . right_j + p_i + p_j.

        Args:
            z: Embeddings, [n, d_v].
            signed: Signatures, [n, k], if they count.
        """
        right = functional.layer_norm(z, z.shape[1:]) if self.norm else z
        right = dropout_by_bytes(right, self.decoder_dropout, self.training)
        p = z.new_zeros(z.shape[0])
        if self.popularity is not None:
            squared = z.square().mean(dim=1, keepdim=True)
            p = self.popularity(z * (squared + _TINY).pow(-0.25)).squeeze(1)
        if self.sharing is not None and signed is not None:
            right = torch.cat([right, signed], dim=1)
        return right * self.weights(right.shape[1]), right, p

    def weights(self, width: int) -> Tensor:
        """Return what each product of two entries counts, [width].

        Args:
            width: How many entries a node has, signatures included.
        """
        w = self.scale * (self.temperature.exp() / math.sqrt(self.scale.numel()))
        if self.sharing is None:
            return w
        return torch.cat([w, self.sharing.expand(width - w.numel())])


def signatures(counted: Tensor, count: int, numbers: Tensor | None = None) -> Tensor:
    r"""Return vectors whose inner products estimate what two nodes share, [n, k].

    With R of random signs, $E[(B R)(B R)^\top / k] = B B^\top$: for $B = A D^{-1/2}$ that is
    resource allocation.

    Args:
        counted: B, sparse CSR [n, n], or some of its rows and columns.
        count: k; the estimate's error falls with its square root.
        numbers: The node of each column, int64, if these are not all nodes.
    """
    if numbers is None:
        numbers = torch.arange(counted.shape[1], device=counted.device)
    dims = torch.arange(count, device=counted.device).unsqueeze(0)
    signs = 2 * (words(_SIGNS, numbers.unsqueeze(1), dims) & 1) - 1
    return _product(counted, signs.to(counted.dtype)) / math.sqrt(count)


def _product(matrix: Tensor, dense: Tensor) -> Tensor:
    if torch.are_deterministic_algorithms_enabled() and dense.device.type != "cpu":
        return spmm(matrix.to_sparse_coo(), dense)
    return matrix @ dense.contiguous()


def symmetric_product(matrix: Tensor, dense: Tensor) -> Tensor:
    """Return `matrix @ dense` for a symmetric sparse CSR matrix, [n, k].

    The gradient is one more such product.
    """
    times = partial(_product, matrix)
    return LinearMap.apply(dense, times, times)
