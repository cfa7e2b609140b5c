"""What makes the contract quick without asking less."""

import pytest


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Probabilities need not be fine here, and no small computation waits for other threads."""
    monkeypatch.setattr("cgcl.train.calibrating._MAX_SCORED", 2**17)
    monkeypatch.setattr("cgcl.train.calibrating._MIN_SCORED", 1000)
    monkeypatch.setattr("cgcl.train.calibrating._KEPT", 4000)
    monkeypatch.setattr("cgcl.train.config.Resources.num_threads", 1)
    # A quarter of a second: who has no linear form goes on to pairs two steps apart.
    monkeypatch.setattr("cgcl.predict.strategy._CHEAP", 1e10)
