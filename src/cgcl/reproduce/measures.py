"""What the paper claims about more than accuracy, measured on a trained model."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from cgcl.methods.cgcl import CrossViewLearner, draw
from cgcl.methods.method import Epoch, Known
from cgcl.methods.scoring import decode_pairs
from cgcl.methods.settings import CGCLSettings
from cgcl.metrics import auc
from cgcl.model import Views, symmetric
from cgcl.reproduce.job import Job
from cgcl.split import Split
from cgcl.train.once import Trained, known_of

__all__ = ["EMBEDDINGS", "TRACE", "effective_rank", "mean_cosine", "measure"]

TRACE = "trace"
"""Loss, validation metrics and the terms of Eq. 10-11 at every look."""
EMBEDDINGS = "embeddings"
"""How distinct the embeddings are, and how well those of two views agree."""
_DIGITS = 6


def measure(name: str, trained: Trained, split: Split, job: Job) -> Any:  # noqa: ANN401
    """Return what a measure finds, fit for JSON.

    Args:
        name: `TRACE` or `EMBEDDINGS`.
        trained: The model.
        split: What it was trained on.
        job: The run.
    """
    return {TRACE: _trace, EMBEDDINGS: _embeddings}[name](trained, split, job)


def _trace(trained: Trained, split: Split, job: Job) -> dict[str, list[Any]]:  # noqa: ARG001
    """Return columns: the epochs with a look, and what was seen."""
    looks = [record for record in trained.history if "val" in record]
    columns: dict[str, list[Any]] = {
        "epoch": [look["epoch"] for look in looks],
        "loss": [_mean(look["losses"]) for look in looks],
        "val_auc": [round(look["val"]["auc"], _DIGITS) for look in looks],
        "val_ap": [round(look["val"]["ap"], _DIGITS) for look in looks],
    }
    for term in looks[0].get("consistency", {}) if looks else ():
        columns[term] = [round(look["consistency"][term], _DIGITS) for look in looks]
    return columns


def _mean(values: list[float]) -> float:
    return round(sum(values) / len(values), _DIGITS) if values else 0.0


def _embeddings(trained: Trained, split: Split, job: Job) -> dict[str, float]:
    learner, settings = trained.learner, job.recipe.settings
    if not isinstance(learner, CrossViewLearner) or not isinstance(settings, CGCLSettings):
        raise TypeError(f"{job.recipe.name} has no views to compare")
    known = known_of(trained.graph, split.train, learner)
    z = learner.embedded(known, symmetric(known.links))
    # Views that no epoch has trained on.
    epoch = Epoch(trained.history[-1]["epoch"] + 1, job.recipe.split.seed)
    found = {"mean_cosine": mean_cosine(z), "effective_rank": effective_rank(z)}
    found |= _agreement(learner, known, split, draw(known, epoch, settings).views)
    return {name: round(value, _DIGITS) for name, value in found.items()}


def _agreement(
    learner: CrossViewLearner,
    known: Known,
    split: Split,
    views: Views,
) -> dict[str, float]:
    """Return how alike the embeddings of two views are, and what is predicted from them."""
    z_1, z_2 = (learner.embedded(known, view.edge_index) for view in (views.view_1, views.view_2))
    same = torch.nn.functional.cosine_similarity(z_1, z_2)
    other = torch.nn.functional.cosine_similarity(z_1, z_2.roll(1, 0))
    links, others = split.test, split.test_negatives
    pairs = torch.cat([links, others], dim=1)
    logits = [decode_pairs(learner, z, pairs).double() for z in (z_1, z_2)]
    chance = [torch.sigmoid(own) for own in logits]
    count = links.shape[1]
    return {
        "same_node_cosine": float(same.mean()),
        "other_node_cosine": float(other.mean()),
        "logit_correlation": float(torch.corrcoef(torch.stack(logits))[0, 1]),
        "probability_difference": float((chance[0] - chance[1]).abs().mean()),
        "auc_view_1": auc(logits[0][:count], logits[0][count:]),
        "auc_view_2": auc(logits[1][:count], logits[1][count:]),
    }


def mean_cosine(z: Tensor) -> float:
    """Return the mean cosine of two different rows; 1 if all rows point the same way.

    Args:
        z: One row per node, [n, d_v].

    Example:
        >>> mean_cosine(torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]]))  # 0, 1 and 0
        0.3333333333333333
    """
    unit = torch.nn.functional.normalize(z.double(), dim=1)
    count = z.shape[0]
    # The sum over all pairs is the square of the sum, less each row with itself.
    return float((unit.sum(0).square().sum() - unit.square().sum()) / (count * (count - 1)))


def effective_rank(z: Tensor) -> float:
    r"""Return $\exp(-\sum p_i \log p_i)$ with the singular values as shares $p_i$.

    It is the number of directions that the rows fill evenly (Roy and Vetterli, 2007).

    Args:
        z: One row per node, [n, d_v].

    Example:
        >>> round(effective_rank(torch.eye(3)), 6)
        3.0
    """
    values = torch.linalg.eigvalsh(z.double().T @ z.double()).clamp(min=0).sqrt()
    share = values / values.sum()
    return float(torch.exp(torch.special.entr(share).sum()))
