"""What the search for new links needs to know about a method: how it scores a pair."""

from __future__ import annotations

from functools import cached_property
from typing import Protocol

from torch import Tensor

from cgcl.model import CGCL
from cgcl.search.linearised import linear_factors
from cgcl.train.scoring import decode_pairs

__all__ = ["CGCLScorer", "Scorer"]


# Fetching and multiplying an entry of two embeddings, in operations of the layers' products.
_FETCH = 20.0


class Scorer(Protocol):
    """A method with everything it needs at hand to score any pair of nodes."""

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        ...

    @property
    def cost_per_pair(self) -> float:
        """About how many operations one pair takes, of which one CPU core does 4e10 a second.

        Whoever scores a million pairs a second says 4e4. It decides the way to search and must
        not depend on the clock.
        """
        ...

    def logits(self, pairs: Tensor) -> Tensor:
        """Return one number per pair on the CPU, higher for likelier links, float [p].

        Args:
            pairs: Node numbers, int64 [2, p]; p may be large, memory must stay bounded.
        """
        ...

    def factors(self) -> tuple[Tensor, Tensor] | None:
        """Return left and right, float [n, k], such that `left @ right.T` orders pairs alike.

        It only proposes candidates, so it need not be exact. None if there is no such thing.
        """
        ...


class CGCLScorer:
    """CGCL's decoder on the embeddings of all nodes."""

    def __init__(self, model: CGCL, z: Tensor) -> None:
        """Take the network and its embeddings.

        Args:
            model: The network.
            z: Embeddings of all nodes, [n, d_v].
        """
        self._model = model
        self._z = z

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return self._z.shape[0]

    @property
    def cost_per_pair(self) -> float:
        """About how many operations one pair takes: two layers, and fetching two embeddings."""
        layer = self._model.decode.layer_1
        return 2.0 * layer.in_features * layer.out_features + _FETCH * self._z.shape[1]

    def logits(self, pairs: Tensor) -> Tensor:
        """Return the decoder's logits on the CPU, [p]."""
        return decode_pairs(self._model, self._z, pairs)

    def factors(self) -> tuple[Tensor, Tensor]:
        """Return the linearised decoder, two matrices [n, d_v]."""
        return self._factors

    @cached_property
    def _factors(self) -> tuple[Tensor, Tensor]:
        return linear_factors(self._model.decode, self._z)
