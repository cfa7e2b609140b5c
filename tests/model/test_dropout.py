from __future__ import annotations

import pytest
import torch

from cgcl.model.ops import dropout, dropout_by_bytes
from cgcl.seeds import seeded, stream


@pytest.mark.parametrize("is_sparse", [False, True])
def test_entries_are_dropped_at_the_given_rate_and_the_rest_scaled(is_sparse) -> None:
    x = torch.ones(300, 300)
    x = x.to_sparse_coo().coalesce() if is_sparse else x
    out = dropout(x, 0.8, stream(0, "coins"))
    out = out.to_dense() if is_sparse else out
    assert out.unique().tolist() == pytest.approx([0.0, 5.0])
    assert (out == 0).float().mean().item() == pytest.approx(0.8, abs=0.01)


def test_a_sparse_tensor_stays_sparse_and_gets_shorter() -> None:
    x = torch.eye(100).to_sparse_coo().coalesce()
    out = dropout(x, 0.8, stream(0, "coins"))
    assert out.is_sparse
    assert out.is_coalesced()
    assert out._nnz() < 50
    assert torch.equal(out.to_dense() != 0, (out.to_dense() != 0) & (x.to_dense() != 0))


def test_without_dropout_nothing_is_copied() -> None:
    x = torch.ones(3)
    assert dropout(x, 0.0, None) is x


def test_the_given_generator_is_used_and_the_global_one_left_alone() -> None:
    before = torch.get_rng_state()
    first, again = (dropout(torch.ones(50), 0.5, stream(0, "coins")) for _ in range(2))
    assert torch.equal(first, again)
    assert torch.equal(before, torch.get_rng_state())


def test_dropout_by_bytes_keeps_the_mean_and_rounds_the_chance() -> None:
    x = torch.ones(300, 400, requires_grad=True)
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


def test_dropout_by_bytes_drops_nothing_when_told_not_to() -> None:
    x = torch.rand(5, 3)
    assert torch.equal(dropout_by_bytes(x, 0.5, training=False), x)
    assert torch.equal(dropout_by_bytes(x, 0.0, training=True), x)
