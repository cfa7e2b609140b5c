"""The paper lies outside of the package, and comes with it where there is no checkout."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from cgcl.experiments.study import FOLDER

ROOT = Path(__file__).parents[2]
PROGRAM = """
from cgcl.experiments.study import FOLDER, NAMES, read_experiment, study_pages
assert FOLDER.name == "paper", FOLDER
assert [read_experiment(name).name for name in NAMES] == [*NAMES]
assert study_pages().__file__ == str(FOLDER / "__init__.py")
assert "not run yet" in study_pages().claims_markdown({}, {}).lower()
"""


def test_a_wheel_finds_the_experiments_and_judges_claims(tmp_path):
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    [(source, target)] = told["targets"]["wheel"]["force-include"].items()
    assert ROOT / source == FOLDER
    without = shutil.ignore_patterns("__pycache__", "data")
    shutil.copytree(ROOT / "src/cgcl", tmp_path / "cgcl", ignore=without)
    shutil.copytree(FOLDER, tmp_path / target, ignore=without)
    subprocess.run([sys.executable, "-c", PROGRAM], cwd=tmp_path, env={}, check=True)
