"""The table of attacks says what the lines say, in the order of the descriptions."""

import importlib
import json
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "experiments"))
attacks = importlib.import_module("attacks")

TOLD = """
[[attack]]
name = "kills"
does = "kills"
[[attack.before]]
what = "kills by hand"
tries = 1200
failed = 3
source = "a note"

[[attack]]
name = "never run"
does = "nothing"

[[attack]]
name = "fuzz"
does = "changes files"
"""


def line(attack: str, target: str, tries: int, failed: int, before: int) -> str:
    about = {"attack": attack, "target": target, "tries": tries, "failed": failed}
    about |= {"failed_before": before, "command": "python x.py", "seed": 0, "seconds": 1.5}
    return json.dumps(about) + "\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "attacks.toml").write_text(TOLD)
    return tmp_path


def test_each_attack_that_was_run_has_a_row_of_sums(folder: Path) -> None:
    (folder / "a.jsonl").write_text(line("fuzz", "csv", 5000, 0, 2) + line("fuzz", "npz", 7, 1, 4))
    (folder / "b.jsonl").write_text(line("kills", "train", 3, 0, 0) + line("new", "x", 1, 0, 1))
    rows = attacks.attacked(folder).splitlines()[2:]
    assert rows == [
        "| kills | kills | train | 3 | 3 of 1,200 kills by hand | 0 | run `python x.py` |",
        "| fuzz | changes files | csv, npz | 5,007 | 6 | 1 | run `python x.py` |",
        "| new |  | x | 1 | 1 | 0 | run `python x.py` |",
    ]


def test_without_results_there_is_no_table(folder: Path) -> None:
    assert attacks.attacked(folder) == "Not run yet."
