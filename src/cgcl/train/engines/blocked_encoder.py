"""The encoder by hand: one pass forth and one pass back."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from cgcl.methods.method import Known
from cgcl.model import GCNEncoder
from cgcl.train.engines.blocked_features import Features, features_for
from cgcl.train.engines.blocked_sparse import Propagation, multiply


class BlockedEncoder:
    """Embeddings from a view, and the gradients in the encoder's weights."""

    def __init__(self, encoder: GCNEncoder, known: Known, *, is_symmetric: bool) -> None:
        """Set aside room for the embeddings.

        Args:
            encoder: Its weights are read at every step.
            known: Has the features, or makes them of the links of each view.
            is_symmetric: Whether every view holds both directions of its links.
        """
        self._encoder = encoder
        self._is_symmetric = is_symmetric
        self._known = known
        self.features: Features | None = None
        """X of the view that is seen, and what is dropped of it."""
        weight = encoder.weight
        self._h = torch.empty(known.num_nodes, weight.shape[1], dtype=weight.dtype)
        self._z = torch.empty_like(self._h)
        self._back: Tensor | None = None
        self.gradients = [torch.empty_like(p) for p in (encoder.weight, encoder.bias)]
        """In the order of the encoder's weights, after `back`."""

    def forth(self, edge_index: Tensor, generator: torch.Generator) -> Tensor:
        """Return the embeddings Z, [n, d_v], which the next call overwrites   (Eq. 5).

        Args:
            edge_index: The links of the view that is seen, int64 [2, e].
            generator: Source of the dropout coins.
        """
        propagation = Propagation(edge_index, self._z.shape[0], self._z.dtype)
        adjacency = propagation.matrix()
        self._back = adjacency if self._is_symmetric else propagation.transposed()
        features = self.see(edge_index)
        features.drop(generator)
        features.times(self._encoder.weight, out=self._h)
        multiply(adjacency, self._h, out=self._z)
        return functional.elu_(self._z.add_(self._encoder.bias))

    def see(self, edge_index: Tensor) -> Features:
        """Return X as a view has it: the same for all, or made of the view's links."""
        if self.features is None or self._known.structure is not None:
            x = self._known.features_along(edge_index)
            self.features = features_for(x, self._encoder.input_dropout)
        return self.features

    def back(self, into_z: Tensor) -> None:
        """Fill `gradients`.

        Args:
            into_z: The gradient of the loss in Z, [n, d_v]; it is overwritten.
        """
        if self._back is None or self.features is None:
            raise RuntimeError("There is no way back before the way forth.")
        into_weight, into_bias = self.gradients
        # ELU' follows from its result: 1 above zero, z + 1 below.
        torch.ops.aten.elu_backward.grad_input(into_z, 1, 1, 1, True, self._z, grad_input=into_z)
        torch.sum(into_z, dim=0, out=into_bias)
        multiply(self._back, into_z, out=self._h)
        self.features.transposed_times(self._h, out=into_weight)
