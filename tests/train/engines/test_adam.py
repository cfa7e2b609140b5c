"""Our Adam against torch's."""

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
def test_steps_are_those_of_torch_to_the_last_bit(weight_decay: float, monkeypatch) -> None:
    """Where torch has no fused kernel, they are the same but for rounding."""
    ours, theirs, others = weights(0), weights(0), weights(0)
    own, slow = Adam(ours, 0.01, weight_decay), Adam(others, 0.01, weight_decay)
    optimizer = torch.optim.Adam(theirs, lr=0.01, weight_decay=weight_decay, fused=True)
    for step in range(5):
        for some in (ours, theirs, others):
            set_gradients(some, step, all_of_them=step > 1)
        own.step()
        optimizer.step()
        with monkeypatch.context() as patched:
            patched.delattr(torch, "_fused_adam_")
            slow.step()
    assert all(torch.equal(one, two) for one, two in zip(ours, theirs, strict=True))
    torch.testing.assert_close(others, ours)
    saved = optimizer.state_dict()["state"]
    assert own.moments().keys() == saved.keys()
    for index, memory in own.moments().items():
        assert memory.keys() == saved[index].keys()
        assert all(torch.equal(value, saved[index][name]) for name, value in memory.items())
        torch.testing.assert_close(slow.moments()[index], memory)


def test_no_gradient_no_step_and_gradients_are_forgotten() -> None:
    own = weights(0)
    optimizer = Adam(own, 0.1)
    optimizer.step()
    assert optimizer.moments() == {}
    assert all(torch.equal(one, two) for one, two in zip(own, weights(0), strict=True))
    set_gradients(own, 0)
    optimizer.zero_grad()
    assert [weight.grad for weight in own] == [None] * 3
