"""CGCL that ranks on a GPU: its softmax through Triton's interpreter, its engine on a card."""

from __future__ import annotations

import math

import pytest
import torch

from cgcl.graph.structure import Structure
from cgcl.methods.cgcl_rank import RankingLearner, scores_of
from cgcl.methods.cgcl_rank_settings import RankSettings
from cgcl.methods.method import Known
from cgcl.model.softmax import softmax_loss
from cgcl.seeds import seeded, stream
from cgcl.train.engines.all_pairs import AllPairs
from cgcl.train.engines.plain import PlainEngine
from cgcl.train.engines.recorded import RecordedEngine

HAS_GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if HAS_GPU else "cpu")
STILL = {"input_dropout": 0.0, "hidden_dropout": 0.0, "decoder_dropout": 0.0}
needs_gpu = pytest.mark.skipif(not HAS_GPU, reason="a CUDA graph needs a GPU")


def a_graph(kind: str, nodes: int = 60) -> Known:
    pairs = torch.combinations(torch.arange(nodes)).T
    sides = torch.arange(nodes) % 2 == 1 if kind == "sides" else None
    if sides is not None:
        pairs = pairs[:, sides[pairs[0]] != sides[pairs[1]]]
    chosen = torch.randperm(pairs.shape[1], generator=stream(0, "links"))[:200].sort().values
    links = pairs[:, chosen]
    x = torch.rand(nodes, 12, generator=stream(0, "x"))
    features = Structure.of(links, nodes) if kind == "links" else x
    return Known.on(DEVICE, nodes, links, features, sides)


def a_learner(known: Known, settings: RankSettings) -> RankingLearner:
    with seeded(0, "weights"):
        return RankingLearner(known.num_features, settings).to(DEVICE)


@pytest.mark.parametrize("kind", ["features", "sides"])
@pytest.mark.parametrize(("nodes", "width"), [(60, 12), (300, 70)])
@pytest.mark.parametrize("precision", [torch.float16, torch.float32])
def test_tiles_give_the_readable_loss(
    kind: str, nodes: int, width: int, precision: torch.dtype
) -> None:
    """To 1e-2, and gradients to a fiftieth of the largest: factors and shares are rounded."""
    known = a_graph(kind, nodes)
    learner = a_learner(known, RankSettings(hidden=8))
    prepared = learner.prepare(known)
    right, w, p = (
        torch.randn(shape, generator=stream(0, str(shape))).to(DEVICE).requires_grad_()
        for shape in ((nodes, width), (width,), (nodes,))
    )
    is_asked = (torch.rand(known.links.shape[1], generator=stream(0, "asked")) < 0.5).to(DEVICE)
    made = (right * w, right, p)
    scores, sums = scores_of(*made, known.links), learner.log_sums(*made, prepared)[0]
    readable = softmax_loss(scores, known.links, sums, is_asked, 0.3)
    pairs = AllPairs(prepared, known.links, known.sides, 0.3, precision)
    tiled, total = pairs(right, w, p, is_asked)
    torch.testing.assert_close(total, sums.logsumexp(0), atol=1e-2, rtol=1e-2)
    torch.testing.assert_close(tiled, readable, atol=1e-2, rtol=1e-2)
    found = (torch.autograd.grad(2 * loss, (right, w, p)) for loss in (tiled, readable))
    for one, other in zip(*found, strict=True):
        within = 2e-2 * other.abs().max().item()
        torch.testing.assert_close(one, other, atol=within, rtol=1e-2)


def test_tiles_know_a_node_that_is_linked_to_all_others() -> None:
    """By hand: of the other four, each pair of two may be a link, and adds e twice."""
    links = torch.tensor([[0, 0, 0, 0], [1, 2, 3, 4]], device=DEVICE)
    known = Known.on(DEVICE, 5, links, torch.eye(5))
    prepared = a_learner(known, RankSettings(hidden=8)).prepare(known)
    right = torch.zeros(5, 3, device=DEVICE, requires_grad=True)
    terms = torch.tensor([9.0, 1.0, 1.0, 1.0, 1.0], device=DEVICE)
    weights, asked = torch.ones(3, device=DEVICE), torch.tensor([1, 1, 0, 0], device=DEVICE).bool()
    loss, total = AllPairs(prepared, links, None, 0.5)(right, weights, terms, asked)
    assert total.item() == pytest.approx(2 + math.log(12))
    # A link scores 10; its one end has nothing to stand out from, the other three times e twice.
    in_rows = math.log1p(math.exp(2 + math.log(3) - 10)) / 2
    assert loss.item() == pytest.approx(0.5 * in_rows + 0.5 * (2 + math.log(12) - 10))
    (gradient,) = torch.autograd.grad(loss, right)
    assert torch.isfinite(gradient).all()


@pytest.mark.parametrize(("links", "asked"), [([(0, 1), (0, 2), (1, 2)], 1), ([(0, 1)], 0)])
def test_tiles_learn_nothing_where_nothing_is_asked_or_every_pair_is_a_link(
    links: list, asked: int
) -> None:
    pairs = torch.tensor(links, device=DEVICE).T.contiguous()
    known = Known.on(DEVICE, 3, pairs, torch.eye(3))
    prepared = a_learner(known, RankSettings(hidden=8)).prepare(known)
    right = torch.ones(3, 2, device=DEVICE, requires_grad=True)
    told = torch.ones(2, device=DEVICE), torch.zeros(3, device=DEVICE)
    is_asked = torch.full((len(links),), bool(asked), device=DEVICE)
    loss, _ = AllPairs(prepared, pairs, None, 0.5)(right, *told, is_asked)
    assert loss.item() == 0
    assert not torch.autograd.grad(loss, right)[0].any()


def test_what_changes_its_shape_is_not_recorded() -> None:
    known = a_graph("features")
    for told, expected in (({}, True), ({"sampled": 60}, True), ({"sampled": 9}, False)):
        assert a_learner(known, RankSettings(hidden=8, **told)).is_recordable(known) == expected
    sparse = Known(60, known.links, known.features.to_sparse_coo().coalesce())
    assert not a_learner(sparse, RankSettings(hidden=8)).is_recordable(sparse)
    made = a_graph("links")
    assert a_learner(made, RankSettings(hidden=8)).is_recordable(made)


@needs_gpu
@pytest.mark.parametrize("kind", ["features", "links", "sides"])
@pytest.mark.parametrize(("precision", "within"), [("fp32", 1e-4), ("tf32", 2e-2)])
def test_recorded_epochs_are_those_of_the_plain_engine(
    kind: str, precision: str, within: float
) -> None:
    """Without dropout: replayed coins are others than those of a first run."""
    settings = RankSettings(hidden=16, signatures=8, **STILL)
    known = a_graph(kind)
    learners = [a_learner(known, settings) for _ in range(2)]
    engines = (
        RecordedEngine(learners[0], known, settings, 0, precision),
        PlainEngine(learners[1], known, settings, 0),
    )
    losses = [torch.tensor(engine.run(1, 6)) for engine in engines]
    torch.testing.assert_close(*losses, atol=within, rtol=within)
    pairs = torch.combinations(torch.arange(60)).T
    scores = [learner.scorer(known).logits(pairs) for learner in learners]
    # A softmax does not mind what is added to all scores: that much is left to rounding.
    centred = [own - own.mean() for own in scores]
    torch.testing.assert_close(*centred, atol=10 * within, rtol=10 * within)


@needs_gpu
def test_a_restored_engine_goes_on_as_if_nothing_had_happened() -> None:
    known, settings = a_graph("features"), RankSettings(hidden=16, **STILL)
    straight = a_learner(known, settings)
    losses = RecordedEngine(straight, known, settings, 0, "fp32").run(1, 5)
    first = a_learner(known, settings)
    before = RecordedEngine(first, known, settings, 0, "fp32")
    before.run(1, 3)
    moments = {
        index: {name: value.clone() for name, value in own.items()}
        for index, own in before.moments().items()
    }
    state = {name: value.clone() for name, value in first.state_dict().items()}
    before.run(4, 1)
    first.load_state_dict(state)
    before.restore(moments)
    torch.testing.assert_close(torch.tensor(before.run(4, 2)), torch.tensor(losses[3:]))
