"""Harder questions: test links against negatives that are not told apart by looks alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cgcl.errors import SplitError
from cgcl.graph import Graph
from cgcl.graph.structure import has_structural_features
from cgcl.methods.heuristics import PageRank, PageRankSettings
from cgcl.methods.method import PairScorer
from cgcl.metrics import ON_REQUEST, Ranked, own_ranks
from cgcl.seeds import stream
from cgcl.split import Split, degree_negatives
from cgcl.train.hard_negatives import PER_LINK, HardNegatives, hard_negatives, released_negatives

__all__ = ["Against", "Harder", "heart_metrics", "metrics_against"]

Against: TypeAlias = Literal["heart", "heart-released", "degree"]
"""HeaRT's hard negatives; the same with the flaws of the released generator; pairs whose ends have
as many links as those of links do."""

# In operations of which two CPU cores do 4e10 a second: about ten minutes, then links are sampled.
_BUDGET = 2.4e13
# Ranking a node by three formulas.
_PER_CANDIDATE = 2e4
_FEWEST_LINKS = 10


@dataclass(frozen=True)
class Harder:
    """What test links are worth against such negatives."""

    metrics: dict[str, float]
    """Fractions by name, as `cgcl.metrics.ON_REQUEST` has them."""
    words: str
    """What the links were set against."""
    per_link: tuple[int, int]
    """The fewest and the most negatives that a link was set against."""
    formulas: tuple[str, ...] = ()
    """By what hard negatives were chosen."""
    links: int | None = None
    """How many links were sampled; None if all were asked about."""
    errors: dict[str, float] = field(default_factory=dict)
    """The standard error that sampling leaves in each metric; empty without sampling."""

    def to_json(self) -> dict[str, Any]:
        """Return all of it as JSON has it."""
        told = {
            "words": self.words,
            "negatives_per_link": list(self.per_link),
            "formulas": list(self.formulas),
        }
        sampled = {"sampled": {"links": self.links, "se": self.errors}} if self.links else {}
        return {**self.metrics, "against": told, **sampled}


def metrics_against(
    scorer: PairScorer, split: Split, graph: Graph, against: Against, *, seed: int = 0
) -> Harder:
    """Measure test links against harder negatives than random pairs are.

    Args:
        scorer: The method; it may look at the training links only.
        split: Known and hidden links.
        graph: Whose features make hard negatives; those that are made of links do not count.
        against: Which negatives.
        seed: Decides what is drawn.

    Raises:
        SplitError: There are no test links, or too few unlinked pairs.
    """
    if split.test.shape[1] == 0:
        raise SplitError(
            "There are no test links, so there is nothing to set against anything.\n"
            "Train again with a share of links to test on, such as `test=0.1`."
        )
    if against == "degree":
        return _against_degree(scorer, split, seed)
    x = None if graph.x is None or has_structural_features(graph) else graph.x
    which = _affordable(scorer, split, seed)
    choose = released_negatives if against == "heart-released" else hard_negatives
    chosen = choose(split, x, which=which, seed=seed)
    links = split.test if which is None else split.test[:, which]
    if chosen.link.numel() == 0:
        raise SplitError(
            f"No end of the {links.shape[1]:,} test links has another node to link to, so there "
            f"are no negatives.\nThe graph is almost complete. Use a sparser graph."
        )
    counts = torch.bincount(chosen.link, minlength=links.shape[1])
    has_any = counts > 0
    by_link = {
        name: values[has_any.numpy()]  # a link that stands against nothing has passed no test
        for name, values in heart_metrics(scorer, links, chosen).items()
    }
    per_link = int(counts[has_any].min()), int(counts.max())
    return Harder(
        {name: float(values.mean()) for name, values in by_link.items()},
        _words(
            per_link,
            chosen.formulas,
            left_out=int((~has_any).sum()),
            is_released=against == "heart-released",
        ),
        per_link,
        chosen.formulas,
        None if which is None else which.numel(),
        {} if which is None else _errors(by_link, split.test.shape[1]),
    )


def heart_metrics(
    scorer: PairScorer, links: Tensor, negatives: HardNegatives
) -> dict[str, npt.NDArray[np.float64]]:
    """Return what each link adds to `heart_mrr` and `heart_hits@10`, float64 [m].

    Args:
        scorer: The method; it may look at the training links only.
        links: The links, int64 [2, m].
        negatives: What each of them is set against.
    """
    owner = negatives.link.numpy()
    ranks = own_ranks(scorer.logits(links), scorer.logits(negatives.pairs), owner)
    return {
        name: np.asarray(metric.function(ranks), dtype=np.float64)
        for name, metric in ON_REQUEST.items()
        if metric.over == "nodes"
    }


def _against_degree(scorer: PairScorer, split: Split, seed: int) -> Harder:
    pairs = degree_negatives(split, seed)
    ranked = Ranked(scorer.logits(split.test), scorer.logits(pairs))
    return Harder(
        {n: m.function(ranked) for n, m in ON_REQUEST.items() if m.over == "links"},
        "as many unlinked pairs, their ends drawn from the ends of links",
        (1, 1),
    )


def _words(
    per_link: tuple[int, int], formulas: tuple[str, ...], *, left_out: int, is_released: bool
) -> str:
    fewest, most = per_link
    count = f"{most:,}" if fewest == most else f"{fewest:,} to {most:,}"
    short = "" if fewest >= PER_LINK else f" (the graph has no {PER_LINK} for each)"
    by = f"by {', '.join(formulas[:-1])} and {formulas[-1]}"
    without = ", for the graph brings no features" if len(formulas) < 3 else ""
    told = f"{count} hard negatives of its own{short}, chosen {by}{without}"
    if left_out:
        told += f"; {left_out:,} without any are left out"
    return f"{told}, as HeaRT's released generator does" if is_released else told


def _affordable(scorer: PairScorer, split: Split, seed: int) -> Tensor | None:
    """Return which test links to ask about, ascending; None for all of them."""
    walker = PageRank(split.train, split.num_nodes, PageRankSettings())
    of_end = walker.cost_per_node + split.num_nodes * _PER_CANDIDATE
    each = 2 * (of_end + scorer.cost_per_node) + PER_LINK * scorer.cost_per_pair
    m = split.test.shape[1]
    count = max(int(_BUDGET / each), _FEWEST_LINKS)
    if count >= m:
        return None
    return torch.randperm(m, generator=stream(seed, "sampled links"))[:count].sort().values


def _errors(by_link: dict[str, npt.NDArray[np.float64]], m: int) -> dict[str, float]:
    """Return the standard errors of means over links that were drawn from `m` of them."""
    # The links are drawn without replacement: if all are, no error is left.
    return {
        name: float(values.std(ddof=1)) * math.sqrt((1 - values.size / m) / values.size)
        for name, values in by_link.items()
    }
