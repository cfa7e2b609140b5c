"""Change files that are read until they reach new branches of the code, and see what comes out.

    python scripts/attack/fuzz.py --tries 1000            # so many inputs of every kind of file
    python scripts/attack/fuzz.py --seconds 600           # for so long, shared by all kinds
    python scripts/attack/fuzz.py --only npz --seed 1     # kinds whose name has this expression

Each kind begins with the files of `tests/fixtures/corpus` and, for stored files, with those of a
run. An input that takes our code from a line to another as none before is kept and changed
further: its bytes, its pieces (rows, cells, numbers, elements), or what it holds (a value of JSON,
an array of an archive, a column, a tensor, with checksums mended so that what is behind them is
reached). What may come out is a value, or an error of ours in at most four lines, within 5 seconds
and 500 MB; no foreign error, no warning.

The search follows lines by `sys.settrace` in our modules alone. A native fuzzer would follow
Arrow, expat and numpy, whose branches are not ours to guard, and would need them compiled for it.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import os
import random
import re
import resource
import shlex
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from disk import ROOT
from numpy.lib import format as npy
from pyarrow import parquet
from stored import LINES, READERS, SHAPES, in_json, prepare_stored, read_stored

import cgcl
from cgcl.cli.main import app
from cgcl.cli.settings import HeldOut, Reading
from cgcl.errors import CGCLError
from cgcl.graph import Graph
from cgcl.memory import reading_at_most
from cgcl.predict.new_nodes import read_new_features
from cgcl.readers import read
from cgcl.readers.edge_table import names_of_pairs
from cgcl.readers.features import FeatureOptions
from cgcl.readers.formats import read_features
from cgcl.readers.planetoid import PARTS, read_planetoid
from cgcl.readers.regular_file import read_names
from cgcl.tensors import write_tensors
from cgcl.train.config import SplitConfig

CORPUS = ROOT / "tests/fixtures/corpus"
SOURCE = Path(cgcl.__file__).parent
WATCHED = ("readers/", "stored.py", "tensors.py", "memory.py", "graph/graph.py", "split/split.py")
WATCHED += ("train/run", "predict/saved.py", "predict/new_nodes.py", "experiments/log.py")
WATCHED += ("report/results.py", "metrics/calibration.py", "cli/settings.py", "settings.py")
SECONDS, BYTES, LINES_SAID, LETTERS_SAID = 5, 500_000_000, 4, 2000
KEPT_FILES, KEPT_BYTES = 2, 6000
"""What is written to the corpus of one kind at most."""
TOY = "source,target\n" + "".join(f"{a},{b}\n" for a in "abcdefgh" for b in "abcdefgh" if a < b)
Reads = Callable[[Path], object]
Arc = tuple[str, int, int]
"""A file, and two lines that were run one after the other."""

# --- What is read ---


def _links(**options: Any) -> Reads:  # noqa: ANN401
    return lambda path: read(path, **options)


def _features(**options: Any) -> Reads:  # noqa: ANN401
    return lambda path: read_features(path, (), **options)


@cache
def toy() -> Graph:
    """Return a small graph whose nodes have features."""
    pairs = torch.tensor([[0, 1, 2, 0], [1, 2, 3, 3]])
    return Graph.from_pairs("toy", tuple("abcd"), pairs, torch.eye(4), feature_names=tuple("pqrs"))


def _planetoid(path: Path) -> object:
    """Read the four files in an archive, their digests taken to be the published ones."""
    parts = {f"ind.x.{part}": b"" for part in PARTS}
    with contextlib.suppress(zipfile.BadZipFile, NotImplementedError, ValueError, EOFError):
        parts |= dict(members(path.read_bytes()))
    for name in parts.keys() & {f"ind.x.{part}" for part in PARTS}:
        Path(name).write_bytes(parts[name])
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in parts.items()}
    return read_planetoid(Path(), "x", digests)


def _pairs(path: Path) -> object:
    return names_of_pairs(Reading().read_links(path, toy().node_of), toy())


def _held_out(path: Path) -> object:
    return HeldOut(test=path).read("toy.csv", Reading(), SplitConfig())


def _new_features(path: Path) -> object:
    return read_new_features(toy(), path, (), FeatureOptions())


def _settings(path: Path) -> object:
    return app.parse_args(["train", "toy.csv", f"--config={path}"])


def _command(line: str) -> Reads:
    def run(_: Path) -> object:
        trace = sys.gettrace()
        sys.settrace(None)  # the line is the same for all inputs, and long to follow
        command, bound = app.parse_args(line)[:2]
        sys.settrace(trace)
        return command(*bound.args, **bound.kwargs)

    return run


LINKS = (
    _links(),
    _links(header=False, bipartite="columns"),
    _links(time="when", directed="error"),
)
FEATURES = (_features(), _features(header=False), _features(one_hot=["colour"], words="text"))
KINDS: dict[str, tuple[Reads, ...]] = {
    **{f"links.{kind}": LINKS for kind in ("csv", "tsv", "edges", "parquet")},
    **{f"links.{kind}": LINKS[::2] for kind in ("graphml", "gexf", "npz")},
    "features.csv": FEATURES,
    "features.parquet": FEATURES[::2],
    "matrix.npz": FEATURES[:1],
    "matrix.mtx": FEATURES[:1],
    "planetoid.zip": (_planetoid,),
    "names.txt": (read_names, lambda path: read_features(torch.eye(3), (), row_names=path)),
    "pairs.csv": (_pairs,),
    "held-out.csv": (_held_out,),
    "new.csv": (_new_features,),
    "cgcl.toml": (_settings,),
}
"""Who reads files from elsewhere, by what they are called."""
STORED = {
    file: tuple(_command(LINES[command]) for command in commands)
    for file, commands in READERS.items()
    if not file.endswith(".toml")
}
"""Who reads files of ours."""
WORDS: dict[str, Sequence[bytes]] = {
    ".csv": (b'"', b'""', b",", b"\r", b"\r\n", b"\t", b"when", b"2024-01-01", b"\xef\xbb\xbf"),
    ".edges": (b"#", b"%", b"{'w': 1}", b" ", b'"', b"source target", b"\t", b";"),
    ".xml": (
        *(b"<node id='x'/>", b"<graph>", b"</graph>", b"<!DOCTYPE a>", b"&lt;", b"<a:b/>"),
        *(b' type="double"', b' label="x"', b"edgedefault='directed'", b"xmlns=", b"encoding='u'"),
    ),
    ".mtx": (b"array", b"coordinate", b"pattern", b"integer", b"%\n", b"symmetric", b"1 1 1\n"),
    ".toml": (b"[train]\n", b"[[", b"'''", b"= ", b"inf", b"1979-05-27", b"{a = 1}", b"lr = 0\n"),
    ".zip": (b"(lp0\n", b"S'a'\n", b"I1\n", b"N", b"t", b"R", b"b", b"s", b".", b"d", b"\x80\x02"),
}
WORDS |= {".tsv": WORDS[".csv"], ".graphml": WORDS[".xml"], ".gexf": WORDS[".xml"]}
ODD = (b"", b"0", b"-1", b"1e999", b"nan", b"9" * 30, b"9223372036854775808", b"0.5", b"\0")
ODD += ("é\u2028\ufeff".encode(), b"\xed\xa0\x80", b"\xff", b"x" * 1001, b"\n", b" ", b"null")
PIECES = [
    re.compile(pattern, re.DOTALL)
    for pattern in (
        rb"[^\n]*\n?",
        rb"[^,;=\t\n ]+|[,;=\t\n ]+",
        rb"<[^<>]*>|[^<>]+|[<>]",
        rb'"[^"]*"|[^"]+|"',
        rb"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|[^\d-]+|-",
    )
]
"""What a text is made of: lines, cells, elements, quotes, numbers."""

# --- How an input is changed ---


@dataclass
class Draw:
    """Changes to inputs of one kind, all from one source of chance."""

    suffix: str
    chance: random.Random
    seeds: Sequence[bytes]
    """What the search began with, most of it whole."""
    pool: list[bytes]
    """The same, and inputs that reached something new, most of them broken."""

    def changed(self) -> bytes:
        """Return one of the inputs, changed once or a few times."""
        content = self.chance.choice(self.chance.choice((self.seeds, self.pool, self.pool[-8:])))
        for _ in range(self.chance.choice((1, 1, 2, 3, 6))):
            content = self._change(content)[:1_000_000]
        return content

    def _change(self, content: bytes) -> bytes:
        known = HOLDS.get(self.suffix)
        if known and self.chance.random() < 0.9:
            # Damaged by the change before, it may be none of its kind any more.
            with contextlib.suppress(Exception), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return known(content, self)
        by_piece = self.suffix not in (".parquet", ".npz", ".safetensors")
        return (self.piece if by_piece and self.chance.random() < 0.7 else self.bytes)(content)

    def word(self) -> bytes:
        """Return what may stand in such a file, or what may not."""
        return self.chance.choice((*WORDS.get(self.suffix, ()), *ODD))

    def piece(self, content: bytes) -> bytes:
        """Change a row, a cell, an element, a quoted text or a number."""
        pieces = self.chance.choice(PIECES).findall(content) or [b""]
        one, other = (self.chance.randrange(len(pieces)) for _ in range(2))
        news = [
            [],
            [pieces[one]] * self.chance.choice((2, 2, 20)),
            [self.word()],
            [pieces[other]],
            [self.word(), pieces[one]],
            [pieces[one], pieces[other]],
        ]
        return b"".join([*pieces[:one], *self.chance.choice(news), *pieces[one + 1 :]])

    def bytes(self, content: bytes) -> bytes:
        """Change some bytes, or take an end of another input."""
        start = self.chance.randrange(len(content) + 1)
        end = start + self.chance.choice((0, 1, 2, 8, 64))
        other = self.chance.choice(self.pool)
        news = [
            self.chance.randbytes(self.chance.choice((1, 1, 2, 4))),
            self.word(),
            content[start:end] * 2,
            b"",
        ]
        rest = other[start:] if self.chance.random() < 0.1 else content[end:]
        return content[:start] + self.chance.choice(news) + rest

    def value(self, whole: object) -> Any:  # noqa: ANN401, what JSON can hold
        """Return JSON with one other value."""
        return self.chance.choice([wrong for _, wrong in in_json(whole)])


def _json(content: bytes, draw: Draw) -> bytes:
    whole = draw.value(json.loads(content))
    if isinstance(whole, dict) and "digest" in whole:
        rest = {name: own for name, own in whole.items() if name != "digest"}
        digest = hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()
        whole = {**rest, "digest": digest}
    return json.dumps(whole).encode()


def _json_line(content: bytes, draw: Draw) -> bytes:
    lines = content.splitlines()
    number = draw.chance.randrange(len(lines))
    lines[number] = _json(lines[number], draw)
    return b"\n".join([*lines, b""])


def members(content: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield what an archive holds."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for name in archive.namelist():
            yield name, archive.read(name)


def _zip(content: bytes, draw: Draw) -> bytes:
    """Change, drop, rename or exchange members; their checksums are right again."""
    parts = list(members(content))
    one, other = (draw.chance.randrange(len(parts)) for _ in range(2))
    name, inside = parts[one]
    match draw.chance.randrange(4 if draw.suffix == ".zip" else 8):
        case 0:
            name = draw.chance.choice((parts[other][0], "", f"{draw.chance.random()}.npy"))
        case 1:
            inside = draw.bytes(inside)
        case 2 | 3:
            inside = draw.piece(inside)
        case _:
            inside = _array(inside, draw)
    parts[one] = name, inside
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", draw.chance.choice((0, zipfile.ZIP_DEFLATED))) as archive:
        for name, inside in dict(parts).items():
            # A date of its own, or else today's would be in the bytes.
            archive.writestr(zipfile.ZipInfo(name), inside)
    return packed.getvalue()


ARRAYS: tuple[Callable[[np.ndarray], np.ndarray], ...] = (
    lambda a: a[..., :-1],
    lambda a: a.reshape(-1),
    lambda a: a[None],
    lambda a: np.zeros((0, *a.shape[1:]), a.dtype),
    lambda a: a.astype(np.float64),
    lambda a: a.astype(np.uint64) - 1,
    lambda a: a.astype(str),
    lambda a: a.astype("S9"),
    lambda a: a.astype(np.complex64),
    lambda a: a.astype("M8[s]"),
    lambda a: -a - 1,
    lambda a: a * 10**7,
    lambda a: a.astype(np.int64) + 2**40,
    lambda a: np.full(a.shape, np.nan),
    lambda a: np.concatenate([a, a], -1),
    lambda _: np.array(9_999_999),
    lambda a: np.zeros(a.shape, [("a", "i4"), ("b", "f8")]),
)


def _array(content: bytes, draw: Draw) -> bytes:
    array = npy.read_array(io.BytesIO(content), allow_pickle=False)
    written = io.BytesIO()
    npy.write_array(written, draw.chance.choice(ARRAYS)(array), allow_pickle=False)
    return written.getvalue()


ARROW_KINDS = (pa.int8(), pa.uint64(), pa.float16(), pa.float64(), pa.string(), pa.large_string())
ARROW_KINDS += (pa.binary(), pa.bool_(), pa.date32(), pa.timestamp("ns", "UTC"), pa.time32("s"))
ARROW_KINDS += (pa.decimal128(20, 3), pa.dictionary(pa.int8(), pa.string()), pa.null())
ARROW_KINDS += (pa.duration("s"), pa.list_(pa.string()), pa.string_view(), pa.binary(2))


def _columns(content: bytes, draw: Draw) -> bytes:
    """Change a column's kind, name or values, the rows, or what a frame says of itself."""
    table = parquet.read_table(io.BytesIO(content))
    names, place = table.column_names, draw.chance.randrange(table.num_columns)
    column = table.column(place)
    match draw.chance.randrange(6):
        case 0:
            kind = draw.chance.choice(ARROW_KINDS)
            is_list = pa.types.is_list(kind)
            own = pa.array([[str(v)] for v in column.to_pylist()]) if is_list else column.cast(kind)
            table = table.set_column(place, names[place], own)
        case 1:
            names[place] = draw.word().decode("utf-8", "replace")
            table = table.rename_columns(names)
        case 2:
            values = column.to_pylist()
            row = draw.chance.randrange(len(values))
            odd = (None, draw.word().decode("utf-8", "replace"), -1, 2**62, float("nan"), 1e300)
            values[row] = draw.chance.choice(odd)
            table = table.set_column(place, names[place], pa.array(values))
        case 3:
            table = table.slice(draw.chance.choice((0, 1, table.num_rows)))
        case 4:
            about = draw.value({"index_columns": [names[place]], "columns": []})
            text = draw.chance.choice((json.dumps(about).encode(), draw.word()))
            table = table.replace_schema_metadata({"pandas": text})
        case _:
            table = table.append_column(names[place], column)
    written = io.BytesIO()
    parquet.write_table(table, written)
    return written.getvalue()


def _tensors(content: bytes, draw: Draw) -> bytes:
    """Change the description or a tensor and mend the checksum, or the header and its length."""
    if draw.chance.random() < 0.2:
        end = 8 + int.from_bytes(content[:8], "little")
        header = draw.piece(content[8:end])
        return len(header).to_bytes(8, "little") + header + content[end:]
    with tempfile.TemporaryDirectory() as made:
        path = Path(made) / "file"
        path.write_bytes(content)
        kind, tensors, about = read_stored(path)
        if draw.chance.random() < 0.6:
            about = draw.value(about)
        else:
            name = draw.chance.choice(sorted(tensors))
            own = tensors.pop(name)
            if draw.chance.random() < 0.9:
                tensors[name] = draw.chance.choice([*SHAPES.values()])(own)
        write_tensors(path, kind, tensors, about)
        return path.read_bytes()


HOLDS: dict[str, Callable[[bytes, Draw], bytes]] = {
    ".json": _json,
    ".jsonl": _json_line,
    ".npz": _zip,
    ".zip": _zip,
    ".parquet": _columns,
    ".safetensors": _tensors,
}
"""How what such files hold is changed, where that is more than a text."""

# --- What comes out ---


class TooLong(BaseException):
    """It takes more than its time; no reader may catch this."""


def _too_long(*_: object) -> None:
    raise TooLong


class Trace:
    """The ways that our code went: from line to line, in the files that are watched."""

    def __init__(self) -> None:
        """Begin with no way."""
        self.arcs: set[Arc] = set()
        self.codes: dict[str, CodeType] = {}
        paths = {str(path): path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py")}
        self._is_ours = {file for file, path in paths.items() if path.startswith(WATCHED)}

    def call(self, frame: FrameType, *_: object) -> Callable[..., Any] | None:
        """Follow a function that is entered, if it is ours."""
        code = frame.f_code
        file = code.co_filename
        if file not in self._is_ours:
            return None
        self.codes.setdefault(f"{file}:{code.co_firstlineno}:{code.co_name}", code)
        before, arcs = code.co_firstlineno, self.arcs

        def follow(frame: FrameType, event: str, _: object) -> Callable[..., Any]:
            nonlocal before
            if event == "line":
                arcs.add((file, before, frame.f_lineno))
                before = frame.f_lineno
            return follow

        return follow

    def lines(self, arcs: set[Arc]) -> tuple[int, int]:
        """Return how many lines were reached, and of how many: those of functions entered."""
        reached = {(file, line) for file, _, line in arcs}
        there = {
            (code.co_filename, line)
            for code in self.codes.values()
            for _, _, line in code.co_lines()
            if line and line != code.co_firstlineno
        }
        return len(reached), len(reached | there)


def _said(error: CGCLError, words: str = "") -> str | None:
    """Say what is wrong with the words of an error of ours."""
    text = str(error)
    if not 0 < len(text.splitlines()) <= LINES_SAID or len(text) > LETTERS_SAID:
        return f"words: {type(error).__name__} of {len(text)} letters: {text[:60]!r}"
    return "words: a traceback" if "Traceback" in text + words else None


def _foreign(error: BaseException) -> str:
    """Return the kind of an error and the last line of ours that it came through."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [own for own in frames if own.filename.startswith(str(SOURCE))] or frames
    where = ours[-1].filename.removeprefix(f"{SOURCE.parent}/")
    return f"{type(error).__name__} in {where}:{ours[-1].lineno}: {str(error)[:80]!r}"


def fault_of(reads: Reads, path: Path, trace: Trace | None = None) -> str | None:
    """Let a file be read; return what is wrong with what came out, if anything is."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # the peak so far counts no more
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    fault, words = None, io.StringIO()
    before = signal.signal(signal.SIGALRM, _too_long)
    with (
        warnings.catch_warnings(record=True) as warned,
        contextlib.redirect_stdout(words),
        contextlib.redirect_stderr(words),
        reading_at_most(BYTES),
    ):
        warnings.simplefilter("always")
        signal.setitimer(signal.ITIMER_REAL, SECONDS * (3 if trace else 1))
        try:
            sys.settrace(trace.call if trace else None)
            reads(path)
        except CGCLError as error:
            fault = _said(error, words.getvalue())
        except SystemExit as error:  # wrong usage, which cyclopts tells
            fault = None if error.code in (0, 1, 2) else f"exit code {error.code}"
        except TooLong:
            fault = f"takes more than {SECONDS} s"
        except BaseException as error:
            fault = _foreign(error)
        finally:
            sys.settrace(None)
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
    if not fault and warned:
        fault = f"a warning escapes: {warned[0].category.__name__}: {str(warned[0].message)[:80]}"
    more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak
    return fault or (f"takes {more // 1000} MB" if more * 1024 > BYTES else None)


class Search:
    """A search over one kind of file, in the current folder, where it and what it needs lie."""

    def __init__(self, kind: str, start: Path | None = None, seed: int = 0) -> None:
        """Begin with the corpus, and with the file in the folder `start` if it is one of ours."""
        self.path, self._start = Path(kind), start
        self.reads = KINDS[kind] if start is None else STORED[kind]
        self.seeds = [own.read_bytes() for own in sorted((CORPUS / self.path.name).glob("*"))]
        if start is not None:
            self.seeds.insert(0, (start / kind).read_bytes())
        chance = random.Random(f"{seed} {kind}")  # noqa: S311
        self.draw = Draw(self.path.suffix, chance, self.seeds, [*self.seeds])
        self.tries, self.arcs = 0, set[Arc]()
        self.gains: dict[bytes, set[Arc]] = {}
        """Inputs that went new ways, and these."""
        self.faults: Counter[str] = Counter()
        self.examples: dict[str, tuple[bytes, str]] = {}
        """An input for each fault, and what is wrong in full."""
        self._trace = Trace()

    def fault(
        self, content: bytes, trace: Trace | None = None, reads: Sequence[Reads] = ()
    ) -> str | None:
        """Return what is wrong with what comes out for this content, if anything is."""
        faults: list[str | None] = []
        for one in reads or self.reads:
            if self._start is not None:  # what a command makes of one input is not for the next
                place = self.path.parent
                shutil.rmtree(place, ignore_errors=True)
                shutil.copytree(self._start / place, place)
            self.path.write_bytes(content)
            faults.append(fault_of(one, self.path, trace))
        return next(filter(None, faults), None)

    def try_one(self, content: bytes) -> None:
        """Try an input, and keep it if it goes new ways."""
        self._trace.arcs.clear()
        self.tries += 1
        # Commands take longer than readers: one of those that read the file.
        reads = self.reads if self._start is None else [self.draw.chance.choice(self.reads)]
        if fault := self.fault(content, self._trace, reads):
            if fault.startswith("takes"):  # following lines takes its time, too
                fault = self.fault(content) or ""
            what = fault.partition(": ")[0]
            self.faults[what] += bool(fault)
            self.examples.setdefault(what, (content, fault))
        if new := self._trace.arcs - self.arcs:
            self.arcs |= new
            self.gains[content] = new
            self.draw.pool += [content] if self.tries > len(self.seeds) else []

    def go(self, tries: int, seconds: float) -> None:
        """Try the corpus, then so many changed inputs, or for so long."""
        begun = time.monotonic()
        for content in self.seeds:
            self.try_one(content)
        while self.tries < tries + len(self.seeds) and time.monotonic() - begun < seconds:
            self.try_one(self.draw.changed())

    def keep(self) -> None:
        """Write to the corpus what is wrong, and what went most new ways, as small as it goes."""
        folder = CORPUS / self.path.name
        folder.mkdir(parents=True, exist_ok=True)
        wrong = [
            self.shrunk(content, lambda own, what=what: (self.fault(own) or "").startswith(what))
            for what, (content, _) in self.examples.items()
        ]
        others = [own for own in self.gains if own not in self.seeds and len(own) <= KEPT_BYTES]
        best = sorted(others, key=lambda own: -len(self.gains[own]))[:KEPT_FILES]
        wrong += [self.shrunk(own, partial(self._goes, self.gains[own])) for own in best]
        for content in wrong:
            (folder / hashlib.sha256(content).hexdigest()[:12]).write_bytes(content)

    def _goes(self, ways: set[Arc], content: bytes) -> bool:
        self._trace.arcs.clear()
        self.fault(content, self._trace)
        return ways <= self._trace.arcs

    @staticmethod
    def shrunk(content: bytes, is_same: Callable[[bytes], bool], tries: int = 300) -> bytes:
        """Return content without what can be left out."""
        size = len(content) // 2
        while size and tries:
            start = 0
            while start < len(content) and tries:
                less, tries = content[:start] + content[start + size :], tries - 1
                if is_same(less):
                    content = less
                else:
                    start += size
            size //= 2
        return content

    def told(self) -> dict[str, Any]:
        """Return what is written down."""
        reached, of = self._trace.lines(self.arcs)
        return {
            "target": self.path.as_posix(),
            "tries": self.tries,
            "failed": self.faults.total(),
            "faults": len(self.faults),
            "corpus": len(self.draw.pool),
            "lines": reached,
            "lines_there": of,
        }


# --- All kinds ---


def searched(kind: str, start: Path, asked: argparse.Namespace, seconds: float) -> dict[str, Any]:
    """Search in a process of its own, which an input may end; return what is written down."""
    with tempfile.TemporaryDirectory() as made:
        told, begun = Path(made) / "told", time.monotonic()
        child = os.fork()
        if not child:
            try:
                (work := Path(made) / "work").mkdir()
                os.chdir(work)
                shutil.copy(start / "toy.csv", work)
                search = Search(kind, start if kind in STORED else None, asked.seed)
                search.go(asked.tries, seconds)
                for _, fault in search.examples.values():
                    print(f"{kind}: {fault}", flush=True)
                if asked.keep:
                    search.keep()
                told.write_text(json.dumps(search.told()))
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code:
            shutil.copy(Path(made) / "work" / kind, left := Path(tempfile.gettempdir()) / "ended")
            print(f"{kind}: the process ended with {code}; {left} has what it read")
        found = json.loads(told.read_text()) if not code else {"target": kind, "failed": 1}
        return {**found, "seed": asked.seed, "seconds": round(time.monotonic() - begun, 1)}


def write_down(out: Path, found: Sequence[dict[str, Any]], command: str) -> None:
    """Write a line for each kind; one that was there says how many tries failed the first time."""
    there = out.read_text().splitlines() if out.exists() else []
    before = {own["target"]: own for own in map(json.loads, there)}
    for own in found:
        old = before.get(own["target"], own)
        first = {name: old.get(f"{name}_before", old.get(name)) for name in ("tries", "failed")}
        told = {f"{name}_before": value for name, value in first.items()}
        before[own["target"]] = {"attack": "fuzz", **own, **told, "command": command}
    out.write_text("".join(json.dumps(own) + "\n" for own in before.values()))


def main() -> None:
    """Search, and tell what gave way."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", default="", help="kinds whose name has this expression")
    parser.add_argument("--tries", type=int, default=10**9, help="changed inputs of each kind")
    parser.add_argument("--seconds", type=float, default=600, help="for all kinds together")
    parser.add_argument("--seed", type=int, default=0, help="of what is changed")
    parser.add_argument("--keep", action="store_true", help="write what was found to the corpus")
    parser.add_argument("--out", type=Path, help="where to write a line of JSON for each kind")
    asked = parser.parse_args()
    if Path("/dev/shm").is_dir():  # noqa: S108, where nothing waits for a disk
        tempfile.tempdir = "/dev/shm"  # noqa: S108
    with tempfile.TemporaryDirectory() as made:
        start = Path(made) / "start"
        start.mkdir()
        (start / "toy.csv").write_text(TOY)
        kinds = [kind for kind in (*KINDS, *STORED) if re.search(asked.only, kind)]
        if any(kind in STORED for kind in kinds):
            prepare_stored(start)
            for page in start.rglob("report.html"):
                page.unlink()  # made again, and as large as all the rest
        found: list[dict[str, Any]] = []
        for kind in kinds:
            found.append(searched(kind, start, asked, asked.seconds / len(kinds)))
            print(json.dumps(found[-1]), flush=True)
    if asked.out:
        write_down(
            asked.out, found, shlex.join(["python", "scripts/attack/fuzz.py", *sys.argv[1:]])
        )
    sys.exit(1 if any(own["failed"] for own in found) else 0)


if __name__ == "__main__":
    main()
