"""What kernels are started on: blocks, weights side by side, links and features as rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import triton
from torch import Tensor, nn

from cgcl.methods.method import TrainingGraph
from cgcl.methods.settings import TrainedSettings
from cgcl.train.engines.kernels.shared import adam_step
from cgcl.train.engines.plain import Moments

# Chances are whole numbers of this part inside a kernel.
_THRESHOLDS = 2**24


def launch(kernel: Any, *grid: int) -> Any:  # noqa: ANN401 - Triton's own types know no grids
    """Return what starts a kernel's programs over a grid."""
    return kernel[grid]


def blocks(count: int, size: int) -> int:
    """Return how many blocks of a size hold so many things."""
    return int(triton.cdiv(count, size))


def power_of_2(number: int, least: int = 1) -> int:
    """Return the next power of two: a block has no other size."""
    return max(least, int(triton.next_power_of_2(number)))


def dropping(chance: float) -> tuple[int, float]:
    """Return the chance as a threshold, and what the entries that are left are scaled by."""
    threshold = round(chance * _THRESHOLDS)
    return threshold, _THRESHOLDS / (_THRESHOLDS - threshold)


# The order of CGCL's parameters.
W, BIAS, W1, B1, W2, B2 = range(6)


SparseRows = tuple[Tensor, Tensor, Tensor, Tensor]

# How many weights one program of the optimizer steps.
_ADAM_BLOCK = 1024
_ALIGNED = 16
# Below this share of nonzeros, rows of W are gathered; above it, a dense product is faster.
_SPARSE_BELOW = 0.05


class Weights:
    """The weights of several runs in one tensor, run by run, and as much for each gradient.

    The learners' own parameters become windows into it.
    """

    def __init__(self, learners: Sequence[nn.Module], settings: Sequence[TrainedSettings]) -> None:
        """Take over the weights of learners of the same shape.

        Args:
            learners: One for each run.
            settings: Learning rate and L2 penalty of each run.
        """
        parameters = [list(learner.parameters()) for learner in learners]
        device = parameters[0][0].device
        self._shapes = [weight.shape for weight in parameters[0]]
        self._offsets: list[int] = []
        total = 0
        for shape in self._shapes:
            self._offsets.append(total)
            total += -(-shape.numel() // _ALIGNED) * _ALIGNED
        self.per_run = -(-total // _ADAM_BLOCK) * _ADAM_BLOCK
        self.values, self.gradients, self.first, self.second = (
            torch.zeros(len(learners), self.per_run, device=device) for _ in range(4)
        )
        self.steps = torch.zeros(len(learners), device=device)
        told = [[own.lr for own in settings], [own.weight_decay for own in settings]]
        self._told = torch.tensor(told, device=device)
        self._averages, self._follow = self.values, 0.0
        for run, own in enumerate(parameters):
            for index, weight in enumerate(own):
                window = self._window(self.values, run, index)
                window.copy_(weight.detach())
                weight.data = window

    def average_into(self, averages: Sequence[Tensor], follow: float) -> None:
        """Let moving averages follow the weights of the only run; they become windows, too.

        Args:
            averages: Where they are kept, in the order of the weights.
            follow: How far they follow in the end; not at all if 0.
        """
        self._averages, self._follow = torch.zeros_like(self.values), follow
        for index, average in enumerate(averages):
            window = self._window(self._averages, 0, index)
            window.copy_(average)
            average.data = window

    def value(self, index: int) -> Tensor:
        """Return one weight of every run, [runs, ...], as a window."""
        return self._all(self.values, index)

    def gradient(self, index: int) -> Tensor:
        """Return the gradient of one weight of every run, [runs, ...], as a window."""
        return self._all(self.gradients, index)

    def step(self, turn: int, counts: Tensor, epoch: Tensor) -> None:
        """Change the weights once by their gradients, as Adam does, and clear these.

        Args:
            turn: The number of the step within its epoch.
            counts: How many links each run's turn asks for, int32 [runs, 2]; without any there is
                no step.
            epoch: The number of the epoch, int32 [1].
        """
        launch(adam_step, self.per_run // _ADAM_BLOCK, self.steps.numel())(
            self.values, self.gradients, self.first, self.second, self.steps, counts,
            self._told[0], self._told[1], self._averages, epoch, self.per_run, self._follow,
            TURN=turn, FOLLOW=self._follow > 0, BLOCK=_ADAM_BLOCK,
        )  # fmt: skip

    def moments(self) -> Moments:
        """Return Adam's memory of the first run; nothing before its first step."""
        if float(self.steps[0]) == 0:
            return {}
        return {
            index: {
                "step": self.steps[0].clone(),
                "exp_avg": self._window(self.first, 0, index).clone(),
                "exp_avg_sq": self._window(self.second, 0, index).clone(),
            }
            for index in range(len(self._shapes))
        }

    def restore(self, moments: Moments) -> None:
        """Take over what `moments` gave, from any device."""
        for index, saved in moments.items():
            self._window(self.first, 0, index).copy_(saved["exp_avg"])
            self._window(self.second, 0, index).copy_(saved["exp_avg_sq"])
            self.steps[0] = saved["step"].to(self.steps.device)

    def state(self) -> list[Tensor]:
        """Return all that a step changes."""
        memory = [self.first, self.second, self.steps]
        return [self.values, self.gradients, *memory, self._averages]

    def _window(self, tensor: Tensor, run: int, index: int) -> Tensor:
        return self._all(tensor, index)[run]

    def _all(self, tensor: Tensor, index: int) -> Tensor:
        shape, offset = self._shapes[index], self._offsets[index]
        return tensor[:, offset : offset + shape.numel()].view(tensor.shape[0], *shape)


@dataclass(frozen=True, eq=False)
class LinkRows:
    """The training links of every run: as pairs, by node, and as sorted codes."""

    pairs: Tensor
    """int32 [runs, 2, m]."""
    order: Tensor
    """The nodes, those with most links first, int32 [runs, n]."""
    starts: Tensor
    """Where each node's neighbours begin, int32 [runs, n + 1]."""
    neighbours: Tensor
    """int32 [runs, 2m]."""
    pair_of: Tensor
    """The link that leads to each neighbour, int32 [runs, 2m]."""
    codes: Tensor
    """low * n + high, sorted, int64 [runs, m]."""

    @classmethod
    def of(cls, links: Sequence[Tensor], num_nodes: int) -> LinkRows:
        """Arrange links, each once, the smaller node first, int64 [2, m] for each run."""
        rows = [cls._of_one(own, num_nodes) for own in links]
        return cls(*(torch.stack(parts) for parts in zip(*rows, strict=True)))

    @staticmethod
    def _of_one(links: Tensor, num_nodes: int) -> tuple[Tensor, ...]:
        numbers = torch.arange(links.shape[1], device=links.device)
        node, neighbour = torch.cat([links, links.flip(0)], dim=1)
        order = node.argsort(stable=True)
        codes = (links[0] * num_nodes + links[1]).sort().values
        starts = _starts(node, num_nodes)
        return (
            links.int(),
            _longest_first(starts),
            starts,
            neighbour[order].int(),
            torch.cat([numbers, numbers])[order].int(),
            codes,
        )


@dataclass(frozen=True, eq=False)
class FeatureRows:
    """Sparse features by node and by feature; dense ones as they are."""

    dense: Tensor | None
    """float [runs or 1, n, d], or None if they are sparse."""
    by_node: SparseRows | None = None
    """Order, starts, features and values, [runs or 1, ...]."""
    by_feature: SparseRows | None = None
    """Order, starts, nodes and values, [runs or 1, ...]."""
    are_links: bool = False
    """Whether features are made of links: in place of an entry's value is the link that it stands
    for, twice its number, and one more if it comes from the lower end."""

    @classmethod
    def of(cls, known: Sequence[TrainingGraph]) -> FeatureRows:
        """Arrange the features of each run, or those that all of them share."""
        if known[0].structure is not None:
            return cls._of_links(known)
        features = [own.features for own in known]
        one = all(x is features[0] for x in features)
        kept = features[:1] if one else features
        largest = max(_nonzeros(x) / max(x.shape[0] * x.shape[1], 1) for x in kept)
        if largest >= _SPARSE_BELOW and not any(x.is_sparse for x in kept):
            return cls(torch.stack([x.contiguous() for x in kept]))
        sparse = [(x if x.is_sparse else x.to_sparse_coo()).coalesce() for x in kept]
        entries = [(x.indices(), x.values()) for x in sparse]
        return cls(None, _rows(entries, 0, kept[0].shape), _rows(entries, 1, kept[0].shape))

    @classmethod
    def _of_links(cls, known: Sequence[TrainingGraph]) -> FeatureRows:
        entries: list[tuple[Tensor, Tensor]] = []
        for own in known:
            if own.structure is None:
                raise ValueError("Either all runs make their features of links or none does.")
            source, target = torch.cat([own.links, own.links.flip(0)], dim=1)
            places = torch.stack([target, own.structure.feature_of_node[source]])
            number = torch.arange(own.links.shape[1], dtype=torch.int32, device=own.device)
            entries.append((places, torch.cat([2 * number + 1, 2 * number])))
        shape = (known[0].num_nodes, known[0].num_features)
        return cls(None, _rows(entries, 0, shape), _rows(entries, 1, shape), are_links=True)


def _nonzeros(x: Tensor) -> int:
    return x.values().numel() if x.is_sparse else int(torch.count_nonzero(x))


def _rows(entries: Sequence[tuple[Tensor, Tensor]], dim: int, shape: tuple[int, ...]) -> SparseRows:
    """Return order, starts, the other index and values, sorted by one of the two indices."""
    most = max(own.numel() for _, own in entries)
    starts: list[Tensor] = []
    others: list[Tensor] = []
    values: list[Tensor] = []
    for places, own in entries:
        order = places[dim].argsort(stable=True)
        room = (0, most - order.numel())
        starts.append(_starts(places[dim], shape[dim]))
        others.append(nn.functional.pad(places[1 - dim][order].int(), room))
        values.append(nn.functional.pad(own[order], room))
    order = torch.stack([_longest_first(own) for own in starts])
    return order, torch.stack(starts), torch.stack(others), torch.stack(values)


def _longest_first(starts: Tensor) -> Tensor:
    """Return the rows in an order that lets no long one begin last."""
    return starts.diff().argsort(descending=True, stable=True).int()


def _starts(rows: Tensor, count: int) -> Tensor:
    sizes = torch.bincount(rows, minlength=count)
    return nn.functional.pad(sizes.cumsum(0), (1, 0)).int()
