"""The machine: device, threads, versions."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

from cgcl.errors import ResourceError
from cgcl.methods.table import numbers_of
from cgcl.tensors import matrix_products, usual_defaults
from cgcl.train.config import Resources

_PACKAGES = ("cgcl", "torch", "torch-geometric", "numpy", "scipy", "safetensors")
_PACKAGES += ("scikit-learn", "pyarrow")


def resolve_device(resources: Resources) -> torch.device:
    """Return the device to compute on.

    Raises:
        ResourceError: A GPU was asked for and there is none, or not that many.
    """
    device = torch.device(resources.device if resources.device != "auto" else "cpu")
    if resources.device == "auto" and torch.cuda.is_available():
        device = torch.device("cuda")
    if device.type == "cuda" and device.index is None and "LOCAL_RANK" in os.environ:
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))  # of torchrun's processes
    if device.type == "cuda":
        found = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if (device.index or 0) >= found:
            what = "No CUDA device" if found == 0 else f"Only {found} CUDA device(s)"
            raise ResourceError(f"{what} found; you asked for {device}. Use `device=cpu`.")
    return device


@contextmanager
def computing_with(resources: Resources) -> Iterator[None]:
    """Use the asked threads and precision for a while, then put the caller's back.

    With `deterministic`, everything that a GPU does meanwhile is done in ways that always add in
    the same order.
    """
    adds_in_order = resources.deterministic and resolve_device(resources).type == "cuda"
    was_in_order = torch.are_deterministic_algorithms_enabled()
    warned = torch.is_deterministic_algorithms_warn_only_enabled()
    before = torch.get_num_threads()
    torch.set_num_threads(resources.num_threads)
    if adds_in_order:
        # What torch asks for, before its first matrix product on the GPU.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
    is_rounded = resources.precision != "fp32" and not resources.deterministic
    try:
        with usual_defaults(), matrix_products(tf32=is_rounded):
            yield
    finally:
        if adds_in_order:
            torch.use_deterministic_algorithms(was_in_order, warn_only=warned)
        torch.set_num_threads(before)


def machine(resources: Resources, device: torch.device) -> dict[str, Any]:
    """Return what decides the last bits of a result besides versions and seed."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    return {"device": name, "threads": resources.num_threads}


def versions(method: str | None = None) -> dict[str, str]:
    """Return the versions of everything that can change a result, of a method's numbers, too."""
    found = {"python": platform.python_version(), "system": platform.platform()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed as a package"
    return found if method is None else {**found, "numbers": numbers_of(method)}
