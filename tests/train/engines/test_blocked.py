"""The fast engine on a CPU against the readable path, and which of them is taken."""

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations, product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from cgcl.errors import SplitError
from cgcl.graph import Graph
from cgcl.graph.features import Structure
from cgcl.methods.cgcl import CrossViewLearner, draw
from cgcl.methods.method import Epoch, TrainingGraph
from cgcl.methods.settings import CGCLSettings
from cgcl.model.decoder import consistency_loss
from cgcl.seeds import seeded
from cgcl.split import random_split
from cgcl.train.config import Resources, RunConfig
from cgcl.train.engines import PlainEngine, blocked, engine_for
from cgcl.train.engines.blocked import BlockedEngine
from cgcl.train.engines.blocked_features import (
    Coins,
    DenseFeatures,
    Features,
    SparseFeatures,
    draw_words,
    features_for,
)
from cgcl.train.trainer import Trainer

Build = Callable[[int], Graph]
KINDS = ("sparse", "dense", "structural")
VIEWS = ("disjoint", "shared", "directed", "own", "one", "all")
SEED = 3
BLOCK = 37


def both(*every: Sequence[object], cycle: Sequence[Sequence[object]]) -> list[tuple]:
    """Return all combinations of the one, with those of the other in turn."""
    others = itertools.cycle(product(*cycle))
    return [(*own, *other) for own, other in zip(product(*every), others, strict=False)]


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def double(known: TrainingGraph):  # after the graph, whose features are float32
    """Let features that are made of links be as exact as the others are here."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let even a toy graph need many blocks, the last of them cut short."""
    monkeypatch.setattr(blocked, "block_size", lambda _width: BLOCK)


@pytest.fixture
def known(sbm: Build) -> TrainingGraph:
    graph = sbm(0)
    return with_features(graph.num_nodes, graph.edges)


def features(num_nodes: int, kind: str = "sparse") -> Tensor:
    x = torch.rand(num_nodes, 9, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return x if kind == "dense" else (x * (x > 0.6)).to_sparse_coo().coalesce()


def with_features(num_nodes: int, links: Tensor, kind: str = "sparse") -> TrainingGraph:
    """Features are given, or made of links; then about thirteen nodes share each."""
    if kind == "structural":
        return TrainingGraph(num_nodes, links, Structure.of(links, num_nodes, 9))
    return TrainingGraph(num_nodes, links, features(num_nodes, kind))


def build(options: CGCLSettings, dtype: torch.dtype = torch.float64) -> CrossViewLearner:
    with seeded(SEED, "weights"):
        learner = CrossViewLearner(9, options)
    # A bias of zero would hide what is done with it.
    for weight in learner.parameters():
        weight.data += 0.1
    # About half of the logits come to lie below zero, where a last ReLU cuts them off.
    learner.decode.layer_2.bias.data += 0.39 if options.product == "hadamard" else -0.21
    return learner.to(dtype)


def gradients(learner: CrossViewLearner) -> list[Tensor]:
    found = [weight.grad for weight in learner.parameters()]
    assert all(gradient is not None for gradient in found)
    return [gradient.clone() for gradient in found if gradient is not None]


def assert_same(ours: list[Tensor], theirs: list[Tensor], tolerance: float = 1e-12) -> None:
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


def without_dropout(**options: object) -> CGCLSettings:
    return CGCLSettings(**({"hidden": 10, "input_dropout": 0, "decoder_dropout": 0} | options))


@pytest.mark.usefixtures("small_blocks", "double")
@pytest.mark.parametrize(
    ("kind", "views", "targets", "last_layer", "product_"),
    both(KINDS, VIEWS, cycle=(("hard", "sigmoid"), ("linear", "relu"), ("hadamard", "inner"))),
)
def test_losses_gradients_and_steps_are_those_of_the_plain_engine(
    known: TrainingGraph, kind: str, views: str, targets: str, last_layer: str, product_: str
) -> None:
    options = without_dropout(
        **{"views": views, "targets": targets, "last_layer": last_layer, "product": product_},
        negatives="view" if targets == "hard" else "train",
        clip=0.001 if last_layer == "linear" else 0.0,
        weight_decay=0.01,
    )
    known = with_features(known.num_nodes, known.links, kind)
    learners = [build(options) for _ in range(2)]
    engines = PlainEngine, BlockedEngine
    for epoch in (1, 2):
        theirs, ours = (
            torch.tensor(engine(learner, known, options, SEED).run(epoch, 1))
            for engine, learner in zip(engines, learners, strict=True)
        )
        torch.testing.assert_close(ours, theirs)
        # Adam divides by the gradient's size, so a last bit of a tiny gradient grows.
        assert_same(*([*own.parameters()] for own in learners), tolerance=1e-8)
        assert_same(*map(gradients, learners), tolerance=1e-8)
    if (kind, last_layer) != ("structural", "relu"):  # `build` has no bias for this one
        assert all(bool(gradient.any()) for gradient in gradients(learners[0]))  # nothing is dead


def dropped(held: Features) -> Tensor:
    """Return X as the last `drop` left it, dense."""
    return held.forth.to_dense() * held.scale


def reference(engine: BlockedEngine, learner: CrossViewLearner, turn: tuple) -> Tensor:
    """Return the loss by the model's own layers, but with the engine's coins."""
    seen, hidden, unlinked, coins = turn
    held = engine.encoder.see(seen.edge_index)
    held.drop(coins)
    x = dropped(held)
    counted = Counter(tuple(sorted(pair)) for pair in hidden.pairs.T.tolist())
    order = sorted(counted) if seen.edge_index is seen.pairs else hidden.pairs.T.tolist()
    links = torch.tensor([list(pair) for pair in order]).T
    times = torch.tensor([counted[tuple(sorted(pair))] for pair in order])
    pairs = torch.cat([links, unlinked], dim=1)
    learner.eval()
    z = learner.encode(x, seen.edge_index)
    h = learner.decode.pair_features(z, pairs)
    if learner.decode.decoder_dropout:
        rows = draw_words(pairs.shape[1], coins).split(1)
        toss = engine.decoder.coins.toss
        kept = torch.cat([toss(row, torch.empty(1, z.shape[1])) for row in rows])
        h = h * kept * engine.decoder.coins.scale
    logits = learner.decode.layer_2(learner.decode.layer_1(h).relu()).squeeze(1)
    positive, negative = logits.split([links.shape[1], unlinked.shape[1]])
    return consistency_loss(positive.repeat_interleave(times), negative)


@pytest.mark.usefixtures("small_blocks", "double")
@pytest.mark.parametrize(
    ("kind", "views", "dropout"), both(KINDS, VIEWS, cycle=([(0.3, 0.2), (0.8, 0), (0, 0.6)],))
)
def test_loss_and_gradients_with_dropout_are_those_of_the_model(
    known: TrainingGraph, kind: str, views: str, dropout: tuple[float, float]
) -> None:
    options = without_dropout(views=views, input_dropout=dropout[0], decoder_dropout=dropout[1])
    known = with_features(known.num_nodes, known.links, kind)
    ours, theirs = build(options), build(options)
    engine, other = (BlockedEngine(learner, known, options, SEED) for learner in (ours, theirs))
    epoch = Epoch(2, SEED)
    drawn = draw(known, epoch, options)
    coins, same_coins = epoch.stream("dropout"), epoch.stream("dropout")
    turns = zip(drawn.views.passes(), drawn.negatives, strict=True)
    for (seen, hidden), unlinked in turns:
        loss = reference(other, theirs, (seen, hidden, unlinked, same_coins))
        theirs.zero_grad()
        loss.backward()
        found = engine.fill_gradients(seen, hidden, unlinked, coins)
        torch.testing.assert_close(found, loss.detach())
        assert_same(gradients(ours), gradients(theirs))


@pytest.mark.parametrize(("views", "kind"), both(VIEWS, cycle=(["sparse", "dense"],)))
def test_a_run_repeats_itself_to_the_last_bit(known: TrainingGraph, views: str, kind: str) -> None:
    torch.set_num_threads(2)
    x = features(known.num_nodes, kind).float()
    known = TrainingGraph(known.num_nodes, known.links, x)
    options = CGCLSettings(hidden=256, views=views, input_dropout=0.3)
    found: list[tuple[list, list]] = []
    for _ in range(3):
        learner = build(options, torch.float32)
        engine = BlockedEngine(learner, known, options, SEED)
        losses = [engine.run(epoch, 1) for epoch in (1, 2, 3)]
        found.append((losses, [weight.tolist() for weight in learner.parameters()]))
    assert found[0] == found[1] == found[2]


def test_every_step_of_every_epoch_tosses_other_coins(known: TrainingGraph) -> None:
    options = CGCLSettings(hidden=16, views="one", lr=1e-12, weight_decay=0, input_dropout=0.5)
    known = TrainingGraph(known.num_nodes, known.links, features(known.num_nodes).float())
    engine = BlockedEngine(build(options, torch.float32), known, options, SEED)
    left: list[Tensor] = []
    for epoch in (1, 2, 1):
        engine.run(epoch, 1)
        left.append(dropped(engine.encoder.features))
    assert torch.equal(left[0], left[2])
    assert not torch.equal(left[0], left[1])


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("most_numbers", [2**27, 120 * 10 * 2, 1])
def test_any_number_of_workers_finds_the_same(
    known: TrainingGraph, monkeypatch: pytest.MonkeyPatch, most_numbers: int
) -> None:
    """Even where there is room for the sums of two workers only, or of one."""
    monkeypatch.setattr(blocked, "_MOST_NUMBERS", most_numbers)
    options = CGCLSettings(hidden=10, views="directed")
    found: list[list[Tensor]] = []
    for threads in (1, 3):
        torch.set_num_threads(threads)
        learner = build(options)
        engine = BlockedEngine(learner, known, options, SEED)
        losses = torch.tensor([engine.run(epoch, 1) for epoch in (1, 2)], dtype=torch.float64)
        with ThreadPoolExecutor() as pool:  # the number is left as it was for new threads, too
            assert pool.submit(torch.get_num_threads).result() == threads
        assert torch.get_num_threads() == threads
        found.append([losses, *gradients(learner)])
    assert_same(found[0], found[1], tolerance=1e-9)


@st.composite
def tiny_graphs(draw_: st.DrawFn) -> tuple[int, list[tuple[int, int]]]:
    num_nodes = draw_(st.integers(2, 7))
    pairs = list(combinations(range(num_nodes), 2))
    return num_nodes, draw_(st.lists(st.sampled_from(pairs), unique=True, min_size=1))


@settings(max_examples=60, deadline=None)
@given(tiny_graphs(), st.sampled_from(VIEWS), st.integers(1, 50), st.integers(1, 3))
def test_tiny_graphs_train_as_with_the_plain_engine(
    graph: tuple[int, list[tuple[int, int]]], views: str, epoch: int, threads: int
) -> None:
    """Views may be empty, nodes alone, features all zero, and there may be nothing to draw."""
    torch.set_num_threads(threads)
    num_nodes, pairs = graph
    known = TrainingGraph(num_nodes, torch.tensor(pairs).T.contiguous(), features(num_nodes))
    options = without_dropout(views=views)
    found: list[list[list[float]] | None] = []
    for kind in (PlainEngine, BlockedEngine):
        try:
            found.append(kind(build(options), known, options, SEED).run(epoch, 1))
        except SplitError:
            found.append(None)
    plain, blocked = found
    assert (plain is None) == (blocked is None)
    if plain is not None and blocked is not None:
        assert len(plain[0]) == len(blocked[0])
        torch.testing.assert_close(torch.tensor(plain), torch.tensor(blocked))


def test_features_that_are_all_dropped_or_zero_leave_the_bias_to_learn() -> None:
    x = torch.zeros(3, 9, dtype=torch.float64).to_sparse_coo().coalesce()
    known = TrainingGraph(3, torch.tensor([[0], [1]]), x)
    options = without_dropout(input_dropout=0.9)
    losses = [BlockedEngine(build(options), known, options, SEED).run(e, 1) for e in range(1, 5)]
    assert all(torch.isfinite(torch.tensor(loss)).all() for loss in losses)


class LargestResult(TorchDispatchMode):
    """Remembers how many numbers the largest result of any operation holds."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, (tuple, list)) else [result]:
            if isinstance(tensor, Tensor) and tensor.layout == torch.strided:
                self.numbers = max(self.numbers, tensor.untyped_storage().nbytes() // 8)
        return result


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("views", ["shared", "directed"])
def test_no_tensor_has_a_row_for_each_pair(known: TrainingGraph, views: str) -> None:
    options = without_dropout(hidden=64, views=views, input_dropout=0.5, decoder_dropout=0.2)
    engine = BlockedEngine(build(options), known, options, SEED)
    drawn = draw(known, Epoch(1, SEED), options)
    (seen, hidden), unlinked = drawn.views.passes()[0], drawn.negatives[0]
    pairs = hidden.num_pairs + unlinked.shape[1]
    with LargestResult() as largest:
        engine.fill_gradients(seen, hidden, unlinked, torch.Generator())
    assert known.num_nodes * 64 <= largest.numbers < pairs * 64 // 4


def test_features_take_the_form_that_is_faster() -> None:
    dense = torch.rand(50, 20) + 0.1
    a_third = dense * (torch.arange(20) % 3 == 0)
    assert isinstance(features_for(dense, 0.8), DenseFeatures)
    assert isinstance(features_for(a_third, 0.8), SparseFeatures)
    assert isinstance(features_for(a_third, 0.0), DenseFeatures)
    assert isinstance(features_for(dense.to_sparse_coo().coalesce(), 0.0), SparseFeatures)


@pytest.mark.parametrize("probability", [0.0, 0.2, 0.8])
@pytest.mark.parametrize("kind", [DenseFeatures, SparseFeatures])
def test_dropped_features_are_scaled_and_multiply(kind: type, probability: float) -> None:
    x = features(4000, "dense")
    held = kind(x if kind is DenseFeatures else x.to_sparse_coo().coalesce(), probability)
    held.drop(torch.Generator().manual_seed(5))
    left = dropped(held)
    share = left[left != 0].numel() / x.numel()
    assert share == pytest.approx(1 - probability, abs=5 * (0.25 / x.numel()) ** 0.5)
    expected = x / (1 - probability)
    torch.testing.assert_close(left[left != 0], expected[left != 0], rtol=1e-4, atol=0)
    weight, h = torch.rand(9, 5, dtype=torch.float64), torch.rand(4000, 5, dtype=torch.float64)
    forth, back = torch.full_like(h, torch.nan), torch.full_like(weight, torch.nan)
    held.times(weight, forth)
    held.transposed_times(h, back)
    torch.testing.assert_close(forth, left @ weight)
    torch.testing.assert_close(back, left.T @ h)


# Coins by a hash.


def tossed(probability: float, rows: int, columns: int, seed: int = 0) -> Tensor:
    words = draw_words(rows, torch.Generator().manual_seed(seed))
    return Coins(probability, columns, rows).toss(words, torch.empty(rows, columns))


@given(st.integers(1, 40), st.integers(1, 33), st.floats(0, 1, exclude_max=True), st.data())
@settings(max_examples=60, deadline=None)
def test_a_row_tosses_the_same_coins_in_any_block(
    rows: int, columns: int, probability: float, data: st.DataObject
) -> None:
    size = data.draw(st.integers(1, rows))
    words = draw_words(rows, torch.Generator().manual_seed(7))
    coins = Coins(probability, columns, size)
    blocks = [coins.toss(block, torch.empty(len(block), columns)) for block in words.split(size)]
    assert torch.equal(torch.cat(blocks), tossed(probability, rows, columns, seed=7))


@pytest.mark.parametrize("probability", [0.0, 1e-9, 0.2, 0.5, 0.8, 0.999, 1 - 1e-9])
def test_the_mean_stays(probability: float) -> None:
    coins = Coins(probability, 512, 1)
    assert coins.scale == pytest.approx(1 / (1 - probability), rel=0.01) or probability > 0.9999
    kept = 1 / coins.scale
    error = (kept * (1 - kept) / (4096 * 512)) ** 0.5
    found = tossed(probability, 4096, 512)
    assert set(found.unique().tolist()) <= {0, 1}
    assert float(found.double().mean()) == pytest.approx(kept, abs=5 * error + 1e-12)


@pytest.mark.parametrize("probability", [0.2, 0.8])
def test_coins_know_nothing_of_each_other(probability: float) -> None:
    """Columns, neighbouring rows and whole rows vary as independent coins do."""
    rows, columns = 2**14, 256
    kept = 1 - probability
    coin = (tossed(probability, rows, columns) - kept) / (kept * (1 - kept)) ** 0.5
    of_columns = coin.sum(dim=0) / rows**0.5
    together = (coin.T @ coin / rows**0.5).fill_diagonal_(0)
    of_rows = coin.sum(dim=1) / columns**0.5
    neighbours = (coin[1:] * coin[:-1]).sum() / coin[1:].numel() ** 0.5
    assert float(of_columns.abs().max()) < 5
    assert float(together.abs().max()) < 6
    assert float(together.std()) == pytest.approx(1, abs=0.03)
    assert float(of_rows.var()) == pytest.approx(1, abs=0.06)
    assert abs(float(neighbours)) < 5


def test_the_same_words_give_the_same_coins_for_ever() -> None:
    words = torch.tensor([-5, 123_456_789], dtype=torch.int32)
    found = Coins(0.3, 12, 2).toss(words, torch.empty(2, 12)).int().tolist()
    assert found == [
        [0, 1, 0, 0, 0, 1, 0, 1, 0, 1, 1, 1],
        [1, 1, 0, 0, 1, 1, 1, 1, 0, 1, 1, 0],
    ]


# Which engine a training takes.


def trainer_for(graph: Graph, method: str = "cgcl", engine: str = "auto", **told) -> Trainer:
    recipe = RunConfig.of(method, told)
    split = random_split(graph, recipe.split.val, recipe.split.test, recipe.split.seed)
    return Trainer(graph.x, split, recipe, torch.device("cpu"), Resources(engine=engine))


def test_on_a_cpu_cgcl_is_blocked_unless_asked_and_others_are_plain(sbm: Build) -> None:
    trainer = trainer_for(sbm(0))
    careful = Resources(deterministic=True)  # it always gives the same bits
    again = engine_for(trainer.learner, trainer.known, trainer.recipe, careful)
    plain, other = trainer_for(sbm(0), engine="plain"), trainer_for(sbm(0), "mlp")
    names = [engine.name for engine in (trainer.engine, again, plain.engine, other.engine)]
    assert names == ["blocked", "blocked", "plain", "plain"]
    assert trainer_for(sbm(0), "adamic-adar").engine is None
