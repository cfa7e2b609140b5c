"""Put wrong values into every stored file, and see whether commands say so in words of ours.

    python scripts/attack/stored.py                  # every place of every file, every wrong value
    python scripts/attack/stored.py --draw 200       # some of them, drawn by --seed
    python scripts/attack/stored.py --only run.json  # those of files or commands with this name

The search goes by structure, not by bytes: a flipped bit is caught by a checksum, and bytes that
are no JSON by the parser, so that neither reaches what reads the values. Here each file is whole,
its checksums are right, and one value in it is of another kind, absurd, or missing. The command
may refuse (exit code 1) or not need the value (0); what it may not do is to end as a bug does.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from disk import COMMANDS, copied, prepare, run
from safetensors import safe_open
from torch import Tensor

from cgcl.tensors import write_tensors

RUN = "runs/toy-1"
STOPPED = "runs/toy-2"
"""The same run as it was an epoch before its end: what `--resume` goes on with."""
GONE = object()
DEEP = "[" * 100_000 + "]" * 100_000
WRONG: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    7.5,
    1e308,
    10**400,
    float("nan"),
    "",
    "text",
    [],
    {},
    [[]],
    GONE,
)
READERS = {
    f"{RUN}/run.json": ("report", "predict"),
    f"{RUN}/metrics.jsonl": ("report",),
    f"{RUN}/suggestions.json": ("report",),
    f"{RUN}/comparison.json": ("report and compare",),
    f"{RUN}/model.safetensors": ("predict", "evaluate", "report"),
    f"{RUN}/graph.safetensors": ("predict", "audit"),
    f"{RUN}/split.safetensors": ("predict", "audit"),
    f"{STOPPED}/run.json": ("train --resume",),
    f"{STOPPED}/metrics.jsonl": ("train --resume",),
    f"{STOPPED}/graph.safetensors": ("train --resume",),
    f"{STOPPED}/split.safetensors": ("train --resume",),
    f"{STOPPED}/checkpoint.safetensors": ("train --resume",),
    "compared/plan.json": ("compare",),
    "compared/runs.jsonl": ("compare",),
    "tuned/study.json": ("tune",),
    "tuned/trials.jsonl": ("tune",),
    "tuned/best.toml": ("train --config",),
}
LINES = {
    "report": f"report {RUN} --no-compare",
    "report and compare": f"report {RUN}",
    "train --resume": f"train --resume {STOPPED} --quiet --no-compare",
    "predict": f"predict {RUN} --top 5 --explain",
    "evaluate": f"evaluate {RUN}",
    "audit": f"audit {RUN}",
    "compare": COMMANDS["compare"].line,
    "tune": COMMANDS["tune"].line,
    "train --config": "train toy.csv --config tuned/best.toml --epochs 2 --quiet --no-compare",
}
KINDS = (torch.bool, torch.uint8, torch.int32, torch.float16, torch.float64)
KINDS += (torch.complex64, torch.float8_e4m3fn)
SHAPES: dict[str, Callable[[Tensor], Tensor]] = {
    "a scalar": lambda _: torch.zeros(()),
    "empty": lambda t: t.reshape(-1)[:0],
    "flat": lambda t: t.reshape(-1),
    "turned": lambda t: t.t().contiguous() if t.dim() == 2 else t[None],
    "one more dimension": lambda t: t[None],
    "a row less": lambda t: t[1:] if t.dim() else t[None],
    "no rows of many columns": lambda _: torch.zeros(0, 2**40),
    "twice as long": lambda t: torch.cat([t, t], -1) if t.dim() else t,
    "negative": lambda t: ~t if t.dtype == torch.bool else -t - 1,
    "huge": lambda t: (
        torch.full_like(t, torch.iinfo(t.dtype).max) if not t.is_floating_point() else t * 1e38
    ),
    "not a number": lambda t: torch.full(t.shape, float("nan")),
    **{str(kind): partial(Tensor.to, dtype=kind) for kind in KINDS},
}


@dataclass(frozen=True)
class Try:
    """One wrong value in one file, and what a command made of it."""

    file: str
    command: str
    what: str
    """Where in the file, and which value."""
    spoil: Callable[[Path], None]
    code: int = 0
    said: str = ""

    def fault(self) -> str | None:
        """Say what is wrong with what the command did, if anything is."""
        if self.code in (0, 1, 2) and "Traceback" not in self.said:
            return None if self.code == 0 or self.said.strip() else "no word"
        return f"exit code {self.code}: {self.said.strip()[-300:]}"


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:  # noqa: ANN401
    """Yield where something stands in JSON, the whole first; of a long list its ends."""
    yield path
    inside = value.items() if isinstance(value, dict) else ()
    if isinstance(value, list):
        inside = [(k, value[k]) for k in sorted({*range(min(2, len(value)))})]
    for key, own in inside:
        yield from places(own, (*path, key))


def with_wrong(value: Any, path: tuple[Any, ...], wrong: object) -> Any:  # noqa: ANN401
    """Return JSON with another value at a place."""
    if not path:
        return wrong
    copy = dict(value) if isinstance(value, dict) else list(value)
    if len(path) == 1 and wrong is GONE:
        del copy[path[0]]
    else:
        copy[path[0]] = with_wrong(value[path[0]], path[1:], wrong)
    return copy


def in_json(whole: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401
    """Yield what is wrong, and JSON in which it is."""
    for path in places(whole):
        for wrong in WRONG:
            if wrong is not GONE or path:
                name = "missing" if wrong is GONE else repr(wrong)[:20]
                yield f"{'.'.join(map(str, path))}: {name}", with_wrong(whole, path, wrong)


def read_stored(path: Path) -> tuple[str, dict[str, Tensor], Any]:
    """Return kind, tensors and description of a tensor file."""
    with safe_open(path, framework="pt") as file:
        header = json.loads(file.metadata()["cgcl"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    return header["kind"], tensors, json.loads(header["about"])


def spoiled(path: Path) -> Iterator[tuple[str, Callable[[Path], None]]]:
    """Yield what is wrong with a file, and what makes it so."""
    if path.suffix == ".safetensors":
        kind, tensors, about = read_stored(path)
        for what, wrong in in_json(about):
            yield what, partial(write_tensors, kind=kind, tensors=tensors, about=wrong)
        for name, tensor in tensors.items():
            rest = {other: own for other, own in tensors.items() if other != name}
            yield f"{name}: missing", partial(write_tensors, kind=kind, tensors=rest, about=about)
            for what, change in SHAPES.items():
                own = {**rest, name: change(tensor)}
                yield f"{name}: {what}", partial(write_tensors, kind=kind, tensors=own, about=about)
    elif path.suffix == ".jsonl":
        lines = path.read_text().splitlines()
        for number, line in list(enumerate(lines))[:2]:
            texts = [(what, json.dumps(wrong)) for what, wrong in in_json(json.loads(line))]
            for what, text in [*texts, ("deep", DEEP)]:
                others = [*lines[:number], text, *lines[number + 1 :]]
                yield f"line {number}, {what}", partial(_write, text="\n".join(others) + "\n")
    elif path.suffix == ".json":
        whole = json.loads(path.read_text())
        for what, wrong in in_json(whole):
            yield what, partial(_write, text=json.dumps(wrong))
        yield "deep", partial(_write, text=DEEP)
    else:
        lines = path.read_text().splitlines()
        for number in range(len(lines)):
            for text in ("", "x =", "[", f"{lines[number]}e999", '"a" = 1'):
                others = [*lines[:number], text, *lines[number + 1 :]]
                yield f"line {number}: {text}", partial(_write, text="\n".join(others))


def _write(path: Path, text: str) -> None:
    path.write_text(text)


def tries(start: Path) -> Iterator[Try]:
    """Yield every wrong value in every file, with every command that reads the file."""
    for file, commands in READERS.items():
        for what, spoil in spoiled(start / file):
            for command in commands:
                yield Try(file, command, what, spoil)


CHOSEN: list[Try] = []
"""What is tried, where processes that are forked off find it."""


def fault_of(number: int, start: Path) -> str | None:
    """Make a try; return, and tell at once, what is wrong with what the command did."""
    one = do(CHOSEN[number], start)
    fault = one.fault()
    if fault:
        print(f"{one.file}, {one.what}, {one.command}: {fault}", flush=True)
    return fault


def do(one: Try, start: Path) -> Try:
    """Spoil a copy and run the command there."""
    with copied(start) as folder:
        one.spoil(folder / one.file)
        code, said = run(LINES[one.command], folder)
    return replace(one, code=code, said=said)


def prepare_stored(start: Path) -> None:
    """Write all the files: those of a run, of one that was stopped, a comparison and a search."""
    prepare(start)
    shutil.copytree(start / RUN, stopped := start / STOPPED)
    (stopped / "model.safetensors").unlink()
    (stopped / "checkpoint.previous.safetensors").replace(stopped / "checkpoint.safetensors")
    about = json.loads((stopped / "run.json").read_text()) | {"status": "running", "epochs": 3}
    (stopped / "run.json").write_text(json.dumps(about | {"test": None, "model": None}))
    for line in (LINES["compare"], LINES["tune"], LINES["report and compare"]):
        code, words = run(line, start)
        if code:
            sys.exit(words)


def main() -> None:
    """Make the tries and tell what gave way."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", default="", help="files or commands with this in their name")
    parser.add_argument("--draw", type=int, help="so many tries, drawn at random")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--workers", type=int, default=2, help="how many at once")
    asked = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as made:
        start = Path(made) / "start"
        start.mkdir()
        prepare_stored(start)
        chosen = [t for t in tries(start) if asked.only in t.file or asked.only in t.command]
        if asked.draw is not None:
            chosen = random.Random(asked.seed).sample(chosen, min(asked.draw, len(chosen)))  # noqa: S311
        CHOSEN.extend(chosen)
        with ProcessPoolExecutor(asked.workers, multiprocessing.get_context("fork")) as pool:
            faults = [*pool.map(partial(fault_of, start=start), range(len(chosen)), chunksize=16)]
    counts = Counter(one.file for one in chosen)
    failed = Counter(one.file for one, fault in zip(chosen, faults, strict=True) if fault)
    for file, count in counts.items():
        print(f"{file}: {count} tries, {failed[file]} failed")
    print(f"{time.monotonic() - started:.0f} s")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
