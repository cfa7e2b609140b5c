"""A command imports what it uses: each of these packages takes a good part of a second."""

import gc
import json
import os
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
import gc, json, sys
from cgcl.cli.main import main
try:
    main(sys.argv[1:])
finally:
    names = sorted({name.partition(".")[0] for name in sys.modules})
    torch = sys.modules.get("torch", gc)
    watched = any(thing is torch for thing in gc.get_objects())
    print(json.dumps([names, gc.isenabled(), gc.get_freeze_count(), watched]))
"""


def at_the_end_of(folder: Path, *arguments: str, code: int = 0) -> tuple[set[str], list]:
    """Run a command in a process of its own; return which packages it imported, and of garbage."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    names, *collector = json.loads(done.stdout.splitlines()[-1])
    return set(names), collector


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
    imported, collector = at_the_end_of(tmp_path, *ring, *options)
    page = (tmp_path / "runs" / "ring-1" / "report.html").read_text()
    assert page.count("<svg") >= 6
    assert {"torch", "numpy", "jinja2"} <= imported
    assert imported.isdisjoint(UNUSED), imported & set(UNUSED)
    # To look for garbage among torch's objects at import and at exit would take half a second.
    is_enabled, frozen, is_torch_watched = collector
    assert (is_enabled, is_torch_watched) == (True, False)
    assert frozen > 10_000


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--help"], 0),
        (["train", "--help"], 0),
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
    imported, _ = at_the_end_of(tmp_path, *arguments, code=code)
    assert "cyclopts" in imported
    assert imported.isdisjoint({"torch", "numpy", "pyarrow", "jinja2", *UNUSED})


def test_where_torch_is_there_already_the_collector_is_left_alone() -> None:
    before = gc.get_freeze_count()
    _import_torch()
    assert gc.isenabled()
    assert gc.get_freeze_count() == before


@pytest.mark.parametrize(
    ("told", "spins"),
    [({}, "1000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, "None")],
)
def test_threads_are_told_to_sleep_soon_before_torch_is_loaded(tmp_path, ring, told, spins) -> None:
    """Unless whoever calls has chosen; what is set later is not looked at."""
    watch = (
        "import os, sys\n"
        "class Watch:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'torch':\n"
        "            print('spins', os.environ.get('GOMP_SPINCOUNT'))\n"
        "sys.meta_path.insert(0, Watch())\n"
        "from cgcl.cli.main import main\n"
        "main(['inspect', 'ring.csv'])\n"
    )
    names = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
    env = {name: value for name, value in os.environ.items() if name not in names} | told
    done = subprocess.run(
        [sys.executable, "-c", watch], cwd=tmp_path, capture_output=True, text=True, env=env
    )
    assert (done.returncode, "spins " + spins in done.stdout) == (0, True), done.stdout
