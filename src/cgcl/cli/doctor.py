"""`cgcl doctor`."""

from __future__ import annotations

import os
import shutil
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter


def doctor(
    *,
    out: Path = Path("runs"),
    data_root: Annotated[Path | None, Parameter(env_var="CGCL_DATA")] = None,
) -> None:
    """Print what this machine offers and what cgcl finds on it, to paste into a question.

    Args:
        out: The folder that runs would be written to.
        data_root: Where data sets lie.
    """
    import psutil

    from cgcl.readers.datasets import DATASETS, data_folder
    from cgcl.train.config import Resources
    from cgcl.train.execution import versions

    memory = psutil.virtual_memory()
    folder = next(place for place in (out.absolute(), *out.absolute().parents) if place.exists())
    lines = [
        *versions().items(),
        ("optuna", _optional("optuna", "there is no cgcl tune", "tune")),
        ("duckdb", _optional("duckdb", "there is no cgcl store", "store")),
        ("device", _devices()),
        ("threads", f"{Resources().num_threads} of {os.cpu_count()} cores"),
        ("memory", f"{memory.available / 2**30:.1f} of {memory.total / 2**30:.1f} GiB free"),
        (
            "runs",
            f"{out}: {'writable' if os.access(folder, os.W_OK) else 'NOT WRITABLE'}, "
            f"{shutil.disk_usage(folder).free / 2**30:.1f} GiB free",
        ),
        ("data root", str(data_folder(data_root))),
    ]
    for name, dataset in DATASETS.items():
        here = dataset.is_present(data_folder(data_root))
        lines.append((name, "present" if here else "absent; downloaded when first used"))
    for what, found in lines:
        print(f"{what:<17}{found}")  # noqa: T201


def _optional(package: str, loss: str, extra: str) -> str:
    """Return the version of a package, or what is missing without it."""
    try:
        return version(package)
    except PackageNotFoundError:
        return f"absent; {loss}. pip install 'cgcl[{extra}]'"


def _devices() -> str:
    import torch

    if not torch.cuda.is_available():
        return "cpu (no CUDA device found)"
    names = [torch.cuda.get_device_name(n) for n in range(torch.cuda.device_count())]
    return ", ".join(f"cuda:{number} {name}" for number, name in enumerate(names))
