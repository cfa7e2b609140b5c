"""What chance decides in an epoch, on the GPU: the views and the counter-examples."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from cgcl.coins import base_key, words_below
from cgcl.methods.cgcl import NEGATIVES, VIEWS
from cgcl.train.engines.fused_memory import LinkRows
from cgcl.train.engines.kernels.drawing import draw_negatives, draw_views, scale_nodes
from cgcl.train.engines.kernels.launch import blocks, launch

INPUTS = ("inputs 1", "inputs 2")
"""The purpose of the coins that drop features in each turn."""
PAIRS = ("pairs 1", "pairs 2")
"""The purpose of the coins that drop entries of a pair's product in each turn."""

_PURPOSES = (VIEWS, *NEGATIVES, *INPUTS, *PAIRS)
NUM_KEYS = len(_PURPOSES)
"""How many keys each run has."""
INPUT_KEY = _PURPOSES.index(INPUTS[0])
"""The key of the first turn's features; the second turn's follows."""
PAIR_KEY = _PURPOSES.index(PAIRS[0])
"""The key of the first turn's pairs; the second turn's follows."""

_BLOCK = 256


class FusedDraws:
    """The draws of one epoch, for several runs; the same as `methods.cgcl.draw` gives."""

    def __init__(
        self, rows: LinkRows, num_nodes: int, kind: str, seen: float, seeds: Sequence[int]
    ) -> None:
        """Make room.

        Args:
            rows: The links of each run.
            num_nodes: Number of nodes, n.
            kind: How views are drawn.
            seen: Chance of a link to be in the first view.
            seeds: The seed of each run.
        """
        runs, num_links, device = rows.pairs.shape[0], rows.pairs.shape[2], rows.pairs.device
        self.kind = kind
        self._limit = words_below(seen)
        self.turns = 1 if kind in ("one", "all") else 2
        self.num_links = num_links
        self.num_nodes = num_nodes
        self.num_runs = runs
        self.rows = rows
        self.capacity = (2 if kind == "directed" else 1) * num_links
        self.coins = torch.zeros(runs, num_links, dtype=torch.int8, device=device)
        # Both ends of every pair to score: [run, turn, linked or not, end, slot].
        self.ends = torch.zeros(runs, 2, 2, 2, self.capacity, dtype=torch.int32, device=device)
        self.counts = torch.zeros(runs, 2, dtype=torch.int32, device=device)
        self.scales = torch.zeros(runs, 2, num_nodes, device=device)
        self.epoch = torch.zeros(1, dtype=torch.int32, device=device)
        keys = [[base_key(seed, purpose) for purpose in _PURPOSES] for seed in seeds]
        self.keys = torch.tensor(keys, device=device)
        self.full_scales = torch.zeros_like(self.scales)
        self._scale("all", self.full_scales)

    def draw(self) -> None:
        """Draw what the epoch in `epoch` asks for."""
        rows, runs = self.rows, self.num_runs
        self.counts.zero_()
        launch(draw_views, blocks(self.num_links, _BLOCK), runs)(
            rows.pairs, self.coins, self.ends, self.counts, self.keys, self.epoch,
            self.num_links, self.capacity, self._limit, KIND=self.kind, NUM_KEYS=NUM_KEYS,
            BLOCK=_BLOCK,
        )  # fmt: skip
        launch(draw_negatives, blocks(self.capacity, _BLOCK), self.turns, runs)(
            rows.codes, self.ends, self.counts, self.keys, self.epoch,
            self.num_nodes, self.num_links, self.capacity, NUM_KEYS=NUM_KEYS,
            STEPS=self.num_links.bit_length(), BLOCK=_BLOCK,
        )  # fmt: skip
        self._scale(self.kind, self.scales)

    def _scale(self, kind: str, scales: Tensor) -> None:
        rows = self.rows
        launch(scale_nodes, self.num_nodes, self.num_runs)(
            rows.starts, rows.neighbours, rows.pair_of, self.coins, scales,
            self.num_nodes, self.num_links, KIND=kind, BLOCK=32, num_warps=1,
        )  # fmt: skip
