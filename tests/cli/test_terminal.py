"""What a person sees on a terminal: run in a pseudo-terminal of a given width."""

import contextlib
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest


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
