"""The tool that changes the code in every small way, on a module of a few lines."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.skipif(
    not hasattr(os, "fork"), reason="each change is made in a process of its own"
)
# A line, and what becomes of it.
CHANGED = {
    "x = a < b": ["a < b -> a <= b"],
    "x = a == 'one'": ["a == 'one' -> a != 'one'", "a == 'one' -> a == 'one_'"],
    "x = a in b": ["a in b -> a not in b"],
    "x = a + b": ["a + b -> a - b"],
    "x = a * b": ["a * b -> a / b"],
    "x = a and not b": ["a and (not b) -> a or not b", "a and (not b) -> a and b"],
    "x = a if b else 4": [
        "a if b else 4 -> 4 if b else a",
        "a if b else 4 -> a if not b else 4",
        "a if b else 4 -> a if b else 5",
    ],
    "x = a[:b]": ["a[:b] -> a[:]"],
    "x = a[1]": ["a[1] -> a[0]", "a[1] -> a[2]"],
    "x = a(b, dim=0)": ["a(b, dim=0) -> a(b)", "0 -> 1"],
    "x = a(keepdim=True)": ["True -> False"],
    "x = [min(a) for y in b if y]": ["min(a) -> max(a)", "y -> True"],
    "x = 0.25": ["0.25 -> 1.5"],
    "x.y = a": ["x.y = a -> pass"],
    "a += b": ["a += b -> pass"],
    "a(b)": ["a(b) -> pass"],
    "raise ValueError(f'no {a + 1}')": ["raise ValueError(f'no {a + 1}') -> pass"],
    "return a": ["return a -> return"],
    # What does nothing, speaks to people, or is the same for all but other machines.
    "x: int | None = a": [],
    "'''Say 1 + 1.'''": [],
    "x = f'{a + 1} links'": [],
    "x = zip(a, b, strict=True)": [],
    "if TYPE_CHECKING: x = 1": [],
    "return None": [],
}


@pytest.fixture
def mutate(project: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(project / "scripts"))
    return importlib.import_module("mutate")


@pytest.mark.parametrize("line", CHANGED)
def test_every_kind_of_change_is_made_once(mutate: ModuleType, tmp_path: Path, line: str) -> None:
    path = tmp_path / "toy.py"
    path.write_text(f"def f(a, b, x, TYPE_CHECKING):\n    {line}\n")
    found = [*mutate.mutants_of(path, tmp_path)]
    assert [mutant.what for mutant in found] == CHANGED[line]
    made = [mutate.mutated(path, mutant.number).co_consts[0] for mutant in found]
    codes = {(code.co_code, code.co_consts, code.co_names) for code in made}
    assert len(codes) == len(CHANGED[line])


SUMS = """
LOOSE = 5

def held(n):
    return min(n, 3)

def unsure(n):
    return -n

def is_odd(n, loose=LOOSE):
    return n % 2 == 1 and n != loose
"""
TESTS = """
from toy.room.sums import held, is_odd, unsure

def test_held():
    assert [held(n) for n in (2, 3, 4, 9)] == [2, 3, 3, 3]

def test_unsure():
    assert unsure(0) == 0

def test_odd():
    assert [is_odd(n) for n in (1, 2, 3)] == [True, False, True]
"""
LEFT = {
    "LOOSE = 5": "5 -> 6",
    "return -n": "-n -> n",
}


def test_a_survivor_is_told_unless_it_is_explained(project: Path, tmp_path: Path) -> None:
    for folder in ("src/toy/room", "tests/room", "scripts"):
        (tmp_path / folder).mkdir(parents=True)
    for package in ("src/toy", "src/toy/room"):
        (tmp_path / package / "__init__.py").touch()
    (tmp_path / "src/toy/room/sums.py").write_text(SUMS)
    (tmp_path / "tests/room/test_sums.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    out = tmp_path / "found.jsonl"
    command = [sys.executable, str(project / "scripts/mutate.py"), "--root", str(tmp_path)]
    command += ["--rooms", "room", "--out", str(out)]

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300)

    done = run()
    assert done.returncode == 1, done.stdout + done.stderr
    assert "room: 14 mutants, 2 survived at first, 0 explained, 2 left" in done.stdout
    found = [json.loads(line) for line in out.read_text().splitlines()]
    assert {one["text"]: one["what"] for one in found if one["word"] == "survived"} == LEFT
    named = [
        f'[[survivor]]\nfile = "room/sums.py"\nline = "{line}"\nwhat = ["{what}"]\nwhy = "It is."'
        for line, what in LEFT.items()
    ]
    (tmp_path / "scripts/survivors.toml").write_text("\n".join(named))
    done = run()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 explained, 0 left" in done.stdout
    assert len(out.read_text().splitlines()) == len(found)  # nothing is judged twice
