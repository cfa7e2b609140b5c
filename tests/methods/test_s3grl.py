from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from cgcl.methods import s3grl as module
from cgcl.methods import subgraphs
from cgcl.methods.method import TrainingGraph
from cgcl.methods.s3grl import S3GRL, Diffusion, S3GRLSettings, expected_looks
from cgcl.methods.seal import SEALSettings
from cgcl.methods.subgraphs import SubgraphSettings, extract
from cgcl.seeds import seeded
from cgcl.train.engines.plain import PlainEngine


def build(known: TrainingGraph, **changed) -> S3GRL:
    values = {"hidden": 8, "epochs": 3, "batch": 16, "hops": 2} | changed
    with seeded(0, "weights"):
        learner = S3GRL(known.features.shape[1], S3GRLSettings(**values))
        for norm in (learner.norm_0, learner.norm_1):  # as if it had been trained
            norm.running_mean.uniform_(-0.5, 0.5)
            norm.running_var.uniform_(0.5, 2.0)
    return learner


def losses(learner: S3GRL, known: TrainingGraph) -> list[float]:
    """Train for two epochs."""
    first, second = PlainEngine(learner, known, learner.settings, 0).run(1, 2)
    return first + second


def random_known(seed: int, num_nodes: int = 14, chance: float = 0.2) -> TrainingGraph:
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.rand(num_nodes, num_nodes, generator=generator) < chance
    links = drawn.triu(1).nonzero().T.contiguous()
    x = torch.randn(num_nodes, 3, generator=generator)
    return TrainingGraph(num_nodes, links, x)


def rule(hops: int, nodes_per_hop: int, powers: int = 1) -> S3GRLSettings:
    return S3GRLSettings(hops=hops, nodes_per_hop=nodes_per_hop, powers=powers)


def all_pairs(num_nodes: int) -> Tensor:
    return torch.tensor(list(combinations(range(num_nodes), 2))).T


def dense_rows(known: TrainingGraph, u: int, v: int, hops: int, powers: int) -> np.ndarray:
    """The definition, with dense matrices: rows of u, v and what they share, [., (K+1)(d+1)]."""
    n = known.num_nodes
    a = np.zeros((n, n))
    a[tuple(known.links.numpy())] = 1
    a += a.T
    near = np.zeros(n, dtype=bool)
    near[[u, v]] = True
    a[u, v] = a[v, u] = 0
    for _ in range(hops):
        near = near | (a[near].sum(axis=0) > 0)
    a *= np.outer(near, near)
    loops = a + np.eye(n)
    scale = 1 / np.sqrt(loops.sum(axis=1))
    once = scale[:, None] * loops * scale[None, :]
    signal = np.column_stack([np.isin(np.arange(n), [u, v]), known.features.numpy()])
    kept = [u, v, *np.flatnonzero(a[u] * a[v])]
    powers_of = (np.linalg.matrix_power(once, k) for k in range(powers + 1))
    return np.concatenate([(power @ signal)[kept] for power in powers_of], axis=1)


@given(st.integers(0, 10_000), st.integers(1, 3), st.integers(1, 4), st.floats(0, 0.5))
@settings(max_examples=12, deadline=None)
def test_rows_follow_the_definition(seed: int, hops: int, powers: int, chance: float) -> None:
    known = random_known(seed, num_nodes=9, chance=chance)
    pairs = all_pairs(9)
    around = rule(hops, 0, powers)
    found = Diffusion(Diffusion.packed(extract(known.adjacency, pairs, around), around))
    start = found.start
    rows = found.features(torch.arange(found.num_rows), known.features).numpy()
    for at, (u, v) in enumerate(pairs.T.tolist()):
        wanted = dense_rows(known, u, v, hops, powers)
        assert rows[start[at] : start[at + 1]] == pytest.approx(wanted, abs=1e-5)


def test_a_logit_follows_the_definition() -> None:
    """g = ReLU, then batch norm; h = g(W r + b); product of the ends beside the others' mean."""
    known = random_known(3, chance=0.4)
    learner = build(known, powers=2)
    state = {name: value.numpy() for name, value in learner.state_dict().items()}

    def activated(h: np.ndarray, layer: int) -> np.ndarray:
        norm = f"norm_{layer}."
        spread = np.sqrt(state[norm + "running_var"] + 1e-5)
        centred = (np.maximum(h, 0) - state[norm + "running_mean"]) / spread
        return centred * state[norm + "weight"] + state[norm + "bias"]

    wanted, shared = [], []
    for u, v in all_pairs(14).T.tolist():
        r = dense_rows(known, u, v, 2, 2)
        h = activated(r @ state["layer_0.weight"].T + state["layer_0.bias"], 0)
        mean = h[2:].mean(axis=0) if len(h) > 2 else np.zeros(8)
        z = np.concatenate([h[0] * h[1], mean])
        hidden = activated(z @ state["layer_1.weight"].T + state["layer_1.bias"], 1)
        wanted.append(float(hidden @ state["layer_2.weight"][0] + state["layer_2.bias"][0]))
        shared.append(len(h) - 2)
    assert {0, 1, 2} <= set(shared)
    found = learner.scorer(known).logits(all_pairs(14))
    assert found.dtype == torch.float32
    assert found.numpy() == pytest.approx(np.array(wanted), abs=1e-5)


def test_a_pair_that_is_asked_twice_or_both_ways_is_cut_out_once(monkeypatch) -> None:
    known, pairs, asked = random_known(4, chance=0.3), all_pairs(14), []
    learner = build(known)
    first = learner.scorer(known).logits(pairs)
    monkeypatch.setattr(subgraphs, "_UNPACKED", 100)
    monkeypatch.setattr(subgraphs, "extract", lambda *how: asked.append(how[1]) or extract(*how))
    both_ways = torch.cat([pairs[:, 1:], pairs[:, 1:].flip(0)], dim=1)
    assert torch.equal(learner.scorer(known).logits(both_ways), first[1:].repeat(2))
    assert len(asked) > 1
    assert torch.equal(torch.cat(asked, dim=1), pairs[:, 1:])


def test_expected_looks_are_as_by_hand() -> None:
    """Degrees 1, 1, 2: 8/3 neighbours of two ends, each of which has 3/2 on average."""
    degree = np.array([1, 1, 2])
    # One hop: 8/3 to find the ring, 8/3 * 3/2 = 4 to look on from it; found, then linked.
    assert expected_looks(degree, rule(1, 0)) == pytest.approx(2 * (8 / 3 + 4))
    assert expected_looks(degree, rule(1, 1)) == pytest.approx(2 * (8 / 3 + 1.5))
    assert expected_looks(np.zeros(3, dtype=np.int64), rule(3, 0)) == 0


def test_features_are_the_same_held_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    known = random_known(9, chance=0.3)
    monkeypatch.setattr(module, "_ROWS_AT_ONCE", 7)
    held = losses(build(known), known)
    monkeypatch.setattr(module, "_HELD_BYTES", 0)
    assert losses(build(known), known) == held
    monkeypatch.setattr(subgraphs, "_FETCHED", 1)  # one step's at a time
    assert losses(build(known), known) == held


@pytest.mark.parametrize("batch", [2, 3, 5, 1000])
def test_every_pair_is_in_one_batch_of_two_or_more(batch: int) -> None:
    parts = build(random_known(10), batch=batch).batches(torch.arange(14))
    assert torch.equal(torch.cat(parts), torch.arange(14))
    assert 2 <= min(map(len, parts)) <= max(map(len, parts)) <= batch


@pytest.mark.parametrize(
    ("settings", "caps"),
    [
        (S3GRLSettings(hops=1, nodes_per_hop=0, powers=1), "1 hop, 1 power"),
        (
            S3GRLSettings(hops=2, nodes_per_hop=1, share=0.125),
            "2 hops, 3 powers, at most 1 node a hop, 12.5 % of the training links",
        ),
        (
            SEALSettings(hops=2, hidden=64, nodes_per_hop=1500, share=0.3),
            "2 hops, width 64, at most 1,500 nodes a hop, 30 % of the training links",
        ),
    ],
)
def test_caps_say_what_is_left_out(settings: SubgraphSettings, caps: str) -> None:
    assert settings.caps == caps
