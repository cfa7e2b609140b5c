"""What training a model of this house will cost in memory and time, told before it begins."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch

from cgcl.errors import ResourceError
from cgcl.graph import Graph
from cgcl.graph.features import features_of
from cgcl.memory import free_memory, in_words
from cgcl.methods.scoring import block_size
from cgcl.methods.settings import CGCLSettings, RankSettings
from cgcl.model.softmax import CPU_KEPT
from cgcl.seeds import stream
from cgcl.split import random_split
from cgcl.train.calibrating import pairs_to_score
from cgcl.train.config import Resources, RunConfig, SplitConfig
from cgcl.train.execution import computing_with
from cgcl.train.run_folder import count_weights
from cgcl.train.trainer import LOOK_LINKS, Trainer

_FLOAT = 4
_SPARSE_ENTRY = 2 * 8 + _FLOAT  # two indices and a value
# Python, torch, pyarrow and the other libraries, before any graph is read.
_PROGRAM_BYTES = 295_000_000
# How many copies of each thing are alive at the worst moment of a step.
_SPARSE_COPIES = 3  # as read, as trained on, the entries that dropout left
_DENSE_COPIES = 4  # the features, the coins, their product, the same rescaled
_WEIGHT_COPIES = 11  # weights, gradients, two moments, the best ones; a checkpoint; temporaries
_NODE_COPIES = 5  # X W, Z, and the steps to them when the validation links are looked at
# Both ends, their product, the coins, what is left, half of it in the hidden layer, gradients; of
# an inner product only the ends are as wide. Each thread has a block of pairs of its own, and a
# gradient of Z; the readable engine has all pairs at once.
_PAIR_COPIES = {"hadamard": 6.0, "inner": 3.5}
_LINK_BYTES = 160  # links, views, messages and counter-examples, as pairs of 8 bytes
_SAFE_SHARE = 0.8

# Pairs to score in a turn of the views, linked or not, per training link; and turns per epoch.
_VIEWS = {
    "disjoint": (1.0, 2),
    "shared": (1.5, 2),
    "directed": (1.75, 2),
    "own": (1.0, 2),
    "one": (1.0, 1),
    "all": (2.0, 1),
}

# CGCL that ranks: its average and the best one of that; layers with their gradients; links both
# ways; of those asked for the vectors of both ends and their product; a block of scores, and what
# is kept.
_RANK_WEIGHT_COPIES = 13
_RANK_NODE_COPIES, _RANK_LAYER_COPIES = 14, 5
_RANK_LINK_BYTES, _RANK_LINK_COPIES = 300, 3
_SCORES, _SCORE_COPIES = 2**20, 6

# How long the machine's speed is measured, at most.
_TIMED_EPOCHS = 10
_TIMED_S = 1.0

# Seconds per unit of work on one thread of a server, fitted to runs on four data sets with
# widths of 32 to 512; benchmarks/estimate.py compares, `measure_speed` asks another machine.
_TURN_S = 2.6e-3
_COIN_S = 1.9e-8  # for each feature that dropout decides on
_ENTRY_S = 4.6e-10  # for each feature that is left, times the width
_NODE_S = 2.2e-9  # for each node and each message, times the width
_PAIR_S = 3.8e-9  # for each pair, times the width
_FLOP_S = 3.8e-11  # for each multiplication of a dense product, forward and backward
# What the readable engine takes, compared with the blocked one.
_READABLE = 2.2
# What an epoch in batches takes, once, on PubMed with 8,192 links a step: roughly.
_BATCHED = 4.0
# Scoring a pair takes no coins and no way back.
_SCORED_PAIR = 0.37
_SCORED_FLOP = 1 / 3
# CGCL that ranks: for each entry of the adjacency, times width and layers; for each score and flop.
_RANK_TURN_S = 4e-3
_MESSAGE_S = 1.7e-9
_SCORE_S = 5e-9
_SCORE_FLOP_S = 9e-11


@dataclass(frozen=True)
class Estimate:
    """What training will cost, within a factor of about 1.5 for memory and 2 for time."""

    memory_bytes: int
    """Memory of the whole process at its peak."""
    seconds: float
    """Time to train all epochs and to calibrate the result."""
    epoch_seconds: float
    """Time of one epoch."""
    hidden: int
    epochs: int
    parts: Mapping[str, int]
    """The memory by what takes it: program, features, weights, nodes, pairs, links."""
    narrower: Mapping[int, int]
    """The memory at half the width, a quarter, and so on."""

    @property
    def training_bytes(self) -> int:
        """Memory that training takes on top of the program itself."""
        return self.memory_bytes - self.parts["program"]

    def fits_into(self, free: int) -> bool:
        """Whether a fifth of the free bytes would stay free."""
        return self.training_bytes <= _SAFE_SHARE * free


def estimate_graph(
    graph: Graph,
    settings: CGCLSettings | RankSettings,
    split: SplitConfig,
    resources: Resources | None = None,
    speed: float = 1.0,
) -> Estimate:
    """Return what training on a CPU will cost, by a formula; nothing is computed.

    Args:
        graph: Its sizes count; it must have features already, see `prepare`.
        settings: The network and its training.
        split: Which links are held out.
        resources: The engine, and how many threads; the fast one on one thread if None.
        speed: How fast the machine is, see `measure_speed`.
    """
    job = _Job(graph, split, resources or Resources(threads=1))

    def cost(hidden: int) -> _Cost:
        own = replace(settings, hidden=hidden)
        return _of_rank(job, own) if isinstance(own, RankSettings) else _of_cgcl(job, own)

    found = cost(settings.hidden)
    narrower: dict[int, int] = {}
    width = settings.hidden // 2
    while width >= 8:
        narrower[width] = sum(cost(width).parts.values())
        width //= 2
    epoch = found.epoch_seconds / speed
    return Estimate(
        memory_bytes=sum(found.parts.values()),
        seconds=settings.epochs * epoch + found.calibration_seconds / speed,
        epoch_seconds=epoch,
        hidden=settings.hidden,
        epochs=settings.epochs,
        parts=found.parts,
        narrower=narrower,
    )


def require_memory(estimate: Estimate, free: int | None = None) -> None:
    """Refuse to begin what would not fit into memory.

    Args:
        estimate: What training will cost.
        free: Free bytes; what the system says if None.

    Raises:
        ResourceError: Training needs more than 80 % of what is free.
    """
    free = free_memory() if free is None else free
    if estimate.fits_into(free):
        return
    room, program = _SAFE_SHARE * free, estimate.parts["program"]
    fitting = [width for width, size in estimate.narrower.items() if size - program <= room]
    remedy = (
        f"Try `hidden={fitting[0]}`, which needs about "
        f"{in_words(estimate.narrower[fitting[0]] - program)}."
        if fitting
        else "A smaller `hidden` is not enough: use fewer links or features, or a machine with "
        "more memory."
    )
    raise ResourceError(
        f"Training needs about {in_words(estimate.training_bytes)} of memory at "
        f"`hidden={estimate.hidden}`; {in_words(free)} are free, and a fifth of them must stay so."
        f"\n{remedy}"
    )


def measure_speed(resources: Resources) -> float:
    """Return how fast this machine trains, compared with the one of the formula.

    A small random graph is trained for a few epochs, which takes a fraction of a second, and less
    than two on a busy machine.

    Args:
        resources: How many threads to use.
    """
    num_nodes, num_links = 1000, 4000
    names = [str(node) for node in range(num_nodes)]
    pairs = torch.randint(num_nodes, (2, num_links), generator=stream(0, "speed"))
    graph = Graph.from_pairs("speed", names, pairs, torch.eye(num_nodes).to_sparse_coo())
    settings = CGCLSettings(epochs=_TIMED_EPOCHS + 2, evaluate_every=100)
    shares = SplitConfig()
    with computing_with(resources):
        split = random_split(graph, shares.val, shares.test)
        recipe = RunConfig("cgcl", settings, shares)
        trainer = Trainer(features_of(graph), split, recipe, torch.device("cpu"))
        trainer.run_epoch()  # the first one also warms up
        start, seconds = time.perf_counter(), 0.0
        while trainer.epoch <= _TIMED_EPOCHS and seconds < _TIMED_S:
            trainer.run_epoch()
            seconds = time.perf_counter() - start
    return estimate_graph(graph, settings, shares).epoch_seconds * (trainer.epoch - 1) / seconds


@dataclass(frozen=True)
class _Cost:
    """What training costs on the machine of the constants, on one thread."""

    parts: dict[str, int]
    """The bytes that each thing takes at the worst moment."""
    epoch_seconds: float
    calibration_seconds: float
    """Time to score unlinked pairs when all epochs are done."""


@dataclass(frozen=True)
class _Job:
    """The sizes that decide what training costs."""

    graph: Graph
    split: SplitConfig
    resources: Resources

    @property
    def num_links(self) -> float:
        """Links to learn from."""
        return (1 - self.split.val - self.split.test) * self.graph.num_edges

    @property
    def possible_pairs(self) -> int:
        """All pairs of nodes."""
        return self.graph.num_nodes * (self.graph.num_nodes - 1) // 2

    def parts(
        self, name: str, settings: CGCLSettings | RankSettings, copies: int, **others: int
    ) -> dict[str, int]:
        """Return the bytes of program, features, so many copies of the weights, and others."""
        graph, recipe = self.graph, RunConfig(name, settings, self.split)
        features = _FLOAT * _DENSE_COPIES * graph.num_nodes * graph.num_features
        if graph.is_sparse:
            features = _SPARSE_ENTRY * _SPARSE_COPIES * graph.num_nonzeros
        weights = _FLOAT * copies * count_weights(graph.num_features, recipe)
        return {"program": _PROGRAM_BYTES, "features": features, "weights": weights, **others}

    def feature_seconds(self, dropout: float, width: int) -> float:
        """Return the time of dropout and a product with weights of some width, there and back."""
        nonzeros = self.graph.num_nonzeros
        sparse = _COIN_S * nonzeros + _ENTRY_S * ((1 - dropout) * nonzeros) * width
        if self.graph.is_sparse:
            return sparse
        entries = self.graph.num_nodes * self.graph.num_features
        return min(sparse, _COIN_S * entries + 2 * _FLOP_S * entries * width)

    def scored_pairs(self, operations: float) -> int:
        """Return how many pairs are scored to calibrate when all epochs are done."""
        return min(pairs_to_score(operations), self.possible_pairs) if self.split.val else 0


def _of_cgcl(job: _Job, settings: CGCLSettings) -> _Cost:
    """Return what the paper's model costs."""
    hidden, nodes, threads = settings.hidden, job.graph.num_nodes, job.resources.num_threads
    per_link, turns = _VIEWS[settings.views]
    pairs = per_link * job.num_links  # to score in a turn, linked or not
    if settings.views in ("disjoint", "own", "one"):
        # The larger view, where coins are not fair and no pair is in both.
        pairs *= 2 * max(settings.seen, 1 - settings.seen)
    block = min(block_size(hidden), job.possible_pairs)
    is_plain = job.resources.engine == "plain"
    held, gradients = (max(pairs, block), 1) if is_plain else (float(threads * block), threads)
    if settings.batch:
        held, gradients = max(min(2.0 * settings.batch, pairs), block), 1
    # Operations of a pair in the decoder's first layer, which sees so many numbers of it.
    operations = hidden * (1 if settings.product == "inner" else hidden)
    turn = (
        _TURN_S
        + job.feature_seconds(settings.input_dropout, hidden)
        + _NODE_S * (pairs + nodes) * hidden
        + _PAIR_S * pairs * hidden
        + _FLOP_S * pairs * operations
    )
    scored = _SCORED_PAIR * _PAIR_S * hidden + _SCORED_FLOP * _FLOP_S * operations
    slower = _BATCHED if settings.batch else _READABLE if is_plain else 1.0
    return _Cost(
        job.parts(
            "cgcl",
            settings,
            _WEIGHT_COPIES,
            nodes=_FLOAT * (_NODE_COPIES + gradients) * nodes * hidden,
            pairs=int(_FLOAT * _PAIR_COPIES[settings.product] * held * hidden),
            links=int(_LINK_BYTES * pairs),
        ),
        # A look at the validation links costs about as much as half a turn.
        turn * slower * (turns + 0.5 / settings.evaluate_every),
        job.scored_pairs(operations) * scored,
    )


def _of_rank(job: _Job, settings: RankSettings) -> _Cost:
    """Return what CGCL that ranks costs, on the readable engine."""
    hidden, layers, nodes = settings.hidden, settings.layers, job.graph.num_nodes
    width = hidden + settings.signatures  # numbers of a node that are multiplied in a score
    rows = min(settings.sampled or nodes, nodes)  # nodes whose lists a step looks at
    row_s = nodes * (_SCORE_S + _SCORE_FLOP_S * width)  # there and back
    scores = rows * nodes
    kept = scores if scores <= CPU_KEPT else 0
    asked = _FLOAT * _RANK_LINK_COPIES * width * settings.target_share
    turn = (
        _RANK_TURN_S
        + job.feature_seconds(settings.input_dropout, 2 * hidden if settings.self_term else hidden)
        + _MESSAGE_S * (2 * job.num_links + nodes) * hidden * layers
        + _FLOP_S * nodes * hidden * hidden * (layers - 1)
        + rows * row_s
    )
    # A look ranks both ends of some validation links among all nodes.
    looked_at = 2 * min(LOOK_LINKS, job.split.val * job.num_links)
    return _Cost(
        job.parts(
            "cgcl-rank",
            settings,
            _RANK_WEIGHT_COPIES,
            nodes=_FLOAT * (_RANK_NODE_COPIES + _RANK_LAYER_COPIES * layers) * nodes * width,
            pairs=_FLOAT * (kept + _SCORE_COPIES * max(_SCORES, nodes)),
            links=int((_RANK_LINK_BYTES + asked) * job.num_links),
        ),
        2 * turn + looked_at * row_s / settings.evaluate_every,
        job.scored_pairs(width) * _SCORED_PAIR * _PAIR_S * width,
    )
