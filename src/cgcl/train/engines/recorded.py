"""CGCL that ranks on a GPU: an epoch is some eighty kernels, recorded once and replayed.

Nothing waits for the host inside an epoch, and the scores of all pairs are never kept. Matrices are
multiplied in half precision and added up in full: vectors that are compared have the digits of
TF32, features, messages and gradients those of bfloat16; weights, Z and what is added to it are in
full precision. Sums are added up in whatever order they arrive, so the last bits differ from run to
run; `deterministic` takes `PlainEngine` for equal bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch
from torch import Tensor
from torch.nn import functional

from cgcl.counter_rng import base_key, words, words_below
from cgcl.methods.cgcl import VIEWS
from cgcl.methods.cgcl_rank import RankingLearner
from cgcl.methods.method import TrainingGraph
from cgcl.methods.settings import RankSettings
from cgcl.model.ranker import signatures
from cgcl.train.engines.all_pairs import AllPairs, Turns, product_into
from cgcl.train.engines.gpu import LinkRows, Weights, blocks, dropping, launch, power_of_2
from cgcl.train.engines.kernels import ranking
from cgcl.train.engines.kernels.shared import drop_features

_BLOCK = 1024
# Entries of whole rows that a program holds.
_HELD = 4096
# Features per node are a multiple of this in memory: a GPU reads whole groups.
_WHOLE = 32
# Programs that add up over all nodes: as many as a large card runs at once.
_PROGRAMS = 264


class RankingSteps:
    """What an epoch computes on, and the kernels that compute it; everything is only queued."""

    def __init__(
        self,
        learner: RankingLearner,
        known: TrainingGraph,
        settings: RankSettings,
        seed: int,
        half: torch.dtype = torch.bfloat16,
    ) -> None:
        """Arrange everything on the device; nothing is trained yet.

        Args:
            learner: The method with its weights, which become windows into one tensor.
            known: The links to learn from, and features.
            settings: The network and its training.
            seed: The seed of the whole run.
            half: The precision of features, messages and gradients.
        """
        self._half = half
        self.learner, self._known, self._settings = learner, known, settings
        self.device, n, m = known.device, known.num_nodes, known.links.shape[1]
        self._names = {name: index for index, (name, _) in enumerate(learner.named_parameters())}
        self.weights = Weights([learner], [settings])
        for index, weight in enumerate(learner.parameters()):
            weight.grad = self.weights.gradient(index)[0]
        follow = 1 - settings.average if settings.average > 0 else 0.0
        self.weights.average_into(learner.averages(), follow)
        self._rows = LinkRows.of([known.links], n)
        self._layers = settings.layers
        width = settings.hidden + settings.signatures
        self._prepared = learner.prepare(known)
        is_small = settings.norm and half != torch.float32
        precision = torch.float16 if is_small else torch.float32, half
        self._pairs = AllPairs(self._prepared, known, width, settings.row_share, precision)
        self.epoch, counts = (self._zeros(own, dtype=torch.int32) for own in (1, 2))
        seen, offset = self._zeros(2, m, dtype=torch.int8), learner.offset
        self._turns = Turns(seen, counts, self.epoch, self.weights.steps, offset, settings.average)
        # The coins of views, then those of each step: features, layers, the decoder.
        purposes = ("inputs", *(f"layer {number}" for number in range(self._layers)))
        self._keys = torch.tensor(
            [base_key(seed, VIEWS)]
            + [base_key(seed, f"{name} {turn}") for turn in (1, 2) for name in purposes],
            device=self.device,
        )
        self._make_room(known)
        # A view that asks for nothing steps, too, as the plain engine does.
        self._always = torch.ones(2, dtype=torch.int32, device=self.device)

    @property
    def state(self) -> list[Tensor]:
        """All that an epoch changes and the next one reads."""
        return [*self.weights.state(), self._turns.offset]

    def _make_room(self, known: TrainingGraph) -> None:
        n, d, layers, half = known.num_nodes, self._settings.hidden, self._layers, self._half
        # A program takes some of a node's links and columns at once, or whole rows of some nodes.
        columns = power_of_2(d, 16)
        self._blocks = {"ENTRIES": 8, "COLUMNS": min(128, columns), "num_warps": 1}
        self._grid = n, blocks(d, self._blocks["COLUMNS"])
        self._whole_rows = {"ROWS": max(1, _HELD // columns), "COLUMNS": columns, "num_warps": 8}
        self._held_blocks = blocks(n, self._whole_rows["ROWS"])
        self._scales = self._zeros(n)
        self._neighbours, self._numbers = (
            torch.zeros_like(self._rows.neighbours) for _ in range(2)
        )
        self._middles = self._zeros(n, dtype=torch.int32)
        # What messages pass along.
        rows = self._rows
        self._links = rows.order, rows.starts, self._middles, self._neighbours, self._scales
        deeper = [f"encode.deeper.{number}.weight" for number in range(layers - 1)]
        self._copies = {name: self._zeros(d, d, dtype=half) for name in deeper}
        self._own = self._settings.self_term
        self._h = self._zeros(n, 2 * d if self._own else d, dtype=half)
        self._to_h = torch.zeros_like(self._h)
        # The last columns of the gradient of H are that of the first layer before its ELU.
        self._to_first = self._to_h[:, -d:] if self._own else self._zeros(n, d, dtype=half)
        self._z, self._to_z = (self._zeros(n, d) for _ in range(2))
        self._pre = [self._zeros(n, d, dtype=half) for _ in range(layers)]
        self._messages = [self._zeros(n, d, dtype=half) for _ in range(layers - 1)]
        self._dropped, self._to_pre, self._to_messages = (
            self._zeros(n, d, dtype=half) for _ in range(3)
        )
        self._to_weights = self._zeros(self._pairs.width)
        self.losses = self._zeros(2)
        if known.structure is None:
            # A GPU is slow on odd numbers of features: the last are zeros.
            more = -known.num_features % _WHOLE
            self._x = functional.pad(known.features.to(half), (0, more)).contiguous()
            self._left = torch.zeros_like(self._x)
            shape = (self._x.shape[1], self._h.shape[1])
            self._copies["encode.weight"] = self._zeros(*shape, dtype=half)

    def _zeros(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.zeros(shape, dtype=dtype, device=self.device)

    def run_epoch(self) -> None:
        """Draw the views, then take both steps; everything is only queued."""
        turns, count = self._turns, self._known.links.shape[1]
        turns.counts.zero_()
        share = self._settings.target_share
        launch(ranking.see_links, blocks(count, _BLOCK))(
            self._rows.pairs, turns.seen, turns.counts, self._keys, self.epoch, count,
            words_below(1 - share), words_below(share), BLOCK=_BLOCK,
        )  # fmt: skip
        for turn in (0, 1):
            self._step(turn)
        self.epoch.add_(1)

    def _step(self, turn: int) -> None:
        rows = self._rows
        launch(ranking.sort_links, self._known.num_nodes)(
            rows.starts, rows.neighbours, rows.pair_of, self._turns.seen[turn],
            self._pairs.places, self._neighbours, self._numbers, self._middles, self._scales,
            BLOCK=32, num_warps=1,
        )  # fmt: skip
        for name, copy in self._copies.items():
            weight = self.weights.value(self._names[name])[0]
            copy[: weight.shape[0]].copy_(weight)
        made = self._inputs(turn)
        self._encode(turn)
        weights = self._decode(turn)
        self._pairs.forward(turn, self._turns, self.losses[turn])
        self._pairs.backward(turn, self._turns)
        self._decode_back(turn, weights)
        self._encode_back(turn)
        self._inputs_back(made)
        self._clip()
        self.weights.step(turn, self._always, self.epoch)

    def _inputs(self, turn: int) -> Tensor | None:
        """Write H, and return it as torch computed it if features are made of links."""
        structure, settings = self._known.structure, self._settings
        if structure is not None:
            linked = self._prepared.linked(self._seen(turn), self._kept_links(turn))
            with torch.enable_grad():
                h = self.learner.encode.inputs_of_links(linked, structure.feature_of_node)
            self._h.copy_(h.detach())
            return h
        n, count = self._x.shape
        launch(drop_features, n, blocks(count, _BLOCK), 1)(
            self._x, self._left, self._keys, self.epoch, n, count, count, 0,
            *dropping(settings.input_dropout), self._key(turn, 0), NUM_KEYS=0, BLOCK=_BLOCK,
        )  # fmt: skip
        product_into(self._h, self._left, self._copies["encode.weight"])
        return None

    def _inputs_back(self, made: Tensor | None) -> None:
        launch(ranking.send, *self._grid)(
            *self._links, self._to_first, self._to_first.stride(0), self._to_h,
            self._to_h.stride(0), self._settings.hidden, **self._blocks,
        )  # fmt: skip
        if made is not None:
            made.backward(self._to_h.float())
            return
        left = self._left[:, : self._known.num_features]
        product_into(self._gradient("encode.weight"), left.T, self._to_h)

    def _encode(self, turn: int) -> None:
        d, epoch, links = self._settings.hidden, self.epoch, self._links
        drop = dropping(self._settings.hidden_dropout)
        launch(ranking.first_layer, *self._grid)(
            *links, self._h, self._h.stride(0), self.learner.encode.bias, self._pre[0], self._z,
            self._dropped, self._keys, epoch, d, *drop, self._key(turn, 1), OWN=self._own,
            NEXT=self._layers > 1, **self._blocks,
        )  # fmt: skip
        for number in range(1, self._layers):
            messages, pre = self._messages[number - 1], self._pre[number]
            launch(ranking.send, *self._grid)(
                *links, self._dropped, d, messages, d, d, **self._blocks
            )
            name = f"encode.deeper.{number - 1}"
            product_into(pre, messages, self._copies[f"{name}.weight"].T)
            launch(ranking.activate, blocks(self._z.numel(), _BLOCK))(
                pre, self.learner.encode.deeper[number - 1].bias, self._z, self._dropped,
                self._keys, epoch, d, self._z.numel(), *drop, self._key(turn, number + 1),
                NEXT=number + 1 < self._layers, BLOCK=_BLOCK,
            )  # fmt: skip

    def _encode_back(self, turn: int) -> None:
        d, epoch = self._settings.hidden, self.epoch
        for number in range(self._layers - 1, 0, -1):
            name, to_pre = f"encode.deeper.{number - 1}", self._to_pre
            self._add_columns(to_pre, f"{name}.bias")
            product_into(self._gradient(f"{name}.weight"), to_pre.T, self._messages[number - 1])
            product_into(self._to_messages, to_pre, self._copies[f"{name}.weight"])
            below = self._to_below(number)
            launch(ranking.send_back, *self._grid)(
                *self._links, self._to_messages, d, self._to_z, self._pre[number - 1], below,
                below.stride(0), self._keys, epoch, d, *dropping(self._settings.hidden_dropout),
                self._key(turn, number), **self._blocks,
            )  # fmt: skip
        self._add_columns(self._to_first, "encode.bias")

    def _to_below(self, number: int) -> Tensor:
        """Return where the gradient of the layer below stands, before its ELU."""
        return self._to_first if number == 1 else self._to_pre

    def _decode(self, turn: int) -> Tensor:
        """Write the factors of all scores; return w, [width], as torch computed it."""
        pairs, settings, decode = self._pairs, self._settings, self.learner.decode
        d, popular = settings.hidden, decode.popularity
        with torch.enable_grad():
            weights = decode.weights(d + settings.signatures)
        told = weights.detach()
        launch(ranking.normalise, self._held_blocks)(
            self._z, pairs.places, told, popular.weight if popular else told,
            popular.bias if popular else told, pairs.left, pairs.right, pairs.half, pairs.terms,
            self._keys, self.epoch, self._known.num_nodes, d, pairs.width,
            *dropping(settings.decoder_dropout), self._key(turn, self._layers),
            NORM=settings.norm, POPULAR=popular is not None, **self._whole_rows,
        )  # fmt: skip
        if settings.signatures:
            counted = self._prepared.counted(self._seen(turn))
            signed = signatures(counted, settings.signatures)
            columns = slice(d, d + settings.signatures)
            for out, made in (
                (pairs.right, signed), (pairs.half, signed), (pairs.left, signed * told[d:]),
            ):  # fmt: skip
                out[:, columns].index_copy_(0, pairs.places, made.to(out.dtype))
        return weights

    def _decode_back(self, turn: int, weights: Tensor) -> None:
        pairs, settings, rows = self._pairs, self._settings, self._rows
        d, n, popular = settings.hidden, self._known.num_nodes, self.learner.decode.popularity
        launch(ranking.add_links, n, blocks(pairs.width, self._blocks["COLUMNS"]))(
            rows.order, rows.starts, self._middles, self._neighbours, self._numbers,
            pairs.to_scores, pairs.places, pairs.right, pairs.products, pairs.width, pairs.width,
            **self._blocks,
        )  # fmt: skip
        told, to_weights = weights.detach(), self._to_weights.zero_()
        below = self._to_below(self._layers)
        names = ("decode.popularity.weight", "decode.popularity.bias")
        to_popular = [self._gradient(name) if popular else to_weights for name in names]
        launch(ranking.normalise_back, min(self._held_blocks, _PROGRAMS))(
            pairs.products, self._z, self._pre[-1], pairs.places, told,
            popular.weight if popular else told, pairs.to_terms, pairs.link_terms,
            pairs.link_sums, pairs.with_own, pairs.log_total, self._turns.counts, to_weights,
            *to_popular, self._to_z, below, below.stride(0), self._keys, self.epoch, n, d,
            pairs.width, pairs.num_tiles, settings.row_share, *dropping(settings.decoder_dropout),
            self._key(turn, self._layers), TURN=turn, NORM=settings.norm,
            POPULAR=popular is not None, TILES=64, **self._whole_rows,
        )  # fmt: skip
        if settings.signatures:
            some = slice(d, d + settings.signatures)
            to_weights[some] = (pairs.products[:, some] * pairs.right[:, some]).sum(0) / 2
        weights.backward(to_weights[: weights.numel()])

    def _clip(self) -> None:
        if self._settings.clip:
            gradients = self.weights.gradients
            gradients.mul_((self._settings.clip / (gradients.norm() + 1e-6)).clamp(max=1))

    def _add_columns(self, x: Tensor, name: str) -> None:
        """Add the sum over all nodes to a bias' gradient."""
        n, d = x.shape
        launch(ranking.add_columns, blocks(n, 64), blocks(d, 128))(
            x, x.stride(0), self._gradient(name), n, d, ROWS=64, COLUMNS=128
        )

    def _seen(self, turn: int) -> Tensor:
        return self._turns.seen[turn] != 0

    def _kept_links(self, turn: int) -> Tensor | None:
        """Return what dropout leaves of each link as a feature, [m + 1]."""
        chance = self._settings.input_dropout
        if not chance:
            return None
        count, key = self._known.links.shape[1] + 1, self._keys[self._key(turn, 0)]
        numbers = torch.arange(count, device=self.device)
        coins = words(key, numbers, self.epoch.long())
        return (coins >= words_below(chance)) / (1 - chance)

    def _key(self, turn: int, purpose: int) -> int:
        """Return the number of a step's key: 0 for features, then each layer's and the decoder."""
        return 1 + turn * (self._layers + 1) + purpose

    def _gradient(self, name: str) -> Tensor:
        return self.weights.gradient(self._names[name])[0]


# The widest vector of which a program holds whole rows.
_MOST_WIDTH = 4096


def supports(known: TrainingGraph, settings: RankSettings) -> bool:
    """Whether the kernels can do what is asked; `PlainEngine` can do everything."""
    is_sampled = 0 < settings.sampled < known.num_nodes
    has_made = known.structure is not None
    return (
        not is_sampled
        and settings.hidden <= _MOST_WIDTH
        and known.links.shape[1] > 0
        and (has_made or not known.features.is_sparse)
    )


class RecordedEngine:
    """Runs epochs as one CUDA graph; computes what the plain engine does."""

    name = "recorded"
    epochs_at_once = 20

    def __init__(self, steps: RankingSteps) -> None:
        """Take what was arranged for a learner; nothing is trained yet."""
        self._steps, self._device, self.optimizer = steps, steps.device, steps.weights
        self._graph: torch.cuda.CUDAGraph | None = None
        self._stream: torch.cuda.Stream | None = None
        self._history = torch.zeros(0, 2)

    def run(self, first: int, count: int) -> list[list[float]]:
        """Run some epochs and return the losses of the steps of each; wait once, for all."""
        self.start(first, count)
        return self.finish()

    def start(self, first: int, count: int) -> None:
        """Queue some epochs on a stream of this engine's own: others compute meanwhile."""
        self._history = torch.zeros(count, 2, device=self._device)
        with self._at_work():
            if self._graph is None and self._device.type == "cuda":
                self._graph = self._record(first)
            with self._on_own_stream():
                self._steps.epoch.fill_(first)
                for own in self._history:
                    if self._graph is None:
                        self._steps.run_epoch()
                    else:
                        self._graph.replay()
                    own.copy_(self._steps.losses)

    def finish(self) -> list[list[float]]:
        """Wait for what was started, and return the losses of the steps of each epoch."""
        if self._stream is not None:
            self._stream.synchronize()
        return self._history.tolist()

    def _record(self, epoch: int) -> torch.cuda.CUDAGraph:
        """Run an epoch to compile its kernels, record another, and undo both."""
        state = self._steps.state
        before = [tensor.clone() for tensor in state]
        self._steps.epoch.fill_(epoch)
        with self._on_own_stream():
            self._steps.run_epoch()
        graph = torch.cuda.CUDAGraph()
        # The stream decides where matrix products keep what they add up: it must be no other's.
        with torch.cuda.graph(graph, stream=self._stream):
            self._steps.run_epoch()
        for tensor, old in zip(state, before, strict=True):
            tensor.copy_(old)
        return graph

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """Launch kernels on the right card, and let nothing remember how it was computed."""
        is_gpu = self._device.type == "cuda"
        with torch.no_grad(), torch.cuda.device(self._device) if is_gpu else nullcontext():
            self._steps.learner.train()
            yield

    @contextmanager
    def _on_own_stream(self) -> Iterator[None]:
        if self._device.type != "cuda":
            yield
            return
        if self._stream is None:
            self._stream = torch.cuda.Stream(self._device)
        # What others have made of the weights comes first.
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._stream):
            yield
