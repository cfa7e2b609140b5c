"""Every command and every program of README.md works, in its order, in an empty folder."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cgcl.cli.settings import COMMANDS


def blocks(project: Path, language: str) -> list[str]:
    page = (project / "README.md").read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.DOTALL | re.MULTILINE)


def environment() -> dict[str, str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("CGCL_")}
    return clean | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def test_the_shell_commands_work(project: Path, tmp_path: Path) -> None:
    commands = blocks(project, "sh")
    assert len(commands) == 6
    # Where the page gives epochs or runs, it is to be quick: here a few will do.
    script = re.sub(r"--epochs \d+", "--epochs 3", "set -e\n" + "\n".join(commands))
    script = re.sub(r"--runs \d+", "--runs 1", script)
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment(), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert (tmp_path / "runs/cora-1/report.html").exists()
    assert (tmp_path / "runs/friends-1/run.json").exists()
    assert (tmp_path / "runs/compare-cora/comparison.html").exists()
    assert "35,1033," in done.stdout
    for metric in ("auc", "ap"):
        assert re.search(rf"^{metric} +0\.9[5-9]", done.stdout, re.MULTILINE)


@pytest.mark.parametrize("number", [0, 1])
def test_the_python_programs_work(project: Path, start, number: int) -> None:
    programs = blocks(project, "python")
    assert len(programs) == 2
    process = start(program=("-W", "error", "-c", programs[number]))
    _, err = process.communicate()
    assert process.returncode == 0, err


def test_every_command_that_the_page_mentions_exists(project: Path) -> None:
    """Also those in running text, which are not run."""
    page = (project / "README.md").read_text()
    mentioned = set(re.findall(r"\bcgcl ([a-z]+)[ `\n]", page)) - {"hides"}
    assert mentioned == set(COMMANDS)


def test_committed_tables_are_those_of_the_committed_results(project: Path) -> None:
    done = subprocess.run(
        [sys.executable, "experiments/tables.py", "--check"],
        cwd=project,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_the_results_belong_to_the_bundled_graph(project: Path, cora) -> None:
    text = (project / "experiments/results/presets.jsonl").read_text()
    assert text.count(cora.fingerprint) == len(text.splitlines()) == 10


def test_every_test_that_paper_to_code_names_exists(project: Path) -> None:
    page = (project / "docs/paper-to-code.md").read_text()
    sources = "".join(path.read_text() for path in (project / "tests").rglob("test_*.py"))
    for name in re.findall(r"`(test_[a-z0-9_]+)\*?`", page):
        assert f"def {name}" in sources, name
