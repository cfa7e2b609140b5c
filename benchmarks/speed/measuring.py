"""What the speed benchmarks share: options, clocks, memory, child processes, lines of results."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from cgcl.experiments.log import AppendOnlyLog

__all__ = [
    "GRAPHS",
    "RESULTS",
    "Clock",
    "Line",
    "Lines",
    "Run",
    "about",
    "burst_ms",
    "in_child",
    "options",
    "peak_resident",
    "resident_after_imports",
    "synchronise",
]

RESULTS = Path(__file__).parents[1] / "results"
GRAPHS = ("cora", "citeseer", "pubmed", "photo", "computers")

Line = dict[str, Any]
Run = Callable[[], int]
"""Runs one epoch or several, and returns how many."""

_PACKAGES = ("torch", "torch-geometric", "triton", "numpy", "scipy")


def options(description: str | None, out: str) -> argparse.ArgumentParser:
    """Return a parser with what every benchmark can be told.

    Args:
        description: The docstring of the script; its first line is shown.
        out: The name of the file in benchmarks/results/ that lines go to by default.
    """
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads")
    parser.add_argument("--data-root", help="where the data sets are; else CGCL_DATA")
    parser.add_argument("--out", type=Path, default=RESULTS / out, help="file of JSON lines")
    parser.add_argument("--seconds", type=float, default=600, help="stop before so long")
    return parser


class Clock:
    """Says how much of the allowed time is left."""

    def __init__(self, seconds: float) -> None:
        """Start the clock."""
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds that are left, 0 if there are none."""
        return max(0.0, self._end - time.monotonic())


class Lines:
    """A file of results, a JSON object a line; what is written survives whatever comes next."""

    def __init__(self, path: Path) -> None:
        """Open the file, or begin it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = AppendOnlyLog(path)
        self.before: list[Line] = [json.loads(line) for line in self._file.lines]
        """What was there already."""

    def add(self, line: Line) -> None:
        """Write one more."""
        self._file.append(json.dumps(line).encode() + b"\n")


def synchronise(device: torch.device) -> None:
    """Wait until the device has done all that it was asked to."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def burst_ms(run: Run, seconds: float, device: torch.device) -> float:
    """Run for some seconds, at least once, and return the milliseconds of an epoch.

    Args:
        run: What to time.
        seconds: Begin no further run after so long.
        device: What to wait for before either look at the clock.
    """
    synchronise(device)
    start, epochs = time.perf_counter(), 0
    while epochs == 0 or time.perf_counter() - start < seconds:
        epochs += run()
    synchronise(device)
    return 1000 * (time.perf_counter() - start) / epochs


def resident_after_imports() -> int:
    """Return the bytes that this process holds once everything is imported."""
    # Torch imports a good part of itself, well over 100 MB, when the first optimizer is made.
    torch.optim.Adam([torch.zeros(1, requires_grad=True)])
    return _status("VmRSS")


def peak_resident() -> int:
    """Return the most bytes of memory that this process has held."""
    # Not getrusage: what it says of a child may be the peak of its parent.
    return _status("VmHWM")


def _status(field: str) -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return 1024 * int(status.partition(f"{field}:")[2].split()[0])


def about(device: str, threads: int) -> Line:
    """Return where a line was measured: device, threads, load and versions."""
    on_gpu = device != "cpu"
    found = {"python": platform.python_version(), "cuda": torch.version.cuda if on_gpu else None}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return {
        "on": device,
        "device": torch.cuda.get_device_name(device) if on_gpu else "cpu",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": threads,
        "load": round(os.getloadavg()[0], 2),
        "versions": {name: value for name, value in found.items() if value is not None},
    }


def _processor() -> str:
    """Return what the system calls the CPU."""
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def in_child(script: str, request: Line, seconds: float) -> Line:
    """Run `script --child REQUEST` and return what it prints last, a JSON object.

    A process of its own starts with nothing in memory, and its end gives all of it back.

    Args:
        script: The benchmark's own file.
        request: What it is asked, for JSON.
        seconds: End it after so long.

    Returns:
        What it printed, or `{"failure": why}`.
    """
    command = [sys.executable, script, "--child", json.dumps(request)]
    threads = str(request["threads"])
    environment = {**os.environ, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, text=True, timeout=max(1.0, seconds), env=environment
        )
    except subprocess.TimeoutExpired:
        return {"failure": "out of time"}
    if done.returncode:
        return {"failure": f"ended with {done.returncode}"}
    return json.loads(done.stdout.splitlines()[-1])
