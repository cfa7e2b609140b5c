"""Files that once broke a reader or reached a far branch, and a short search for more of them."""

import math
import re
import signal
import sys
import warnings
from pathlib import Path

import pytest

from cgcl.errors import GraphFormatError

sys.path.append(str(Path(__file__).parents[2] / "scripts" / "attack"))

import fuzz


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "toy.csv").write_text(fuzz.TOY)
    return tmp_path


@pytest.mark.parametrize("kind", fuzz.KINDS)
def test_every_file_of_the_corpus_and_some_more_are_read_or_refused(folder, kind):
    search = fuzz.Search(kind, seed=1)
    search.go(10, math.inf)
    assert search.examples == {}
    assert search.tries == len(search.seeds) + 10 > 10


def refuse(words):
    raise GraphFormatError(words)


BROKEN = {
    "ValueError in .*test_corpus": lambda _: int("x"),
    "a warning escapes: UserWarning": lambda _: warnings.warn("x", stacklevel=1),
    "takes more than": lambda _: signal.raise_signal(signal.SIGALRM),
    "takes [56]": lambda _: b"x" * 600_000_000,
    "words: GraphFormatError": lambda _: refuse("x\n" * 5),
    "words: a traceback": lambda _: refuse("Traceback"),
    "exit code 70": lambda _: sys.exit(70),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_reader_that_breaks_the_rules_is_found_out(folder, what):
    assert re.match(what, fuzz.fault_of(BROKEN[what], folder) or "")


def test_what_reads_well_or_is_refused_well_is_no_fault(folder):
    assert fuzz.fault_of(lambda _: 1, folder) is None
    assert fuzz.fault_of(lambda _: refuse("x\ny"), folder) is None


def test_inputs_that_go_new_ways_are_kept_and_the_same_seed_gives_the_same(folder):
    searches = [fuzz.Search("pairs.csv", seed=seed) for seed in (3, 3, 4)]
    for search in searches:
        search.go(60, math.inf)
    first, again, other = (search.draw.pool for search in searches)
    assert first == again
    assert len(first) > len(searches[0].seeds)
    assert other != first


def test_what_is_kept_is_as_small_as_it_goes():
    assert fuzz.Search.shrunk(b"some long text with an x in it", lambda own: b"x" in own) == b"x"
