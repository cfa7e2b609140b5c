from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cgcl.errors import ConfigError
from cgcl.methods.katz import METHOD, Katz, KatzSettings
from cgcl.methods.method import Known

# 0 - 1, 0 - 2, 1 - 2, 1 - 3, 2 - 3, 3 - 4, and 5 alone
LINKS = torch.tensor([[0, 0, 1, 1, 2, 3], [1, 2, 2, 3, 3, 4]])
PAIRS = torch.tensor([[0, 0, 0, 0, 4], [3, 4, 1, 5, 4]])


def test_walks_are_counted_as_by_hand() -> None:
    """Walks of 1, 2 and 3 steps.

    0 to 3: none, 0-1-3 and 0-2-3, 0-1-2-3 and 0-2-1-3. 0 to 4: 0-1-3-4 and 0-2-3-4.
    0 to 1: 0-1, 0-2-1, and 0-1-0-1, 0-2-0-1, 0-1-2-1, 0-1-3-1, 0-2-3-1. 4 to 4: 4-3-4.
    """
    beta = 0.1
    walks = [(0, 2, 2), (0, 0, 2), (1, 1, 5), (0, 0, 0), (0, 1, 0)]
    expected = [a * beta + b * beta**2 + c * beta**3 for a, b, c in walks]
    katz = Katz(LINKS, 6, KatzSettings(beta=beta, length=3))
    assert katz.values(PAIRS) == pytest.approx(expected, rel=1e-12)


@settings(max_examples=60, deadline=None)
@given(
    links=st.sets(
        st.tuples(st.integers(0, 9), st.integers(0, 9)).filter(lambda p: p[0] < p[1]), max_size=30
    ),
    beta=st.sampled_from([1e-6, 0.005, 0.3, 1.0]),
    length=st.integers(1, 20),
)
def test_any_graph_agrees_with_powers_of_its_matrix(links, beta, length) -> None:
    edges = torch.tensor(sorted(links), dtype=torch.int64).reshape(-1, 2).T
    dense = np.zeros((11, 11))
    for a, b in links:
        dense[a, b] = dense[b, a] = 1
    expected = sum(beta**k * np.linalg.matrix_power(dense, k) for k in range(1, length + 1))
    pairs = torch.cartesian_prod(torch.arange(11), torch.arange(11)).T
    katz = Katz(edges, 11, KatzSettings(beta=beta, length=length))
    assert katz.values(pairs) == pytest.approx(expected.ravel(), rel=1e-9)
    logits = katz.logits(pairs)
    assert torch.isfinite(logits).all()
    assert torch.equal(logits, katz.logits(pairs.flip(0)))


@pytest.mark.parametrize("changed", [{"beta": 0.05}, {"length": 3}])
def test_every_setting_changes_the_scores(changed) -> None:
    known = Known(6, LINKS)
    scorer = METHOD.build(9, KatzSettings()).scorer(known)
    other = METHOD.build(9, KatzSettings(**changed)).scorer(known)
    assert not torch.equal(scorer.logits(PAIRS), other.logits(PAIRS))


def test_longer_walks_cost_more() -> None:
    costs = [Katz(LINKS, 6, KatzSettings(length=length)).cost_per_node for length in (1, 2, 3)]
    assert costs[0] > 0
    assert costs[2] - costs[1] == pytest.approx(costs[1] - costs[0])
    assert Katz(LINKS, 6, KatzSettings(length=3)).steps == 3


def test_the_usual_settings_are_the_ones_in_use() -> None:
    """A path of six steps: only walks of 0.005 a step, and of six steps, get from end to end."""
    path = torch.stack([torch.arange(7), torch.arange(1, 8)])
    scorer = METHOD.build(0, KatzSettings()).scorer(Known(9, path))
    assert scorer.values(torch.tensor([[0, 0], [6, 7]])) == pytest.approx([0.005**6, 0])
    end, beyond, alone = scorer.logits(torch.tensor([[0, 0, 0], [6, 7, 8]]))
    assert end > beyond + 2
    assert beyond == alone


def test_walks_are_exact_until_float64_ends() -> None:
    """In a clique of 60, a node has 59 walks for every one that is a step shorter."""
    clique = torch.combinations(torch.arange(60)).T
    assert Katz(clique, 60, KatzSettings(length=9)).rounding == 0  # 59^9 < 2^53 < 59^10
    katz = Katz(clique, 60, KatzSettings(beta=0.02, length=10))
    assert 0 < katz.rounding < 1e-11
    logits = katz.logits(clique)
    assert len(set(logits.tolist())) == 1
    assert torch.equal(logits, katz.logits(clique.flip(0)))


@pytest.mark.parametrize(
    "settings_", [{"beta": 0.0}, {"beta": 1.5}, {"beta": 1e-9}, {"length": 0}, {"length": 21}]
)
def test_absurd_settings_are_refused(settings_) -> None:
    with pytest.raises(ConfigError, match=next(iter(settings_))):
        KatzSettings(**settings_)


def test_even_the_farthest_settings_give_finite_logits() -> None:
    path = torch.stack([torch.arange(20), torch.arange(1, 21)])
    clique = torch.combinations(torch.arange(100)).T
    faint = Katz(path, 22, KatzSettings(beta=1e-6, length=20)).logits(
        torch.tensor([[0, 0], [20, 21]])
    )
    assert faint[0] > faint[1] + 2
    assert torch.isfinite(faint).all()
    assert torch.isfinite(Katz(clique, 100, KatzSettings(beta=1.0, length=20)).logits(clique)).all()


def test_what_to_search_is_allowed() -> None:
    assert set(METHOD.search) == {"beta", "length"}
    for name, choices in METHOD.search.items():
        assert getattr(KatzSettings(), name) in choices
        for choice in choices:
            KatzSettings(**{name: choice})
    assert not METHOD.needs_features
    assert METHOD.works_across_sides
