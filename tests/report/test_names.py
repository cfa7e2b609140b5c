"""What a reader sees of a name: all of it, or a sign that there is more."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgcl.report.names import legible

ANYTHING = st.text(st.characters(), max_size=400)


@given(ANYTHING, st.integers(2, 300))
def test_nothing_hidden_is_left(text, limit):
    shown = legible(text, limit)
    assert len(shown) <= limit
    hidden = {"Cc", "Cs", "Co", "Cn", "Zl", "Zp", "Cf"}
    left = {c for c in shown if unicodedata.category(c) in hidden}
    assert left <= {"\u200c", "\u200d"}
    shown.encode()


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]), max_size=100))
def test_ordinary_text_stays_as_it_is(text):
    assert legible(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\u202eb", "a\\u202eb"),
        ("a\u2066b", "a\\u2066b"),
        ("a\u200bb", "a\\u200bb"),
        ("a\nb\tc\x00", "a\\nb\\tc\\x00"),
        ("a\u2028b", "a\\u2028b"),
        ("\ud800", "\\ud800"),
        ("a\u200db", "a\\u200db"),
        ("\u200dא", "\\u200dא"),
        ("א\u200d", "א\\u200d"),
        ("א\u200d\u202eא", "א\\u200d\\u202eא"),
        ("\U0001f469\u200d\U0001f467", "\U0001f469\u200d\U0001f467"),
        ("אב\u200cגד", "אב\u200cגד"),
        (" Anna", " Anna"),
    ],
)
def test_hidden_characters_are_written_out(text, shown):
    assert legible(text) == shown


def test_a_long_name_ends_in_an_ellipsis():
    assert legible("A" * 100) == "A" * 100
    assert legible("A" * 101) == "A" * 99 + "…"
