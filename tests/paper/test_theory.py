"""The paper's definitions, conditions, theorem and lemma, with numbers worked by hand.

Two constants recur: with s = sigmoid(1) = 1 / (1 + 1/e) = 0.731059 and sigmoid(0) = 1/2,
log s = -0.313262 and log 1/2 = -0.693147.
"""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cgcl.metrics import (
    CONSISTENCY_LOWER_BOUND,
    CONSISTENCY_UPPER_BOUND,
    LEMMA_BOUND,
    consistency,
    is_consistent,
    loses_information,
    supervision_gap,
)
from cgcl.model import consistency_loss

UNIT = st.floats(0, 1, allow_subnormal=False)
PAIRS = st.lists(st.tuples(UNIT, UNIT), min_size=1, max_size=20)
FOUR = st.lists(st.tuples(UNIT, UNIT, UNIT, UNIT), min_size=1, max_size=20)


def entries(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_definition_1_asks_for_equality_of_every_pair():
    """A1 = (1, 0, 1) is consistent with (1, 0, 1), not with (1, 0, 0.999)."""
    assert is_consistent(entries(1, 0, 1), entries(1, 0, 1))
    assert is_consistent(torch.tensor([1, 0, 1]), entries(1, 0, 1))
    assert not is_consistent(entries(1, 0, 1), entries(1, 0, 0.999))


def test_eq_2_is_the_mean_of_a1_log_a2():
    """r1 = (1, 0), r2 = (1, 1): (s log s + 1/2 log s) / 2.

    (0.731059 * -0.313262 + 0.5 * -0.313262) / 2 = (-0.229013 - 0.156631) / 2 = -0.192822.
    Turned round, (s log s + s log 1/2) / 2 = (-0.229013 - 0.506732) / 2 = -0.367872: C is not
    symmetric.
    """
    assert consistency(entries(1, 0), entries(1, 1)) == pytest.approx(-0.192822, abs=1e-6)
    assert consistency(entries(1, 1), entries(1, 0)) == pytest.approx(-0.367872, abs=1e-6)


@given(FOUR)
def test_eq_2_rewards_any_link_of_the_reconstruction(rows):
    """For fixed r1, C grows with r2: (1, 1) beats the perfect reconstruction (1, 0) of (1, 0).

    The maximum over r2 is at r2 = 1 everywhere, not at r2 = r1; it is the second term of Eq. 8
    that punishes invented links.
    """
    r1, r2, _, _ = (entries(*column) for column in zip(*rows, strict=True))
    assert consistency(r1, torch.ones_like(r2)) >= consistency(r1, r2) - 1e-12
    assert consistency(entries(1, 0), entries(1, 1)) > consistency(entries(1, 0), entries(1, 0))


def test_eq_3_is_not_true_in_general():
    """Eq. 3 claims C(v1, v2) >= C(v1, a2) >= C(a1, a2); v1 = 1, v2 = 0.1 turns both round.

    With a = sigmoid(v) and C(x, y) = x log y for a single pair:
    C(v1, v2) = log 0.1 = -2.302585,
    C(v1, a2) = log sigmoid(0.1) = log 0.524979 = -0.644397,
    C(a1, a2) = sigmoid(1) * log sigmoid(0.1) = 0.731059 * -0.644397 = -0.471092.
    So the values rise where the paper has them fall. The data processing inequality speaks about
    mutual information, and C is not one.
    """
    v1, v2 = 1.0, 0.1
    a1, a2 = 1 / (1 + math.exp(-v1)), 1 / (1 + math.exp(-v2))
    of_variables, mixed = v1 * math.log(v2), v1 * math.log(a2)
    of_images = consistency(entries(v1), entries(v2))
    assert of_images == pytest.approx(a1 * math.log(a2), abs=1e-12)
    assert of_variables == pytest.approx(-2.302585, abs=1e-6)
    assert mixed == pytest.approx(-0.644397, abs=1e-6)
    assert of_images == pytest.approx(-0.471092, abs=1e-6)
    assert of_variables < mixed < of_images


def test_eq_10_compares_the_views_with_their_reconstructions():
    """A1 = (1, 0), A2 = (0, 1): C = (s log 1/2 + 1/2 log s) / 2 = -0.331681.

    Reconstructions of ones everywhere have C = s log s = -0.229013, more than the views: nothing
    is lost. Reconstructions of zeros have C = 1/2 log 1/2 = -0.346574, less: information is lost.
    """
    a1, a2, ones, zeros = entries(1, 0), entries(0, 1), entries(1, 1), entries(0, 0)
    assert consistency(a1, a2) == pytest.approx(-0.331681, abs=1e-6)
    assert consistency(ones, ones) == pytest.approx(-0.229013, abs=1e-6)
    assert consistency(zeros, zeros) == pytest.approx(-0.346574, abs=1e-6)
    assert not loses_information(a1, a2, ones, ones)
    assert loses_information(a1, a2, zeros, zeros)
    # As printed it counts perfect reconstructions as a loss: both sides are the same number, and
    # the paper's sign is >=.
    assert loses_information(a1, a2, a1, a2)


def test_eq_11_holds_for_equal_views_and_fails_for_perfect_ones_of_complementary_views():
    """Views and reconstructions all alike: three times s log s, gap 0.

    A1 = (1, 0), A2 = (0, 1), A~ = A:
    C(A1, A1) = C(A2, A2) = (s log s + 1/2 log 1/2) / 2 = (-0.229013 - 0.346574) / 2 = -0.287793
    and C(A1, A2) = -0.331681, so the gap is 0.043888: Definition 1 and Eq. 11 cannot both hold
    for these views.
    """
    a1, a2, ones = entries(1, 0), entries(0, 1), entries(1, 1)
    assert supervision_gap(ones, ones, ones, ones) == 0
    assert is_consistent(a1, a1)
    assert consistency(a1, a1) == consistency(a2, a2) == pytest.approx(-0.287793, abs=1e-6)
    assert supervision_gap(a1, a2, a1, a2) == pytest.approx(0.043888, abs=1e-6)


@given(PAIRS)
def test_theorem_1_bounds_every_pair_of_structures(rows):
    r1, r2 = (entries(*column) for column in zip(*rows, strict=True))
    value = consistency(r1, r2)
    assert CONSISTENCY_LOWER_BOUND - 1e-12 <= value <= CONSISTENCY_UPPER_BOUND + 1e-12


def test_theorem_1_bounds_are_reached_at_the_corners():
    """r1 = 1, r2 = 0 gives s log 1/2, the lower bound; r1 = 0, r2 = 1 gives 1/2 log s, the upper.

    -log 2 / (1 + 1/e) = -0.693147 * 0.731059 = -0.506732; -log(1.367879) / 2 = -0.156631.
    They are the only corners: s log s = -0.229013 and 1/2 log 1/2 = -0.346574 lie between.
    """
    assert pytest.approx(-0.506732, abs=1e-6) == CONSISTENCY_LOWER_BOUND
    assert pytest.approx(-0.156631, abs=1e-6) == CONSISTENCY_UPPER_BOUND
    lowest, highest = consistency(entries(1), entries(0)), consistency(entries(0), entries(1))
    assert lowest == pytest.approx(CONSISTENCY_LOWER_BOUND, abs=1e-15)
    assert highest == pytest.approx(CONSISTENCY_UPPER_BOUND, abs=1e-15)
    for corner in (0, 1):
        assert lowest < consistency(entries(corner), entries(corner)) < highest


def test_theorem_1_does_not_hold_for_logits():
    """Take r1 = 0 and a logit r2 = 5: C = 1/2 log sigmoid(5) = 1/2 * -0.006715 = -0.003358.

    That is above the upper bound -0.156631. Theorem 1 speaks about r in [0, 1], while Eq. 8 puts
    the decoder's unbounded output into the sigmoid. `consistency` refuses the logit.
    """
    value = 0.5 * math.log(1 / (1 + math.exp(-5)))
    assert value == pytest.approx(-0.003358, abs=1e-6)
    assert value > CONSISTENCY_UPPER_BOUND
    with pytest.raises(ValueError, match=r"Theorem 1 needs r in \[0, 1\]"):
        consistency(entries(0), entries(5))


@given(st.floats(-50, 50), st.floats(-50, 50))
def test_theorem_1_does_not_bound_the_loss_of_eq_8(linked, unlinked):
    """With targets s and 1/2 the loss is never below 1.275350, and above any number somewhere.

    A linked pair's term is smallest where sigmoid(logit) = s, at a logit of 1: it is the entropy
    -0.731059 log 0.731059 - 0.268941 log 0.268941 = 0.229013 + 0.353190 = 0.582203. An unlinked
    pair's term is smallest at 0: log 2 = 0.693147. Theorem 1 has -C between 0.156631 and
    0.506732, so no logits at all give such a loss. A logit of -50 for a link costs 36.55.
    """

    def loss(one: float, other: float) -> float:
        return float(consistency_loss(entries(one), entries(other), "sigmoid"))

    smallest = loss(1, 0)
    assert smallest == pytest.approx(1.275350, abs=1e-6)
    assert loss(linked, unlinked) >= smallest - 1e-12
    assert smallest > -CONSISTENCY_LOWER_BOUND == pytest.approx(0.506732, abs=1e-6)
    assert loss(-50, 0) == pytest.approx(0.731059 * 50 + math.log(2), abs=1e-4)


@given(FOUR)
def test_lemma_1_bounds_the_difference_of_two_models(rows):
    """The difference stays below 1 / (1 + 1/e) = 0.731059, and even below 0.350101."""
    r1, r2, s1, s2 = (entries(*column) for column in zip(*rows, strict=True))
    difference = abs(consistency(r1, r2) - consistency(s1, s2))
    assert difference <= LEMMA_BOUND
    assert difference <= CONSISTENCY_UPPER_BOUND - CONSISTENCY_LOWER_BOUND + 1e-12


def test_lemma_1_is_true_but_not_tight():
    """Theorem 1 alone gives -0.156631 + 0.506732 = 0.350101, reached by opposite corners."""
    tight = CONSISTENCY_UPPER_BOUND - CONSISTENCY_LOWER_BOUND
    reached = consistency(entries(0), entries(1)) - consistency(entries(1), entries(0))
    assert reached == pytest.approx(tight, abs=1e-15)
    assert tight == pytest.approx(0.350101, abs=1e-6)
    assert pytest.approx(0.731059, abs=1e-6) == LEMMA_BOUND
    assert tight < LEMMA_BOUND / 2
