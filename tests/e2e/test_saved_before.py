"""What was saved by version 0.1 loads, and answers as it did then.

tests/fixtures/0.1 holds one run and one saved model of each method, trained for ten epochs on the
graph beside them, and in expected.json what they answered to the version that saved them.
"""

import json
import shutil
from pathlib import Path

import pytest

from cgcl import LinkPredictor
from cgcl.cli.main import main

SAVED = Path(__file__).parents[1] / "fixtures" / "0.1"
EXPECTED = json.loads((SAVED / "expected.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", EXPECTED)
def test_answers_are_those_of_the_version_that_saved(name: str) -> None:
    predictor = LinkPredictor.load(SAVED / "run" if name == "run" else SAVED / "models" / name)

    best = predictor.top(10)

    expected = EXPECTED[name]
    assert predictor.test_ == pytest.approx(expected["test"])
    assert [[link.source, link.target] for link in best] == [row[:2] for row in expected["best"]]
    assert [link.score for link in best] == pytest.approx([row[2] for row in expected["best"]])
    assert [link.probability for link in best] == pytest.approx(
        [row[3] for row in expected["best"]], rel=1e-5
    )


def test_a_run_of_before_makes_its_report(tmp_path: Path) -> None:
    run = shutil.copytree(SAVED / "run", tmp_path / "run")

    with pytest.raises(SystemExit, match="0"):
        main(["report", str(run)])

    page = (run / "report.html").read_text(encoding="utf-8")
    assert f"{EXPECTED['run']['test']['ap']:.2f}" in page
    assert all(f"{end}<" in page for row in EXPECTED["run"]["best"] for end in row[:2])
