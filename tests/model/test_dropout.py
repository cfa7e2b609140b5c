from __future__ import annotations

import pytest
import torch

from cgcl.model.dropout import dropout
from cgcl.seeds import stream


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
