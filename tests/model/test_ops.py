"""Dropout, and products with sparse matrices in any order and in order."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cgcl.model.ops import Rows, dropout, dropout_by_bytes, row_sums, spmm
from cgcl.seeds import seeded, stream


def both(seed: int, entries: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A sparse matrix with entries that occur twice, and a dense one."""
    source = torch.Generator().manual_seed(seed)
    places = torch.randint(0, 5, (2, entries), generator=source)
    values = torch.rand(entries, generator=source, dtype=torch.float64)
    dense = torch.rand(5, 3, generator=source, dtype=torch.float64)
    return torch.sparse_coo_tensor(places, values, (6, 5), check_invariants=True), dense


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 30))
def test_in_order_it_is_the_same_product_with_the_same_gradient(seed: int, entries: int) -> None:
    matrix, dense = both(seed, entries)
    found: list[torch.Tensor] = []
    for in_order in (False, True):
        torch.use_deterministic_algorithms(in_order)
        try:
            of = dense.clone().requires_grad_()
            result = spmm(matrix, of)
            found += [result.detach(), *torch.autograd.grad((result**2).sum(), of)]
        finally:
            torch.use_deterministic_algorithms(False)
    torch.testing.assert_close(found[2:], found[:2], rtol=0, atol=1e-13)


def test_a_deterministic_product_never_asks_for_a_sparse_one(monkeypatch) -> None:
    monkeypatch.setattr(torch.sparse, "mm", None)
    monkeypatch.setattr(torch, "are_deterministic_algorithms_enabled", lambda: True)
    matrix, dense = both(0, 9)
    torch.testing.assert_close(spmm(matrix, dense), matrix.to_dense() @ dense)
    assert torch.equal(spmm(matrix.to_dense(), dense), matrix.to_dense() @ dense)


def test_rows_are_the_same_product_with_the_gradient_of_the_other_way_round() -> None:
    matrix, h = torch.tensor([[0.0, 2.0, 0.0], [3.0, 0.0, 5.0]]), torch.rand(3, 4)
    rows, transposed = (
        Rows.of(
            (of != 0).sum(dim=1).numpy(), of.nonzero()[:, 1].numpy(), of[of != 0].numpy(), h.device
        )
        for of in (matrix, matrix.T)
    )
    found = row_sums(h.requires_grad_(), rows, transposed)
    torch.testing.assert_close(found, matrix @ h)
    weights = torch.rand(2, 4)
    (gradient,) = torch.autograd.grad(found, h, weights)
    torch.testing.assert_close(gradient, matrix.T @ weights)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_entries_are_dropped_at_the_given_rate_and_the_rest_scaled(is_sparse) -> None:
    x, before = torch.ones(300, 300).triu(), torch.get_rng_state()
    x = x.to_sparse_coo().coalesce() if is_sparse else x
    out, again = (dropout(x, 0.8, stream(0, "coins")) for _ in range(2))
    if is_sparse:
        assert out.is_coalesced()
        assert out._nnz() < 0.3 * x._nnz()
        x, out, again = x.to_dense(), out.to_dense(), again.to_dense()
    assert torch.equal(out, again)
    assert torch.equal(before, torch.get_rng_state())
    assert not out[x == 0].any()
    assert out[x == 1].unique().tolist() == pytest.approx([0.0, 5.0])
    assert (out[x == 1] == 0).float().mean().item() == pytest.approx(0.8, abs=0.01)


def test_without_a_chance_nothing_is_drawn() -> None:
    x, coins = torch.ones(3), stream(0, "coins")
    before = coins.get_state()
    assert dropout(x, 0.0, coins) is x
    assert torch.equal(coins.get_state(), before)


def test_dropout_by_bytes_of_nearly_everything_leaves_something() -> None:
    with seeded(0, "coins"):
        found = dropout_by_bytes(torch.ones(100_000), 0.999, training=True)
    assert found.unique().tolist() == [0, 256]
    assert dropout_by_bytes(torch.ones(13), 0.5, training=True).shape == (13,)


def test_dropout_by_bytes_keeps_the_mean_and_rounds_the_chance() -> None:
    x = torch.ones(1500, 1600, requires_grad=True)
    assert torch.equal(dropout_by_bytes(x, 0.5, training=False), x)
    assert torch.equal(dropout_by_bytes(x, 0.0, training=True), x)
    for chance in (0.1, 0.5, 0.8):
        with seeded(0, "coins"):
            found = dropout_by_bytes(x, chance, training=True)
        dropped = round(256 * chance) / 256
        share = (found == 0).float().mean().item()
        assert share == pytest.approx(dropped, abs=5 * (0.25 / x.numel()) ** 0.5)
        assert torch.allclose(found[found != 0], torch.tensor(1 / (1 - dropped)))
        # Each entry has a coin of its own: as many are dropped in every column of eight.
        by_place = (found.view(-1, 8) == 0).float().mean(dim=0)
        assert torch.allclose(by_place, torch.full((8,), dropped), atol=0.02)
        [gradient] = torch.autograd.grad(found.sum(), x)
        assert torch.equal(gradient, found.detach())
