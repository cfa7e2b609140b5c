"""The GPU engine against the readable mathematics, through Triton's interpreter on a CPU."""

import pytest
import torch
from torch import Tensor

from cgcl.counter_rng import base_key, epoch_key, mix, words
from cgcl.graph.features import Structure
from cgcl.methods.cgcl import CrossViewLearner, draw
from cgcl.methods.method import Epoch, TrainingGraph
from cgcl.methods.settings import CGCLSettings
from cgcl.model import consistency_loss
from cgcl.seeds import seeded
from cgcl.train.config import Resources
from cgcl.train.engines import can_fuse
from cgcl.train.engines.fused import INPUTS, PAIRS, FusedEngine, FusedRuns, supports
from cgcl.train.engines.gpu import W1, FeatureRows

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
GOLDEN = 0x9E3779B9
SMALL = {"hidden": 6, "input_dropout": 0.3, "decoder_dropout": 0.2, "weight_decay": 0.01}


def a_graph(seed: int, *, nodes: int = 9, links: int = 12, share: float = 0.6) -> TrainingGraph:
    source = torch.Generator().manual_seed(seed)
    pairs = torch.combinations(torch.arange(nodes), 2).T
    chosen = torch.randperm(pairs.shape[1], generator=source)[:links].sort().values
    x = torch.rand(nodes, 30, generator=source)
    x *= torch.rand(nodes, 30, generator=source) < share
    return TrainingGraph(nodes, pairs[:, chosen].to(DEVICE), x.to(DEVICE))


def without_features(known: TrainingGraph, columns: int) -> TrainingGraph:
    """Return a graph whose features are made of links; with few columns, nodes share them."""
    structure = Structure.of(known.links.cpu(), known.num_nodes, columns)
    return TrainingGraph(known.num_nodes, known.links, structure.to(DEVICE))


def a_learner(seed: int, settings: CGCLSettings, num_features: int = 30) -> CrossViewLearner:
    with seeded(seed, "weights"):
        return CrossViewLearner(num_features, settings).to(DEVICE).train()


def alone(
    learner: CrossViewLearner, known: TrainingGraph, settings: CGCLSettings, precision: str = "fp32"
) -> FusedRuns:
    return FusedRuns([learner], [known], [settings], [5], precision)


def kept(row_word: Tensor, width: int, chance: float) -> Tensor:
    """What dropout leaves, and by how much it is scaled."""
    coin = mix(row_word[:, None] + torch.arange(width, device=DEVICE)[None, :] * GOLDEN)
    return ((coin >> 8) >= round(chance * 2**24)).float() / (1 - chance)


def readable_loss(
    learner: CrossViewLearner, known: TrainingGraph, settings: CGCLSettings, epoch: Epoch, turn: int
) -> Tensor:
    """The loss of a turn as `cgcl.model` has it, with the same coins."""
    drawn = draw(known, epoch, settings)
    seen, hidden = drawn.views.passes()[turn]
    nodes = torch.arange(known.num_nodes, device=DEVICE)
    key = epoch_key(base_key(epoch.seed, INPUTS[turn]), epoch.number)
    x = known.features_along(seen.edge_index).to_dense()
    x = x * kept(mix(nodes ^ key), known.num_features, settings.input_dropout)
    learner.encode.eval()  # dropout has happened
    z = learner.encode(x, seen.edge_index)
    key = epoch_key(base_key(epoch.seed, PAIRS[turn]), epoch.number)

    def logits(pairs: Tensor) -> Tensor:
        coins = kept(words(key, *pairs), settings.hidden, settings.decoder_dropout)
        h = learner.decode.pair_features(z, pairs) * coins
        found = learner.decode.layer_2(torch.relu(learner.decode.layer_1(h))).squeeze(1)
        return torch.relu(found) if settings.last_layer == "relu" else found

    return consistency_loss(logits(hidden.pairs), logits(drawn.negatives[turn]), settings.targets)


def trained_readably(
    learner: CrossViewLearner, known: TrainingGraph, settings: CGCLSettings, seed: int, epochs: int
) -> list[list[float]]:
    optimizer = torch.optim.Adam(
        learner.parameters(), lr=settings.lr, weight_decay=settings.weight_decay
    )
    losses: list[list[float]] = []
    for number in range(1, epochs + 1):
        losses.append([])
        for turn in range(1 if settings.views in ("one", "all") else 2):
            loss = readable_loss(learner, known, settings, Epoch(number, seed), turn)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses[-1].append(loss.item())
    return losses


def assert_same_weights(one: CrossViewLearner, other: CrossViewLearner, *, within: float) -> None:
    for first, second in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(first, second, atol=within, rtol=within)


@pytest.mark.parametrize(
    ("views", "features"),
    [
        *(("disjoint", 9), ("shared", 5), ("directed", 9), ("own", 5), ("one", 9), ("all", 5)),
        *(("disjoint", "dense"), ("directed", "sparse")),
    ],
)
def test_features_made_of_links_are_those_of_the_view_that_is_seen(
    views: str, features: int | str
) -> None:
    """Losses, gradients (through Adam) and scores of two runs at once are what the paper says.

    With given features too, and with made ones that nodes share; each run has its own learning
    rate and penalty.
    """
    both = [
        CGCLSettings(**{**SMALL, "views": views, "lr": lr, "weight_decay": decay})
        for lr, decay in ((0.01, 0.01), (0.05, 0.2))
    ]
    graphs = [a_graph(seed, share=0.03 if features == "sparse" else 0.6) for seed in (1, 2)]
    if isinstance(features, int):
        graphs = [without_features(graph, features) for graph in graphs]
    assert (FeatureRows.of(graphs).dense is None) == (features != "dense")
    count = graphs[0].num_features
    fused = [a_learner(seed, own, count) for seed, own in zip((3, 4), both, strict=True)]
    runs = FusedRuns(fused, graphs, both, [3, 4], "fp32")
    losses = runs.advance(1, 2)
    pairs = torch.tensor([[[0, 5, 2], [1, 3, 7]], [[7, 5, 2], [8, 6, 4]]])
    logits = runs.logits(pairs)
    for index, (known, settings) in enumerate(zip(graphs, both, strict=True)):
        learner = a_learner(3 + index, settings, count)
        expected = trained_readably(learner, known, settings, 3 + index, 2)
        torch.testing.assert_close(losses[:, index], torch.tensor(expected), atol=1e-5, rtol=1e-5)
        assert_same_weights(fused[index], learner, within=1e-5)
        scores = learner.scorer(known).logits(pairs[index])
        torch.testing.assert_close(logits[index].cpu(), scores, atol=1e-5, rtol=1e-5)


def test_runs_with_and_without_features_are_not_mixed() -> None:
    with pytest.raises(ValueError, match="all runs"):
        FeatureRows.of([without_features(a_graph(1), 9), a_graph(2)])


@pytest.mark.parametrize(
    ("changed", "links"),
    [
        ({"last_layer": "relu"}, 12),
        ({"targets": "sigmoid"}, 12),
        ({"hidden": 70}, 12),
        ({"input_dropout": 0.0}, 12),
        ({"seen": 0.8}, 12),
        # More pairs than a program holds: several tiles and programs, and the last one cut short.
        ({"views": "shared"}, 151),
    ],
)
def test_every_setting_counts_as_in_the_readable_path(changed: dict, links: int) -> None:
    settings = CGCLSettings(**(SMALL | changed))
    known = a_graph(1, nodes=9 if links < 20 else 24, links=links)
    fused, learner = a_learner(5, settings), a_learner(5, settings)
    losses = alone(fused, known, settings).advance(1, 1)
    expected = trained_readably(learner, known, settings, 5, 1)
    torch.testing.assert_close(losses[:, 0], torch.tensor(expected), atol=1e-5, rtol=1e-5)
    assert_same_weights(fused, learner, within=1e-5)


@pytest.mark.parametrize(("precision", "asked"), [("tf32", "tf32"), ("fp32", "tf32x3")])
def test_precision_reaches_every_product_of_the_decoder(
    precision: str, asked: str, monkeypatch
) -> None:
    """What it does to digits shows on a GPU only: the interpreter does not know TF32."""
    found: list[str] = []

    def noted(_kernel, *_grid):
        return lambda *_, **named: found.append(named.get("PRECISION"))

    settings = CGCLSettings(**SMALL)
    runs = alone(a_learner(5, settings), a_graph(1), settings, precision)
    monkeypatch.setattr("cgcl.train.engines.fused.launch", noted)
    runs.decoder.step(0)
    runs.decoder.logits(torch.tensor([[[0], [1]]]))
    assert found == [asked] * 4


def test_a_restored_engine_goes_on_as_if_nothing_had_happened() -> None:
    settings, known = CGCLSettings(**SMALL), a_graph(1)
    straight, first = a_learner(5, settings), a_learner(5, settings)
    losses = FusedEngine(alone(straight, known, settings)).run(1, 3)
    before = FusedEngine(alone(first, known, settings))
    assert before.optimizer.moments() == {}
    assert before.run(1, 1) == [pytest.approx(losses[0], rel=1e-5)]
    second = a_learner(6, settings)
    second.load_state_dict(first.state_dict())
    after = FusedEngine(alone(second, known, settings))
    after.optimizer.restore(before.optimizer.moments())
    assert after.run(2, 2) == [pytest.approx(own, rel=1e-4) for own in losses[1:]]
    assert_same_weights(second, straight, within=1e-5)


def test_an_empty_view_takes_no_step() -> None:
    """One link is in one view only: the other turn must leave weights and moments alone."""
    settings = CGCLSettings(**SMALL)
    known = TrainingGraph(9, torch.tensor([[2], [7]], device=DEVICE), a_graph(1).x)
    fused, learner = a_learner(5, settings), a_learner(5, settings)
    runs = alone(fused, known, settings)
    turn = [hidden.num_pairs for _, hidden in draw(known, Epoch(1, 5), settings).views.passes()]
    assert sorted(turn) == [0, 1]
    losses = runs.advance(1, 1)[0, 0].tolist()
    assert losses[turn.index(0)] == 0
    assert runs.weights.moments()[W1]["step"] == 1
    optimizer = torch.optim.Adam(
        learner.parameters(), lr=settings.lr, weight_decay=settings.weight_decay
    )
    loss = readable_loss(learner, known, settings, Epoch(1, 5), turn.index(1))
    loss.backward()
    optimizer.step()
    assert losses[turn.index(1)] == pytest.approx(loss.item(), rel=1e-5)
    assert_same_weights(fused, learner, within=1e-5)


def test_what_the_kernels_cannot_do_is_left_to_the_readable_path() -> None:
    known = a_graph(1)
    assert supports(known, CGCLSettings())
    assert supports(known, CGCLSettings(hidden=1024))
    for changed in (
        {"product": "inner"},
        {"negatives": "view"},
        {"clip": 1.0},
        {"hidden": 2048},
    ):
        assert not supports(known, CGCLSettings(**changed)), changed
    sides = torch.arange(9, device=DEVICE) > 4
    assert not supports(TrainingGraph(9, known.links, known.x, sides), CGCLSettings())
    crowded = torch.combinations(torch.arange(9, device=DEVICE), 2).T[:, :-9]
    assert not supports(TrainingGraph(9, crowded, known.x), CGCLSettings())
    for resources in (Resources(engine="plain"), Resources(deterministic=True)):
        assert not can_fuse(known, CGCLSettings(), resources)
    assert can_fuse(known, CGCLSettings(), Resources()) == (DEVICE.type == "cuda")
