"""What a person sees on a terminal: run in a pseudo-terminal of a given width."""

import contextlib
import os
import pty
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from rich.console import Console

from cgcl.cli import terminal


def on_a_terminal(folder: Path, columns: int, *arguments: str) -> list[str]:
    """Run cgcl with a terminal for its output; return the lines without colours and movements."""
    screen, inside = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "cgcl", *arguments],
        cwd=folder,
        env=os.environ | {"COLUMNS": str(columns), "TERM": "xterm"},
        stdin=inside,
        stdout=inside,
        stderr=inside,
    )
    os.close(inside)
    text = b""
    with contextlib.suppress(OSError):  # that is how the other end closes
        while chunk := os.read(screen, 65536):
            text += chunk
    os.close(screen)
    assert process.wait() == 0
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text.decode())
    return plain.replace("\r", "\n").split("\n")


@pytest.mark.parametrize("columns", [60, 120])
def test_progress_is_one_live_line_and_nothing_is_wider_than_the_screen(tmp_path, columns) -> None:
    small = ("--method", "cgcl", "--epochs", "20", "--hidden", "8", "--no-compare")
    lines = on_a_terminal(tmp_path, columns, "train", "cora", *small)
    assert max(map(len, lines)) <= columns
    assert any("Training" in line and "20/20" in line for line in lines)
    assert not any("epoch 10/20" in line for line in lines)  # the plain form
    assert ("━" in "".join(lines)) == (columns == 120)
    split = next(number for number, line in enumerate(lines) if line.startswith("  Split"))
    story = re.sub(r"\s+", " ", " ".join(lines[split : split + 5]))
    assert "4,488 links to learn from, 263 to choose the epoch by, 527 to test on" in story


def test_names_stand_flush_left_and_numbers_flush_right() -> None:
    rows = [("Anna", "Bob", "0.5", "1"), ("Zoe", "Maximilian", "0.25", "1000")]
    table = terminal._aligned(Console(width=80), ["one", "other", "score", "rank"], rows)
    assert table.splitlines()[1:] == [
        "Anna  Bob           0.5     1",
        "Zoe   Maximilian   0.25  1000",
    ]


@pytest.mark.parametrize("quiet", [False, True])
def test_a_step_that_takes_long_is_named_unless_nothing_is_to_be_said(
    capsys, monkeypatch, quiet: bool
) -> None:
    class AtOnce(threading.Timer):
        def start(self) -> None:
            self.function()

    monkeypatch.setattr(threading, "Timer", AtOnce)
    with terminal.StepLine(quiet) as line:
        line.show("Testing", 1, 4)
    assert ("Testing, 25 %" in capsys.readouterr().err) == (not quiet)
