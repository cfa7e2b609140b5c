"""From the last epoch of `cgcl train cora` to the prompt: every method, and the longest silence.

    python benchmarks/speed/after.py

What comes after the last epoch (calibration, test, simple methods, new links, the page) costs the
same whatever the number of epochs, so a few epochs are trained. A method without epochs is timed
from the line that names its run. Lines go to benchmarks/results/.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
import time

from measuring import Clock, Lines, about, options

from cgcl.methods.settings import TrainedSettings
from cgcl.methods.table import METHODS, method_named

_EPOCHS = 5
_TRAIN = ["-m", "cgcl", "train", "cora", "--device", "cpu"]


def after(method: str, threads: int, folder: str) -> dict[str, float]:
    """Train once and return the seconds after the last epoch, and the longest without a word."""
    is_trained = issubclass(method_named(method).settings, TrainedSettings)
    words = [*_TRAIN, "--method", method, "--threads", str(threads), "--out", folder]
    words += ["--epochs", str(_EPOCHS)] if is_trained else []
    begins = f"epoch {_EPOCHS}/{_EPOCHS}" if is_trained else "Run "
    told: list[float] = []
    with subprocess.Popen(
        [sys.executable, "-u", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if told or begins in line:
                told.append(time.perf_counter())
    told.append(time.perf_counter())
    if process.returncode or len(told) < 2:
        raise SystemExit(f"{method}: exit code {process.returncode}, or no line with '{begins}'")
    silent = max(b - a for a, b in itertools.pairwise(told))
    return {"seconds": round(told[-1] - told[0], 2), "silent_s": round(silent, 2)}


def main() -> None:
    """Measure every method, and write a line for each."""
    parser = options(__doc__, "speed-after.jsonl")
    parser.add_argument("--methods", default=",".join(METHODS), help="only these, with commas")
    asked = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(asked.threads)
    clock, lines = Clock(asked.seconds), Lines(asked.out)
    with tempfile.TemporaryDirectory() as folder:
        for method in asked.methods.split(","):
            if clock.left:
                found = after(method, asked.threads, folder)
                line = {"kind": "after", "method": method, **found}
                lines.add({**line, **about(asked.device, asked.threads)})
                print(method, found, flush=True)


if __name__ == "__main__":
    main()
