"""Counter-examples: pairs of nodes that are not linked, drawn evenly or by degree."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from cgcl.counter_rng import integers, words
from cgcl.errors import SplitError
from cgcl.graph.pairs import decode, encode, is_in, unique_sorted
from cgcl.seeds import stream

if TYPE_CHECKING:
    from cgcl.split.split import Split

# Below this many pairs in all, the unlinked ones are listed once instead of being searched for,
# so that even an almost complete graph is answered at once. 2^22 codes take 32 MB.
_LISTABLE_PAIRS = 2**22


class NegativeSampler:
    """The unordered pairs of distinct nodes that are not in `links`, drawn uniformly.

    A pair is `(low, high)` with `low < high`, so that (a, b) and (b, a) can never both occur. In a
    bipartite graph only pairs across the two sides count.
    """

    def __init__(self, links: Tensor, num_nodes: int, sides: Tensor | None = None) -> None:
        """Remember which pairs to avoid.

        Args:
            links: Pairs to avoid in any order and direction, int64 [2, any].
            num_nodes: Number of nodes; draws lie in 0..num_nodes-1.
            sides: The side of every node of a bipartite graph, bool [n], or None. Every link must
                join the two sides.
        """
        self._num_nodes = num_nodes
        self._linked = unique_sorted(encode(links[0], links[1], num_nodes))
        self._halves: tuple[Tensor, Tensor] | None = None
        if sides is not None:
            there = sides.to(links.device)
            self._halves = (~there).nonzero().squeeze(1), there.nonzero().squeeze(1)

    @property
    def count(self) -> int:
        """How many unlinked pairs there are."""
        if self._halves is not None:
            here, there = self._halves
            return here.numel() * there.numel() - self._linked.numel()
        return self._num_nodes * (self._num_nodes - 1) // 2 - self._linked.numel()

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw `count` unlinked pairs with replacement, int64 [2, count].

        Raises:
            SplitError: Every pair is linked.
        """
        self.require(min(count, 1))
        if self._is_crowded():
            chosen = self._integers(self._free.numel(), count, generator)
            return self._decode(self._free.index_select(0, chosen))
        if self._linked.is_cuda and self._is_sparse():
            codes = self._random(count, generator)
            order = is_in(codes, self._linked).argsort(stable=True)
            return self._decode(codes.index_select(0, order[:count]))
        found = self._candidates(count, generator)
        while found.numel() < count:
            found = torch.cat([found, self._candidates(count - found.numel(), generator)])
        return self._decode(found[:count])

    def draw_hashed(self, count: int, key: int, first: int = 0) -> Tensor:
        """Draw `count` unlinked pairs with replacement, int64 [2, count].

        The k-th pair follows from the key and from k alone, whatever `count` is and wherever it
        is computed.

        Args:
            count: How many to draw.
            key: What `counter_rng.epoch_key` gave.
            first: The number k of the first one.

        Raises:
            SplitError: Every pair is linked.
        """
        self.require(min(count, 1))
        slots = first + torch.arange(count, device=self._linked.device)
        if self._is_crowded():
            chosen = integers(words(key, slots, torch.zeros_like(slots)), self._free.numel())
            return self._decode(self._free.index_select(0, chosen))
        codes = self._hashed(slots, key, 0)
        again, attempt = is_in(codes, self._linked).nonzero().squeeze(1), 0
        while again.numel():
            attempt += 1
            redrawn = self._hashed(slots.index_select(0, again), key, attempt)
            codes.index_copy_(0, again, redrawn)
            again = again[is_in(redrawn, self._linked)]
        return self._decode(codes)

    def draw_distinct(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw `count` different unlinked pairs, int64 [2, count], in random order.

        Raises:
            SplitError: There are fewer than `count` unlinked pairs.
        """
        self.require(count)
        if self._is_crowded() or 2 * count > self.count:
            found = self._free
        else:
            found = torch.unique(self._candidates(count, generator))
            while found.numel() < count:
                more = self._candidates(count, generator)
                found = torch.unique(torch.cat([found, more]))
        # `found` is sorted: a random choice from it, not its head, keeps the draw uniform.
        order = torch.randperm(found.numel(), generator=generator, device=found.device)
        return self._decode(found.index_select(0, order[:count]))

    def require(self, count: int) -> None:
        """Refuse to go on if there are fewer than `count` unlinked pairs.

        Raises:
            SplitError: There are too few.
        """
        if self.count < count:
            raise SplitError(
                f"Only {self.count:,} pairs are not linked; {count:,} are needed as "
                f"counter-examples.\nThe graph is almost complete, so there are hardly any new "
                f"links to predict. Use a sparser graph."
            )

    def _is_crowded(self) -> bool:
        """Say whether most random pairs would be linked, in a graph small enough to list."""
        pairs = self.count + self._linked.numel()
        return pairs <= _LISTABLE_PAIRS and 4 * self.count < pairs

    def _is_sparse(self) -> bool:
        """Say whether a tenth more candidates than are needed surely suffice: nobody has to look.

        With one pair in fifty linked, sixteen to spare and a tenth of them besides, too few are
        left in less than one of 10^12 draws. A GPU that is not asked how many goes on working.
        """
        return 49 * self._linked.numel() <= self.count

    @cached_property
    def _free(self) -> Tensor:
        """The codes of all unlinked pairs, sorted."""
        if self._halves is None:
            nodes = torch.arange(self._num_nodes, device=self._linked.device)
            pairs = torch.combinations(nodes, 2)
        else:
            pairs = torch.cartesian_prod(*self._halves)
        codes = encode(pairs[:, 0], pairs[:, 1], self._num_nodes).sort().values
        return codes[~torch.isin(codes, self._linked)]

    def _candidates(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw about `count` random pairs and return the codes of the unlinked ones."""
        codes = self._random(count, generator)
        return codes[~is_in(codes, self._linked)]

    def _random(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw a tenth more random pairs than are needed, linked ones among them; their codes."""
        size = int(count * 1.1) + 16
        return self._encode(lambda _, below: self._integers(below, size, generator))

    def _encode(self, draw: Callable[[int, int], Tensor]) -> Tensor:
        """Return the codes of random pairs that may be linked in principle.

        Args:
            draw: Returns random numbers for an end, 0 or 1, below a limit.
        """
        if self._halves is not None:
            here, there = self._halves
            one = here.index_select(0, draw(0, here.numel()))
            other = there.index_select(0, draw(1, there.numel()))
        else:
            one, other = draw(0, self._num_nodes), draw(1, self._num_nodes - 1)
            other = other + (other >= one)  # uniform over the nodes other than `one`
        return encode(one, other, self._num_nodes)

    def _hashed(self, slots: Tensor, key: int, attempt: int) -> Tensor:
        """Return a code for each slot; another attempt gives others."""

        def draw(end: int, below: int) -> Tensor:
            return integers(words(key, slots, torch.full_like(slots, 2 * attempt + end)), below)

        return self._encode(draw)

    def _integers(self, high: int, count: int, generator: torch.Generator) -> Tensor:
        return torch.randint(high, (count,), generator=generator, device=self._linked.device)

    def _decode(self, codes: Tensor) -> Tensor:
        return decode(codes, self._num_nodes)


# In a graph where one draw of so many finds an unlinked pair, there are hardly any.
_ROUNDS = 1000


def degree_negatives(split: Split, seed: int = 0) -> Tensor:
    """Draw as many unlinked pairs as there are test links, each end as often as it has links.

    A test link is drawn from all links, so a node is its end as often as it has links in all; a
    pair of random nodes has mostly nodes of few links, and a method that only counts links tells
    the two apart. Here the ends of unlinked pairs are drawn from the ends of all links, as
    Aiyappa and others do ("Implicit degree bias in the link prediction task", arXiv 2405.14985).
    Degrees of training links alone would not do: a node whose only link is a test link would be
    an end of test links and of nothing else.

    Pairs are drawn with replacement, which alone keeps the chance of each end. Self pairs and
    links of any part are left out, and in a two-sided graph a pair has an end on each side.

    Args:
        split: The links; its own counter-examples play no part.
        seed: Decides the draws.

    Returns:
        The pairs with the smaller node first, int64 [2, as many as test links].

    Raises:
        SplitError: There are too few unlinked pairs of nodes that have links.

    Example:
        >>> from cgcl.split import Split
        >>> star = torch.tensor([[0, 0, 0, 0], [1, 2, 3, 4]])  # 0 is linked to all others
        >>> none = star[:, :0]
        >>> pairs = degree_negatives(Split(5, star[:, :2], none, star[:, 2:], none, none))
        >>> pairs.shape, bool((pairs > 0).all())
        (torch.Size([2, 2]), True)
    """
    links = torch.cat([split.train, split.val, split.test], dim=1)
    wanted, generator = split.test.shape[1], stream(seed, "degree negatives")
    linked = encode(links[0], links[1], split.num_nodes)
    # The nodes to draw each end from, every node as often as it has links.
    every = links.flatten()
    ends = [every, every]
    if split.sides is not None:
        there = split.sides[every]
        ends = [every[~there], every[there]]
    found = linked[:0]
    for _ in range(_ROUNDS):
        if found.numel() >= wanted:
            break
        one, other = (
            side[torch.randint(side.numel(), (wanted,), generator=generator)] for side in ends
        )
        codes = encode(one, other, split.num_nodes)
        found = torch.cat([found, codes[(one != other) & ~torch.isin(codes, linked)]])
    if found.numel() < wanted:
        raise SplitError(
            f"Of {_ROUNDS * wanted:,} pairs drawn by their ends' numbers of links, "
            f"{found.numel():,} are not linked; {wanted:,} are needed.\n"
            f"Nearly all nodes that have links are linked to each other. Use a sparser graph, or "
            f"evaluate without `against=degree`."
        )
    return decode(found[:wanted], split.num_nodes)
