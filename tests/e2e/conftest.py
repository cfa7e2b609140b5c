"""The installed program in processes of its own."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Start = Callable[..., subprocess.Popen]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Start `cgcl`, or another program of Python, in a fresh folder without outer settings."""

    def run(
        *arguments: str, program: tuple[str, ...] = ("-m", "cgcl"), cwd: Path = tmp_path
    ) -> subprocess.Popen:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("CGCL_")}
        return subprocess.Popen(
            [sys.executable, *program, *arguments],
            cwd=cwd,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return run


@pytest.fixture
def cgcl(start: Start) -> Callable[..., str]:
    """Run `cgcl` to its end and return what it printed to stdout."""

    def run(*arguments: str) -> str:
        process = start(*arguments)
        out, err = process.communicate()
        assert process.returncode == 0, err
        return out

    return run
