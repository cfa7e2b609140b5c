"""What is measured besides accuracy, against numbers worked out by hand."""

import math
from statistics import correlation, fmean

import pytest
import torch

from cgcl.experiments.reproduction import EMBEDDINGS, TRACE, effective_rank, measure
from cgcl.experiments.study import Job
from cgcl.methods.cgcl import draw
from cgcl.methods.method import Epoch
from cgcl.methods.scoring import decode_pairs, embed
from cgcl.metrics import CONSISTENCY_LOWER_BOUND, CONSISTENCY_UPPER_BOUND
from cgcl.split import random_split
from cgcl.train.config import Resources, RunConfig
from cgcl.train.fit import fit, known_of

TERMS = {"views", "reconstructions", "view_1", "view_2", "gap"}
SPLIT_SEED = 3


def trained(graph, method="cgcl", *, track=False, **settings):
    """Return a short training, its split and its job."""
    sizes = {"hidden": 8, "epochs": 5, "evaluate_every": 2} if method == "cgcl" else {"epochs": 2}
    recipe = RunConfig.of(method, {**sizes, "val": 0.1, "test": 0.2, "seed": 4, **settings})
    split = random_split(graph, 0.1, 0.2, SPLIT_SEED)
    resources = Resources(device="cpu", threads=1, track_consistency=track)
    return fit(graph, split, recipe, resources), split, Job("sbm", 20, recipe, SPLIT_SEED)


@pytest.fixture
def graph(sbm):
    return sbm(0)


def test_effective_rank_by_hand():
    """Singular values 3 and 1: shares of 3/4 and 1/4, whose entropy is 0.5623."""
    z = torch.tensor([[3.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    entropy = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    assert entropy == pytest.approx(0.5623, abs=1e-4)
    assert effective_rank(z) == pytest.approx(math.exp(entropy))
    assert effective_rank(torch.eye(5)) == pytest.approx(5)
    assert effective_rank(7 * torch.eye(5)[:3]) == pytest.approx(3)
    # One direction: rounding leaves tiny numbers where there should be none.
    assert effective_rank(torch.outer(torch.arange(1.0, 9.0), torch.ones(4))) == pytest.approx(
        1, abs=1e-5
    )


def test_a_trace_has_a_number_for_every_look_in_each_column(graph):
    run, split, job = trained(graph, track=True)
    trace = measure(TRACE, run, split, job)
    assert trace.keys() == {"epoch", "loss", "val_auc", "val_ap", *TERMS}
    assert trace["epoch"] == [2, 4, 5]
    assert {len(column) for column in trace.values()} == {3}
    looks = [line for line in run.history if "val" in line]
    assert trace["loss"] == [round(sum(own["losses"]) / 2, 6) for own in looks]
    for name in ("auc", "ap"):
        assert trace[f"val_{name}"] == [round(own["val"][name], 6) for own in looks]
    for term in TERMS:
        assert trace[term] == [round(own["consistency"][term], 6) for own in looks]
    values = [value for term in TERMS - {"gap"} for value in trace[term]]
    assert CONSISTENCY_LOWER_BOUND <= min(values) <= max(values) <= CONSISTENCY_UPPER_BOUND
    assert run.val["auc"] == pytest.approx(max(trace["val_auc"]), abs=1e-6)


def test_a_trace_of_another_method(graph):
    trace = measure(TRACE, *trained(graph, "vgae", track=True))
    assert trace.keys() == {"epoch", "loss", "val_auc", "val_ap"}
    assert trace["epoch"] == [2]


def test_embeddings_are_compared_node_by_node_and_pair_by_pair(graph):
    """The same numbers from the embeddings of each view, worked out in another way."""
    run, split, job = trained(graph)
    found = measure(EMBEDDINGS, run, split, job)
    known = known_of(run.graph, split.train, run.learner)
    # The first epoch that is not trained on, with the coins of the run's seed.
    views = draw(known, Epoch(6, 4), job.recipe.settings).views
    z = [
        embed(run.learner, known.features, view.edge_index) for view in (views.view_1, views.view_2)
    ]
    first, second = (own.double().tolist() for own in z)
    same = [cosine(*pair) for pair in zip(first, second, strict=True)]
    other = [cosine(first[node], second[node - 1]) for node in range(len(first))]
    assert found["same_node_cosine"] == pytest.approx(fmean(same), abs=1e-5)
    assert found["other_node_cosine"] == pytest.approx(fmean(other), abs=1e-5)
    assert found["same_node_cosine"] != found["other_node_cosine"]

    links, others = (
        [decode_pairs(run.learner, own, pairs).tolist() for own in z]
        for pairs in (split.test, split.test_negatives)
    )
    both = [own + rest for own, rest in zip(links, others, strict=True)]
    chances = [[1 / (1 + math.exp(-value)) for value in own] for own in both]
    gaps = [abs(one - another) for one, another in zip(*chances, strict=True)]
    assert found["probability_difference"] == pytest.approx(fmean(gaps), abs=1e-5)
    assert found["logit_correlation"] == pytest.approx(correlation(*both), abs=1e-5)
    for number in (0, 1):
        wins = [(a > b) + (a == b) / 2 for a in links[number] for b in others[number]]
        assert found[f"auc_view_{number + 1}"] == pytest.approx(fmean(wins), abs=1e-5)
    assert found["auc_view_1"] != found["auc_view_2"]


def cosine(a, b):
    lengths = math.hypot(*a) * math.hypot(*b)
    return sum(x * y for x, y in zip(a, b, strict=True)) / lengths if lengths else 0.0
