"""Whoever raises the version of a method's numbers sees here which results become older by it."""

import importlib
import sys
from pathlib import Path

import pytest

from cgcl.methods.table import numbers_of
from cgcl.train.execution import versions

sys.path.append(str(Path(__file__).parents[2] / "experiments"))
stale = importlib.import_module("stale")

# By log, the pages that rest on lines with numbers of an older version.
OLDER = {
    "calibration": ["docs/measured.md"],
    "equal": ["README.md", "docs/ranking.md", "docs/results.md"],
    "harder": ["docs/harder-questions.md"],
    "harder_search": ["docs/harder-questions.md"],
    "methods": ["docs/methods.md"],
    "new_links": ["docs/measured.md"],
    "ranking": ["README.md", "docs/ranking.md", "docs/speed.md"],
    "ranking_search": ["docs/ranking.md"],
    "readings": ["docs/paper-to-code.md"],
    "reproduce/runs": ["README.md", "docs/results.md"],
    "seal_hops": ["docs/methods.md"],
    "structure": ["docs/measured.md"],
    "tuning": ["docs/methods.md"],
}


def test_the_pages_that_rest_on_older_numbers_are_these() -> None:
    older = {name for name, (count, _) in stale.older().items() if count}
    assert {name: stale.pages_of(name) for name in sorted(older)} == OLDER


def test_every_log_is_on_a_page() -> None:
    assert [name for name in stale.logs() if not stale.pages_of(name)] == []


@pytest.mark.parametrize("told", [{}, {"numbers": "cgcl 0"}, {"numbers": "gone 1"}])
def test_a_line_without_todays_version_is_older(told: dict[str, str]) -> None:
    assert stale.is_older({"versions": told})


def test_a_line_of_today_becomes_older_when_the_version_is_raised(monkeypatch) -> None:
    line = {"versions": versions("s2gae")}
    assert line["versions"]["numbers"] == numbers_of("s2gae") == "s2gae 1"
    assert not stale.is_older(line)
    monkeypatch.setattr(stale, "numbers_of", lambda name: f"{name} 2")
    assert stale.is_older(line)
