"""AUC among pairs of similar degree: how much of a result is knowing who has many links."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from cgcl.metrics import auc
from cgcl.split import Split

__all__ = ["Strata", "Stratum"]


@dataclass(frozen=True, order=True)
class Stratum:
    """Pairs whose end with fewer training links has at least `low` of them and at most `high`."""

    low: int
    high: int | None
    """None for no limit."""

    @property
    def words(self) -> str:
        """The degrees in words.

        Example:
            >>> [Stratum(*ends).words for ends in ((0, 0), (1, 2), (3, 5), (6, None))]
            ['0', '1 or 2', '3 to 5', '6 or more']
        """
        if self.high is None:
            return f"{self.low:,} or more"
        if self.high <= self.low:
            return f"{self.low:,}"
        return f"{self.low:,} {'or' if self.high == self.low + 1 else 'to'} {self.high:,}"


@dataclass(frozen=True)
class Strata:
    """Three groups of pairs, by the smaller training degree of a pair's ends."""

    parts: tuple[Stratum, ...]

    @classmethod
    def of(cls, split: Split) -> Strata:
        """Return bounds that put about a third of the test links into each part.

        Degrees are whole numbers: where many links share one, there are fewer parts.
        """
        degrees = _smaller_degree(split.train, split.test, split.num_nodes).sort().values
        count = degrees.numel()
        thirds = {int(degrees[max(count * part // 3 - 1, 0)]) for part in (1, 2)} if count else ()
        # A bound at the largest degree would leave nothing above it.
        bounds = sorted(bound for bound in thirds if bound < int(degrees[-1]))
        lows = [0, *(bound + 1 for bound in bounds)]
        return cls(tuple(map(Stratum, lows, [*bounds, None])))

    def measure(self, split: Split, positive: Tensor, negative: Tensor) -> list[dict[str, Any]]:
        """Return counts and AUC of each part; no AUC where links or unlinked pairs are missing.

        Args:
            split: What was learned from and tested on.
            positive: Scores of the test links, [p].
            negative: Scores of the unlinked test pairs, [q].
        """
        of_links = _smaller_degree(split.train, split.test, split.num_nodes)
        of_others = _smaller_degree(split.train, split.test_negatives, split.num_nodes)
        found = []
        for part in self.parts:
            links, others = positive[_within(of_links, part)], negative[_within(of_others, part)]
            has_both = links.numel() > 0 and others.numel() > 0
            found.append(
                {
                    "low": part.low,
                    "high": part.high,
                    "links": links.numel(),
                    "others": others.numel(),
                    "auc": auc(links, others) if has_both else None,
                }
            )
        return found


def _smaller_degree(train: Tensor, pairs: Tensor, num_nodes: int) -> Tensor:
    """Return the training degree of each pair's end that has fewer links, int64 [p]."""
    degree = torch.bincount(train.flatten(), minlength=num_nodes)
    return degree[pairs].amin(dim=0)


def _within(degrees: Tensor, part: Stratum) -> Tensor:
    inside = degrees >= part.low
    return inside if part.high is None else inside & (degrees <= part.high)
