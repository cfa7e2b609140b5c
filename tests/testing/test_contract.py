"""Our own predictors keep the contract, one case for each promise."""

from __future__ import annotations

import pytest

from cgcl.predict import LinkPredictor
from cgcl.predict.baseline_predictor import BaselinePredictor
from cgcl.testing import checks_of


def make_cgcl(**settings):
    return LinkPredictor(hidden=16, epochs=30, threads=1, device="cpu", **settings)


def make_common_neighbours(**settings):
    return BaselinePredictor("common-neighbours", threads=1, device="cpu", **settings)


def make_adamic_adar(**settings):
    return BaselinePredictor("adamic-adar", threads=1, device="cpu", **settings)


def make_features_mlp(**settings):
    return BaselinePredictor(
        "features-mlp", hidden=16, epochs=60, threads=1, device="cpu", **settings
    )


MAKERS = [make_cgcl, make_common_neighbours, make_adamic_adar, make_features_mlp]


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(check, id=f"{make.__name__[5:]}-{name[6:]}")
        for make in MAKERS
        for name, check in checks_of(make)
    ],
)
def test_our_predictors_keep_every_promise(check) -> None:
    check()
