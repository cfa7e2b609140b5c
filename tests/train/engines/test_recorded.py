"""CGCL that ranks on a GPU: its softmax through Triton's interpreter, its engine on a card."""

import math

import pytest
import torch

from cgcl.graph.features import Structure
from cgcl.methods.cgcl_rank import RankingLearner, scores_of
from cgcl.methods.method import Epoch, TrainingGraph
from cgcl.methods.settings import RankSettings
from cgcl.model.softmax import softmax_loss
from cgcl.seeds import seeded, stream
from cgcl.train.config import Resources, RunConfig
from cgcl.train.engines import engine_for
from cgcl.train.engines import recorded as module
from cgcl.train.engines.all_pairs import AllPairs, Turns
from cgcl.train.engines.plain import PlainEngine
from cgcl.train.engines.recorded import RankingSteps, RecordedEngine, supports

HAS_GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if HAS_GPU else "cpu")
STILL = {"input_dropout": 0.0, "hidden_dropout": 0.0, "decoder_dropout": 0.0}


def a_graph(kind: str, nodes: int = 60, count: int = 200) -> TrainingGraph:
    pairs = torch.combinations(torch.arange(nodes)).T
    sides = torch.arange(nodes) % 2 == 1 if kind == "sides" else None
    if sides is not None:
        pairs = pairs[:, sides[pairs[0]] != sides[pairs[1]]]
    chosen = torch.randperm(pairs.shape[1], generator=stream(0, "links"))[:count].sort().values
    links = pairs[:, chosen]
    x = torch.rand(nodes, 12, generator=stream(0, "x"))
    features = Structure.of(links, nodes) if kind == "links" else x
    return TrainingGraph.on(DEVICE, nodes, links, features, sides)


def a_learner(known: TrainingGraph, settings: RankSettings) -> RankingLearner:
    with seeded(0, "weights"):
        return RankingLearner(known.num_features, settings).to(DEVICE)


def a_loss(
    known: TrainingGraph, made: tuple, is_asked: torch.Tensor, share: float, precision: torch.dtype
):
    """Return the loss, the logarithm of all pairs' sum, and the gradients of R, w and p."""
    right, weights, terms = made
    width, prepared = right.shape[1], a_learner(known, RankSettings(hidden=8)).prepare(known)
    both = (precision, torch.bfloat16 if precision == torch.float16 else precision)
    pairs = AllPairs(prepared, known, width, share, both)
    for out, own in ((pairs.left, right * weights), (pairs.right, right), (pairs.half, right)):
        out[:, :width].index_copy_(0, pairs.places, own.to(out.dtype))
    pairs.terms.index_copy_(0, pairs.places, terms)
    zero = torch.zeros(1, device=DEVICE)
    turns = Turns(
        (~is_asked).to(torch.int8).expand(2, -1).contiguous(),
        is_asked.sum().int().expand(2).contiguous(),
        zero.int() + 1,
        zero.clone(),
        zero.clone(),
        0.99,
    )
    loss = torch.zeros((), device=DEVICE)
    pairs.forward(0, turns, loss)
    pairs.backward(0, turns)
    assert turns.steps.item() == 1
    products = pairs.products.index_select(0, pairs.places)[:, :width]
    one, other = known.links
    for end, from_end in ((one, other), (other, one)):
        asked = pairs.to_scores.unsqueeze(1) * right.index_select(0, from_end)
        products = products.index_add(0, end, asked)
    place = pairs.places
    to_sums = to_sums_of(pairs, is_asked)[place]
    to_terms = pairs.to_terms.sum(1)[place] + pairs.link_terms[place] + to_sums
    gradients = products * weights, (products * right).sum(0) / 2, to_terms
    return loss, pairs.log_total, gradients


def to_sums_of(pairs: AllPairs, is_asked: torch.Tensor) -> torch.Tensor:
    if not is_asked.any() or pairs.log_total < -1e29:
        return pairs.link_sums
    return pairs.link_sums + (1 - pairs.row_share) * (pairs.with_own - pairs.log_total).exp()


FULL = 2e-3 if HAS_GPU else 1e-5


@pytest.mark.parametrize(
    ("kind", "nodes", "width", "precision", "within"),
    [
        ("features", 60, 12, torch.float16, 2e-2),
        ("features", 300, 70, torch.float32, FULL),
        ("sides", 300, 12, torch.float32, FULL),
    ],
)
def test_tiles_give_the_readable_loss(
    kind: str, nodes: int, width: int, precision: torch.dtype, within: float
) -> None:
    """To a fiftieth of the largest gradient: factors and shares are rounded; in full precision, to
    the last digits on a CPU and those of TF32 on a card."""
    known = a_graph(kind, nodes)
    learner = a_learner(known, RankSettings(hidden=8))
    right, w, p = made = tuple(
        torch.randn(shape, generator=stream(0, str(shape))).to(DEVICE).requires_grad_()
        for shape in ((nodes, width), (width,), (nodes,))
    )
    is_asked = (torch.rand(known.links.shape[1], generator=stream(0, "asked")) < 0.5).to(DEVICE)
    factors, links = (right * w, right, p), known.links[:, is_asked]
    sums = learner.log_sums(*factors, learner.prepare(known))[0]
    readable = softmax_loss(scores_of(*factors, links), links, sums, 0.3)
    expected = torch.autograd.grad(readable, made)
    tiled, total, found = a_loss(
        known, tuple(own.detach() for own in made), is_asked, 0.3, precision
    )
    torch.testing.assert_close(total, sums.logsumexp(0).detach(), atol=within, rtol=within)
    torch.testing.assert_close(tiled, readable.detach(), atol=within, rtol=within)
    for one, other in zip(found, expected, strict=True):
        most = within * other.abs().max().item()
        torch.testing.assert_close(one, other, atol=most, rtol=within)


def test_tiles_know_a_node_that_is_linked_to_all_others() -> None:
    """By hand: of the other four, each pair of two may be a link, and adds e twice."""
    links = torch.tensor([[0, 0, 0, 0], [1, 2, 3, 4]], device=DEVICE)
    known = TrainingGraph.on(DEVICE, 5, links, torch.eye(5))
    right = torch.zeros(5, 3, device=DEVICE)
    terms = torch.tensor([9.0, 1.0, 1.0, 1.0, 1.0], device=DEVICE)
    made, asked = (right, right[0] + 1, terms), torch.tensor([1, 1, 0, 0], device=DEVICE).bool()
    loss, total, gradients = a_loss(known, made, asked, 0.5, torch.float16)
    assert total.item() == pytest.approx(2 + math.log(12))
    # A link scores 10; its one end has nothing to stand out from, the other three times e twice.
    in_rows = math.log1p(math.exp(2 + math.log(3) - 10)) / 2
    assert loss.item() == pytest.approx(0.5 * in_rows + 0.5 * (2 + math.log(12) - 10))
    assert all(own.isfinite().all() for own in gradients)


@pytest.mark.parametrize(("links", "asked"), [([(0, 1), (0, 2), (1, 2)], 1), ([(0, 1)], 0)])
def test_tiles_learn_nothing_where_nothing_is_asked_or_every_pair_is_a_link(
    links: list, asked: int
) -> None:
    known = TrainingGraph.on(DEVICE, 3, torch.tensor(links).T.contiguous(), torch.eye(3))
    right = torch.ones(3, 2, device=DEVICE)
    is_asked = torch.full((len(links),), bool(asked), device=DEVICE)
    made = (right, right[0], torch.zeros(3, device=DEVICE))
    loss, _, gradients = a_loss(known, made, is_asked, 0.5, torch.float16)
    assert loss.item() == 0
    assert not any(own.any() for own in gradients)


def test_what_the_kernels_cannot_do_is_left_to_the_plain_engine() -> None:
    known = a_graph("features")
    for told, expected in (({}, True), ({"sampled": 60}, True), ({"sampled": 9}, False)):
        assert supports(known, RankSettings(hidden=8, **told)) == expected
    assert not supports(known, RankSettings(hidden=8192))
    sparse = TrainingGraph(60, known.links, known.features.to_sparse_coo().coalesce())
    assert not supports(sparse, RankSettings(hidden=8))
    assert supports(a_graph("links"), RankSettings(hidden=8))
    assert not supports(
        TrainingGraph(60, known.links[:, :0], known.features), RankSettings(hidden=8)
    )


# In full precision: what is rounded is rounded on a card alone, where it is measured over seeds.
EXACT = 1e-2 if HAS_GPU else 1e-4


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("features", {"layers": 1, "hidden": 20, "clip": 0.5}),
        ("features", {"self_term": False, "popularity": False, "average": 0.0}),
        ("features", {"norm": False, "row_share": 0.0, "target_share": 0.25}),
        ("links", {"signatures": 4}),
        ("sides", {"layers": 3}),
    ],
)
def test_recorded_epochs_are_those_of_the_plain_engine(kind: str, told: dict) -> None:
    """Without dropout, whose coins are others."""
    settings = RankSettings(**{"hidden": 16, "lr": 0.002, **STILL, **told})
    known = a_graph(kind, 10, 15)
    learners = [a_learner(known, settings) for _ in range(2)]
    engines = (
        RecordedEngine(RankingSteps(learners[0], known, settings, 0, torch.float32)),
        PlainEngine(learners[1], known, settings, 0),
    )
    count = 6 if HAS_GPU else 1  # the interpreter takes seconds
    losses = [torch.tensor(engine.run(1, count)) for engine in engines]
    torch.testing.assert_close(*losses, atol=EXACT, rtol=EXACT)
    for name, expected in learners[1].state_dict().items():
        # A softmax does not mind what popularity adds to all scores: that is left to rounding.
        if not name.endswith("popularity_bias") and "popularity.bias" not in name:
            found = learners[0].state_dict()[name]
            within = EXACT if name != "offset" else 0.1
            torch.testing.assert_close(found, expected, atol=within, rtol=within, msg=name)
    pairs = torch.combinations(torch.arange(10)).T
    scores = [learner.scorer(known).logits(pairs) for learner in learners]
    centred = [own - own.mean() for own in scores]
    torch.testing.assert_close(*centred, atol=10 * EXACT, rtol=10 * EXACT)


@pytest.mark.parametrize(
    ("kind", "nodes", "told"),
    [
        ("features", 140, {"layers": 1, "hidden": 8}),  # two tiles, and rows by turns
        ("features", 16, {"layers": 3, "hidden": 16, "signatures": 4}),
        ("sides", 16, {"layers": 2, "hidden": 5}),
    ],
)
@pytest.mark.parametrize("half", [torch.float32, torch.bfloat16])
def test_a_step_has_the_gradients_of_the_readable_one(
    monkeypatch, kind: str, nodes: int, told: dict, half: torch.dtype
) -> None:
    """Each to its last digits, or as far as half precision goes."""
    if half == torch.bfloat16 and not HAS_GPU:
        pytest.skip("Triton's interpreter cuts digits off where a card rounds.")
    monkeypatch.setattr(module, "_HELD", 128)
    monkeypatch.setattr(module, "_PROGRAMS", 3)
    settings = RankSettings(**told, **STILL)
    known = a_graph(kind, nodes, 2 * nodes)
    learners = [a_learner(known, settings) for _ in range(2)]
    for learner in learners:  # where popularity has something to say
        learner.decode.popularity.weight.data.fill_(0.3)
    engine, kept = RecordedEngine(RankingSteps(learners[0], known, settings, 0, half)), []

    def stop_there() -> None:
        kept.extend(own.grad.clone() for own in learners[0].parameters())
        raise StopIteration

    engine._steps._clip, engine._record = stop_there, lambda _: None
    with pytest.raises(StopIteration):
        engine.start(1, 1)
    loss = next(iter(learners[1].steps(known, Epoch(1, 0))))
    loss.backward()
    within = 5e-2 if half == torch.bfloat16 else EXACT
    most = max(own.grad.abs().max().item() for own in learners[1].parameters())
    for (name, weight), found in zip(learners[1].named_parameters(), kept, strict=True):
        torch.testing.assert_close(found, weight.grad, atol=within * most, rtol=within, msg=name)


@pytest.mark.parametrize("kind", ["features", "links"])
def test_dropout_leaves_what_it_should_and_the_same_on_the_way_back(kind: str) -> None:
    """The gradient of a step with dropout, against differences of its loss."""
    settings = RankSettings(
        hidden=16, layers=2, input_dropout=0.5, hidden_dropout=0.5, decoder_dropout=0.2
    )
    known = a_graph(kind, 12, 20)
    learner = a_learner(known, settings)
    # Where all features are dropped: the norm of nothing has no slope to speak of.
    learner.encode.bias.data.copy_(torch.linspace(-1, 1, 16))
    engine, kept = RecordedEngine(RankingSteps(learner, known, settings, 0, torch.float32)), []

    def stop_there() -> None:
        kept.append(engine._steps.weights.gradients[0].clone())
        engine._steps.weights.gradients.zero_()
        raise StopIteration

    engine._steps._clip, engine._record = stop_there, lambda _: None
    weights, losses = engine._steps.weights.values[0].clone(), []
    for way in (0.0, 1.0, -1.0):
        moved = weights if not way else weights + way * 0.02 * kept[0] / kept[0].norm()
        engine._steps.weights.values[0].copy_(moved)
        with pytest.raises(StopIteration):
            engine.start(1, 1)
        losses.append(engine._steps.losses[0].item())
    slope = (losses[1] - losses[2]) / 0.04
    assert slope == pytest.approx(kept[0].norm().item(), rel=0.1)
    if kind == "features":
        assert (engine._steps._left[:, :12] == 0).float().mean().item() == pytest.approx(
            0.5, abs=0.1
        )
    else:
        kept_links = engine._steps._kept_links(0)
        assert set(kept_links.tolist()) == {0.0, 2.0}


def test_each_layer_tosses_coins_of_its_own(monkeypatch) -> None:
    known, settings = a_graph("features", 8, 12), RankSettings(hidden=8, layers=3)
    steps, asked = RankingSteps(a_learner(known, settings), known, settings, 0), []
    monkeypatch.setattr(module, "launch", lambda *_: lambda *_, **__: None)
    monkeypatch.setattr(steps, "_key", lambda *key: asked.append(key) or 0)
    for turn in (0, 1):
        steps._inputs(turn)
        steps._encode(turn)
    assert len(set(asked)) == len(asked) == 2 * (1 + 3)


def test_in_full_precision_it_is_the_plain_engine_that_trains(monkeypatch) -> None:
    """As if there were a GPU: recorded kernels round, whatever is asked."""
    monkeypatch.setattr("cgcl.train.engines._may_fuse", lambda *_: True)
    known, recipe = a_graph("features", 8, 12), RunConfig.of("cgcl-rank", {"hidden": 8})
    learner = a_learner(known, recipe.settings)
    found = [
        type(engine_for(learner, known, recipe, Resources(precision=precision)))
        for precision in ("tf32", "fp32")
    ]
    assert found == [RecordedEngine, PlainEngine]


@pytest.mark.parametrize("links", [[(0, 1)], [(0, 1), (1, 2), (3, 4)]])
def test_a_view_that_asks_for_nothing_steps_as_the_plain_engine_does(links: list) -> None:
    settings = RankSettings(hidden=4, layers=1, weight_decay=0.1, lr=0.05, **STILL)
    known = TrainingGraph.on(DEVICE, 6, torch.tensor(links).T.contiguous(), torch.rand(6, 3))
    learners = [a_learner(known, settings) for _ in range(2)]
    RecordedEngine(RankingSteps(learners[0], known, settings, 0, torch.float32)).run(1, 2)
    PlainEngine(learners[1], known, settings, 0).run(1, 2)
    found = learners[0].encode.weight
    torch.testing.assert_close(found, learners[1].encode.weight, atol=EXACT, rtol=EXACT)


def test_a_restored_engine_goes_on_as_if_nothing_had_happened() -> None:
    known, settings = a_graph("features", 8, 12), RankSettings(hidden=8, layers=1)
    straight = a_learner(known, settings)
    losses = RecordedEngine(RankingSteps(straight, known, settings, 0)).run(1, 3)
    first = a_learner(known, settings)
    before = RecordedEngine(RankingSteps(first, known, settings, 0))
    before.run(1, 1)
    moments = before.optimizer.moments()
    state = {name: value.clone() for name, value in first.state_dict().items()}
    before.run(2, 1)
    first.load_state_dict(state)
    before.optimizer.restore(moments)
    gone_on = torch.tensor(before.run(2, 2))
    torch.testing.assert_close(gone_on, torch.tensor(losses[1:]), atol=1e-3, rtol=1e-3)
