"""Scores of pairs by a trained network, in bounded memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property

import torch
from torch import Tensor, nn
from torch.nn import functional

from cgcl.methods.method import PairScorer
from cgcl.model import CGCL, PairDecoder
from cgcl.seeds import stream
from cgcl.tensors import matrix_products
from cgcl.workers import workers

BLOCK_PAIRS = 2**16
# 2^17 pairs at d_v = 512 take 256 MB on a GPU; a CPU is several times as fast on blocks that stay
# in its cache. A fixed size also fixes the order of every sum.
_GPU_ENTRIES, _CACHED_ENTRIES = 2**26, 2**19
_ROWS_TOGETHER = 64
# Fetching and multiplying an entry of two embeddings, in operations of the layers' products.
FETCH = 20.0
# Over how many partners, the same ones for every node, the decoder is made linear; for how many
# nodes at once; and what keeps a variance away from zero.
REFERENCE_NODES, _NODES_AT_ONCE, _TINY = 64, 64, 1e-30


@contextmanager
def evaluating(network: nn.Module) -> Iterator[None]:
    """Switch dropout, gradients and products of lower precision off for a while."""
    was_training = network.training
    network.eval()
    try:
        with torch.no_grad(), matrix_products(tf32=False):
            yield
    finally:
        network.train(was_training)


def block_size(width: int, device: torch.device | str = "cpu") -> int:
    """Return how many pairs are scored at once.

    Args:
        width: How many numbers are held for a pair, such as the width of the embeddings, d_v.
        device: Where it is computed.
    """
    entries = _CACHED_ENTRIES if torch.device(device).type == "cpu" else _GPU_ENTRIES
    return max(1, entries // max(width, 1))


def embed(model: CGCL, x: Tensor, edge_index: Tensor) -> Tensor:
    """Return the embeddings that the links in `edge_index` give, without dropout, [n, d_v]."""
    with evaluating(model):
        return model.encode(x, edge_index)


def decode_pairs(model: CGCL, z: Tensor, pairs: Tensor) -> Tensor:
    """Return the logits of `pairs` on the CPU, [p], computed block by block."""
    return DecoderScorer(model.decode, z).logits(pairs)


class EmbeddingScorer(PairScorer):
    """Scores a pair by the embeddings of its ends."""

    def __init__(
        self,
        network: nn.Module,
        z: Tensor,
        decode: Callable[[Tensor, Tensor], Tensor],
        operations: float,
    ) -> None:
        """Take the embeddings and what combines them.

        Args:
            network: What `decode` belongs to; dropout in it is off while it scores.
            z: Embeddings of all nodes, [n, width].
            decode: Returns the logits of pairs, [p], from embeddings and int64 [2, p].
            operations: How many multiplications and additions one pair takes.
        """
        self.z = z
        self.num_nodes = z.shape[0]
        self._network = network
        self._decode = decode
        self._operations = operations

    @property
    def cost_per_pair(self) -> float:
        """About how many operations one pair takes: the products, and fetching two embeddings."""
        return self._operations + FETCH * self.z.shape[1]

    @property
    def embeddings(self) -> Tensor:
        """What others may take a node for, [n, width]."""
        return self.z

    def logits(self, pairs: Tensor) -> Tensor:
        """Return the logits of pairs of node numbers, float32 [p] on the CPU."""
        return self._in_blocks(pairs.shape[1], lambda places: pairs[:, places]).cpu()

    def rows(self, nodes: Tensor, partners: Tensor | None = None) -> Tensor:
        """Return what each of some nodes scores with some or all, [nodes, n], where it lies."""
        partners = torch.arange(self.num_nodes) if partners is None else partners
        n, nodes, partners = partners.numel(), nodes.to(self.z.device), partners.to(self.z.device)

        def cells(places: slice) -> Tensor:
            place = torch.arange(places.start, places.stop, device=nodes.device)
            return torch.stack([nodes[place // n], partners[place % n]])

        return self._in_blocks(nodes.numel() * n, cells).view(-1, n)

    def _in_blocks(self, count: int, pairs_at: Callable[[slice], Tensor]) -> Tensor:
        """Return the logits of so many pairs, of which some at a time are looked up."""
        size, logits = block_size(self.z.shape[1], self.z.device), self.z.new_empty(count)
        starts = iter(range(0, count, size))

        def score(_: int) -> None:
            """Score blocks until none is left; each worker has room of its own to do it."""
            decode = self._decoding(min(size, count))
            with torch.no_grad():  # what `evaluating` says of gradients holds for its own thread
                for start in starts:
                    block = slice(start, min(start + size, count))
                    pairs = _padded(pairs_at(block)).to(self.z.device)
                    logits[block] = decode(self.z, pairs)[: block.stop - start]

        number = torch.get_num_threads()
        with evaluating(self._network):
            if self.z.is_cuda or number == 1 or count <= size:
                score(0)
                return logits
            with workers() as pool:
                list(pool.map(score, range(number)))
        return logits

    def _decoding(self, most_pairs: int) -> Callable[[Tensor, Tensor], Tensor]:  # noqa: ARG002
        """Return what decodes blocks of at most so many pairs."""
        return self._decode


def _padded(pairs: Tensor) -> Tensor:
    """Return the pairs with others after them, so that their number is a multiple of 64.

    A matrix product treats its last rows in another way than the others if they are not a whole
    block, and equal pairs would differ in the last bit.
    """
    return functional.pad(pairs, (0, -pairs.shape[1] % _ROWS_TOGETHER))


class DecoderScorer(EmbeddingScorer):
    """Scores pairs by the decoder that CGCL has, too."""

    def __init__(self, decoder: PairDecoder, z: Tensor) -> None:
        """Take the decoder and the embeddings of all nodes, [n, d_v]."""
        layer = decoder.layer_1
        super().__init__(decoder, z, decoder, 2.0 * layer.in_features * layer.out_features)
        self._decoder = decoder

    def _decoding(self, most_pairs: int) -> Callable[[Tensor, Tensor], Tensor]:
        is_plain = self._decoder.product == "hadamard" and self._decoder.last_layer == "linear"
        if is_plain and self.z.device.type == "cpu":
            return _decoding_in_place(self._decoder, self.z, most_pairs)
        return self._decoder

    def factors(self) -> tuple[Tensor, Tensor]:
        """Return the linearised decoder, two matrices [n, d_v]."""
        return self._factors

    @cached_property
    def _factors(self) -> tuple[Tensor, Tensor]:
        return linear_factors(self._decoder, self.z)


def _decoding_in_place(
    decoder: PairDecoder, z: Tensor, most_pairs: int
) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the decoder as a function that writes every block over the one before it.

    The same operations in the same order, so the same bits. To fetch fresh memory for each block
    can take several times as long as to compute it.
    """
    rows = most_pairs + -most_pairs % _ROWS_TOGETHER
    one, other = z.new_empty(rows, z.shape[1]), z.new_empty(rows, z.shape[1])
    inner = z.new_empty(rows, decoder.layer_1.out_features)
    first, last = decoder.layer_1, decoder.layer_2

    def decode(z: Tensor, pairs: Tensor) -> Tensor:
        count = pairs.shape[1]
        h = torch.index_select(z, 0, pairs[0], out=one[:count])
        h *= torch.index_select(z, 0, pairs[1], out=other[:count])
        a = torch.addmm(first.bias, h, first.weight.T, out=inner[:count]).relu_()
        return torch.addmm(last.bias, a, last.weight.T).squeeze(1)

    return decode


@torch.no_grad()
def linear_factors(decoder: PairDecoder, z: Tensor) -> tuple[Tensor, Tensor]:
    r"""Return left and right, float [n, d_v]: node i ranks its partners j by left[i] @ right[j].

    The decoder is $w_2^\top \mathrm{ReLU}(W_1 h_{ij} + b_1) + b_2$ (Eq. 7) with
    $h_{ij} = z_i \odot z_j$. For a fixed node i, replace the ReLU of unit u by the straight line
    that fits it best over some partners r: with $a_{iru}$ what enters the unit, its slope is

    $s_{iu} = \mathrm{Cov}_r(\mathrm{ReLU}(a_{iru}), a_{iru}) / \mathrm{Var}_r(a_{iru})$.

    Then the logit of (i, j) is, up to a constant of node i,
    $(z_i \odot W_1^\top (s_i \odot w_2))^\top z_j$: an inner product that orders node i's partners
    almost as the decoder does.

    Args:
        decoder: The decoder; with `product="inner"` too, where h is a single number.
        z: Embeddings of all nodes, [n, d_v].
    """
    nodes = torch.arange(z.shape[0], device=z.device)
    # The sample is always the same, so that the candidates are too.
    chosen = torch.randperm(z.shape[0], generator=stream(0, "linearised decoder"))
    partners = chosen[:REFERENCE_NODES].to(z.device)
    blocks = [
        z.index_select(0, some) * _weights(decoder, z, some, partners)
        for some in nodes.split(_NODES_AT_ONCE)
    ]
    return torch.cat(blocks) if blocks else z, z


def _weights(decoder: PairDecoder, z: Tensor, nodes: Tensor, partners: Tensor) -> Tensor:
    """Return what each entry of h weighs for each node, [nodes, d_v], or [nodes, 1]."""
    pairs = torch.cartesian_prod(nodes, partners).T
    entering = decoder.layer_1(decoder.pair_features(z, pairs))
    entering = entering.view(nodes.numel(), partners.numel(), -1)  # [nodes, partners, units]
    spread, leaving = _centred(entering), _centred(torch.relu(entering))
    covariance = (spread * leaving).sum(dim=1)
    slope = covariance / spread.square().sum(dim=1).clamp(min=_TINY)  # [nodes, units]
    return (slope * decoder.layer_2.weight) @ decoder.layer_1.weight


def _centred(values: Tensor) -> Tensor:
    return values - values.mean(dim=1, keepdim=True)


class InnerProductScorer(EmbeddingScorer):
    """Scores a pair by an inner product of two vectors and a term of each end."""

    def __init__(self, left: Tensor, right: Tensor, terms: Tensor) -> None:
        """Take the vectors of every node as left and as right end, [n, d], and its term, [n]."""
        super().__init__(nn.Identity(), right, self._products, 2.0 * right.shape[1])
        self._left = left
        self._terms = terms

    @property
    def cost_in_rows(self) -> float:
        """A product of matrices fetches nothing pair by pair."""
        return 2.0 * self.z.shape[1]

    @property
    def embeddings(self) -> Tensor:
        r"""Vectors whose inner products are the scores less the terms of both ends, [n, d].

        $l_{ik} = w_k r_{ik}$ is divided evenly: $\sqrt{|w_k|} r_{ik}$. Where a weight is negative,
        what two nodes have in common there counts against the score, and here for it.
        """
        return (self._left * self.z).abs().sqrt().copysign(self.z)

    def _products(self, z: Tensor, pairs: Tensor) -> Tensor:
        # The smaller node is the left one: rounding tells the ends apart.
        one, other = pairs.amin(dim=0), pairs.amax(dim=0)
        products = self._left.index_select(0, one) * z.index_select(0, other)
        ends = self._terms.index_select(0, one) + self._terms.index_select(0, other)
        return products.sum(dim=1) + ends

    @cached_property
    def rounding(self) -> float:
        """The most by which an entry of `rows` differs from `logits`; infinite if one may overflow.

        A sum of d products is off by less than d halves of a last place of the sum of their sizes,
        in whatever order it is made, and that is at most the product of the vectors' lengths.
        """
        if not self.num_nodes:
            return 0.0
        left, right = (m.norm(dim=1).max().double() for m in (self._left, self.z))
        size = float(left * right + 2 * self._terms.abs().max().double())
        last = torch.finfo(self.z.dtype)
        return (self.z.shape[1] + 8) * last.eps * size if size < last.max else math.inf

    def rows(self, nodes: Tensor, partners: Tensor | None = None) -> Tensor:
        """Return what each of some nodes scores with some or all, [nodes, n], where it lies."""
        partners = torch.arange(self.num_nodes) if partners is None else partners
        # Several threads may ask at once, and `evaluating` changes what all of them see.
        with evaluating(self._network) if self.z.is_cuda else torch.no_grad():
            scores = torch.addmm(
                rows_of(self._terms, partners),
                rows_of(self._left, nodes),
                rows_of(self.z, partners).T,
            )
            return scores.add_(rows_of(self._terms, nodes).unsqueeze(1))

    def factors(self) -> tuple[Tensor, Tensor]:
        """Return two matrices whose product orders a node's partners."""
        one = self._terms.new_ones(self._terms.shape[0], 1)
        return (
            torch.cat([self._left, one], dim=1),
            torch.cat([self.z, self._terms.unsqueeze(1)], dim=1),
        )


def rows_of(matrix: Tensor, nodes: Tensor) -> Tensor:
    """Return some rows of a matrix; neighbouring ones, in order, without a copy."""
    count = nodes.numel()
    if count and int(nodes[-1] - nodes[0]) + 1 == count and bool((nodes[1:] > nodes[:-1]).all()):
        return matrix[int(nodes[0]) : int(nodes[-1]) + 1]
    return matrix.index_select(0, nodes.to(matrix.device))
