from __future__ import annotations

import hashlib

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cgcl.model import PairDecoder
from cgcl.seeds import stream


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 100), st.sampled_from(["hadamard", "inner"]))
def test_a_pair_and_its_reverse_have_the_same_logit_to_the_last_bit(seed, product) -> None:
    z = torch.randn(30, 16, generator=stream(seed, "z"))
    pairs = torch.randint(30, (2, 100), generator=stream(seed, "pairs"))
    decoder = PairDecoder(16, product=product).eval()
    with torch.no_grad():
        assert torch.equal(decoder(z, pairs), decoder(z, pairs.flip(0)))


def test_a_last_relu_forbids_negative_logits() -> None:
    z = torch.randn(50, 8, generator=stream(0, "z"))
    pairs = torch.randint(50, (2, 400), generator=stream(0, "pairs"))
    linear, relu = PairDecoder(8).eval(), PairDecoder(8, last_layer="relu").eval()
    linear.reset_parameters(stream(0, "weights"))
    relu.load_state_dict(linear.state_dict())
    with torch.no_grad():
        assert (linear(z, pairs) < 0).any()
        torch.testing.assert_close(relu(z, pairs), linear(z, pairs).clamp(min=0))


@pytest.mark.parametrize("product", ["hadamard", "inner"])
def test_the_backward_pass_gives_the_same_bits_every_time(product) -> None:
    z = torch.randn(500, 64, generator=stream(0, "z")).requires_grad_()
    pairs = torch.randint(500, (2, 20_000), generator=stream(0, "pairs"))
    decoder = PairDecoder(64, product=product)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    hashes = set()
    for _ in range(8):
        z.grad = None
        decoder(z, pairs, stream(0, "coins")).square().sum().backward()
        hashes.add(hashlib.sha256(z.grad.numpy().tobytes()).hexdigest())
    torch.set_num_threads(before)
    assert len(hashes) == 1
