"""Do harm at a call that a command makes to the disk, then do what a user does; compare the end.

    python scripts/attack/disk.py                     # every call of every command
    python scripts/attack/disk.py --draw 60           # sixty tries, drawn by --seed
    python scripts/attack/disk.py --only predict      # commands or harms with this in their name

Calls are counted by a small library (disk.c, compiled here by `cc`) that sees those of every
library, not only Python's. Each call of an undisturbed command is visited once by each harm: the
process is killed or told to stop there, or the call fails as on a full, broken or read-only disk,
or takes half of the bytes. Then the command is given again, and its files must be those of the
undisturbed one, bit by bit. What a harmed command may do is told in `Try.fault`.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import errno
import json
import multiprocessing
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
LIBRARY = "CGCL_ATTACK_LIBRARY"
SIGNAL = 1000
HARMS = {
    "SIGKILL": SIGNAL + signal.SIGKILL,
    "SIGTERM": SIGNAL + signal.SIGTERM,
    "SIGINT": SIGNAL + signal.SIGINT,
    "disk full": errno.ENOSPC,
    "disk broken": errno.EIO,
    "read-only": errno.EROFS,
    "no hard links": errno.EPERM,
    "interrupted call": errno.EINTR,
    "short write": -1,
}
ONLY_AT = {
    "disk full": r"create|fopen|write|pwrite|fsync|mkdir|rename|link|ftruncate",
    "read-only": r"create|fopen|mkdir|rename|unlink|link|ftruncate",
    "no hard links": r"link",
    "interrupted call": r"write|pwrite|read|pread",
    "short write": r"write|pwrite",
}
"""At which calls a harm can happen; the others can at any."""
STOPPED = {"SIGTERM": 143, "SIGINT": 130}
SMALL = "--epochs 4 --hidden 8 --threads 1 --evaluate-every 2"
TRAIN = f"train toy.csv {SMALL} --checkpoint-every 0 --quiet --no-compare --method cgcl"


@dataclass(frozen=True)
class Command:
    """A command that is disturbed."""

    line: str
    """What is run, in a folder with `toy.csv`, features, a list of pairs and a finished run."""
    products: str
    """A pattern of the files that it makes: but for times, their bytes depend on what was asked."""
    resume: str = ""
    """What a user gives instead of the same line, once `needs` is there."""
    needs: str = ""


COMMANDS = {
    "train": Command(
        f"{TRAIN} --out new",
        "new/toy-*/m*[ls]*",
        resume="train --resume new/toy-1 --quiet --no-compare",
        needs="new/toy-1/run.json",
    ),
    "report": Command("report runs/toy-1 --no-compare", "runs/toy-1/suggestions.json"),
    "predict": Command("predict runs/toy-1 --top 20 --out links.csv", "links.csv"),
    "predict parquet": Command("predict runs/toy-1 --top 20 --out links.parquet", "links.parquet"),
    "embed": Command("embed runs/toy-1 --out vectors.npz", "vectors.npz"),
    "inspect": Command("inspect toy.csv", "no file"),
    "evaluate": Command("evaluate runs/toy-1", "no file"),
    "compare": Command(
        "compare toy.csv --methods cgcl,vgae --runs 1 --epochs 2 --threads 1 --out compared",
        "compared/*.jsonl",
    ),
    "tune": Command(
        "tune toy.csv --method vgae --trials 2 --epochs 2 --threads 1 --out tuned",
        "tuned/best.toml",
    ),
    "reproduce": Command(
        "reproduce table1 --dataset cora --methods vgae --runs 1 --epochs 1 --ratio 10 "
        "--protocol splits --threads 1 --device cpu --out reproduced",
        "reproduced/table1*",
    ),
}


@dataclass
class Try:
    """A command, disturbed once, and what became of it."""

    command: str
    harm: str
    call: int
    what: str
    """The call and its file."""
    code: int = 0
    said: str = ""
    again: int = 0
    is_same: bool = True
    left: tuple[str, ...] = ()

    def fault(self) -> str | None:
        """Say what is wrong with it, if anything is."""
        if "Traceback" in self.said or "bug in cgcl" in self.said:
            return f"foreign error: {self.said.strip().splitlines()[-1]}"
        if self.again or not self.is_same:
            bits = "same" if self.is_same else "other"
            return f"given again, it ends with {self.again}, {bits} bits"
        if self.harm == "SIGKILL":
            return None if self.code == -signal.SIGKILL else f"exit code {self.code}"
        if self.left and not self.what.startswith("unlink"):
            return f"left {', '.join(self.left)}"
        allowed = (0, STOPPED.get(self.harm, 1))
        if self.code not in allowed:
            return f"exit code {self.code}: {self.said.strip()[-200:]}"
        return "no word" if self.code and not self.said.strip() else None


def run(
    line: str, folder: Path, call: int = 0, harm: int = 0, log: Path | None = None
) -> tuple[int, str]:
    """Run a command in a child that is disturbed at a call; return its exit code and words."""
    words = folder.parent / "words"
    child = os.fork()
    if not child:
        os.chdir(folder)
        with words.open("wb") as file:
            os.dup2(file.fileno(), 2)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        os.environ["CGCL_CACHE"] = "cache"
        from cgcl.cli.main import main

        if LIBRARY in os.environ:
            library = ctypes.CDLL(os.environ[LIBRARY])
            library.attack_arm(
                os.fsencode(folder), ctypes.c_long(call), harm, os.fsencode(log) if log else None
            )
        try:
            main(line.split())
        except SystemExit as end:
            sys.stderr.flush()
            os._exit(end.code if isinstance(end.code, int) else 1)
        finally:
            os._exit(99)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code, words.read_text(errors="replace")


def hashes(command: Command, folder: Path) -> dict[str, bytes]:
    """Return what the command made, without times."""
    times = re.compile(rb'"(\w*seconds|ended)": [^,}]*')
    paths = sorted(folder.glob(command.products))
    return {path.name: times.sub(b"", path.read_bytes()) for path in paths}


@contextlib.contextmanager
def copied(start: Path) -> Iterator[Path]:
    """Give a copy of a folder to run in, which is gone in the end."""
    with tempfile.TemporaryDirectory() as made:
        yield Path(shutil.copytree(start, Path(made) / "folder"))


class Attack:
    """A command, its undisturbed end, and all the calls on the way there."""

    def __init__(self, name: str, start: Path) -> None:
        """Run the command undisturbed in a copy of the folder `start`."""
        self.name, self.command, self._start = name, COMMANDS[name], start
        with copied(start) as folder:
            log = folder.parent / "log"
            code, words = run(self.command.line, folder, log=log)
            if code:
                sys.exit(f"{self.command.line}: {words}")
            prefix = f"{folder}/"
            self.calls = [line.replace(prefix, "") for line in log.read_text().splitlines()]
            self._end = hashes(self.command, folder)

    def visits(self) -> Iterator[Try]:
        """Yield every harm at every call where it can happen."""
        for harm, (number, what) in product(HARMS, enumerate(self.calls, start=1)):
            if re.match(ONLY_AT.get(harm, ""), what):
                yield Try(self.name, harm, number, what)

    def do(self, one: Try) -> Try:
        """Do harm, then what a user does."""
        with copied(self._start) as folder:
            one.code, one.said = run(self.command.line, folder, one.call, HARMS[one.harm])
            one.left = tuple(str(p.relative_to(folder)) for p in folder.rglob("*.tmp"))
            line, needs = self.command.line, self.command.needs
            if needs and (folder / needs).exists():
                line = self.command.resume
            one.again, words = run(line, folder)
            one.said += words if one.again else ""
            one.is_same = hashes(self.command, folder) == self._end
        return one


def prepare(folder: Path) -> None:
    """Write the files that commands are given, and a finished run."""
    chance = random.Random(0)  # noqa: S311
    lines = [f"{a},{b}" for a in range(40) for b in range(a) if chance.random() < 0.2]
    (folder / "toy.csv").write_text("\n".join(["source,target", *lines, ""]))
    code, words = run(TRAIN, folder)
    if code:
        sys.exit(words)


def main() -> None:
    """Attack, and tell what gave way."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", default="", help="commands or harms with this in their name")
    parser.add_argument("--draw", type=int, help="so many tries, drawn at random")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--workers", type=int, default=2, help="how many at once")
    parser.add_argument("--count", action="store_true", help="only count the calls and the tries")
    parser.add_argument("--out", type=Path, help="where to write all tries as JSON lines")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        if LIBRARY not in os.environ:
            library = Path(made) / "disk.so"
            cc = ["cc", "-O1", "-shared", "-fPIC", "-o", str(library), str(HERE / "disk.c")]
            subprocess.run([*cc, "-ldl"], check=True)  # noqa: S603
            loaded = {
                "PYTHONPATH": str(ROOT / "src"),
                "LD_PRELOAD": str(library),
                LIBRARY: str(library),
                "OMP_NUM_THREADS": "1",
            }
            again = [sys.executable, __file__, *sys.argv[1:]]
            sys.exit(subprocess.run(again, env=os.environ | loaded).returncode)  # noqa: S603
        attack(asked, Path(made))


def do(one: Try, attacks: dict[str, Attack]) -> Try:
    """Make a try, and tell at once if something gave way."""
    done = attacks[one.command].do(one)
    fault = done.fault()
    if fault:
        print(f"{one.command}, {one.harm} at {one.call} ({one.what}): {fault}", flush=True)
    return done


def attack(asked: argparse.Namespace, folder: Path) -> None:
    """Make all tries that are asked for."""
    import optuna  # noqa: F401  imported once, before the forks
    import pyarrow.parquet  # noqa: F401
    import sklearn.metrics  # noqa: F401

    import cgcl.report.page
    import cgcl.train.run  # noqa: F401

    started, start = time.monotonic(), folder / "start"
    start.mkdir()
    prepare(start)
    attacks = {name: Attack(name, start) for name in COMMANDS}
    tries = [own for one in attacks.values() for own in one.visits()]
    tries = [own for own in tries if asked.only in own.command or asked.only in own.harm]
    if asked.draw is not None:
        tries = random.Random(asked.seed).sample(tries, min(asked.draw, len(tries)))  # noqa: S311
    for name, one in attacks.items():
        print(f"{name}: {len(one.calls)} calls, {sum(t.command == name for t in tries)} tries")
    if asked.count:
        return
    with ProcessPoolExecutor(asked.workers, multiprocessing.get_context("fork")) as pool:
        done = [*pool.map(partial(do, attacks=attacks), tries, chunksize=16)]
    if asked.out:
        lines = [json.dumps({**asdict(own), "fault": own.fault()}) for own in done]
        asked.out.write_text("\n".join(lines) + "\n")
    counts = Counter(own.command for own in done)
    failed = Counter(own.command for own in done if own.fault())
    for name, count in counts.items():
        print(f"{name}: {count} tries, {failed[name]} failed")
    print(f"{time.monotonic() - started:.0f} s")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
