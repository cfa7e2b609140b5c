"""Decoder and loss by hand: pairs forth and back in blocks that stay in the cache."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from cgcl.methods.scoring import block_size
from cgcl.model import PairDecoder, View
from cgcl.model.loss import Targets
from cgcl.train.engines.blocked_coins import Coins, draw_words
from cgcl.train.execution import default_threads_kept

# Each worker sums the gradients in Z on its own; together they take no more than 512 MB for it.
_MOST_NUMBERS = 2**27


@dataclass(frozen=True, eq=False)
class Scored:
    """The pairs that a step scores, each once, and what is wanted of them."""

    pairs: Tensor
    """Links to reconstruct, then unlinked pairs, int64 [2, p]."""
    weights: Tensor
    """The share of each pair in the loss; those of links add up to 1, the others too, [p]."""
    wanted: Tensor
    """What the sigmoid of the logit should be, [p]."""


def scored_pairs(hidden: View, unlinked: Tensor, targets: Targets, dtype: torch.dtype) -> Scored:
    """Return what a step scores; a pair that a view holds in both directions counts twice.

    Args:
        hidden: The view to reconstruct; it holds at least one link.
        unlinked: As many counter-examples or any other number, int64 [2, any].
        targets: As in `consistency_loss`.
        dtype: Of the weights.
    """
    links, times = _counted(hidden)
    pairs = torch.cat([links, unlinked], dim=1)
    is_link = torch.arange(pairs.shape[1]) < links.shape[1]
    weights = torch.full(is_link.shape, 1 / max(unlinked.shape[1], 1), dtype=dtype)
    weights[: links.shape[1]] = times.to(dtype) / hidden.num_pairs
    wanted = is_link.to(dtype)
    return Scored(pairs, weights, wanted.sigmoid() if targets == "sigmoid" else wanted)


def _counted(view: View) -> tuple[Tensor, Tensor]:
    """Return each unordered pair of a view once, and how often the view holds it."""
    if view.edge_index.shape != view.pairs.shape:  # messages flow both ways along each pair
        return view.pairs, torch.ones_like(view.pairs[0])
    low, high = view.pairs.amin(dim=0), view.pairs.amax(dim=0)
    base = int(high.max()) + 1
    codes, times = torch.unique(low * base + high, return_counts=True)
    return torch.stack([codes // base, codes % base]), times


class BlockedDecoder:
    """The gradients of the loss in the decoder's weights and in the embeddings.

    The pairs are shared out evenly among workers. Each takes its share block by block, forth and
    back, on one thread: were every operation on a block shared out instead, the threads would wait
    for each other ten thousand times an epoch, and for ages if another program keeps one busy.
    Every sum has an order of its own, so that its last bit is always the same.
    """

    def __init__(self, decoder: PairDecoder, num_nodes: int, width: int) -> None:
        """Set aside room for a block and for the gradients of each worker.

        Args:
            decoder: Its weights are read at every step.
            num_nodes: Number of nodes.
            width: Width of the embeddings, d_v.
        """
        self._decoder = decoder
        weight = decoder.layer_1.weight
        affordable = _MOST_NUMBERS // max(num_nodes * width, 1)
        count = max(1, min(torch.get_num_threads(), affordable))
        self._workers = [_Worker(decoder, num_nodes, width) for _ in range(count)]
        self._pool = ThreadPoolExecutor(count, "decoder")
        self.coins = self._workers[0].coins
        """The coins of a block's products."""
        self._scaled = torch.empty_like(weight)

    @property
    def gradients(self) -> list[Tensor]:
        """What `run` has found, in the order of the decoder's weights."""
        return self._workers[0].gradients

    @property
    def into_z(self) -> Tensor:
        """The gradient in Z that `run` has found, [n, d_v]."""
        return self._workers[0].into_z

    def run(self, z: Tensor, scored: Scored, generator: torch.Generator) -> Tensor:
        """Fill `gradients` and `into_z` and return the loss.

        Args:
            z: Embeddings, [n, d_v].
            scored: What to score.
            generator: Source of the dropout coins.
        """
        # Products are masked but not scaled, which would take a pass over them; W_1 is instead.
        torch.mul(self._decoder.layer_1.weight, self.coins.scale, out=self._scaled)
        count = scored.pairs.shape[1]
        words = draw_words(count, generator) if self._decoder.decoder_dropout else None
        task = _Task(z, self._scaled, scored, words, torch.empty_like(scored.weights))
        self._share_out(task)
        first, *others = self._workers
        for other in others:
            for total, part in zip(first.sums, other.sums, strict=True):
                total.add_(part)
        self.gradients[0].mul_(self.coins.scale)
        return functional.binary_cross_entropy_with_logits(
            task.logits, scored.wanted, scored.weights, reduction="sum"
        )

    def _share_out(self, task: _Task) -> None:
        """Let each worker do its share."""
        number, count = len(self._workers), task.logits.numel()
        ends = [count * index // number for index in range(number + 1)]
        if number == 1:
            self._workers[0].run(task, 0, count)
            return
        threads = torch.get_num_threads()

        def run(worker: _Worker, start: int, stop: int) -> None:
            torch.set_num_threads(max(1, threads // number))  # of this worker
            worker.run(task, start, stop)

        with default_threads_kept():
            list(self._pool.map(run, self._workers, ends[:-1], ends[1:]))


@dataclass(frozen=True, eq=False)
class _Task:
    """What all workers look at in one step, and the logits, each of which one of them writes."""

    z: Tensor
    weight_1: Tensor
    """W_1, scaled for dropout."""
    scored: Scored
    words: Tensor | None
    """Of the dropout coins, if there are any."""
    logits: Tensor


class _Worker:
    """Takes some of the pairs forth and back in blocks that stay in the cache.

    No tensor has a row for each pair and a column for each entry of an embedding, but for a block.
    """

    def __init__(self, decoder: PairDecoder, num_nodes: int, width: int) -> None:
        """Set aside room for a block and for the gradients."""
        self._decoder = decoder
        self._is_inner = decoder.product == "inner"
        self._rows = block_size(width)
        weight = decoder.layer_1.weight
        entries = decoder.layer_1.in_features
        self.coins = Coins(decoder.decoder_dropout, entries, self._rows)

        def block(columns: int) -> Tensor:
            return torch.empty(self._rows, columns, dtype=weight.dtype)

        self._left, self._right, self._products = block(width), block(width), block(width)
        self._kept, self._into_features = block(entries), block(entries)
        self._hidden = block(decoder.layer_1.out_features)
        self._into_hidden = torch.empty_like(self._hidden)
        self.gradients = [torch.empty_like(p) for p in decoder.parameters()]
        self.into_z = torch.empty(num_nodes, width, dtype=weight.dtype)

    @property
    def sums(self) -> list[Tensor]:
        """All that is summed over pairs."""
        return [self.into_z, *self.gradients]

    @torch.no_grad()
    def run(self, task: _Task, start: int, stop: int) -> None:
        """Sum the gradients over the pairs from `start` to `stop`."""
        for total in self.sums:
            total.zero_()
        for first in range(start, stop, self._rows):
            self._run_block(task, slice(first, min(first + self._rows, stop)))

    def _run_block(self, task: _Task, rows: slice) -> None:
        """Take a block of pairs forth and back."""
        size = rows.stop - rows.start
        ends = task.scored.pairs[0, rows], task.scored.pairs[1, rows]
        left, right, products = self._left[:size], self._right[:size], self._products[:size]
        torch.index_select(task.z, 0, ends[0], out=left)
        torch.index_select(task.z, 0, ends[1], out=right)
        torch.mul(left, right, out=products)
        features = products.sum(dim=1, keepdim=True) if self._is_inner else products
        kept = self._kept[:size]
        if task.words is not None:
            features.mul_(self.coins.toss(task.words[rows], out=kept))
        into_logits = self._score(features, task, rows)
        into_features = self._return(features, into_logits, task.weight_1)
        if task.words is not None:
            into_features.mul_(kept)
        # d(z_i z_j) / dz_i = z_j, and the other way round; the products are no longer needed.
        for end, other in ((ends[0], right), (ends[1], left)):
            self.into_z.index_add_(0, end, torch.mul(into_features, other, out=products))

    def _score(self, features: Tensor, task: _Task, rows: slice) -> Tensor:
        """Write a block's logits and return the gradient of the loss in them, [rows]   (Eq. 7)."""
        layer_1, layer_2 = self._decoder.layer_1, self._decoder.layer_2
        hidden, logits = self._hidden[: features.shape[0]], task.logits[rows]
        torch.addmm(layer_1.bias, features, task.weight_1.t(), out=hidden).relu_()
        torch.addmv(layer_2.bias.expand_as(logits), hidden, layer_2.weight[0], out=logits)
        is_off = logits <= 0 if self._decoder.last_layer == "relu" else None
        if is_off is not None:
            logits.relu_()
        gradient = logits.sigmoid().sub_(task.scored.wanted[rows]).mul_(task.scored.weights[rows])
        return gradient if is_off is None else gradient.masked_fill_(is_off, 0)

    def _return(self, features: Tensor, into_logits: Tensor, weight_1: Tensor) -> Tensor:
        """Add to the gradients in the weights; return that in a block's features."""
        into_weight_1, into_bias_1, into_weight_2, into_bias_2 = self.gradients
        size = features.shape[0]
        hidden, into_hidden = self._hidden[:size], self._into_hidden[:size]
        into_weight_2[0].addmv_(hidden.t(), into_logits)
        into_bias_2.add_(into_logits.sum())
        torch.outer(into_logits, self._decoder.layer_2.weight[0], out=into_hidden)
        torch.ops.aten.threshold_backward.grad_input(into_hidden, hidden, 0, grad_input=into_hidden)
        into_bias_1.add_(into_hidden.sum(dim=0))
        into_weight_1.addmm_(into_hidden.t(), features)
        return torch.mm(into_hidden, weight_1, out=self._into_features[:size])
