"""A command imports what it uses: each of these packages takes a good part of a second."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch  # noqa: F401, as in any program that already uses it

from cgcl.cli.train import _import_torch

# PyG belongs to the tests, SciPy to other methods, networkx to GraphML and GEXF, scikit-learn to
# the checks of `cgcl.testing`.
UNUSED = ("torch_geometric", "matplotlib", "networkx", "sklearn", "scipy", "pandas", "optuna")
PROGRAM = """
import json, sys
from cgcl.cli.main import main
try:
    main(sys.argv[1:])
finally:
    print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""


def imported_by(folder: Path, *arguments: str, code: int = 0) -> set[str]:
    """Run a command in a process of its own and return every package that it imported."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.fixture
def ring(tmp_path) -> tuple[str, ...]:
    """A command that trains on a ring."""
    links = [f"{node},{(node + step) % 40}\n" for node in range(40) for step in (1, 2, 7)]
    (tmp_path / "ring.csv").write_text("source,target\n" + "".join(links))
    return "train", "ring.csv", "--epochs", "1", "--hidden", "8", "--device", "cpu"


@pytest.mark.parametrize("options", [[], ["--features", "nodes.csv"]])
def test_training_and_its_report_import_nothing_that_they_do_not_use(
    tmp_path, ring, options
) -> None:
    """Everything a run does by default: split, training, calibration, comparison, figures."""
    likes = [f"{node},{node % 2},{node % 3}\n" for node in range(40)]
    (tmp_path / "nodes.csv").write_text("name,tea,coffee\n" + "".join(likes))
    imported = imported_by(tmp_path, *ring, *options)
    page = (tmp_path / "runs" / "ring-1" / "report.html").read_text()
    assert page.count("<svg") >= 6
    assert {"torch", "numpy", "jinja2"} <= imported
    assert imported.isdisjoint(UNUSED), imported & set(UNUSED)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--help"], 0),
        (["train", "--help"], 0),
        (["predict", "--help"], 0),
        (["tune", "--help"], 0),
        (["--version"], 0),
        (["methods"], 0),
        (["train", "--hiden", "3"], 2),
        (["trian"], 2),
    ],
)
def test_help_and_mistakes_answer_without_importing_anything_heavy(
    tmp_path, arguments, code
) -> None:
    """This is what keeps them under half a second; the time itself is measured by hand."""
    imported = imported_by(tmp_path, *arguments, code=code)
    assert "cyclopts" in imported
    assert imported.isdisjoint({"torch", "numpy", "pyarrow", "jinja2", *UNUSED})


COLLECTOR = """
import gc, sys
from cgcl.cli.main import main
try:
    main(sys.argv[1:])
finally:
    import torch
    print(gc.isenabled(), gc.get_freeze_count(), any(o is torch for o in gc.get_objects()))
"""


def test_training_never_looks_for_garbage_in_torch(tmp_path, ring) -> None:
    """Looking through its objects at import and at exit would take half a second."""
    command = [sys.executable, "-c", COLLECTOR, *ring, "--quiet", "--no-compare"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    enabled, frozen, watched = done.stdout.splitlines()[-1].split()
    assert (enabled, watched) == ("True", "False")
    assert int(frozen) > 10_000


def test_where_torch_is_there_already_the_collector_is_left_alone() -> None:
    before = gc.get_freeze_count()
    _import_torch()
    assert gc.isenabled()
    assert gc.get_freeze_count() == before
