"""The page on adding a method: its toy is run, and every method has its card."""

import re
import sys
from pathlib import Path

import pytest

import cgcl
from cgcl.methods.table import METHODS
from cgcl.testing import checks_of

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
CARDS = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
PARTS = ("Idea", "Paper", "Settings", "Differently", "Cost")


def toy_source() -> str:
    (source,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    return source


@pytest.fixture
def dot(tmp_path, monkeypatch) -> str:
    """The file of the page, and its line in the table."""
    (tmp_path / "dot_of_the_page.py").write_text(toy_source(), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(METHODS, "dot", "dot_of_the_page:METHOD")
    yield "dot"
    sys.modules.pop("dot_of_the_page", None)


def test_the_toy_takes_about_thirty_lines_and_one_in_the_table() -> None:
    assert '"dot": "cgcl.methods.dot:METHOD",' in PAGE
    lines = [line for line in toy_source().splitlines() if line.strip()]
    assert len(lines) <= 32


def test_the_toy_keeps_the_contract_like_any_method(dot: str, monkeypatch) -> None:
    monkeypatch.setattr("cgcl.train.calibrating._MAX_SCORED", 2**17)

    def make(**settings):
        return cgcl.LinkPredictor(dot, width=8, lr=0.05, epochs=60, threads=1, **settings)

    # The line is in this process's table only, so no other process can load what it saved; and two
    # checks on large graphs take three quarters of the time.
    left_out = {
        "check_fresh_process_loads_the_same",
        "check_works_in_bounded_memory",
        "check_learns_nothing_from_noise",
    }
    for _, check in checks_of(make, declared=frozenset(left_out)):
        check()


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_a_card_with_all_its_parts(name: str) -> None:
    cards = dict(re.findall(r"^## .*?`([a-z0-9-]+)`\n(.*?)(?=^## |\Z)", CARDS, re.M | re.S))
    assert name in cards
    missing = [part for part in PARTS if f"**{part}.**" not in cards[name]]
    assert not missing
