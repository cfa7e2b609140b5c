import math
from dataclasses import fields, replace

import pytest
import torch
from torch import Tensor

from cgcl.counter_rng import words, words_below
from cgcl.graph import Graph
from cgcl.graph.features import Structure
from cgcl.methods import cgcl_rank
from cgcl.methods.cgcl import tossed, view_key
from cgcl.methods.cgcl_rank import RankingLearner
from cgcl.methods.heuristics import ResourceAllocation
from cgcl.methods.method import Epoch, TrainingGraph
from cgcl.methods.settings import RULED, RankSettings, chosen_for
from cgcl.model import softmax, symmetric
from cgcl.seeds import seeded, stream
from cgcl.train.engines.plain import PlainEngine

NODES = 24
SMALL = {"hidden": 8}
STILL = {"input_dropout": 0.0, "hidden_dropout": 0.0, "decoder_dropout": 0.0}


def all_pairs() -> Tensor:
    return torch.combinations(torch.arange(NODES)).T


def a_graph(seed: int = 0, *, structural: bool = False, sides: bool = False) -> TrainingGraph:
    """Two groups, mostly linked within; with sides, only across these."""
    side, group = torch.arange(NODES) % 2, torch.arange(NODES) // 2 % 2
    one, other = all_pairs()
    chance = torch.where(group[one] == group[other], 0.6, 0.1)
    drawn = torch.rand(len(one), generator=stream(seed, "links")) < chance
    if sides:
        drawn &= side[one] != side[other]
    links = torch.stack([one[drawn], other[drawn]])
    x = torch.rand(NODES, 5, generator=stream(seed, "x")) + torch.eye(2, 5)[group]
    features = Structure.of(links, NODES) if structural else x
    return TrainingGraph(NODES, links, features, side.bool() if sides else None)


def a_learner(known: TrainingGraph, seed: int = 0, **told) -> RankingLearner:
    with seeded(seed, "weights"):
        return RankingLearner(known.num_features, RankSettings(**(SMALL | told)))


def an_engine(learner: RankingLearner, known: TrainingGraph) -> PlainEngine:
    return PlainEngine(learner, known, RankSettings(**SMALL), 0)


def answers(known: TrainingGraph, epochs: int = 3, **told) -> list[Tensor]:
    """Return the losses of some epochs, and scores."""
    learner = a_learner(known, **told)
    losses = an_engine(learner, known).run(1, epochs)
    return [torch.tensor(losses), learner.scorer(known).logits(all_pairs())]


KINDS = pytest.mark.parametrize(
    "kind", [{}, {"structural": True}, {"sides": True}], ids=["features", "links", "sides"]
)


@pytest.mark.parametrize("told", [{"popularity": False}, {"average": 0.1}], ids=str)
def test_settings_that_show_after_a_step_are_not_dead(told: dict) -> None:
    known = a_graph()
    before, after = answers(known), answers(known, **told)
    assert not all(torch.equal(*both) for both in zip(before, after, strict=True))


def test_averages_follow_the_weights() -> None:
    """By hand: each step of epoch e keeps 1 - 1 / (2 e) of the average, at most 0.9."""
    known = a_graph()
    learner = a_learner(known, average=0.9)
    engine = an_engine(learner, known)
    expected, scale = learner.decode.scale.detach().clone(), learner.decode.scale
    original, seen = engine.optimizer.step, []
    engine.optimizer.step = lambda: [original(), seen.append(scale.detach().clone())]
    for number in range(1, 9):
        engine.run(number, 1)
        kept = min(0.9, 1 - 1 / (2 * number))
        for weight in seen[-2:]:
            expected = kept * expected + (1 - kept) * weight
        found = learner.get_buffer("average_decode_scale")
        torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)


def test_it_scores_by_the_averages_and_leaves_the_weights_alone() -> None:
    known = a_graph()
    learner = a_learner(known)
    an_engine(learner, known).run(1, 3)
    before = {name: weight.clone() for name, weight in learner.named_parameters()}
    found = learner.scorer(known).logits(all_pairs())
    assert all(torch.equal(own, before[name]) for name, own in learner.named_parameters())
    plain, averages = a_learner(known, average=0.0), zip(before, learner.averages(), strict=True)
    plain.load_state_dict({**dict(averages), "offset": learner.offset})
    assert torch.equal(plain.scorer(known).logits(all_pairs()), found)
    assert learner.training


def log_sums_of(learner: RankingLearner, known: TrainingGraph) -> Tensor:
    """Return what a step compares its links with: noted on the way to the loss."""
    noted: list[Tensor] = []

    def spied(*args) -> Tensor:
        noted.append(args[2])
        return softmax.softmax_loss(*args)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(cgcl_rank, "softmax_loss", spied)
        list(learner.steps(known, Epoch(1, 0)))
    return torch.stack(noted)


@KINDS
def test_a_step_may_look_at_some_rows_each_whole(kind: dict) -> None:
    known = a_graph(**kind)
    whole = log_sums_of(a_learner(known, **STILL), known)
    learner = a_learner(known, sampled=6, **STILL)
    looked_at = torch.zeros(NODES, dtype=torch.int64)
    for number in range(40):
        with seeded(number, "epoch"):
            found = log_sums_of(learner, known)
        is_there = found > -1e29
        assert torch.allclose(found[is_there], whole[is_there], atol=1e-5)
        # A share of each side, rounded up.
        assert set(is_there.sum(dim=1).tolist()) <= {6, 7}
        looked_at += is_there.sum(dim=0)
    assert (looked_at > 0).all()


def test_some_rows_stand_for_all_of_a_side_however_small_the_side() -> None:
    """The mean over draws of the rows' loss is the loss of all rows, up to chance."""
    few, many = 2, 40
    source = stream(0, "lopsided")
    pairs = torch.cartesian_prod(torch.arange(few), torch.arange(few, few + many)).T
    links = pairs[:, torch.randperm(pairs.shape[1], generator=source)[:30].sort().values]
    x = torch.rand(few + many, 5, generator=source)
    known = TrainingGraph(few + many, links, x, torch.arange(few + many) >= few)
    told = {**STILL, "row_share": 1.0}
    [whole, _] = a_learner(known, **told).steps(known, Epoch(1, 0))
    learner, drawn = a_learner(known, sampled=8, **told), []
    for number in range(100):
        with seeded(number, "epoch"):
            drawn.append(next(iter(learner.steps(known, Epoch(1, 0)))).detach())
    found = torch.stack(drawn)
    error = found.std() / len(drawn) ** 0.5
    assert 0 < error < 0.5
    assert (found.mean() - whole).abs() < 5 * error


@KINDS
def test_a_row_sums_over_all_that_its_node_may_link_to_and_is_not_linked_to(kind: dict) -> None:
    known = a_graph(**kind)
    learner = a_learner(known, **STILL)
    is_other = ~torch.eye(NODES, dtype=torch.bool)
    is_other[tuple(symmetric(known.links))] = False
    if known.sides is not None:
        is_other &= known.sides[:, None] != known.sides
    coin = tossed(known.links, Epoch(1, 0))[0]
    for row, is_seen in zip(log_sums_of(learner, known), (coin, ~coin), strict=True):
        scorer = learner.scorer(known.with_links(known.links[:, is_seen]))
        scores = scorer.rows(torch.arange(NODES)).masked_fill(~is_other, -torch.inf)
        expected = torch.logsumexp(scores, 1) + learner.offset
        torch.testing.assert_close(row, expected, atol=1e-4, rtol=1e-4)


def test_a_score_of_zero_is_where_the_softmax_over_all_pairs_deals_out_one_link() -> None:
    known = a_graph()
    learner = a_learner(known, lr=1e-9, average=0.0, **STILL)
    sums = log_sums_of(learner, known)
    # The last step's offset: each pair stands in two rows.
    expected = torch.logsumexp(sums[1], 0) - math.log(2 * known.links.shape[1])
    torch.testing.assert_close(learner.offset, expected, atol=1e-4, rtol=1e-4)


@KINDS
@pytest.mark.parametrize("told", [{}, {"signatures": 4}, {"layers": 3}, {"target_share": 0.2}])
def test_a_step_knows_nothing_but_the_links_it_sees(kind: dict, told: dict) -> None:
    """Its embeddings are those of a graph in which the links it has to find do not exist."""
    known, epoch = a_graph(**kind), Epoch(1, 3)
    learner = a_learner(known, average=0.0, **told, **STILL)
    noted: list[tuple[Tensor, ...]] = []
    handle = learner.decode.register_forward_hook(lambda *args: noted.append(args[2]))
    list(learner.steps(known, epoch))
    handle.remove()
    assert len(noted) == 2
    # The two steps of an epoch hide the two ends of the same coins.
    coins, share = words(view_key(epoch), *known.links), told.get("target_share", 0.5)
    seen = coins < words_below(1 - share), coins >= words_below(share)
    for made, is_seen in zip(noted, seen, strict=True):
        assert 0 < is_seen.sum() < is_seen.numel()
        alone = learner(known.with_links(known.links[:, is_seen]))
        # Signatures of some of the links are brought to the measure of all of them.
        measure = torch.ones(alone[1].shape[1])
        measure[learner.decode.scale.numel() :] = is_seen.float().mean().rsqrt()
        for own, other in zip(made[:2], alone[:2], strict=True):
            torch.testing.assert_close(own, other * measure, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(made[2], alone[2], atol=1e-5, rtol=1e-5)


def test_signatures_estimate_resource_allocation_of_all_links() -> None:
    known, count = a_graph(), 5000
    learner = a_learner(known, signatures=count).eval()
    with torch.no_grad():
        _, right, _ = learner(known)
    signed = right[:, learner.decode.scale.numel() :]
    pairs = all_pairs()
    exact = torch.from_numpy(ResourceAllocation(known.links, NODES).values(pairs)).float()
    found = (signed @ signed.T)[pairs[0], pairs[1]]
    assert exact.max() > 0.5
    assert (found - exact).abs().max() < 0.1


def any_graph(nodes: int = 60, links: int = 150, density: float | None = 0.5) -> Graph:
    source = torch.Generator().manual_seed(0)
    pairs = torch.combinations(torch.arange(nodes), 2).T
    chosen = torch.randperm(pairs.shape[1], generator=source)[:links]
    x = None if density is None else (torch.rand(nodes, 100, generator=source) < density).float()
    return Graph.from_pairs("a graph", list(map(str, range(nodes))), pairs[:, chosen], x)


@pytest.mark.parametrize("preset", ["quick", "best"])
@pytest.mark.parametrize("density", [None, 0.02, 0.5])
def test_it_chooses_what_it_says_it_does(density: float | None, preset: str) -> None:
    graph = any_graph(density=density)
    chosen = chosen_for(graph, preset)
    assert chosen.keys() == RULED
    assert {field.name for field in fields(RankSettings)} >= RULED
    assert chosen == chosen_for(replace(graph, title="cora"), preset)


def test_it_goes_by_features_links_and_nodes() -> None:
    words, rich = chosen_for(any_graph(density=0.02), "best"), chosen_for(any_graph(), "best")
    assert words["input_dropout"] > rich["input_dropout"]
    assert chosen_for(any_graph(links=80, density=0.02), "best")["layers"] == 1
    assert chosen_for(any_graph(links=80, density=None), "best")["layers"] > 1
    quick = chosen_for(any_graph(), "quick")
    assert quick["sampled"] == 0
    assert chosen_for(any_graph(density=0.02), "quick")["lr"] < quick["lr"]
    many = chosen_for(any_graph(nodes=1200, links=2400, density=None), "quick")
    assert 0 < many["sampled"] < 1200
