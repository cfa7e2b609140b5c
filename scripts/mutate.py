"""Change the code in every small way, and see whether the tests of its room notice.

    python scripts/mutate.py --out runs/mutate.jsonl        # three rooms, 300 changes of the rest
    python scripts/mutate.py --rooms metrics --draw 0       # one room alone
    python scripts/mutate.py --only split/audit.py          # one file
    python scripts/mutate.py --out FILE --again             # those that survived, once more

scripts/mutants.py breaks every promise by hand; here changes follow from the grammar: each `<`
becomes `<=`, each 1 becomes 2. A room's tests run once, and what lines each of them executes is
written down. Then each change is made in a process of its own, forked off with all tests loaded,
which runs the nearest and fastest tests of that line until one fails. What has survived must
stand in scripts/survivors.toml with a reason; if anything else survives, the exit code is 1.
"""

from __future__ import annotations

import argparse
import ast
import copy
import gc
import hashlib
import importlib
import importlib.machinery
import json
import os
import resource
import select
import signal
import sys
import tempfile
import time
import tomllib
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, NamedTuple

import hypothesis
import pytest

from mutants import ROOT

SOURCE = ROOT / "src" / "cgcl"
ROOMS = "split,model,metrics"
COMMAND = "python scripts/mutate.py"
SLOW = 8  # seconds of the processor: a test that takes longer judges nothing
OFTEN = 50  # calls in one test; more run the same lines as a rule
MEMORY = 8 * 2**30
# Triton compiles the source of kernels; a function that is changed in memory is not what it reads.
LEFT_OUT = "train/engines/kernels/"
OPTIONS = ["-q", "-p", "no:cacheprovider", "-p", "no:faulthandler"]
OPTIONS += ["--assert=plain", "--tb=line", "-m", "not slow"]
# Heavy, and not ours: imported once, before anything is forked.
HEAVY = ("torch", "torch_geometric.nn", "scipy.sparse", "scipy.stats", "sklearn.metrics")
HEAVY += ("networkx", "pyarrow.csv", "pyarrow.parquet", "pyarrow.dataset", "jinja2", "rich.live")

SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt},
    **{ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is},
    **{ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And},
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult},
    **{ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.Pow: ast.Mult},
    **{ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift},
}
PAIRS = (("min", "max"), ("minimum", "maximum"), ("amin", "amax"), ("any", "all"))
PAIRS += (("floor", "ceil"), ("argmin", "argmax"), ("rsqrt", "sqrt"))
OTHERS = {a: b for pair in PAIRS for a, b in (pair, pair[::-1])}
# Without them the code does the same, but for the mistakes of programmers and other machines.
SAFE_KEYWORDS = {"strict", "encoding", "device"}
DROPPED = ast.AugAssign | ast.Raise | ast.Continue | ast.Break | ast.Assert | ast.Delete


class Change(NamedTuple):
    """Another node in the place of one."""

    holder: ast.AST
    field: str
    index: int | None
    """The place in a list; None if the field holds one node."""
    new: ast.AST | None
    """None if there is nothing in its place."""

    @property
    def old(self) -> Any:  # noqa: ANN401
        """What is there now."""
        held = getattr(self.holder, self.field)
        return held if self.index is None else held[self.index]

    def make(self) -> None:
        """Put the new one in its place."""
        if self.index is None:
            setattr(self.holder, self.field, self.new)
        else:
            held = getattr(self.holder, self.field)
            held[self.index : self.index + 1] = [] if self.new is None else [self.new]


def other(node: Any, **fields: object) -> Any:  # noqa: ANN401
    """Return a copy of a node with other fields."""
    made = copy.copy(node)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def is_skipped(node: ast.AST) -> bool:
    """Whether nothing in a node is changed: it does nothing, or speaks to people."""
    match node:
        case ast.Import() | ast.ImportFrom() | ast.JoinedStr():
            return True
        case ast.Expr(value=ast.Constant()) | ast.FunctionDef(name="__repr__"):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING") | ast.Compare(left=ast.Name(id="__name__"))):
            return True
        case ast.Assign(targets=[ast.Name(id="__all__")]):
            return True
        case ast.Subscript(value=ast.Name(id="Literal")):
            return True
        case ast.Call(func=ast.Name(id="dataclass" | "field" | "TypeVar" | "cast")):
            return True
        case ast.keyword(arg=str(name)):
            return name in SAFE_KEYWORDS
        case _:
            return False


def changes(node: ast.AST) -> Iterator[Change]:
    """Yield every change of what is below a node, in the order of the text."""
    for field, held in ast.iter_fields(node):
        if field in ("annotation", "returns", "exc", "cause", "ops", "op", "msg"):
            continue
        for index, child in enumerate(held) if isinstance(held, list) else ((None, held),):
            if isinstance(child, ast.AST) and not is_skipped(child):
                for new in instead(child, node, field):
                    yield Change(node, field, index, new)
                yield from changes(child)


def instead(node: ast.AST, holder: ast.AST, field: str) -> Iterator[ast.AST | None]:
    """Yield what may stand instead of a node."""
    if isinstance(node, ast.Constant):
        yield from (other(node, value=value) for value in constants(node, holder, field))
    elif isinstance(node, ast.stmt):
        yield from statements(node)
    elif isinstance(node, ast.keyword) and node.arg:
        # Without a flag is the same as with its opposite, which is another change.
        if not (isinstance(node.value, ast.Constant) and isinstance(node.value.value, bool)):
            yield None
    elif isinstance(node, ast.expr):
        yield from expressions(node)
        if field == "test":
            yield from negated(node)
        if field == "ifs":
            yield ast.copy_location(ast.Constant(value=True), node)


def negated(node: ast.expr) -> Iterator[ast.expr]:
    """Yield a condition's opposite, unless changing its operator gives that already."""
    match node:
        case ast.UnaryOp(op=ast.Not()):
            return
        case ast.Compare(ops=[ast.Eq() | ast.NotEq() | ast.Is() | ast.IsNot()]):
            return
        case ast.Compare(ops=[ast.In() | ast.NotIn()]):
            return
        case _:
            yield ast.copy_location(ast.UnaryOp(op=ast.Not(), operand=node), node)


def expressions(node: ast.expr) -> Iterator[ast.expr]:
    """Yield what may stand instead of an expression that is no constant."""
    match node:
        case ast.Compare(ops=ops):
            for k, op in enumerate(ops):
                yield other(node, ops=[*ops[:k], SWAPS[type(op)](), *ops[k + 1 :]])
        case ast.BinOp(left=left, op=op, right=right):
            sides = (left, right)
            is_text = any(isinstance(side, ast.JoinedStr) or text_of(side) for side in sides)
            if type(op) in SWAPS and not is_text:
                yield other(node, op=SWAPS[type(op)]())
        case ast.BoolOp(op=op):
            yield other(node, op=SWAPS[type(op)]())
        case ast.UnaryOp(operand=operand):
            yield operand
        case ast.IfExp(body=body, orelse=orelse):
            yield other(node, body=orelse, orelse=body)
        case ast.Name(id=name) if name in OTHERS:
            yield other(node, id=OTHERS[name])
        case ast.Attribute(attr=name) if name in OTHERS:
            yield other(node, attr=OTHERS[name])
        case ast.Attribute(attr=name) if name.rstrip("_") in OTHERS and name.endswith("_"):
            yield other(node, attr=OTHERS[name[:-1]] + "_")
        case ast.Slice():
            yield from (other(node, **{end: None}) for end in ends_of(node))
        case _:
            return


def ends_of(node: ast.Slice) -> list[str]:
    """Return which ends a slice has."""
    return [end for end in ("lower", "upper", "step") if getattr(node, end) is not None]


def text_of(node: ast.AST | None) -> str | None:
    """Return a constant's text, if it is one."""
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, str) else None


def constants(node: ast.Constant, holder: ast.AST, field: str) -> Iterator[object]:
    """Yield what may stand instead of a constant."""
    value = node.value
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (0, 2) if value == 1 else (value + 1,)
    elif isinstance(value, float):
        yield 2 * value + 1
    elif isinstance(value, str) and is_looked_up(holder, field):
        yield value + "_"


def is_looked_up(holder: ast.AST, field: str) -> bool:
    """Whether a text in this place is compared or looked up; others are for people."""
    match holder:
        case ast.Compare() | ast.Subscript() | ast.MatchValue() | ast.arguments():
            return True
        case ast.Dict():
            return field == "keys"
        case ast.Call(func=ast.Attribute(attr="get" | "pop" | "setdefault")):
            return field == "args"
        case ast.Call(func=ast.Name(id="getattr" | "hasattr")):
            return field == "args"
        case _:
            return False


def statements(node: ast.stmt) -> Iterator[ast.stmt]:
    """Yield what may stand instead of a statement."""
    match node:
        case ast.Return(value=ast.expr() as value):
            if not (isinstance(value, ast.Constant) and not value.value):
                yield other(node, value=None)
        case ast.Expr():
            yield ast.copy_location(ast.Pass(), node)
        case ast.Assign(targets=targets, value=value):
            # A name that is bound here alone would only be missed.
            names = {part.id for t in targets for part in ast.walk(t) if isinstance(part, ast.Name)}
            used = {part.id for part in ast.walk(value) if isinstance(part, ast.Name)}
            if names & used or not isinstance(targets[0], ast.Name | ast.Tuple):
                yield ast.copy_location(ast.Pass(), node)
        case node if isinstance(node, DROPPED):
            yield ast.copy_location(ast.Pass(), node)
        case _:
            return


@dataclass(frozen=True)
class Mutant:
    """One change of one file."""

    file: str
    """Below src/cgcl."""
    number: int
    """Which of the file's changes it is."""
    line: int
    text: str
    """The line as it is."""
    what: str
    """What becomes what."""
    owner: str
    """The outermost function that holds it; empty if none does."""

    @property
    def room(self) -> str:
        """The room of the file."""
        return self.file.split("/")[0] if "/" in self.file else "top"

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What it is known by, wherever its line moves to."""
        return self.file, self.owner, self.text, self.what


def shown(change: Change) -> str:
    """Return what becomes what, with the expression that it is in."""
    is_inside = isinstance(change.holder, ast.expr) and not isinstance(change.holder, ast.Lambda)
    if not is_inside or len(ast.unparse(change.holder)) > 80:
        new = "nothing" if change.new is None else ast.unparse(change.new)
        return f"{ast.unparse(change.old)} -> {new}"
    held = getattr(change.holder, change.field)
    if change.index is not None:
        gone = [] if change.new is None else [change.new]
        held = [*held[: change.index], *gone, *held[change.index + 1 :]]
    else:
        held = change.new
    new = ast.unparse(other(change.holder, **{change.field: held}))
    return f"{ast.unparse(change.holder)} -> {new}"


@cache
def source_of(path: Path) -> str:
    """Return a file as it was when it was first read: whoever edits it does not disturb."""
    return path.read_text(encoding="utf-8")


def mutants_of(path: Path, root: Path = SOURCE) -> Iterator[Mutant]:
    """Yield every mutant of a file."""
    tree, lines = ast.parse(source_of(path)), source_of(path).splitlines()
    bodies = functions(tree)
    owners = {line: name for name, first, last in bodies for line in range(first, last + 1)}
    seen: Counter[tuple[str, str, str]] = Counter()
    for number, change in enumerate(changes(tree)):
        at = change.old.lineno
        text, owner = lines[at - 1].strip(), owners.get(at, "")
        what = " ".join(shown(change).split())
        seen[owner, text, what] += 1
        times = seen[owner, text, what]
        what += f" (no. {times})" if times > 1 else ""
        yield Mutant(path.relative_to(root).as_posix(), number, at, text, what, owner)


def functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, int, int]]:
    """Yield the name of each outermost function, and the lines of its body."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield prefix + node.name, node.body[0].lineno, node.end_lineno or node.lineno
        elif isinstance(node, ast.ClassDef):
            yield from functions(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.If | ast.Try):
            yield from functions(node, prefix)


def mutated(path: Path, number: int) -> CodeType:
    """Return a file's code with one change in it."""
    tree = ast.parse(source_of(path))
    next(change for k, change in enumerate(changes(tree)) if k == number).make()
    return compile(ast.fix_missing_locations(tree), str(path), "exec")


def codes_in(code: CodeType) -> Iterator[CodeType]:
    """Yield a code and all codes in it."""
    yield code
    for held in code.co_consts:
        if isinstance(held, CodeType):
            yield from codes_in(held)


def loaded_functions(source: Path) -> dict[tuple[str, str], list[FunctionType]]:
    """Return every function of ours that is in memory, by file and name."""
    found = defaultdict(list)
    for thing in gc.get_objects():
        # What isinstance would ask of some proxies is a warning.
        if type(thing) is FunctionType and thing.__code__.co_filename.startswith(str(source)):
            found[thing.__code__.co_filename, thing.__code__.co_qualname].append(thing)
    return found


def swap(path: Path, mutant: Mutant, mine: list[FunctionType]) -> bool:
    """Change a function that is loaded already; say whether that could be done."""
    found = [c for c in codes_in(mutated(path, mutant.number)) if c.co_qualname == mutant.owner]
    with suppress(ValueError):  # it no longer knows its class, say
        for function in mine:
            first = function.__code__.co_firstlineno
            function.__code__ = next(c for c in found if c.co_firstlineno == first)
        return bool(mine)
    return False


def put_in_place(path: Path, mutant: Mutant) -> None:
    """Have a file that is not imported yet read as changed."""
    loader: Any = importlib.machinery.SourceFileLoader
    read = loader.get_code

    def get_code(self: Any, name: str) -> CodeType | None:  # noqa: ANN401
        is_it = self.get_filename(name) == str(path)
        return mutated(path, mutant.number) if is_it else read(self, name)

    loader.get_code = get_code


def too_slow(*_: object) -> None:
    """End a test that takes too long to run it for every mutant."""
    raise TimeoutError


class Lines:
    """Which lines of ours run, and in which tests: a plugin that watches."""

    def __init__(self, source: Path = SOURCE) -> None:
        """Watch nothing yet."""
        self.source = str(source)
        self.now: set[tuple[str, int]] = set()
        self.tests: dict[str, dict[str, Any]] = {}
        self.shared: dict[tuple[str, str], set[tuple[str, int]]] = {}
        self.at_import: set[tuple[str, int]] = set()
        self.calls: Counter[CodeType] = Counter()

    def watch(self, frame: FrameType, *_: object) -> Any:  # noqa: ANN401
        """Follow a call into what is ours."""
        if not frame.f_code.co_filename.startswith(self.source):
            return None
        self.calls[frame.f_code] += 1
        return self.line if self.calls[frame.f_code] < OFTEN else None

    def line(self, frame: FrameType, event: str, _: object) -> Any:  # noqa: ANN401
        """Note a line."""
        if event == "line":
            self.now.add((frame.f_code.co_filename, frame.f_lineno))
        return self.line

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Any:  # noqa: ANN401
        """Note what a fixture runs that several tests share: it is theirs as well."""
        before, self.now = self.now, set()
        result = yield
        if fixturedef.scope != "function":
            self.shared[fixturedef.baseid, fixturedef.argname] = set(self.now)
        self.now |= before
        return result

    def run(self, items: list[pytest.Item]) -> dict[str, dict[str, Any]]:
        """Run every test; return seconds and lines of those that pass and are not slow."""
        session = items[0].session
        for number in (signal.SIGPROF, signal.SIGALRM):
            signal.signal(number, too_slow)
        for item, after in zip(items, [*items[1:], None], strict=True):
            self.now, failed, started = set(), session.testsfailed, time.monotonic()
            self.calls.clear()
            signal.setitimer(signal.ITIMER_PROF, SLOW)
            signal.setitimer(signal.ITIMER_REAL, 5 * SLOW)  # it may wait for another process
            sys.settrace(self.watch)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            sys.settrace(None)
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)
            if session.testsfailed == failed:
                seconds = time.monotonic() - started
                self.tests[item.nodeid] = {"seconds": seconds, "lines": set(self.now)}
        for item in items:
            for (base, name), lines in self.shared.items():
                if name in getattr(item, "fixturenames", ()) and item.nodeid.startswith(base):
                    self.tests.get(item.nodeid, {"lines": set()})["lines"] |= lines
        return self.tests

    def as_json(self, items: list[pytest.Item]) -> dict[str, Any]:
        """Run every test; return seconds, and lines by file, of those that pass."""
        told = {}
        for name, test in self.run(items).items():
            lines: dict[str, list[int]] = defaultdict(list)
            for file, line in test["lines"]:
                lines[file].append(line)
            told[name] = {"seconds": test["seconds"], "lines": lines}
        return told


def in_fork(work: Callable[[], object], limit_s: float) -> Any:  # noqa: ANN401
    """Return what a process of its own returns as JSON; None if it died, False if it took long."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        os.setsid()
        # Some would fill the memory before their time is up.
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        try:
            answer = json.dumps(work()).encode()
        except Exception as error:
            answer = json.dumps({"error": repr(error)}).encode()
        with os.fdopen(write, "wb") as pipe:
            pipe.write(answer)
        os._exit(0)
    os.close(write)
    answer, until = b"", time.monotonic() + limit_s
    with os.fdopen(read, "rb") as pipe:
        while select.select([pipe], [], [], max(until - time.monotonic(), 0))[0]:
            piece = os.read(pipe.fileno(), 2**20)
            if not piece:
                break
            answer += piece
        else:
            answer = b"false"
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    told = json.loads(answer) if answer else None
    if isinstance(told, dict) and "error" in told:
        raise RuntimeError(told["error"])
    return told


@dataclass
class Judge:
    """Lets tests judge mutants once all are loaded: a plugin."""

    tree: Tree
    mutants: list[Mutant]
    asked: argparse.Namespace
    lines: Lines
    left: list[tuple[Mutant, list[str], float]]
    """Mutants of what runs when modules are imported, which is too late here, and their tests."""

    def pytest_sessionstart(self) -> None:
        """Watch what runs while modules are imported."""
        sys.settrace(self.lines.watch)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run all tests once, then for each mutant its own."""
        sys.settrace(None)
        self.lines.at_import = self.lines.now
        items = {item.nodeid: item for item in session.items}
        tests = in_fork(lambda: self.lines.as_json([*items.values()]), 3600)
        if not tests:
            raise RuntimeError("the tests could not be run")
        now: list[tuple[Mutant, list[str], float]] = []
        for mutant in self.mutants:
            own, seconds = chosen(mutant, tests, str(self.tree.source / mutant.file), self.asked)
            line = str(self.tree.source / mutant.file), mutant.line
            is_late = line in self.lines.at_import or not mutant.owner
            (self.left if is_late else now).append((mutant, own, seconds))

        functions = loaded_functions(self.tree.source)
        gc.freeze()  # what is never collected is not copied into each process

        def one(mutant: Mutant, own: list[str]) -> str | None:
            path = self.tree.source / mutant.file
            if not swap(path, mutant, functions[str(path), mutant.owner]):
                return "cannot be swapped"
            mine = [items[name] for name in own]
            for item, after in zip(mine, [*mine[1:], None], strict=True):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
                if session.testsfailed:
                    return item.nodeid
            return ""

        self.left += spread(now, one, self.asked)
        return True


def chosen(
    mutant: Mutant, tests: dict[str, Any], path: str, asked: argparse.Namespace
) -> tuple[list[str], float]:
    """Return the tests for a mutant, the nearest and fastest first, and how long they take."""
    module = Path(mutant.file).stem
    cases: Counter[str] = Counter()
    ranked = []
    for name, test in sorted(tests.items(), key=lambda named: named[1]["seconds"]):
        touched = test["lines"].get(path, ())
        if not touched:
            continue
        file, _, function = name.partition("::")
        cases[function.partition("[")[0]] += 1
        is_near = Path(file).stem in (module, f"test_{module}")
        # Three cases of a test before the fourth of another.
        case = cases[function.partition("[")[0]] // 4
        ranked.append((mutant.line not in touched, not is_near, case, test["seconds"], name))
    own, seconds = list[str](), 0.0
    for *_, cost, name in sorted(ranked)[: asked.most]:
        if seconds + cost < asked.seconds or not own:
            own.append(name)
            seconds += cost
    return own, seconds


def spread(
    work: list[tuple[Mutant, list[str], float]],
    one: Callable[[Mutant, list[str]], str | None],
    asked: argparse.Namespace,
) -> list[tuple[Mutant, list[str], float]]:
    """Judge mutants in several processes, each of which writes lines; return what could not be."""

    def part(first: int) -> list[int]:
        left = []
        for k in range(first, len(work), asked.workers):
            mutant, own, seconds = work[k]
            began = time.monotonic()
            by = in_fork(lambda m=mutant, own=own: one(m, own), 10 + 3 * seconds) if own else ""
            if by == "cannot be swapped":
                left.append(k)
                continue
            word = "survived" if by == "" else "timed out" if by is False else "killed"
            told = {**dict(zip(KEY, mutant.key, strict=True)), "line": mutant.line, "word": word}
            told |= {"by": by or None, "tests": len(own)}
            told["seconds"] = round(time.monotonic() - began, 2)
            with asked.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(told) + "\n")
        return left

    return [work[k] for left in fork_all(part, asked.workers) for k in left]


def fork_all(part: Callable[[int], list[int]], workers: int) -> list[list[int]]:
    """Return what each of several processes returns."""
    with tempfile.TemporaryDirectory() as folder:
        children = []
        for k in range(workers):
            child = os.fork()
            if not child:
                try:
                    (Path(folder) / str(k)).write_text(json.dumps(part(k)))
                finally:
                    os._exit(0)
            children.append(child)
        for child in children:
            os.waitpid(child, 0)
        return [json.loads((Path(folder) / str(k)).read_text()) for k in range(workers)]


KEY = ("file", "function", "text", "what")


@dataclass(frozen=True)
class Tree:
    """The code, and its tests."""

    root: Path

    @property
    def source(self) -> Path:
        """The folder of the package."""
        return next(path.parent for path in (self.root / "src").glob("*/__init__.py"))

    def files(self) -> list[Path]:
        """Return every file that mutants are made of."""
        files = sorted(self.source.rglob("*.py"))
        return [file for file in files if LEFT_OUT not in file.as_posix()]

    def tests(self, room: str) -> list[str]:
        """Return where the tests of a room are."""
        if room == "top":
            files = [*(self.root / "tests").glob("test_*.py"), *self.source.glob("*.py")]
            return [str(file.relative_to(self.root)) for file in sorted(files)]
        folders = [f"tests/{room}", f"src/{self.source.name}/{room}"]
        # Equations of the paper are tested apart.
        folders += ["tests/paper"] if room in ("model", "metrics") else []
        return [folder for folder in folders if (self.root / folder).exists()]


def drawn(tree: Tree, asked: argparse.Namespace) -> list[Mutant]:
    """Return the mutants to judge: all of some rooms, and a draw of the others."""
    every = [mutant for file in tree.files() for mutant in mutants_of(file, tree.source)]
    if asked.only:
        return [mutant for mutant in every if asked.only in mutant.file]
    rooms = asked.rooms.split(",")
    rest = [mutant for mutant in every if mutant.room not in rooms]
    # By a hash of each, so that an edit elsewhere changes nothing of the draw.
    rest.sort(key=lambda m: hashlib.sha256(repr((asked.seed, *m.key)).encode()).digest())
    return [mutant for mutant in every if mutant.room in rooms] + rest[: asked.draw]


def judge_room(tree: Tree, room: str, mutants: list[Mutant], asked: argparse.Namespace) -> None:
    """Judge the mutants of a room."""
    options = [*OPTIONS, *tree.tests(room)]

    def loaded() -> list[Any]:
        judge = Judge(tree, mutants, asked, Lines(tree.source), [])
        code = quiet(options, [judge, judge.lines])
        if code not in (0, 1):
            raise RuntimeError(f"pytest ended with {code}")
        return [(mutants.index(mutant), own, seconds) for mutant, own, seconds in judge.left]

    left = in_fork(loaded, 10**6)
    if left is None:
        sys.exit(f"the tests of {room} could not be loaded")

    def one(mutant: Mutant, own: list[str]) -> str:
        put_in_place(tree.source / mutant.file, mutant)
        return own[0] if quiet([*OPTIONS, "-x", *own], []) else ""

    spread([(mutants[k], own, seconds) for k, own, seconds in left], one, asked)


def quiet(options: list[str], plugins: list[object]) -> int:
    """Run pytest without a word and return its exit code."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in () if os.environ.get("LOUD") else (1, 2):
        os.dup2(nowhere, stream)
    profile = {"derandomize": True, "database": None, "deadline": None}
    phases = [hypothesis.Phase.explicit, hypothesis.Phase.generate]
    hypothesis.settings.register_profile("mutate", **profile, phases=phases)
    hypothesis.settings.load_profile("mutate")
    with tempfile.TemporaryDirectory() as base:
        return int(pytest.main([*options, f"--basetemp={base}/t"], plugins=plugins))


def read_found(out: Path) -> dict[tuple[str, ...], list[str]]:
    """Return the verdicts on each mutant that a file holds, the last one last."""
    found = defaultdict(list)
    for line in out.read_text(encoding="utf-8").splitlines() if out.exists() else ():
        told = json.loads(line)
        found[tuple(told[name] for name in KEY)].append(told["word"])
    return found


def read_known(tree: Tree) -> Callable[[Mutant], str | None]:
    """Return what tells why a mutant may survive; None if nobody knows."""
    path = tree.root / "scripts" / "survivors.toml"
    listed = tomllib.loads(path.read_text("utf-8"))["survivor"] if path.exists() else []

    def why(mutant: Mutant) -> str | None:
        for one in listed:
            is_it = one["file"] == mutant.file and one["line"] == mutant.text
            if is_it and mutant.what in one.get("what", [mutant.what]):
                return one["why"]
        return None

    return why


def tell(tree: Tree, mutants: list[Mutant], asked: argparse.Namespace) -> list[dict[str, Any]]:
    """Print what became of the mutants; return the figures of each room, and of the draw."""
    found, why, rooms = read_found(asked.out), read_known(tree), asked.rooms.split(",")
    figures = []
    for room in [*rooms, "the rest, drawn"]:
        own = [m for m in mutants if (m.room if m.room in rooms else "the rest, drawn") == room]
        words = {m: found[m.key] for m in own if m.key in found}
        alive = [m for m in words if words[m][-1] == "survived"]
        left = [m for m in alive if not why(m)]
        figures.append(
            {"attack": "mutation", "target": room, "tries": len(words), "failed": len(left)}
            | {"failed_before": sum(first == "survived" for first, *_ in words.values())}
            | {"explained": len(alive) - len(left), "command": COMMAND, "seed": asked.seed}
        )
        told = "{target}: {tries} mutants, {failed_before} survived at first, "
        told += "{explained} explained, {failed} left" + ", some not judged" * (own != [*words])
        print(told.format(**figures[-1]))
        for m in left:
            print(f"  {m.file}:{m.line} {m.owner}: {m.what}")
    return figures


def main() -> None:
    """Judge the mutants and tell what became of them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rooms", default=ROOMS, help="rooms of which every mutant is judged")
    parser.add_argument("--draw", type=int, default=300, help="so many of all other rooms")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--only", default="", help="all mutants of files with this in their name")
    parser.add_argument("--out", type=Path, help="keep verdicts there, and go on from there")
    parser.add_argument("--again", action="store_true", help="judge those that survived once more")
    parser.add_argument("--most", type=int, default=400, help="tests for each mutant")
    parser.add_argument("--seconds", type=float, default=30, help="that they may take")
    parser.add_argument("--workers", type=int, default=1, help="how many at once")
    parser.add_argument("--figures", type=Path, help="write counts there, a line a room")
    parser.add_argument("--check", action="store_true", help="count mutants, judge none")
    parser.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    tree = Tree(asked.root.resolve())
    mutants = drawn(tree, asked)
    if asked.check:
        print(Counter(m.room for m in mutants), len(mutants))
        return
    os.chdir(tree.root)
    sys.path.insert(0, str(tree.root / "src"))
    os.environ["TRITON_INTERPRET"] = "1"
    asked.out = (asked.out or Path(tempfile.mkdtemp()) / "mutate.jsonl").resolve()
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    found = read_found(asked.out)
    again, why = ("", "survived") if asked.again else ("",), read_known(tree)
    todo = [m for m in mutants if found.get(m.key, [""])[-1] in again]
    todo = [m for m in todo if m.key not in found or not why(m)]
    if tree.root == ROOT:
        with warnings.catch_warnings(action="ignore"):
            for name in HEAVY:
                importlib.import_module(name)
    for room in sorted({mutant.room for mutant in todo}, reverse=True):
        judge_room(tree, room, [m for m in todo if m.room == room], asked)
    figures = tell(tree, mutants, asked)
    if asked.figures:
        lines = [json.dumps(line) + "\n" for line in figures if line["tries"]]
        asked.figures.write_text("".join(lines), encoding="utf-8")
    is_whole = sum(line["tries"] for line in figures) == len(mutants)
    sys.exit(0 if is_whole and not any(line["failed"] for line in figures) else 1)


if __name__ == "__main__":
    main()
