"""kill -9 in the middle of a reproduction, then the same command: the same tables, bit by bit."""

import json
import signal
import time
from pathlib import Path

import pytest

from cgcl.experiments.study import Record

TABLES = ("table1-8-epochs.csv", "table1-8-epochs.md", "table1-8-epochs.tex")
KILL_AFTER = 2
"""Runs that are written when it is killed; two are left."""


def command(out: str) -> list[str]:
    return [
        "reproduce", "table1", "--dataset", "cora", "--methods", "cgcl,vgae", "--runs", "2",
        "--epochs", "8", "--ratio", "10", "--protocol", "splits", "--threads", "1",
        "--device", "cpu", "--out", out,
    ]  # fmt: skip


def lines(folder: Path) -> list[bytes]:
    """Return the lines that are written whole."""
    path = folder / "runs.jsonl"
    content = path.read_bytes() if path.exists() else b""
    return [line for line in content.splitlines(keepends=True) if line.endswith(b"\n")]


def without_times(line: bytes) -> dict:
    return {name: own for name, own in json.loads(line).items() if name != "seconds"}


def wait_for_runs(process, folder: Path, count: int) -> None:
    """Look at the file until it has so many runs."""
    while len(lines(folder)) < count:
        if process.poll() is not None:
            pytest.fail(f"it ended before there were {count} runs: {process.communicate()[1]}")
        time.sleep(0.002)


def test_killed_and_started_again_it_ends_with_the_same_tables(start, cgcl, tmp_path) -> None:
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    process = start(*command("killed"))
    wait_for_runs(process, killed, KILL_AFTER)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    before = lines(killed)
    assert KILL_AFTER <= len(before) < 4
    assert not any((killed / name).exists() for name in TABLES)

    expected = [f"{name}\n" for name in TABLES]
    assert cgcl(*command("killed")) == "".join(f"killed/{name}" for name in expected)
    after = lines(killed)
    assert after[: len(before)] == before
    keys = [Record.from_line(line).key for line in after]
    assert len(set(keys)) == len(keys) == 4

    assert cgcl(*command("whole")) == "".join(f"whole/{name}" for name in expected)
    assert [without_times(line) for line in after] == [without_times(own) for own in lines(whole)]
    for name in TABLES:
        assert (killed / name).read_bytes() == (whole / name).read_bytes()
    assert "2 runs" in (whole / "table1-8-epochs.md").read_text()
    assert not list(killed.glob("*.tmp"))
