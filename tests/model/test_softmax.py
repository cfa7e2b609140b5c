"""The softmax over all nodes and all pairs: by hand, and against torch on the whole matrix."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from cgcl.model import softmax
from cgcl.model.softmax import Excluded, Workspace, row_logsumexp, softmax_loss
from cgcl.seeds import stream

# 0 - 1, 1 - 2, 2 - 3: what is left of a path of four nodes are the pairs (0, 2), (0, 3), (1, 3).
PATH = torch.tensor([[0, 1, 2], [1, 2, 3]])
NOTHING = -1e30


def excluded_of(mask: Tensor) -> Excluded:
    """The entries where a mask is True."""
    return Excluded(mask.flatten().nonzero().squeeze(1), tuple(mask.shape))


def known_of(links: Tensor) -> Excluded:
    """The links of four nodes, and these with themselves."""
    mask = torch.eye(4, dtype=torch.bool)
    mask[links[0], links[1]] = mask[links[1], links[0]] = True
    return excluded_of(mask)


@st.composite
def problems(draw: st.DrawFn) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Vectors, biases and which entries do not count: none, some, whole rows, everything."""
    rows, columns, width = (draw(st.integers(least, 9)) for least in (0, 1, 1))
    source = stream(draw(st.integers(0, 999)), "softmax")
    size = draw(st.sampled_from([0.1, 1.0, 30.0]))
    left, right = (size * torch.randn(n, width, generator=source) for n in (rows, columns))
    bias = torch.randn(columns, generator=source)
    mask = torch.rand(rows, columns, generator=source) < draw(st.sampled_from([0, 0.3, 0.9, 1]))
    return left, right, bias, mask


@settings(max_examples=150, deadline=None)
@given(problems(), st.sampled_from([1, 7, 20, 2**20]), st.sampled_from([0, 2**24]))
def test_sums_and_gradients_are_torchs_on_the_whole_matrix(problem, block, kept) -> None:
    *inputs, mask = problem
    inputs = [given.requires_grad_() for given in inputs]
    is_empty = mask.all(dim=1)
    weights = torch.randn(len(mask), generator=stream(0, "weights"))
    left, right, bias = inputs
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(softmax, "_CPU_BLOCK", block)
        patch.setattr(softmax, "CPU_KEPT", kept)
        excluded = excluded_of(mask)
        assert excluded.is_kept == (kept > 0 or mask.numel() == 0)
        found = row_logsumexp(left, right, bias, excluded, Workspace())
        ours = torch.autograd.grad(found, inputs, weights)
    scores = (left @ right.T + bias).masked_fill(mask, -torch.inf)
    # A row without entries: torch says minus infinity, and has no gradient to offer.
    expected = torch.logsumexp(scores[~is_empty], dim=1)
    theirs = torch.autograd.grad(expected, inputs, weights[~is_empty])
    torch.testing.assert_close(found[~is_empty], expected, atol=1e-5, rtol=1e-5)
    assert (found[is_empty] == NOTHING).all()
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


def test_a_workspace_is_used_again_and_changes_nothing() -> None:
    workspace, excluded = Workspace(), known_of(PATH)
    room = workspace.take(6, torch.zeros(1)).data_ptr()
    for size in (4, 6):
        again = workspace.take(size, torch.zeros(1))
        assert (again.data_ptr(), again.numel()) == (room, size)
    for seed in range(3):
        left, right = torch.randn(2, 4, 5, generator=stream(seed, "left"))
        bias = torch.randn(4, generator=stream(seed, "bias"))
        sums = [row_logsumexp(left, right, bias, excluded, own) for own in (workspace, None)]
        assert torch.equal(*sums)


@pytest.mark.parametrize(
    ("shape", "rows"),
    [((10, 4), 5), ((3, 4), 3), ((10, 100), 1), ((30, 1), 20), ((0, 4), 1), ((4, 0), 4)],
)
def test_as_many_rows_are_computed_at_once_as_fit_into_a_block(monkeypatch, shape, rows) -> None:
    monkeypatch.setattr(softmax, "_CPU_BLOCK", 20)
    assert Excluded(torch.empty(0, dtype=torch.int64), shape).block_rows == rows


@pytest.mark.parametrize(("shape", "kept"), [((6, 4), True), ((3, 9), False), ((9, 3), False)])
def test_exponentials_are_kept_up_to_a_number(monkeypatch, shape, kept) -> None:
    monkeypatch.setattr(softmax, "CPU_KEPT", 24)
    assert Excluded(torch.empty(0, dtype=torch.int64), shape).is_kept == kept


def test_each_end_counts_as_often_as_its_own_row_stands_for() -> None:
    """Link 0 - 1 with score 0 between rows with L = log 2 and log 4, for 3 and 5 rows."""
    pairs, log_sums = torch.tensor([[0], [1]]), torch.tensor([2.0, 4.0]).log()
    loss = softmax_loss(torch.zeros(1), pairs, log_sums, 1.0, torch.tensor([3.0, 5.0]))
    assert loss.item() == pytest.approx((3 * math.log(3) + 5 * math.log(5)) / 2)


def test_the_loss_is_as_by_hand() -> None:
    """Sums L = log (1, 2, 3, 4) of four nodes, links 0 - 1 and 2 - 3 with scores log 2 and log 5.

    By rows the first costs (log(1 + 1/2) + log(1 + 2/2)) / 2, the second (log(1 + 3/5) +
    log(1 + 4/5)) / 2; among all pairs, log(10 / 2) and log(10 / 5).
    """
    scores, pairs = torch.tensor([2.0, 5.0]).log(), torch.tensor([[0, 2], [1, 3]])
    log_sums, both = torch.tensor([1.0, 2.0, 3.0, 4.0]).log(), torch.tensor([0, 1])
    rows = [math.log(1.5 * 2) / 2, math.log(1.6 * 1.8) / 2]
    everywhere = [math.log(5), math.log(2)]

    def loss(asked: Tensor, share: float) -> float:
        return softmax_loss(scores[asked], pairs[:, asked], log_sums, share).item()

    assert loss(both, 1.0) == pytest.approx(sum(rows) / 2, rel=1e-6)
    assert loss(both, 0.0) == pytest.approx(sum(everywhere) / 2, rel=1e-6)
    mixed = 0.25 * rows[1] + 0.75 * everywhere[1]
    assert loss(both[1:], 0.25) == pytest.approx(mixed, rel=1e-6)
    assert softmax_loss(scores, pairs, log_sums).item() == loss(both, 0.5)


@pytest.mark.parametrize(("size", "links"), [(1.0, 0), (1.0, 6), (100.0, 6)])
def test_a_view_with_nothing_to_find_or_to_stand_out_from_teaches_nothing(size, links) -> None:
    """No link to find, or all six pairs of four nodes linked: nothing costs, and nothing breaks."""
    z = (size * torch.randn(4, 3, generator=stream(0, "z"))).requires_grad_()
    pairs = torch.combinations(torch.arange(4)).T[:, :links]
    scores = (z[pairs[0]] * z[pairs[1]]).sum(dim=1)
    known = known_of(pairs if links else PATH)
    loss = softmax_loss(scores, pairs, row_logsumexp(z, z, torch.zeros(4), known))
    loss.backward()
    assert loss.item() == 0
    assert (z.grad == 0).all()


def test_some_rows_stand_for_all_of_them_without_bias() -> None:
    """The mean over all choices of two of four rows is what all rows cost."""
    pairs = torch.tensor([[0, 1], [1, 2]])
    scores, sums = torch.tensor([0.5, -1.0]), torch.tensor([1.0, 0.0, 3.0, -2.0])
    costs = []
    for chosen in itertools.combinations(range(4), 2):
        some = torch.full((4,), -1e30)
        some[list(chosen)] = sums[list(chosen)]
        costs.append(softmax_loss(scores, pairs, some, 1.0, torch.full((4,), 2.0)))
    whole = softmax_loss(scores, pairs, sums, 1.0)
    assert torch.stack(costs).mean().item() == pytest.approx(whole.item(), rel=1e-5)
    # Among all pairs, two rows of four count twice.
    some, two = torch.tensor([1.0, 0.0, -1e30, -1e30]), torch.full((4,), 2.0)
    half = softmax_loss(scores, pairs, some, 0.0, two)
    expected = math.log(2 * (math.e + 1)) - (0.5 - 1.0) / 2
    assert half.item() == pytest.approx(expected, rel=1e-5)
