"""A short draw of `make attack`: harm at calls to the disk, then what a user does."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

needs_cc = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("cc") is None,
    reason="calls are counted by a library that cc makes for Linux",
)


@needs_cc
def test_a_draw_of_signals_at_random_times_loses_nothing(project: Path, tmp_path: Path) -> None:
    script, kept = project / "scripts/attack/disk.py", tmp_path / "kept.jsonl"
    command = [sys.executable, script, "--times", "2", "--no-calls", "--only", "download"]
    environment = {key: own for key, own in os.environ.items() if not key.startswith("CGCL_")}
    command += ["--workers", "1", "--results", kept]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "download: 6 tries, 0 failed" in done.stdout
    line = json.loads(kept.read_text())
    assert (line["attack"], line["target"]) == ("signals at random times", "download")
    assert (line["tries"], line["failed"], line["failed_before"]) == (6, 0, 0)


@needs_cc
def test_a_draw_of_the_attack_on_the_disk_loses_nothing(project: Path) -> None:
    # A draw in which several writes fail half-way.
    command = [sys.executable, project / "scripts/attack/disk.py", "--draw", "16", "--seed", "1"]
    environment = {key: own for key, own in os.environ.items() if not key.startswith("CGCL_")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "16 tries" not in done.stdout  # they are spread over the commands
    assert " 0 failed" in done.stdout


@pytest.mark.skipif(not hasattr(os, "fork"), reason="each try is a process of its own")
def test_a_draw_of_wrong_values_in_stored_files_ends_in_words_of_ours(project: Path) -> None:
    script = project / "scripts/attack/stored.py"
    command = [sys.executable, script, "--draw", "20", "--workers", "1"]
    environment = {key: own for key, own in os.environ.items() if not key.startswith("CGCL_")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 failed" in done.stdout


@pytest.mark.skipif(not hasattr(os, "fork"), reason="each kind of file has a process of its own")
def test_a_short_search_by_changed_files_finds_nothing(project: Path) -> None:
    script = project / "scripts/attack/fuzz.py"
    command = [sys.executable, script, "--only", "toy-2/", "--tries", "2", "--seconds", "9999"]
    environment = {key: own for key, own in os.environ.items() if not key.startswith("CGCL_")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count('"failed": 0') == 5
