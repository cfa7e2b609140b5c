"""Counter-examples: pairs of nodes that are not linked."""

from __future__ import annotations

import torch
from torch import Tensor

from cgcl.coins import integers, words
from cgcl.errors import SplitError

__all__ = ["UnlinkedPairs"]

# Below this many pairs in all, the unlinked ones are listed once instead of being searched for,
# so that even an almost complete graph is answered at once. 2^22 codes take 32 MB.
_LISTABLE_PAIRS = 2**22


class UnlinkedPairs:
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
        low, high = torch.minimum(links[0], links[1]), torch.maximum(links[0], links[1])
        self._num_nodes = num_nodes
        self._linked = torch.unique(low * num_nodes + high)  # sorted codes
        self._listed: Tensor | None = None
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
            free = self._list()
            return self._decode(
                free.index_select(0, self._integers(free.numel(), count, generator))
            )
        found = self._candidates(count, generator)
        while found.numel() < count:
            found = torch.cat([found, self._candidates(count - found.numel(), generator)])
        return self._decode(found[:count])

    def draw_hashed(self, count: int, key: int) -> Tensor:
        """Draw `count` unlinked pairs with replacement, int64 [2, count].

        The k-th pair follows from the key and from k alone, whatever `count` is and wherever it
        is computed.

        Args:
            count: How many to draw.
            key: What `coins.epoch_key` gave.

        Raises:
            SplitError: Every pair is linked.
        """
        self.require(min(count, 1))
        slots = torch.arange(count, device=self._linked.device)
        if self._is_crowded():
            free = self._list()
            chosen = integers(words(key, slots, torch.zeros_like(slots)), free.numel())
            return self._decode(free.index_select(0, chosen))
        codes = self._encode(*self._hashed_ends(slots, key, 0))
        again, attempt = self._are_linked(codes).nonzero().squeeze(1), 0
        while again.numel():
            attempt += 1
            redrawn = self._encode(*self._hashed_ends(slots.index_select(0, again), key, attempt))
            codes.index_copy_(0, again, redrawn)
            again = again[self._are_linked(redrawn)]
        return self._decode(codes)

    def draw_distinct(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw `count` different unlinked pairs, int64 [2, count], in random order.

        Raises:
            SplitError: There are fewer than `count` unlinked pairs.
        """
        self.require(count)
        if self._is_crowded() or 2 * count > self.count:
            found = self._list()
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

    def _list(self) -> Tensor:
        if self._listed is None:
            if self._halves is None:
                nodes = torch.arange(self._num_nodes, device=self._linked.device)
                pairs = torch.combinations(nodes, 2)
            else:
                pairs = torch.cartesian_prod(*self._halves)
            codes = self._encode(*pairs.unbind(1)).sort().values
            self._listed = codes[~torch.isin(codes, self._linked)]
        return self._listed

    def _candidates(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw about `count` random pairs and return the codes of the unlinked ones."""
        codes = self._encode(*self._random_ends(int(count * 1.1) + 16, generator))
        return codes[~self._are_linked(codes)]

    def _are_linked(self, codes: Tensor) -> Tensor:
        if self._linked.numel() == 0:
            return torch.zeros_like(codes, dtype=torch.bool)
        place = torch.searchsorted(self._linked, codes).clamp(max=self._linked.numel() - 1)
        return self._linked.index_select(0, place) == codes

    def _random_ends(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw the two ends of random pairs that may be linked in principle."""
        if self._halves is not None:
            here, there = self._halves
            return (
                here.index_select(0, self._integers(here.numel(), count, generator)),
                there.index_select(0, self._integers(there.numel(), count, generator)),
            )
        first = self._integers(self._num_nodes, count, generator)
        second = self._integers(self._num_nodes - 1, count, generator)
        return first, second + (second >= first)  # uniform over the nodes other than `first`

    def _hashed_ends(self, slots: Tensor, key: int, attempt: int) -> tuple[Tensor, Tensor]:
        """Return two ends for each slot; another attempt gives others."""
        one, other = (
            words(key, slots, torch.full_like(slots, 2 * attempt + end)) for end in range(2)
        )
        if self._halves is not None:
            here, there = self._halves
            return (
                here.index_select(0, integers(one, here.numel())),
                there.index_select(0, integers(other, there.numel())),
            )
        first, second = integers(one, self._num_nodes), integers(other, self._num_nodes - 1)
        return first, second + (second >= first)  # uniform over the nodes other than `first`

    def _encode(self, one: Tensor, other: Tensor) -> Tensor:
        return torch.minimum(one, other) * self._num_nodes + torch.maximum(one, other)

    def _integers(self, high: int, count: int, generator: torch.Generator) -> Tensor:
        return torch.randint(high, (count,), generator=generator, device=self._linked.device)

    def _decode(self, codes: Tensor) -> Tensor:
        return torch.stack([codes // self._num_nodes, codes % self._num_nodes])
