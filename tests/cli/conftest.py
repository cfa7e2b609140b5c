"""The command line inside this process: a fresh folder, an empty environment, captured output."""

import contextlib
import io
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from cgcl.cli.main import main


class Result(NamedTuple):
    code: int
    out: str
    err: str


Cli = Callable[..., Result]


def enter(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Go to a folder, with no settings in the environment."""
    patch.chdir(folder)
    for name in [name for name in os.environ if name.startswith("CGCL_")]:
        patch.delenv(name)


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> Cli:
    enter(tmp_path, monkeypatch)

    def run(*arguments: str | Path) -> Result:
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return Result(stopped.value.code, captured.out, captured.err)

    return run


def write_friends(folder: Path) -> Path:
    names = ["Anna", "Bob", "NA", "007", "1e3", "é", "a b", "<b>", "[red]", "10"]
    pairs = [(a, b) for half in (names[:5], names[5:]) for a in half for b in half if a < b]
    pairs += [("Anna", "é"), ("Bob", "10"), ("007", "a b"), ("NA", "<b>"), ("1e3", "[red]")]
    rows = "".join(f"{a},{b}\n" for a, b in pairs)
    (folder / "friends.csv").write_text(f"source,target\n{rows}")
    rows = "".join(f"{name},{int(i < 5)},{int(i >= 5)}\n" for i, name in enumerate(names))
    (folder / "nodes.csv").write_text(f"name,likes_tea,likes_coffee\n{rows}")
    return folder / "friends.csv"


@pytest.fixture
def friends(tmp_path: Path) -> Path:
    """Two circles of friends with names of all kinds, and what they like."""
    return write_friends(tmp_path)


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one run of these friends, trained once for all tests."""
    folder = tmp_path_factory.mktemp("trained")
    write_friends(folder)
    train = ["train", "friends.csv", "--features", "nodes.csv", "--epochs", "20", "--hidden", "8"]
    shares = ["--test", "0.2", "--val", "0.1", "--threads", "1", "--quiet"]
    with pytest.MonkeyPatch.context() as patched, contextlib.redirect_stdout(io.StringIO()):
        enter(folder, patched)
        with pytest.raises(SystemExit, match="0"):
            main([*train, *shares])
    return folder / "runs"


@pytest.fixture
def run_folder(cli: Cli, runs: Path, friends: Path) -> Path:
    """A copy of that run, in the current folder."""
    shutil.copytree(runs, friends.parent / "runs")
    return friends.parent / "runs" / "friends-1"


@pytest.fixture
def interrupted(tmp_path: Path) -> Cli:
    """Run the program in a process of its own, and send it a signal when it has said something."""

    def run(words: list[str], said: str, number: int) -> Result:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        kept = {name: own for name, own in os.environ.items() if not name.startswith("CGCL_")}
        command = [sys.executable, "-m", "cgcl", *words]
        with subprocess.Popen(command, cwd=tmp_path, env=kept, **pipes) as process:
            assert process.stderr is not None
            assert any(said in line for line in process.stderr), "it ended without saying that"
            process.send_signal(number)
            out, err = process.communicate()
        assert "Traceback" not in err
        return Result(process.returncode, out, err)

    return run
