"""The whole way on the bundled graph, in processes of its own."""

import csv
import hashlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import mean

import pytest

from cgcl.graph import Graph
from cgcl.methods.settings import PRESETS
from cgcl.predict import LinkPredictor


@pytest.mark.parametrize(
    ("told", "least"), [(("--method", "cgcl"), 0.95), (("--epochs", "4"), 0.0)]
)
def test_the_quick_preset_reaches_95_and_two_processes_agree_to_the_last_bit(
    cgcl, tmp_path: Path, told: tuple[str, ...], least: float
) -> None:
    """The paper's model; what the default reaches, the commands of README show."""
    command = ("train", "cora", "--threads", "2", "--no-compare", *told)
    runs = [tmp_path / cgcl(*command).strip() for _ in range(2)]
    test = json.loads((runs[0] / "run.json").read_text())["test"]
    assert test["auc"] >= least
    assert test["ap"] >= least
    assert json.loads((runs[1] / "run.json").read_text())["test"] == test
    hashes = []
    for run in runs:
        links = cgcl("predict", str(run), "--top", "50", "--format", "csv", "--threads", "2")
        files = [run / "model.safetensors", run / "metrics.jsonl", run / "checkpoint.safetensors"]
        rows = list(csv.DictReader(io.StringIO(links)))
        # Nodes with the same words and neighbours tie; whatever differs has another probability.
        scores, shown = ({row[name] for row in rows} for name in ("score", "probability"))
        assert len(shown) >= len(scores) > 30
        parts = [path.read_bytes() for path in files] + [links.encode()]
        hashes.append([hashlib.sha256(part).hexdigest() for part in parts])
    assert hashes[0] == hashes[1]


@pytest.mark.slow
def test_the_paper_preset_on_five_splits_is_as_accurate_as_it_promises(cora: Graph) -> None:
    """Every split counts, and none is drawn again. Minutes long: run with `make slow`."""
    tests = [
        LinkPredictor("cgcl", **PRESETS["paper"], seed=seed, device="cpu").fit(cora).test_
        for seed in range(5)
    ]
    assert mean(test["auc"] for test in tests) >= 0.963
    assert mean(test["ap"] for test in tests) >= 0.963


HEAD = (
    "source,target,probability,score,probability_low,probability_high,"
    "shared_neighbours,common_features,distance\n"
)


def test_a_closed_pipe_neither_ends_nor_fails_training(tmp_path: Path) -> None:
    """As in `cgcl train 2>&1 | head -1`: nobody reads on. Nor does `cgcl predict` complain."""

    def first_line(command: str) -> subprocess.CompletedProcess[str]:
        script = f"set -o pipefail; {sys.executable} -m cgcl {command} | head -1"
        # Buffered, as Python is unless told otherwise: what is left there must not fail, either.
        buffered = {**os.environ, "PYTHONUNBUFFERED": ""}
        shell = ["bash", "-c", script]
        return subprocess.run(shell, cwd=tmp_path, env=buffered, capture_output=True, text=True)

    done = first_line("train cora --epochs 30 --evaluate-every 1 --hidden 8 2>&1 >path")
    assert done.returncode == 0, done.stderr
    about = json.loads((tmp_path / "runs/cora-1/run.json").read_text())
    assert (about["status"], about["epochs"]) == ("finished", 30)
    assert (tmp_path / "path").read_text() == "runs/cora-1\n"
    done = first_line("predict runs/cora-1 --top 5000 --format csv --quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, HEAD, "")
