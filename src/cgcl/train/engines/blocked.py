"""The fast way on a CPU: each pair once, in blocks, with gradients by hand."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from cgcl.graph.pairs import decode, encode
from cgcl.methods.cgcl import CrossViewLearner, draw
from cgcl.methods.method import Epoch, TrainingGraph
from cgcl.methods.scoring import block_size
from cgcl.methods.settings import CGCLSettings
from cgcl.model import GCNEncoder, PairDecoder, View
from cgcl.model.decoder import Targets
from cgcl.train.engines.blocked_features import (
    Coins,
    Features,
    draw_words,
    features_for,
    multiply,
    propagation,
)
from cgcl.train.engines.plain import PlainEngine
from cgcl.workers import default_threads_kept


class BlockedEncoder:
    """Embeddings from a view, and the gradients in the encoder's weights."""

    def __init__(self, encoder: GCNEncoder, known: TrainingGraph, *, is_symmetric: bool) -> None:
        """Set aside room for the embeddings.

        Args:
            encoder: Its weights are read at every step.
            known: Has the features, or makes them of the links of each view.
            is_symmetric: Whether every view holds both directions of its links.
        """
        self._encoder = encoder
        self._is_symmetric = is_symmetric
        self._known = known
        self.features: Features | None = None
        """X of the view that is seen, and what is dropped of it."""
        weight = encoder.weight
        self._h = torch.empty(known.num_nodes, weight.shape[1], dtype=weight.dtype)
        self._z = torch.empty_like(self._h)
        self._back: Tensor | None = None
        self.gradients = [torch.empty_like(p) for p in (encoder.weight, encoder.bias)]
        """In the order of the encoder's weights, after `back`."""

    def forth(self, edge_index: Tensor, generator: torch.Generator) -> Tensor:
        """Return the embeddings Z, [n, d_v], which the next call overwrites   (Eq. 5).

        Args:
            edge_index: The links of the view that is seen, int64 [2, e].
            generator: Source of the dropout coins.
        """
        adjacency, self._back = propagation(
            edge_index, self._z.shape[0], self._z.dtype, is_symmetric=self._is_symmetric
        )
        features = self.see(edge_index)
        features.drop(generator)
        features.times(self._encoder.weight, out=self._h)
        multiply(adjacency, self._h, out=self._z)
        return functional.elu_(self._z.add_(self._encoder.bias))

    def see(self, edge_index: Tensor) -> Features:
        """Return X as a view has it: the same for all, or made of the view's links."""
        if self.features is None or self._known.structure is not None:
            x = self._known.features_along(edge_index)
            self.features = features_for(x, self._encoder.input_dropout)
        return self.features

    def back(self, into_z: Tensor) -> None:
        """Fill `gradients`.

        Args:
            into_z: The gradient of the loss in Z, [n, d_v]; it is overwritten.
        """
        if self._back is None or self.features is None:
            raise RuntimeError("There is no way back before the way forth.")
        into_weight, into_bias = self.gradients
        # ELU' follows from its result: 1 above zero, z + 1 below.
        torch.ops.aten.elu_backward.grad_input(into_z, 1, 1, 1, True, self._z, grad_input=into_z)
        torch.sum(into_z, dim=0, out=into_bias)
        multiply(self._back, into_z, out=self._h)
        self.features.transposed_times(self._h, out=into_weight)


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
    base = int(view.pairs.max()) + 1
    codes = encode(view.pairs[0], view.pairs[1], base)
    codes, times = torch.unique(codes, return_counts=True)
    return decode(codes, base), times


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
        first = self._workers[0]
        self.coins = first.coins
        """The coins of a block's products."""
        self.gradients = first.gradients
        """What `run` has found, in the order of the decoder's weights."""
        self.into_z = first.into_z
        """The gradient in Z that `run` has found, [n, d_v]."""
        self._scaled = torch.empty_like(weight)

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
        self.sums = [self.into_z, *self.gradients]
        """All that is summed over pairs."""

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


class BlockedEngine(PlainEngine):
    """Trains CGCL on a CPU.

    The last bits differ from the readable path's, as sums have another order, and dropout tosses
    other coins. On the same machine with as many threads a run repeats itself to the last bit.
    """

    name = "blocked"

    def __init__(
        self, learner: CrossViewLearner, known: TrainingGraph, settings: CGCLSettings, seed: int
    ) -> None:
        """Set aside room for the gradients and for blocks of pairs; one worker for each thread.

        Args:
            learner: The network, whose weights are changed in place.
            known: The links to learn from, on a CPU.
            settings: How views are drawn, learning rate, penalty and the longest gradient.
            seed: The seed of the whole run.
        """
        super().__init__(learner, known, settings, seed)
        self._cgcl = settings
        is_symmetric = settings.views != "directed"
        self.encoder = BlockedEncoder(learner.encode, known, is_symmetric=is_symmetric)
        self.decoder = BlockedDecoder(learner.decode, known.num_nodes, settings.hidden)

    @torch.no_grad()
    def fill_gradients(
        self, seen: View, hidden: View, unlinked: Tensor, generator: torch.Generator
    ) -> Tensor:
        """Write the gradients of one step's loss into the weights' `grad` and return the loss.

        Args:
            seen: The view to encode.
            hidden: The view to reconstruct; it holds at least one link.
            unlinked: Counter-examples, int64 [2, any].
            generator: Source of the dropout coins, those of the features first.
        """
        z = self.encoder.forth(seen.edge_index, generator)
        scored = scored_pairs(hidden, unlinked, self._cgcl.targets, z.dtype)
        loss = self.decoder.run(z, scored, generator)
        self.encoder.back(self.decoder.into_z)
        gradients = [*self.encoder.gradients, *self.decoder.gradients]
        for weight, gradient in zip(self._learner.parameters(), gradients, strict=True):
            weight.grad = gradient
        return loss

    def _steps(self, epoch: Epoch) -> Iterator[Tensor]:
        drawn = draw(self._known, epoch, self._cgcl)
        generator = epoch.stream("dropout")
        for (seen, hidden), unlinked in zip(drawn.views.passes(), drawn.negatives, strict=True):
            if hidden.num_pairs == 0:  # a tiny graph may leave a view empty
                continue
            loss = self.fill_gradients(seen, hidden, unlinked, generator)
            self._step()
            yield loss
