"""Computing with what was asked for, and leaving the caller's settings as they were."""

from __future__ import annotations

import pytest
import torch

from cgcl.train import execution
from cgcl.train.config import Resources
from cgcl.train.execution import computing_with


def test_threads_are_put_back() -> None:
    before = torch.get_num_threads()
    with computing_with(Resources(device="cpu", threads=before + 1)):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before


@pytest.mark.parametrize(
    ("device", "asked", "expected"),
    [("cuda", True, True), ("cuda", False, False), ("cpu", True, False)],
)
def test_only_a_gpu_is_told_to_add_in_order_and_only_for_a_while(
    device: str, asked: bool, expected: bool, monkeypatch
) -> None:
    monkeypatch.setattr(execution, "resolve_device", lambda _: torch.device(device))
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    with computing_with(Resources(deterministic=asked, threads=1)):
        assert torch.are_deterministic_algorithms_enabled() is expected
    assert not torch.are_deterministic_algorithms_enabled()


def test_a_failure_puts_everything_back(monkeypatch) -> None:
    monkeypatch.setattr(execution, "resolve_device", lambda _: torch.device("cuda"))
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    before = torch.get_num_threads()
    with pytest.raises(KeyError), computing_with(Resources(deterministic=True, threads=1)):
        raise KeyError
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.get_num_threads() == before
