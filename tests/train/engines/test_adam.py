"""Our Adam against torch's."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from cgcl.train.engines.plain import Adam


def weights(seed: int) -> list[nn.Parameter]:
    source = torch.Generator().manual_seed(seed)
    return [nn.Parameter(torch.randn(shape, generator=source)) for shape in [(4, 3), (5,), (2,)]]


def set_gradients(own: list[nn.Parameter], seed: int, *, all_of_them: bool = True) -> None:
    source = torch.Generator().manual_seed(seed)
    for index, weight in enumerate(own):
        gradient = torch.randn(weight.shape, generator=source)
        weight.grad = gradient if all_of_them or index != 1 else None


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_steps_are_those_of_torch_to_the_last_bit(weight_decay: float) -> None:
    ours, theirs = weights(0), weights(0)
    own = Adam(ours, 0.01, weight_decay)
    other = torch.optim.Adam(theirs, lr=0.01, weight_decay=weight_decay, fused=True)
    for step in range(5):
        set_gradients(ours, step, all_of_them=step > 1)
        set_gradients(theirs, step, all_of_them=step > 1)
        own.step()
        other.step()
    for one, two in zip(ours, theirs, strict=True):
        assert torch.equal(one, two)
    saved = other.state_dict()["state"]
    assert own.moments().keys() == saved.keys()
    for index, memory in own.moments().items():
        assert memory.keys() == saved[index].keys()
        assert all(torch.equal(value, saved[index][name]) for name, value in memory.items())


def test_a_torch_without_the_fused_kernel_steps_the_same_way(monkeypatch) -> None:
    ours, theirs = weights(0), weights(0)
    one, other = Adam(ours, 0.01, 0.1), Adam(theirs, 0.01, 0.1)
    for step in range(3):
        for own, optimizer in ((ours, one), (theirs, other)):
            set_gradients(own, step, all_of_them=step > 1)
            with monkeypatch.context() as patched:
                if optimizer is other:
                    patched.delattr(torch, "_fused_adam_")
                optimizer.step()
    for index, memory in one.moments().items():
        torch.testing.assert_close(other.moments()[index], memory)
    torch.testing.assert_close(theirs, ours)


def test_a_first_step_by_hand() -> None:
    """The first step is lr times the sign of the gradient, whatever its size."""
    weight = nn.Parameter(torch.tensor([1.0, 1.0]))
    weight.grad = torch.tensor([4.0, -0.25])
    Adam([weight], 0.5).step()
    assert weight.tolist() == pytest.approx([0.5, 1.5])


def test_no_gradient_no_step_and_gradients_are_forgotten() -> None:
    own = weights(0)
    optimizer = Adam(own, 0.1)
    optimizer.step()
    assert optimizer.moments() == {}
    assert all(torch.equal(one, two) for one, two in zip(own, weights(0), strict=True))
    set_gradients(own, 0)
    optimizer.zero_grad()
    assert [weight.grad for weight in own] == [None] * 3


def test_a_restored_optimizer_goes_on_where_the_other_stopped() -> None:
    straight, first = weights(0), weights(0)
    one, two = Adam(straight, 0.01), Adam(first, 0.01)
    for step in range(4):
        set_gradients(straight, step)
        one.step()
        if step < 2:
            set_gradients(first, step)
            two.step()
    second = [nn.Parameter(weight.detach().clone()) for weight in first]
    three = Adam(second, 0.01)
    three.restore({k: {n: v.clone() for n, v in m.items()} for k, m in two.moments().items()})
    for step in range(2, 4):
        set_gradients(second, step)
        three.step()
    assert all(torch.equal(a, b) for a, b in zip(straight, second, strict=True))
