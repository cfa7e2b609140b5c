"""The table of docs/reliability.md that tells what was attacked, from experiments/results/attacks/.

    python experiments/attacks.py    runs the attacks that are tests, and writes their lines

Each attack writes a file of lines there, one for each of its targets; `attacks.toml` says in words
what it does, and what was found before lines were kept.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

from cgcl.experiments.log import read_log
from run import RESULTS, ROOT, Line, grouped, table

ATTACKS = RESULTS / "attacks"
NEEDED = ("attack", "target", "tries", "failed", "command")
SHOWN_TARGETS = 12


def attacked(folder: Path = ATTACKS) -> str:
    """Return a row for each attack that has results, in the order in which they are described."""
    told = {
        own["name"]: own for own in tomllib.loads((folder / "attacks.toml").read_text())["attack"]
    }
    lines = [line for path in sorted(folder.glob("*.jsonl")) for line in read_log(path, NEEDED)]
    found = {name: own for (name,), own in grouped(lines, "attack").items()}
    names = [*(name for name in told if name in found), *(found.keys() - told.keys())]
    rows = [_row(name, told.get(name, {}), found[name]) for name in names]
    head = "attack | what it does | targets | tries | failures before | failures now | command"
    return table(head, rows) if rows else "Not run yet."


def _row(name: str, told: Line, lines: Sequence[Line]) -> list[str]:
    """Return what is known of an attack; its command begins no cell, as tests of a promise do."""
    tries, failed = (sum(line[own] for line in lines) for own in ("tries", "failed"))
    commands = dict.fromkeys(line["command"] for line in lines)
    return [
        name,
        told.get("does", ""),
        _targets([line["target"] for line in lines]),
        f"{tries:,}",
        _before(told.get("before", []), lines),
        f"{failed:,}{_explained(lines)}",
        "run " + ", ".join(f"`{own}`" for own in commands),
    ]


def _explained(lines: Sequence[Line]) -> str:
    count = sum(line.get("explained") or 0 for line in lines)
    return f" ({count:,} explained one by one)" if count else ""


def _targets(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= SHOWN_TARGETS else f"{len(names)} targets"


def _before(told: Sequence[Line], lines: Sequence[Line]) -> str:
    """Return what is told of it, and what failed when lines were first written."""
    known = [f"{own['failed']:,} of {own['tries']:,} {own['what']}" for own in told]
    failed, tries = (
        sum(line.get(own) or 0 for line in lines) for own in ("failed_before", "tries_before")
    )
    if tries:
        known.append(f"{failed:,} of {tries:,} of the first search")
    return "; ".join(known) or f"{failed:,}"


def run_tests(told: Line) -> Line:
    """Run an attack that is some tests; return its line, each test a try."""
    began = time.monotonic()
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", *told["pytest"]]
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True)  # noqa: S603
    counts = {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|error)", done.stdout)}
    if not counts:
        sys.exit(done.stdout + done.stderr)
    failed = counts.get("failed", 0) + counts.get("error", 0)
    line = {"attack": told["name"], "target": told["target"], "tries": sum(counts.values())}
    line |= {"failed": failed, "command": f"pytest {shlex.join(told['pytest'])}"}
    return {**line, "seconds": round(time.monotonic() - began, 1)}


def main() -> None:
    """Run the attacks that are tests."""
    told = tomllib.loads((ATTACKS / "attacks.toml").read_text())["attack"]
    lines = [run_tests(own) for own in told if "pytest" in own]
    (ATTACKS / "tests.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))


TABLES: dict[str, Callable[[], str]] = {"attacks": attacked}


if __name__ == "__main__":
    main()
