"""Runs of earlier versions, which stored the features that they had made of all training links.

`stored_features` is such a run on a small graph without features, and `answers.json` what its
predictor answered then.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cgcl import LinkPredictor
from cgcl.graph.features import has_structural_features
from cgcl.train.run import resume_run

FOLDER = Path(__file__).parent / "stored_features"


@pytest.fixture(scope="module")
def answers() -> dict[str, Any]:
    return json.loads((FOLDER / "answers.json").read_text())


def require_same(predictor: LinkPredictor, answers: dict[str, Any]) -> None:
    near = {"rtol": 1e-5, "atol": 1e-6}
    pairs = [tuple(pair) for pair in answers["pairs"]]
    np.testing.assert_allclose(predictor.score(pairs), answers["scores"], **near)
    np.testing.assert_allclose(predictor.probability(pairs), answers["probabilities"], **near)
    for found, expected in zip(predictor.test_scores(), answers["test"], strict=True):
        torch.testing.assert_close(found, torch.tensor(expected), **near)
    joined = predictor.with_new_nodes(["new"], [("new", "n00"), ("new", "n03")])
    np.testing.assert_allclose(
        joined.score([("new", "n06"), ("new", "n01")]), answers["new"], **near
    )


def test_an_earlier_run_answers_as_before(answers: dict[str, Any], tmp_path: Path) -> None:
    predictor = LinkPredictor.load(FOLDER, device="cpu")
    assert predictor.graph_.x is not None
    assert predictor.graph_.structure is None
    assert has_structural_features(predictor.graph_)
    require_same(predictor, answers)
    assert "common_features" not in predictor.top(1, explain=True)[0].evidence
    predictor.save(tmp_path / "again")
    require_same(LinkPredictor.load(tmp_path / "again", device="cpu"), answers)


def test_an_earlier_run_goes_on_with_the_features_it_began_with(
    answers: dict[str, Any], tmp_path: Path
) -> None:
    folder = tmp_path / "toy-1"
    shutil.copytree(FOLDER, folder)
    (folder / "model.safetensors").unlink()
    about = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(about | {"status": "interrupted"}))
    run = resume_run(folder)
    with run.folder:
        run.train()
    # More is measured now than then.
    measured = {name: run.about["test"][name] for name in about["test"]}
    assert measured == pytest.approx(about["test"])
    require_same(LinkPredictor.load(folder, device="cpu"), answers)


def test_fitted_again_its_features_are_made_of_the_links_that_are_seen() -> None:
    graph = LinkPredictor.load(FOLDER, device="cpu").graph_
    again = LinkPredictor(hidden=4, epochs=2, threads=1).fit(graph)
    assert again.graph_.x is None
    assert again.graph_.structure is not None
    assert sum(note.startswith("No features given") for note in again.graph_.notes) == 1
