r"""The decoder made linear for each node, so that a matrix product can propose candidates.

The decoder is $w_2^\top \mathrm{ReLU}(W_1 h_{ij} + b_1) + b_2$ (Eq. 7) with
$h_{ij} = z_i \odot z_j$. For a fixed node i, replace the ReLU of unit u by the straight line that
fits it best over some partners r: with $a_{iru}$ what enters the unit, its slope is

$s_{iu} = \mathrm{Cov}_r(\mathrm{ReLU}(a_{iru}), a_{iru}) / \mathrm{Var}_r(a_{iru})$.

Then the logit of (i, j) is, up to a constant of node i, $(z_i \odot W_1^\top (s_i \odot w_2))^\top
z_j$: an inner product that orders node i's partners almost as the decoder does.
"""

from __future__ import annotations

import torch
from torch import Tensor

from cgcl.model.decoder import PairDecoder
from cgcl.seeds import stream

__all__ = ["REFERENCE_NODES", "linear_factors"]

REFERENCE_NODES = 64
"""Over how many partners, the same ones for every node, the lines are fitted."""

_NODES_AT_ONCE = 64
_TINY = 1e-30


@torch.no_grad()
def linear_factors(decoder: PairDecoder, z: Tensor) -> tuple[Tensor, Tensor]:
    """Return left and right, float [n, d_v]: node i ranks its partners j by left[i] @ right[j].

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
