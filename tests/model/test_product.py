"""Products with sparse matrices, in any order and in order."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cgcl.model.ops import product


@pytest.fixture
def deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def both(seed: int, entries: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A sparse matrix with entries that occur twice, and a dense one."""
    source = torch.Generator().manual_seed(seed)
    places = torch.randint(0, 5, (2, entries), generator=source)
    values = torch.rand(entries, generator=source, dtype=torch.float64)
    dense = torch.rand(5, 3, generator=source, dtype=torch.float64)
    return torch.sparse_coo_tensor(places, values, (6, 5), check_invariants=True), dense


@given(st.integers(0, 2**32), st.integers(0, 30))
def test_in_order_it_is_the_same_product_with_the_same_gradient(seed: int, entries: int) -> None:
    matrix, dense = both(seed, entries)
    found: list[torch.Tensor] = []
    for in_order in (False, True):
        torch.use_deterministic_algorithms(in_order)
        try:
            of = dense.clone().requires_grad_()
            result = product(matrix, of)
            (result**2).sum().backward()
        finally:
            torch.use_deterministic_algorithms(False)
        assert of.grad is not None
        found += [result.detach(), of.grad]
    torch.testing.assert_close(found[2], found[0], rtol=0, atol=1e-13)
    torch.testing.assert_close(found[3], found[1], rtol=0, atol=1e-13)


@pytest.mark.usefixtures("deterministic")
def test_a_deterministic_product_never_asks_for_a_sparse_one(monkeypatch) -> None:
    monkeypatch.setattr(torch.sparse, "mm", None)
    matrix, dense = both(0, 9)
    torch.testing.assert_close(product(matrix, dense), matrix.to_dense() @ dense)


def test_a_dense_matrix_is_multiplied_as_it_is() -> None:
    matrix, dense = both(1, 9)
    assert torch.equal(product(matrix.to_dense(), dense), matrix.to_dense() @ dense)
