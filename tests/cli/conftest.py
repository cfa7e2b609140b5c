"""The command line inside this process: a fresh folder, an empty environment, captured output."""

from __future__ import annotations

import os
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


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> Cli:
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith("CGCL_"):
            monkeypatch.delenv(name)

    def run(*arguments: str | Path) -> Result:
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return Result(stopped.value.code, captured.out, captured.err)

    return run


@pytest.fixture
def friends(tmp_path: Path) -> Path:
    """Two circles of friends with names of all kinds, and what they like."""
    names = ["Anna", "Bob", "NA", "007", "1e3", "é", "a b", "<b>", "[red]", "10"]
    pairs = [(a, b) for half in (names[:5], names[5:]) for a in half for b in half if a < b]
    pairs += [("Anna", "é"), ("Bob", "10"), ("007", "a b"), ("NA", "<b>"), ("1e3", "[red]")]
    (tmp_path / "friends.csv").write_text(
        "source,target\n" + "".join(f"{a},{b}\n" for a, b in pairs)
    )
    (tmp_path / "nodes.csv").write_text(
        "name,likes_tea,likes_coffee\n"
        + "".join(f"{name},{int(i < 5)},{int(i >= 5)}\n" for i, name in enumerate(names))
    )
    return tmp_path / "friends.csv"


@pytest.fixture
def run_folder(cli: Cli, friends: Path) -> Path:
    result = cli(
        "train", "friends.csv", "--features", "nodes.csv", "--epochs", "20", "--hidden", "8",
        "--test", "0.2", "--val", "0.1", "--threads", "1",
    )  # fmt: skip
    assert result.code == 0, result.err
    assert result.out == "runs/friends-1\n"
    return friends.parent / "runs" / "friends-1"
