"""Several processes that train one model together, as PyTorch's own torchrun starts them.

Each is a rank with the same weights. A step's links are dealt out, gradients are summed, and what
is decided, such as which epoch is best, the first rank decides for all. Alone, all of this is
nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, distributed, nn

from cgcl.errors import ConfigError, ResourceError
from cgcl.methods.method import Ranks

if TYPE_CHECKING:
    from cgcl.train.config import RunConfig

T = TypeVar("T")
# A rank that hears nothing for so long gives up: another one may be gone.
_PATIENCE = timedelta(seconds=100)
_GONE = (
    "It may have been killed; what was trained is in the last checkpoint of the first one's run."
)


def asked_ranks() -> Ranks:
    """Return which of how many processes this is, by the environment that torchrun sets."""
    return Ranks(int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1")))


def present_ranks() -> Ranks:
    """Return which of how many processes this is in the group that it has joined, if any."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return Ranks()
    return Ranks(distributed.get_rank(), distributed.get_world_size())


def require_shareable(recipe: RunConfig) -> None:
    """Refuse several processes for what they cannot deal out.

    Raises:
        ConfigError: It has no batches of links.
    """
    count = asked_ranks().count
    if count < 2 or (recipe.name == "cgcl" and getattr(recipe.settings, "batch", 0)):
        return
    without = " without `batch`" if recipe.name == "cgcl" else ""
    raise ConfigError(
        f"{count} processes were started, and they can deal out CGCL's batches of links; this is "
        f"{recipe.name}{without}.\nUse `method=cgcl` with `batch=8192`, or start a single process."
    )


@contextmanager
def joined(device: torch.device, recipe: RunConfig) -> Iterator[None]:
    """Be one of the ranks that the environment asks for, for a while; nothing if it asks for one.

    Args:
        device: Where this rank computes.
        recipe: What is trained: its steps must be able to be dealt out.

    Raises:
        ConfigError: They are not.
        ResourceError: The others cannot be reached.
    """
    if asked_ranks().count < 2 or distributed.is_initialized():
        yield
        return
    require_shareable(recipe)
    with _talking(
        "Start all of them with torchrun; on several machines each must reach the others."
    ):
        _join("nccl" if device.type == "cuda" else "gloo")
    try:
        yield
    finally:
        distributed.destroy_process_group()


def _join(backend: str) -> None:
    store, rank, count = next(distributed.rendezvous("env://", timeout=_PATIENCE))
    # Started again, torchrun may give the same store: addresses of before are no longer true.
    attempt = f"cgcl/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"
    own = distributed.PrefixStore(attempt, store)
    told = {"rank": rank, "world_size": count, "timeout": _PATIENCE}
    distributed.init_process_group(backend, store=own, **told)


@contextmanager
def _talking(remedy: str = _GONE) -> Iterator[None]:
    """Say in a sentence that another rank does not answer.

    Raises:
        ResourceError: It does not.
    """
    try:
        yield
    except (RuntimeError, ValueError) as error:
        raise ResourceError(f"Another process does not answer: {error}\n{remedy}") from error


def from_first(make: Callable[[], T]) -> T:
    """Return what the first rank makes, in every rank; the others make nothing."""
    here = present_ranks()
    if here.count < 2:
        return make()
    held: list[Any] = [make() if here.rank == 0 else None]
    with _talking():
        distributed.broadcast_object_list(held, src=0)
    return held[0]


def any_rank(answer: bool) -> bool:
    """Whether the answer of any rank is yes; every rank has to ask."""
    if present_ranks().count < 2:
        return answer
    on = "cuda" if distributed.get_backend() == "nccl" else "cpu"
    with _talking():
        held = torch.tensor(float(answer), device=on)
        distributed.all_reduce(held, op=distributed.ReduceOp.MAX)
    return bool(held)


def mean_over_ranks(values: Tensor) -> Tensor:
    """Return the mean of what each rank has; each rank's is a share of the same step."""
    here = present_ranks()
    if here.count < 2:
        return values
    held = values.clone()
    with _talking():
        distributed.all_reduce(held)
    return held / here.count


def share_gradients(weights: Iterable[nn.Parameter]) -> None:
    """Let every rank have the mean of all gradients; nothing alone."""
    here = present_ranks()
    if here.count < 2:
        return
    own = [weight for weight in weights if weight.requires_grad]
    parts = [torch.zeros_like(w) if w.grad is None else w.grad for w in own]
    # One message for all: a message costs more than what is in it.
    flat = torch.cat([part.flatten() for part in parts])
    with _talking():
        distributed.all_reduce(flat)
    for weight, part in zip(own, (flat / here.count).split([w.numel() for w in own]), strict=True):
        weight.grad = part.view_as(weight)
