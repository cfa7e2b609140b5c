"""Names are shown whole or not at all; sentences about who is best do not favour anybody."""

import math
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgcl.metrics.calibration import Calibration, Line
from cgcl.predict.baselines import Compared
from cgcl.report.words import ahead_at_top, calibration_choice, legible, verdict


@given(st.text(st.characters(), max_size=400), st.integers(2, 300))
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
        ("a\nb\tc\x00", "a\\nb\\tc\\x00"),
        ("\ud800", "\\ud800"),
        ("a\u200db", "a\\u200db"),
        ("\u200dא", "\\u200dא"),
        ("א\u200d", "א\\u200d"),
        ("א\u200d\u202eא", "א\\u200d\\u202eא"),
        ("\U0001f469\u200d\U0001f467", "\U0001f469\u200d\U0001f467"),
        ("אב\u200cגד", "אב\u200cגד"),
        ("A" * 101, "A" * 99 + "…"),
    ],
)
def test_hidden_characters_are_written_out(text, shown):
    assert legible(text) == shown


def comparison(*results):
    return Compared([{"method": name, "metrics": metrics} for name, metrics in results])


@pytest.mark.parametrize(
    ("results", "words"),
    [
        (
            [("CGCL", {"auc": 0.9}), ("Adamic-Adar", {"auc": 0.95})],
            "Adamic-Adar is best by AUC (95.00 %; CGCL 90.00 %).",
        ),
        (
            [("CGCL", {"auc": 0.90001}), ("A", {"auc": 0.9}), ("B", {"auc": 0.9})],
            "CGCL, A and B are best by AUC (90.00 %).",
        ),
        (
            [("CGCL", {"auc": 0.9, "precision@100": 0.0}), ("A", {"precision@100": 0.0})],
            "Every method is at 0 % by precision@100. CGCL is best by AUC (90.00 %).",
        ),
        (
            [
                ("CGCL", {"auc": 0.9, "node_mrr": 0.2, "precision@100": 0.3}),
                ("Adamic-Adar", {"auc": 0.7, "node_mrr": 0.1, "precision@100": 0.5}),
                ("Common neighbours", {"auc": 0.7, "node_mrr": 0.25, "precision@100": 0.5}),
            ],
            "At the top of the list, Common neighbours is ahead of CGCL: node MRR 25.00 % against "
            "20.00 %; Adamic-Adar and Common neighbours are ahead of CGCL: precision@100 50.00 % "
            "against 30.00 %. CGCL has the highest AUC (90.00 %).",
        ),
        ([("CGCL", {"auc": None}), ("A", {"auc": 0.0})], "A is best by AUC (0.00 %)."),
        ([("CGCL", {"auc": math.nan}), ("A", {"auc": 0.0})], "A is best by AUC (0.00 %)."),
    ],
)
def test_the_best_is_named_even_if_it_is_not_ours_and_equals_share_the_place(results, words):
    assert verdict(comparison(*results)).replace("\N{NO-BREAK SPACE}", " ") == words


@pytest.mark.parametrize(
    "results",
    [
        [("CGCL", {"auc": 0.7, "node_mrr": 0.3}), ("A", {"auc": 0.9})],
        [("CGCL", {"node_mrr": 0.3}), ("A", {"node_mrr": 0.30001})],
        [("CGCL", {"auc": 0.7}), ("A", {"node_mrr": 0.3})],
    ],
)
def test_nobody_is_ahead_of_what_leads_or_was_not_measured(results):
    assert ahead_at_top(comparison(*results)) == ""


@pytest.mark.parametrize(
    ("method", "left", "words"),
    [
        (
            "platt",
            {"platt": 0.1, "isotonic": 0.2},
            ": of 2 methods it leaves the least uncertainty about held-out links.",
        ),
        (
            "platt",
            {"platt": 0.3, "temperature": 0.2},
            ", although Temperature scaling does better on held-out links.",
        ),
        (
            "bent",
            {"platt": 0.19, "bent": 0.2},
            ": Platt scaling is ahead of it on held-out links by no more than chance, and does not "
            "follow the highest scores.",
        ),
        ("platt", {"platt": 0.1}, "."),
        ("platt", {"isotonic": 0.1, "temperature": 0.2}, "."),
    ],
)
def test_the_calibration_says_why_it_was_kept(method, left, words):
    losses = {name: {"unexplained": share} for name, share in left.items()}
    told = calibration_choice(Calibration(method, Line(1.0), 1e-4, losses, {}))
    name = {"platt": "Platt scaling", "bent": "Bent-line scaling"}[method]
    assert told == f"{name} turned scores into probabilities{words}"
