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

__all__ = ["Split", "random_split"]

# Fewer test links than this give a figure that says nothing.
_MIN_TEST_LINKS = 5
_MIN_VAL_LINKS = 1
# Two views need at least one link each.
_MIN_TRAIN_LINKS = 2


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
    if not (0 <= val < 1 and 0 <= test < 1 and val + test < 1):
        raise SplitError(
            f"val is {val} and test is {test}; both must be at least 0 and together below 1."
        )
    num_links = graph.num_edges
    if num_links == 0:
        raise GraphContentError(
            f"The graph '{graph.title}' has {graph.num_nodes:,} nodes and no links. "
            f"At least {_MIN_TRAIN_LINKS} links are needed to learn from."
        )
    # The small term undoes rounding such as 0.29 * 100 = 28.999999999999996.
    num_val, num_test = int(val * num_links + 1e-9), int(test * num_links + 1e-9)
    _check_sizes(num_links, num_val, num_test, val, test)
    order = torch.randperm(num_links, generator=stream(seed, "split"))
    test_links, val_links, train_links = order.split(
        [num_test, num_val, num_links - num_test - num_val]
    )
    negatives = UnlinkedPairs(graph.edges, graph.num_nodes, graph.sides).draw_distinct(
        num_val + num_test, stream(seed, "split negatives")
    )
    # Sorted, so that the order of training links carries no trace of the permutation.
    train = graph.edges.index_select(1, train_links.sort().values)
    UnlinkedPairs(train, graph.num_nodes, graph.sides).require(
        1
    )  # training needs counter-examples, too
    return Split(
        num_nodes=graph.num_nodes,
        train=train,
        val=graph.edges.index_select(1, val_links.sort().values),
        test=graph.edges.index_select(1, test_links.sort().values),
        val_negatives=negatives[:, :num_val],
        test_negatives=negatives[:, num_val:],
        sides=graph.sides,
    )


def _check_sizes(num_links: int, num_val: int, num_test: int, val: float, test: float) -> None:
    short = [
        (share, count, least, what, flag)
        for share, count, least, what, flag in (
            (test, num_test, _MIN_TEST_LINKS, "test", "--test 0"),
            (val, num_val, _MIN_VAL_LINKS, "validation", "--val 0"),
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
    if num_links - num_val - num_test < _MIN_TRAIN_LINKS:
        raise SplitError(
            f"The graph has {num_links} links; after {num_val} for validation and {num_test} for "
            f"the test, {num_links - num_val - num_test} would be left to learn from.\n"
            f"At least {_MIN_TRAIN_LINKS} are needed: use smaller --val and --test."
        )
