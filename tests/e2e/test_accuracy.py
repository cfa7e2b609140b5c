"""The accuracy that the paper preset promises. Minutes long: run with `make slow`."""

from __future__ import annotations

from statistics import mean

import pytest

from cgcl.graph import Graph
from cgcl.methods.settings import PRESETS
from cgcl.predict import LinkPredictor


@pytest.mark.slow
def test_the_paper_preset_on_five_splits_of_cora(cora: Graph) -> None:
    """Every split counts, and none is drawn again."""
    tests = [
        LinkPredictor("cgcl", **PRESETS["paper"], seed=seed, device="cpu").fit(cora).test_
        for seed in range(5)
    ]
    assert mean(test["auc"] for test in tests) >= 0.963
    assert mean(test["ap"] for test in tests) >= 0.963
