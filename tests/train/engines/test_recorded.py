"""CGCL that ranks on a GPU: its softmax through Triton's interpreter, its engine on a card."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from cgcl.graph.structure import Structure
from cgcl.methods.cgcl_rank import RankingLearner
from cgcl.methods.cgcl_rank_settings import RankSettings
from cgcl.methods.method import Known
from cgcl.model.softmax import Excluded, row_logsumexp
from cgcl.seeds import seeded, stream
from cgcl.train.engines import recorded
from cgcl.train.engines.plain import PlainEngine
from cgcl.train.engines.recorded import RecordedEngine, fused_row_logsumexp

HAS_GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if HAS_GPU else "cpu")
STILL = {"input_dropout": 0.0, "hidden_dropout": 0.0, "decoder_dropout": 0.0}
needs_gpu = pytest.mark.skipif(not HAS_GPU, reason="a CUDA graph needs a GPU")


def a_problem(rows: int, columns: int, share: float) -> tuple[list[Tensor], Excluded]:
    """Vectors, biases, and a share of entries that do not count; the first row has none left."""
    source = stream(0, "softmax")
    left, right = (torch.randn(count, 6, generator=source) for count in (rows, columns))
    bias = torch.randn(columns, generator=source)
    mask = torch.rand(rows, columns, generator=source) < share
    mask[0] = True
    codes = mask.flatten().nonzero().squeeze(1).to(DEVICE)
    inputs = [given.to(DEVICE).requires_grad_() for given in (left, right, bias)]
    return inputs, Excluded(codes, (rows, columns))


@pytest.mark.parametrize(("rows", "columns"), [(2, 1), (5, 7), (3, 1024), (4, 2500)])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_the_fused_softmax_is_the_readable_one(rows: int, columns: int, share: float) -> None:
    """To 1e-5; gradients to a hundredth of the largest, for shares are kept in half precision."""
    inputs, excluded = a_problem(rows, columns, share)
    weights = torch.rand(rows, generator=stream(0, "weights")).to(DEVICE)
    found: list[tuple[Tensor, ...]] = []
    for way in (fused_row_logsumexp, row_logsumexp):
        sums = way(*inputs, excluded)
        found.append((sums.detach(), *torch.autograd.grad((sums * weights).sum(), inputs)))
    (ours, *own), (theirs, *others) = found
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
    assert ours[0] == -1e30
    for one, other in zip(own, others, strict=True):
        within = 1e-2 * other.abs().max().item()
        torch.testing.assert_close(one, other, atol=within, rtol=1e-2)


def test_scores_beyond_the_memory_are_computed_in_blocks(monkeypatch) -> None:
    inputs, excluded = a_problem(5, 7, 0.3)
    monkeypatch.setattr(recorded, "_MOST_SCORES", 34)
    monkeypatch.setattr(recorded, "launch", None)
    assert torch.equal(fused_row_logsumexp(*inputs, excluded), row_logsumexp(*inputs, excluded))


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
    torch.testing.assert_close(*scores, atol=10 * within, rtol=10 * within)


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
