"""The loss for one view."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

Targets = Literal["hard", "sigmoid"]


def consistency_loss(positive: Tensor, negative: Tensor, targets: Targets = "hard") -> Tensor:
    r"""Return $L_v$, the binary cross-entropy between a view and its reconstruction   (Eq. 8).

    Eq. 8 sums over all $n^2$ entries; the text and the code around it score the view's links and
    an equal number of unlinked pairs. The mean over each of the two is taken and added.

    Args:
        positive: Logits of the hidden view's links, [p].
        negative: Logits of sampled unlinked pairs, any number.
        targets: `hard` asks for 1 and 0. `sigmoid` follows the letter of Eq. 8, which applies
            the sigmoid to the adjacency entries too and so asks for 0.731 and 0.5.
    """
    wanted_positive, wanted_negative = torch.ones_like(positive), torch.zeros_like(negative)
    if targets == "sigmoid":
        wanted_positive, wanted_negative = wanted_positive.sigmoid(), wanted_negative.sigmoid()
    return functional.binary_cross_entropy_with_logits(
        positive, wanted_positive
    ) + functional.binary_cross_entropy_with_logits(negative, wanted_negative)
