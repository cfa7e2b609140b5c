"""Known links divided into those to learn from, to choose by and to test on."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from cgcl.errors import GraphContentError, SplitError
from cgcl.graph import Graph
from cgcl.seeds import stream
from cgcl.split.negatives import UnlinkedPairs

__all__ = [
    "MIN_TEST_LINKS",
    "MIN_TRAIN_LINKS",
    "MIN_VAL_LINKS",
    "Split",
    "divide",
    "part_sizes",
    "random_split",
]

MIN_TEST_LINKS = 5
"""Fewer test links than this give a figure that says nothing."""
MIN_VAL_LINKS = 1
"""As many links are needed to choose an epoch by."""
MIN_TRAIN_LINKS = 2
"""Two views need at least one link each."""


@dataclass(frozen=True, eq=False)
class Split:
    """Links and counter-examples for learning, choosing and testing.

    All tensors are int64 [2, any] with the smaller node number first. The three sets of links
    share no pair. The counter-examples are no link of the graph at all and share no pair
    either. There are none for training: those are drawn anew at every step.
    """

    num_nodes: int
    train: Tensor
    val: Tensor
    test: Tensor
    val_negatives: Tensor
    test_negatives: Tensor
    sides: Tensor | None = None
    """The side of every node of a bipartite graph, bool [n]; None if any two may be linked."""

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of all pairs: equal for equal splits."""
        digest = hashlib.sha256(str(self.num_nodes).encode())
        for part in (self.train, self.val, self.test, self.val_negatives, self.test_negatives):
            digest.update(f" {part.shape[1]} ".encode() + part.contiguous().numpy().tobytes())
        if self.sides is not None:
            digest.update(b"sides" + self.sides.numpy().tobytes())
        return digest.hexdigest()

    def require_parts_of(self, graph: Graph) -> None:
        """Refuse a split whose links are not those of `graph`, each in one part.

        Raises:
            SplitError: They are others.
        """
        links = torch.cat([self.train, self.val, self.test], dim=1)
        codes = (links[0] * self.num_nodes + links[1]).sort().values
        own = graph.edges[0] * graph.num_nodes + graph.edges[1]
        if self.num_nodes != graph.num_nodes or not torch.equal(codes, own):
            raise SplitError(
                f"The split has {links.shape[1]:,} links among {self.num_nodes:,} nodes, the graph "
                f"'{graph.title}' {graph.num_edges:,} among {graph.num_nodes:,}, or they are "
                f"others.\nSplit the graph that you train on."
            )

    @property
    def sizes(self) -> dict[str, int]:
        """Number of links in each part."""
        return {
            "train": self.train.shape[1],
            "val": self.val.shape[1],
            "test": self.test.shape[1],
        }


def random_split(graph: Graph, val: float = 0.05, test: float = 0.10, seed: int = 0) -> Split:
    """Hide a random part of the links, and draw as many unlinked pairs to set against them.

    Differs from PyTorch Geometric's `RandomLinkSplit` on purpose: links are unordered pairs, so
    no direction of a hidden link stays visible; no counter-example appears in two parts; and
    everything follows from `seed` alone.

    Args:
        graph: The graph whose links are divided.
        val: Share of links to choose the best epoch by; 0 for none.
        test: Share of links to test on; 0 for none.
        seed: The same seed and graph give the same split.

    Raises:
        SplitError: There are too few links or too few unlinked pairs for these shares.
        GraphContentError: The graph has no links.
    """
    num_links, num_val, num_test = part_sizes(graph, val, test)
    order = torch.randperm(num_links, generator=stream(seed, "split"))
    test_links, val_links, train_links = order.split(
        [num_test, num_val, num_links - num_test - num_val]
    )
    return divide(graph, train_links, val_links, test_links, seed)


def divide(graph: Graph, train: Tensor, val: Tensor, test: Tensor, seed: int) -> Split:
    """Return the split with these links in each part, and unlinked pairs to set against them.

    Args:
        graph: The graph whose links are divided.
        train: Which links to learn from: columns of `graph.edges`, each in one part only.
        val: Which to choose the best epoch by.
        test: Which to test on.
        seed: Decides the counter-examples.

    Raises:
        SplitError: There are too few unlinked pairs.
    """
    num_val, num_test = val.numel(), test.numel()
    negatives = UnlinkedPairs(graph.edges, graph.num_nodes, graph.sides).draw_distinct(
        num_val + num_test, stream(seed, "split negatives")
    )
    # Sorted, so that the order of training links carries no trace of how they were chosen.
    train_links, val_links, test_links = (
        graph.edges.index_select(1, part.sort().values) for part in (train, val, test)
    )
    # Training needs counter-examples, too.
    UnlinkedPairs(train_links, graph.num_nodes, graph.sides).require(1)
    return Split(
        num_nodes=graph.num_nodes,
        train=train_links,
        val=val_links,
        test=test_links,
        val_negatives=negatives[:, :num_val],
        test_negatives=negatives[:, num_val:],
        sides=graph.sides,
    )


def part_sizes(graph: Graph, val: float, test: float) -> tuple[int, int, int]:
    """Return the numbers of links in all, for validation and for the test.

    Args:
        graph: The graph whose links are divided.
        val: Share of links for validation; 0 for none.
        test: Share of links for the test; 0 for none.

    Raises:
        SplitError: The shares make no sense, or there are too few links for them.
        GraphContentError: The graph has no links.
    """
    if not (0 <= val < 1 and 0 <= test < 1 and val + test < 1):
        raise SplitError(
            f"val is {val} and test is {test}; both must be at least 0 and together below 1."
        )
    num_links = graph.num_edges
    if num_links == 0:
        raise GraphContentError(
            f"The graph '{graph.title}' has {graph.num_nodes:,} nodes and no links. "
            f"At least {MIN_TRAIN_LINKS} links are needed to learn from."
        )
    # The small term undoes rounding such as 0.29 * 100 = 28.999999999999996.
    num_val, num_test = int(val * num_links + 1e-9), int(test * num_links + 1e-9)
    _check_sizes(num_links, num_val, num_test, val, test)
    return num_links, num_val, num_test


def _check_sizes(num_links: int, num_val: int, num_test: int, val: float, test: float) -> None:
    short = [
        (share, count, least, what, flag)
        for share, count, least, what, flag in (
            (test, num_test, MIN_TEST_LINKS, "test", "`test=0`"),
            (val, num_val, MIN_VAL_LINKS, "validation", "`val=0`"),
        )
        if share > 0 and count < least
    ]
    if short:
        share, count, _, what, _ = short[0]
        needed = max(math.ceil(least / max(share, 1e-12) - 1e-9) for share, _, least, _, _ in short)
        sets = "test and validation sets" if len(short) == 2 else f"a {what} set"
        raise SplitError(
            f"The graph has {num_links:,} link{'' if num_links == 1 else 's'}; a "
            f"{100 * share:.3g} % {what} set would hold {count} link{'' if count == 1 else 's'}, "
            f"which cannot be measured.\n"
            f"Use at least {needed:,} links, or train without {sets}: "
            f"{' '.join(flag for *_, flag in short)}."
        )
    if num_links - num_val - num_test < MIN_TRAIN_LINKS:
        raise SplitError(
            f"The graph has {num_links} links; after {num_val} for validation and {num_test} for "
            f"the test, {num_links - num_val - num_test} would be left to learn from.\n"
            f"At least {MIN_TRAIN_LINKS} are needed"
            f"{': use smaller `val` and `test`.' if num_val or num_test else '.'}"
        )
