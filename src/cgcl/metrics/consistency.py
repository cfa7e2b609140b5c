r"""The paper's theory as functions: consistency, its conditions and its bounds.

Throughout, $r$ is an entry of an adjacency matrix or a predicted probability, so $r \in [0, 1]$,
and $a = \delta(r)$ with the sigmoid $\delta$, as Theorem 1 has it. All tensors of one call hold
the values of the same node pairs in the same order; anything else is a ValueError. Eq. 9 only
names the loss of Eq. 8, which lives in `cgcl.model`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

CONSISTENCY_LOWER_BOUND: float = -math.log(2) / (1 + 1 / math.e)
r"""Theorem 1, below: $-\log 2 / (1 + 1/e) \approx -0.5067$, reached at $r_1 = 1, r_2 = 0$."""

CONSISTENCY_UPPER_BOUND: float = -math.log(1 + 1 / math.e) / 2
r"""Theorem 1, above: $-\log(1 + 1/e) / 2 \approx -0.1566$, reached at $r_1 = 0, r_2 = 1$."""

LEMMA_BOUND: float = 1 / (1 + 1 / math.e)
r"""Lemma 1: two models' consistencies differ by at most $1 / (1 + 1/e) \approx 0.7311$.

Theorem 1 implies more: the difference is at most the upper less the lower bound,
$\approx 0.3501$, and that constant is reached.
"""


def consistency(r1: Tensor, r2: Tensor) -> float:
    r"""Return $C(a_1, a_2) = \mathbb{E}\, a_1 \log a_2$ with $a_i = \delta(r_i)$ (Eq. 2).

    The expectation is the mean over the node pairs given. $C$ is not symmetric, and for a fixed
    $r_1$ it grows with $r_2$ alone: it rewards any link in $r_2$, matched or not.

    Args:
        r1: Adjacency entries or probabilities in [0, 1], any shape.
        r2: The same pairs in the other graph structure, same shape.

    Example:
        >>> round(consistency(torch.tensor([1.0]), torch.tensor([1.0])), 4)  # 0.7311 log 0.7311
        -0.229
    """
    _check(r1, r2)
    a1 = torch.sigmoid(r1.detach().double())
    log_a2 = torch.nn.functional.logsigmoid(r2.detach().double())
    return float((a1 * log_a2).mean())


def is_consistent(adjacency: Tensor, reconstruction: Tensor) -> bool:
    r"""Tell whether $A_{ij} = \widetilde{A}_{ij}$ for all pairs (Definition 1).

    Args:
        adjacency: Entries of a view, in [0, 1].
        reconstruction: The same pairs as reconstructed from the other view.
    """
    _check(adjacency, reconstruction)
    return torch.equal(adjacency.double(), reconstruction.double())


def loses_information(
    view_1: Tensor, view_2: Tensor, reconstruction_1: Tensor, reconstruction_2: Tensor
) -> bool:
    r"""Tell whether $C(A_1, A_2) \ge C(\widetilde{A}_1, \widetilde{A}_2)$ (Eq. 10).

    The paper reads this as a loss of task-relevant information. As printed, with $\ge$, it holds
    with equality for perfect reconstructions too.

    Args:
        view_1: Entries of $A_1$, in [0, 1].
        view_2: Entries of $A_2$.
        reconstruction_1: Entries of $\widetilde{A}_1$, reconstructed from the second view.
        reconstruction_2: Entries of $\widetilde{A}_2$, reconstructed from the first view.
    """
    return consistency(view_1, view_2) >= consistency(reconstruction_1, reconstruction_2)


def supervision_gap(
    view_1: Tensor, view_2: Tensor, reconstruction_1: Tensor, reconstruction_2: Tensor
) -> float:
    r"""Return how far Eq. 11 is from holding; 0 when it holds exactly.

    Eq. 11 asks for $C(A_1, \widetilde{A}_1) = C(A_2, \widetilde{A}_2) =
    C(\widetilde{A}_1, \widetilde{A}_2)$; the gap is the largest difference among the three.

    Args:
        view_1: Entries of $A_1$, in [0, 1].
        view_2: Entries of $A_2$.
        reconstruction_1: Entries of $\widetilde{A}_1$, reconstructed from the second view.
        reconstruction_2: Entries of $\widetilde{A}_2$, reconstructed from the first view.
    """
    return consistency_terms(view_1, view_2, reconstruction_1, reconstruction_2)["gap"]


def consistency_terms(
    view_1: Tensor, view_2: Tensor, reconstruction_1: Tensor, reconstruction_2: Tensor
) -> dict[str, float]:
    r"""Return every quantity of Eq. 10 and Eq. 11, as the training history records them.

    Args:
        view_1: Entries of $A_1$, in [0, 1].
        view_2: Entries of $A_2$.
        reconstruction_1: Entries of $\widetilde{A}_1$, reconstructed from the second view.
        reconstruction_2: Entries of $\widetilde{A}_2$, reconstructed from the first view.

    Returns:
        "views" $C(A_1, A_2)$, "reconstructions" $C(\widetilde{A}_1, \widetilde{A}_2)$,
        "view_1" $C(A_1, \widetilde{A}_1)$, "view_2" $C(A_2, \widetilde{A}_2)$, and "gap", the
        largest difference among the last three.
    """
    reconstructions = consistency(reconstruction_1, reconstruction_2)
    first, second = consistency(view_1, reconstruction_1), consistency(view_2, reconstruction_2)
    equal_in_theory = (first, second, reconstructions)
    return {
        "views": consistency(view_1, view_2),
        "reconstructions": reconstructions,
        "view_1": first,
        "view_2": second,
        "gap": max(equal_in_theory) - min(equal_in_theory),
    }


def _check(r1: Tensor, r2: Tensor) -> None:
    """Refuse what Theorem 1 does not speak about."""
    if r1.shape != r2.shape:
        raise ValueError(
            f"Both structures must hold the same pairs, found shapes {list(r1.shape)} and "
            f"{list(r2.shape)}."
        )
    if r1.numel() == 0:
        raise ValueError("Consistency is a mean over node pairs, and there are no pairs.")
    for r in (r1, r2):
        # Written so that NaN fails as well.
        if not bool(((r >= 0) & (r <= 1)).all()):
            raise ValueError(
                "Theorem 1 needs r in [0, 1]: adjacency entries or probabilities, not logits. "
                f"Found values in [{r.min().item():g}, {r.max().item():g}]."
            )
