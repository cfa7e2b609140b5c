"""Do harm at a call that a command makes to the disk, or at any time; do what a user does; compare.

    python scripts/attack/disk.py                     # every call of every command
    python scripts/attack/disk.py --times 17          # and 17 times each of three signals
    python scripts/attack/disk.py --draw 60           # sixty tries, drawn by --seed
    python scripts/attack/disk.py --only predict      # commands or harms with this in their name

Calls are counted by a small library (disk.c, compiled here by `cc`) that sees those of every
library, not only Python's. Each call of an undisturbed command is visited once by each harm: the
process is killed or told to stop there, or the call fails as on a full, broken or read-only disk,
or takes half of the bytes. Between two calls, a signal comes at a time that is drawn evenly over
how long the undisturbed command takes: in a new process of Python, which spends most of that on
imports, and in turn in a copy of this one, which has all imports behind it. Then the command is
given again, and its files must be those of the undisturbed one, bit by bit. What a harmed command
may do is told in `Try.fault`.
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
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from itertools import product
from pathlib import Path
from typing import Any

from published import end_with_parent, publish

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
TIMED = ("SIGKILL", *STOPPED)
"""What can come at any time."""
LONG = 600.0
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
    fresh: bool = True
    """Whether a new process of Python can run it; not if this one stands in for a server."""


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
    "download": Command("inspect photo", "data/Photo/raw/*.npz", fresh=False),
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
    """Its number, or 0 for a time."""
    what: str
    """The call and its file, or the time."""
    share: float = 0.0
    """When, as a share of how long it takes undisturbed."""
    fresh: bool = False
    """Whether in a new process of Python."""
    seconds: float = 0.0
    code: int = 0
    said: str = ""
    again: int = 0
    is_same: bool = True
    left: tuple[str, ...] = ()
    survives: bool = False
    """Whether a process of it was left."""

    @property
    def attack(self) -> str:
        """What it is one try of."""
        return "calls to the disk" if self.call else "signals at random times"

    def is_pythons(self) -> bool:
        """Say whether the signal came while Python itself had it, before our `main` or after."""
        number = HARMS[self.harm] - SIGNAL
        return (
            self.fresh
            and self.harm in STOPPED
            and self.code == -number
            and ", in main\n" not in self.said
        )

    def fault(self) -> str | None:
        """Say what is wrong with it, if anything is."""
        if self.survives:
            return "a process of it is left"
        if self.is_pythons():
            return self._of_the_end()
        if "Traceback" in self.said or "bug in cgcl" in self.said:
            return f"foreign error: {self.said.strip().splitlines()[-1]}"
        if self._of_the_end():
            return self._of_the_end()
        if self.harm == "SIGKILL":
            killed = self.code == -signal.SIGKILL or (self.share and not self.code)
            return None if killed else f"exit code {self.code}"
        allowed = (0, STOPPED.get(self.harm, 1))
        if self.code not in allowed:
            return f"exit code {self.code}: {self.said.strip()[-200:]}"
        return "no word" if self.code and not self.said.strip() else None

    def _of_the_end(self) -> str | None:
        """Say what is wrong with what was left, and with the command given again."""
        if self.again or not self.is_same:
            bits = "same" if self.is_same else "other"
            return f"given again, it ends with {self.again}, {bits} bits"
        if self.left and self.harm != "SIGKILL" and not self.what.startswith("unlink"):
            return f"left {', '.join(self.left)}"
        return None


def begin(line: str, folder: Path, arm: Callable[[], object], *, fresh: bool = False) -> int:
    """Begin a command in a child, a group of its own, and return its number.

    Args:
        line: What to run.
        folder: Where.
        arm: Called right before; not if it is fresh.
        fresh: Whether to begin with Python itself and all imports.
    """
    child = os.fork()
    if child:
        return child
    try:
        end_with_parent()
        os.setpgid(0, 0)
        os.chdir(folder)
        with (folder.parent / "words").open("wb") as file:
            os.dup2(file.fileno(), 2)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        os.environ |= {"CGCL_CACHE": "cache", "CGCL_DATA": "data"}
        if fresh:
            os.execv(sys.executable, [sys.executable, "-m", "cgcl", *line.split()])  # noqa: S606
        from cgcl.cli.main import main

        arm()
        main(line.split())
    except SystemExit as end:
        sys.stderr.flush()
        os._exit(end.code if isinstance(end.code, int) else 1)
    finally:
        os._exit(99)


def ended(child: int, folder: Path) -> tuple[int, str]:
    """Wait for a child; return its exit code and words."""
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code, (folder.parent / "words").read_text(errors="replace")


def run(
    line: str, folder: Path, call: int = 0, harm: int = 0, log: Path | None = None
) -> tuple[int, str]:
    """Run a command in a child that is disturbed at a call; return its exit code and words."""

    def arm() -> None:
        if LIBRARY in os.environ:
            where, listed = os.fsencode(folder), os.fsencode(log) if log else None
            library = ctypes.CDLL(os.environ[LIBRARY])
            library.attack_arm(where, ctypes.c_long(call), harm, listed)

    return ended(begin(line, folder, arm), folder)


def run_until(
    seconds: float, number: int, line: str, folder: Path, *, fresh: bool
) -> tuple[int, str, bool]:
    """Run a command and send it a signal after a time; also say whether a process of it is left.

    The time begins with Python if it is fresh, else when the command has come to its own handlers.
    """
    ready, go = os.pipe()

    def arm() -> None:
        from cgcl.cli import main as entry

        app = entry.app
        entry.app = lambda *told, **named: (os.write(go, b"."), app(*told, **named))[1]  # type: ignore[bad-assignment]

    child = begin(line, folder, arm, fresh=fresh)
    os.close(go)
    os.read(ready, 1)  # or its end: a new program has no such pipe
    os.close(ready)
    process = os.pidfd_open(child)
    if not select.select([process], [], [], seconds)[0]:
        os.kill(child, number)
    os.close(process)
    code, words = ended(child, folder)
    return code, words, is_left(child)


def is_left(group: int) -> bool:
    """Say whether anything of a group of processes runs on for a second; end it then."""
    with contextlib.suppress(ProcessLookupError):
        for _ in range(100):  # what is asked for the name of a processor ends by itself
            os.killpg(group, 0)
            time.sleep(0.01)
        os.killpg(group, signal.SIGKILL)
        return True
    return False


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

    def times(self, count: int, seed: int) -> Iterator[Try]:
        """Yield so many times for each signal, every other one in a new process."""
        chance = random.Random(f"{seed} {self.name}")  # noqa: S311
        for harm, number in product(TIMED if count else (), range(count)):
            share, fresh = chance.random(), self.command.fresh and number % 2 == 0
            what = f"at {share:.1%} of {self.takes[fresh]:.2f} s" + ", with imports" * fresh
            yield Try(self.name, harm, 0, what, share, fresh)

    @cached_property
    def takes(self) -> dict[bool, float]:
        """How long it takes undisturbed, with imports and without."""
        found = {}
        for fresh in (False, self.command.fresh):
            with copied(self._start) as folder:
                started = time.monotonic()
                run_until(LONG, 0, self.command.line, folder, fresh=fresh)
                found[fresh] = time.monotonic() - started
        return found

    def do(self, one: Try) -> Try:
        """Do harm, then what a user does."""
        started, number, line = time.monotonic(), HARMS[one.harm], self.command.line
        with copied(self._start) as folder:
            if one.call:
                one.code, one.said = run(line, folder, one.call, number)
            else:
                after = one.share * self.takes[one.fresh]
                one.code, one.said, one.survives = run_until(
                    after, number - SIGNAL, line, folder, fresh=one.fresh
                )
            one.left = tuple(str(p.relative_to(folder)) for p in folder.rglob("*.tmp"))
            needs = self.command.needs
            if needs and (folder / needs).exists():
                line = self.command.resume
            one.again, words = run(line, folder)
            one.said += words if one.again else ""
            one.is_same = hashes(self.command, folder) == self._end
        one.seconds = time.monotonic() - started
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
    parser.add_argument("--times", type=int, default=0, help="signals of a kind at random times")
    parser.add_argument("--no-calls", action="store_true", help="only at random times")
    parser.add_argument("--draw", type=int, help="so many tries, drawn at random")
    parser.add_argument("--seed", type=int, default=0, help="of the draw and of the times")
    parser.add_argument("--workers", type=int, default=2, help="how many at once")
    parser.add_argument("--count", action="store_true", help="only count the calls and the tries")
    parser.add_argument("--out", type=Path, help="where to write all tries as JSON lines")
    parser.add_argument("--results", type=Path, help="where to keep the figures as JSON lines")
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
    publish(folder)
    prepare(start)
    names = [name for name in COMMANDS if asked.only in name] or [*COMMANDS]
    attacks = {name: Attack(name, start) for name in names}
    tries = wanted(asked, attacks)
    for name, one in attacks.items():
        print(f"{name}: {len(one.calls)} calls, {sum(t.command == name for t in tries)} tries")
    if asked.count:
        return
    with ProcessPoolExecutor(asked.workers, multiprocessing.get_context("fork")) as pool:
        done = [*pool.map(partial(do, attacks=attacks), tries, chunksize=16)]
    if asked.out:
        lines = [json.dumps({**asdict(own), "fault": own.fault()}) for own in done]
        asked.out.write_text("\n".join(lines) + "\n")
    if asked.results:
        keep(done, asked)
    counts = Counter(own.command for own in done)
    failed = Counter(own.command for own in done if own.fault())
    for name, count in counts.items():
        print(f"{name}: {count} tries, {failed[name]} failed")
    pythons = sum(own.is_pythons() for own in done)
    print(f"{pythons} were ended by Python, before our program or after")
    print(f"{time.monotonic() - started:.0f} s")
    sys.exit(1 if failed else 0)


def wanted(asked: argparse.Namespace, attacks: dict[str, Attack]) -> list[Try]:
    """Return the tries that are asked for."""
    tries = [own for one in attacks.values() for own in one.visits() if not asked.no_calls]
    tries += [own for one in attacks.values() for own in one.times(asked.times, asked.seed)]
    tries = [own for own in tries if asked.only in own.command or asked.only in own.harm]
    if asked.draw is not None:
        tries = random.Random(asked.seed).sample(tries, min(asked.draw, len(tries)))  # noqa: S311
    return tries


def keep(done: list[Try], asked: argparse.Namespace) -> None:
    """Write a line for each attack and command; those of others stay.

    What failed when a line was first written is kept in it as what failed before.
    """
    there = asked.results.read_text().splitlines() if asked.results.exists() else []
    lines: dict[tuple[str, str], dict[str, Any]] = {
        (line["attack"], line["target"]): line for line in map(json.loads, there)
    }
    for key in dict.fromkeys((own.attack, own.command) for own in done):
        own = [one for one in done if (one.attack, one.command) == key]
        failed = sum(one.fault() is not None for one in own)
        times = "" if own[0].call else f" --times {asked.times}"
        lines[key] = {
            "attack": key[0],
            "target": key[1],
            "tries": len(own),
            "failed": failed,
            "failed_before": lines.get(key, {}).get("failed_before", failed),
            "command": f"python scripts/attack/disk.py{times}",
            "seed": asked.seed,
            "seconds": round(sum(one.seconds for one in own), 1),
        }
    asked.results.write_text("".join(json.dumps(line) + "\n" for line in lines.values()))


if __name__ == "__main__":
    main()
