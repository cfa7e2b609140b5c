"""Break each promise of docs/reliability.md by one line, and see whether a test notices.

    python scripts/mutants.py                    # all of them
    python scripts/mutants.py --only "kill -9"   # those whose promise or file holds this text
    python scripts/mutants.py --check            # only whether the list fits promises and code

The list is scripts/mutants.toml. Mutants live in throw-away copies of the tree, never in the
tree itself. A mutant that no test notices has survived; unless it is known to, that is exit code 1.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reliability.md"
NOT_COPIED = shutil.ignore_patterns(".*", "__pycache__", "runs", "node_modules")
TIMEOUT_S = 300
# How pytest ends if a test failed. Whatever else but 0 means that tests could not be run.
FAILED = 1


@dataclass(frozen=True, eq=False)
class Mutant:
    """One line of code that breaks one promise."""

    promise: str
    """A piece of the promise's text that no other promise has."""
    file: str
    """What is changed, from the root of the tree."""
    old: str
    """A line of it or a piece of one, which occurs once."""
    new: str
    tests: tuple[str, ...] = ()
    """Test files or ids below tests/, the likeliest to notice first; else the promise's own."""
    survived: bool = False
    """Whether it is known that no test notices."""

    def fault(self) -> str | None:
        """Say why the mutant cannot be made, if so."""
        path = ROOT / self.file
        found = path.read_text(encoding="utf-8").count(self.old) if path.is_file() else 0
        if found != 1 or self.old == self.new:
            return f"'{self.old.strip()[:50]}' occurs {found} times in {self.file}"
        folder = ROOT / "tests"
        missing = [own for own in self.tests if not (folder / own.partition("::")[0]).is_file()]
        return f"there is no test {missing[0]}" if missing else None


class Verdict(NamedTuple):
    """What became of a mutant."""

    mutant: Mutant
    word: str
    """killed, survived, survived (known), timed out, or not applicable."""
    seconds: float = 0.0
    why: str = ""

    def __str__(self) -> str:
        line = f"{self.word:<16} {self.seconds:6.1f} s  {self.mutant.promise}"
        return f"{line}\n{'':27}{self.why}" if self.why else line


def read_mutants() -> list[Mutant]:
    """Return the list, after comparing it with the promises.

    Every promise has a mutant, and every mutant one promise.
    """
    listed = tomllib.loads((ROOT / "scripts" / "mutants.toml").read_text("utf-8"))["mutant"]
    mutants = [Mutant(**entry) for entry in listed]
    promises = read_promises()
    owners = {m: [row for row in promises if m.promise in row] for m in mutants}
    faults = [
        f"{len(rows)} promises hold '{m.promise}'" for m, rows in owners.items() if len(rows) != 1
    ]
    covered = {row for rows in owners.values() for row in rows}
    faults += [f"no mutant breaks: {row}" for row in promises if row not in covered]
    if faults:
        sys.exit("\n".join(faults))
    return [m if m.tests else replace(m, tests=promises[owners[m][0]]) for m in mutants]


def read_promises() -> dict[str, tuple[str, ...]]:
    """Return the tests that docs/reliability.md names for each promise."""
    rows = re.findall(r"^\| (.+) \| (`.+) \|$", PAGE.read_text(encoding="utf-8"), re.M)
    return {
        promise: tuple(re.findall(r"`((?:\w+/)*test_\w+\.py(?:::\w+)?)`", tests))
        for promise, tests in rows
    }


def run_mutant(mutant: Mutant, timeout_s: float) -> Verdict:
    """Make a mutant in a copy of the tree and run its tests until the first one fails."""
    fault = mutant.fault()
    if fault:
        return Verdict(mutant, "not applicable", why=fault)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutant-", ignore_cleanup_errors=True) as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(ROOT, tree, ignore=NOT_COPIED)
        path = tree / mutant.file
        path.write_text(path.read_text(encoding="utf-8").replace(mutant.old, mutant.new))
        options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "--tb=line"]
        command = [sys.executable, "-m", "pytest", *options, *(f"tests/{t}" for t in mutant.tests)]
        folders = os.pathsep.join([str(tree / "src"), os.environ.get("PYTHONPATH", "")])
        env = {**os.environ, "PYTHONPATH": folders, "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            done = subprocess.run(  # noqa: S603
                command, cwd=tree, env=env, capture_output=True, text=True, timeout=timeout_s
            )
        except subprocess.TimeoutExpired:
            return Verdict(mutant, "timed out", time.monotonic() - started)
    seconds, lines = time.monotonic() - started, done.stdout.strip().splitlines()
    failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    if done.returncode == 0:
        word = "survived (known)" if mutant.survived else "survived"
        return Verdict(mutant, word, seconds, "".join(lines[-1:]))
    if done.returncode != FAILED:
        return Verdict(mutant, "not applicable", seconds, "".join((failed or lines)[-1:]))
    return Verdict(mutant, "killed", seconds, "".join(failed[:1])[:150])


def main() -> None:
    """Run the mutants and tell what became of each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="only promises or files with it")
    parser.add_argument("--workers", type=int, default=1, help="how many at once")
    parser.add_argument("--timeout", type=float, default=TIMEOUT_S, help="seconds for each")
    parser.add_argument("--check", action="store_true", help="look at the list, run nothing")
    told = parser.parse_args()
    mutants = [m for m in read_mutants() if told.only in m.promise or told.only in m.file]
    if told.check:
        faults = [f"{m.promise}: {fault}" for m in mutants if (fault := m.fault())]
        print(f"{len(mutants)} mutants, {len(faults)} not applicable", *faults, sep="\n")
        sys.exit(1 if faults else 0)
    started, found = time.monotonic(), list[str]()
    with ThreadPoolExecutor(told.workers) as pool:
        for verdict in pool.map(partial(run_mutant, timeout_s=told.timeout), mutants):
            print(verdict, flush=True)
            found.append(verdict.word)
    words = ("killed", "survived", "timed out", "not applicable")
    counts = (f"{sum(own.startswith(word) for own in found)} {word}" for word in words)
    print(f"{', '.join(counts)}; {time.monotonic() - started:.0f} s")
    sys.exit(1 if {"survived", "not applicable"} & {*found} else 0)


if __name__ == "__main__":
    main()
