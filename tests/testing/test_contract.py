"""Our own methods keep the contract, one case for each promise of each method.

A new method is checked as soon as it is in the table: it takes whatever settings of `SMALL` it
has, and its defaults otherwise.
"""

from functools import partial

import pytest

from cgcl.methods.table import METHODS, method_named
from cgcl.predict import LinkPredictor
from cgcl.testing import CHECKS, checks_of

SMALL = {
    "hidden": 16,
    "decoder_hidden": 16,
    "epochs": 30,
    "lr": 0.01,
    "batch": 512,
    "hops": 1,
    "nodes_per_hop": 10,
}
"""Settings that are quick and still learn what is planted in a small graph."""

OWN = {"mlp": {"epochs": 60}, "seal": {"epochs": 5}, "s3grl": {"epochs": 5}}
"""What a method needs besides, or can do without."""

LEARNS = "check_learns_planted_partition"
"""The one check that something has to be learned for; all others hold after any epoch."""

LARGE, NOISE = "check_works_in_bounded_memory", "check_learns_nothing_from_noise"
BRIEF = {"epochs": 2, "share": 0.1}
"""For the checks on graphs of 9,000 and 20,000 links."""

EVERY_PAIR = {"cgcl", "cgcl-rank"}
"""On ten thousand nodes the test of these looks at all pairs; that of the others, by the same code,
at as many rows as this many operations allow."""
SAMPLED = 1e10

MINUTES = {("pagerank", LARGE)}
"""What spreads until nothing changes takes a minute there: left to `make slow`."""

STANDING_FOR_ALL = {
    NOISE: {"cgcl-rank", "common-neighbours"},
    "check_fresh_process_loads_the_same": {"cgcl-rank", "seal", "common-neighbours"},
}
"""Checks to which not every method is put: tests/e2e/test_leak_detector.py trains each longer on
the same noise, and test_saved_before.py beside it loads what another process has saved of each."""


def make(method: str, small: dict, **told) -> LinkPredictor:
    own = method_named(method).settings  # whose batch is 0 takes whole views
    settings = {key: value for key, value in small.items() if getattr(own, key, 0)}
    return LinkPredictor(method, threads=1, device="cpu", **settings, **told)


@pytest.mark.parametrize(
    ("method", "check"),
    [
        pytest.param(
            method,
            name,
            id=f"{method}-{name[6:]}",
            marks=[pytest.mark.slow] if (method, name) in MINUTES else [],
        )
        for method in METHODS
        for name, _ in checks_of(partial(make, method, SMALL))
        if method in STANDING_FOR_ALL.get(name, METHODS)
    ],
)
def test_our_predictors_keep_every_promise(method: str, check: str, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("CGCL_CACHE", str(tmp_path))
    small = SMALL | (OWN.get(method, {}) if check == LEARNS else {"epochs": 3})
    if check in (LARGE, NOISE):
        small |= BRIEF
    if check == LARGE and method not in EVERY_PAIR:
        monkeypatch.setattr("cgcl.train.trainer.BUDGET", SAMPLED)
    CHECKS[check](partial(make, method, small))


def test_hardly_anything_is_declared() -> None:
    """An exception is for what a method cannot do by its nature, and has to be argued for."""
    declared = {name: method_named(name).exceptions for name in METHODS}
    assert {name: found for name, found in declared.items() if found} == {
        # Degrees say nothing about groups of equal size.
        "preferential-attachment": {"check_learns_planted_partition"},
    }
