"""Write down what `make demo` leaves on a terminal: experiments/results/demo.txt.

The progress line, which a terminal overwrites, is left out.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

RESULT = Path(__file__).parent / "results" / "demo.txt"


def cgcl(folder: str, *arguments: str) -> tuple[str, str]:
    """Run the program and return what it said and what it answered."""
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "cgcl", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stderr, done.stdout


def main() -> None:
    """Run the demo in an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        said, run = cgcl(folder, "train", "cora", "--out", "runs/demo")
        found, links = cgcl(folder, "predict", run.strip(), "--top", "10")
    lasting = [line for line in said.splitlines() if not line.startswith("  Training ")]
    RESULT.write_text("\n".join([*lasting, *found.splitlines(), links.rstrip(), ""]))


if __name__ == "__main__":
    main()
