"""Sentences about who is best do not favour anybody."""

import pytest

from cgcl.report import Comparison, MethodResult, Probabilities
from cgcl.report.verdict import ahead_at_top, calibration_choice, metrics_of, verdict


def said(*results, ours="CGCL"):
    methods = [MethodResult(name, metrics) for name, metrics in results]
    return verdict(Comparison(methods, ours=ours)).replace("\N{NO-BREAK SPACE}", " ")


def test_the_better_method_is_named_even_if_it_is_not_ours():
    assert said(("CGCL", {"auc": 0.9}), ("Adamic-Adar", {"auc": 0.95})) == (
        "Adamic-Adar is best by AUC (95.00 %; CGCL 90.00 %)."
    )


def test_metrics_with_the_same_leader_share_a_sentence():
    assert said(
        ("CGCL", {"auc": 0.9, "ap": 0.8, "precision@100": 0.2}),
        ("Adamic-Adar", {"auc": 0.7, "ap": 0.7, "precision@100": 0.3}),
    ) == (
        "At the top of the list, Adamic-Adar is ahead of CGCL: precision@100 30.00 % against "
        "20.00 %. CGCL has the highest AUC (90.00 %) and AP (80.00 %)."
    )


def test_who_is_ahead_at_the_top_comes_first_and_the_other_is_best_at_nothing():
    told = said(
        ("CGCL", {"auc": 0.9, "node_mrr": 0.2, "precision@100": 0.3}),
        ("Adamic-Adar", {"auc": 0.7, "node_mrr": 0.1, "precision@100": 0.5}),
        ("Common neighbours", {"auc": 0.7, "node_mrr": 0.25, "precision@100": 0.5}),
    )
    assert told == (
        "At the top of the list, Common neighbours is ahead of CGCL: node MRR 25.00 % against "
        "20.00 %; Adamic-Adar and Common neighbours are ahead of CGCL: precision@100 50.00 % "
        "against 30.00 %. CGCL has the highest AUC (90.00 %)."
    )
    assert "best" not in told


def test_nobody_is_ahead_of_what_leads_or_was_not_measured():
    better = [MethodResult("CGCL", {"auc": 0.7, "node_mrr": 0.3}), MethodResult("A", {"auc": 0.9})]
    assert ahead_at_top(Comparison(better)) == ""
    level = [MethodResult("CGCL", {"node_mrr": 0.3}), MethodResult("A", {"node_mrr": 0.30001})]
    assert ahead_at_top(Comparison(level)) == ""
    unmeasured = [MethodResult("CGCL", {"auc": 0.7}), MethodResult("A", {"node_mrr": 0.3})]
    assert ahead_at_top(Comparison(unmeasured)) == ""
    assert ahead_at_top(Comparison(better[::-1], ours="A")) == ""


def test_what_looks_equal_on_the_page_shares_the_first_place():
    assert said(("CGCL", {"auc": 0.90001}), ("A", {"auc": 0.9}), ("B", {"auc": 0.9})) == (
        "CGCL, A and B are best by AUC (90.00 %)."
    )


def test_nobody_is_best_at_finding_nothing():
    assert said(
        ("CGCL", {"auc": 0.9, "precision@100": 0.0}), ("A", {"auc": 0.8, "precision@100": 0.0})
    ) == ("Every method is at 0 % by precision@100. CGCL is best by AUC (90.00 %).")


@pytest.mark.parametrize("nothing", [None, float("nan")])
def test_what_was_not_measured_is_never_best(nothing):
    assert said(("CGCL", {"auc": nothing}), ("A", {"auc": 0.0})) == "A is best by AUC (0.00 %)."
    assert metrics_of([MethodResult("A", {"auc": nothing})]) == []


def choice(method, **left):
    losses = {name: {"unexplained": share} for name, share in left.items()}
    return calibration_choice(Probabilities(method, losses, 1e-4, "held-out links"))


def test_the_calibration_says_why_it_was_kept():
    assert choice("platt", platt=0.1, isotonic=0.2) == (
        "Platt scaling turned scores into probabilities: of 2 methods it leaves the least "
        "uncertainty about held-out links."
    )


def test_a_calibration_that_is_not_the_best_admits_it():
    assert choice("platt", platt=0.3, temperature=0.2) == (
        "Platt scaling turned scores into probabilities, although Temperature scaling does "
        "better on held-out links."
    )
    assert choice("bent", platt=0.19, bent=0.2) == (
        "Bent-line scaling turned scores into probabilities: Platt scaling is ahead of it on "
        "held-out links by no more than chance, and does not follow the highest scores."
    )


@pytest.mark.parametrize("left", [{}, {"platt": 0.1}, {"isotonic": 0.1, "temperature": 0.2}])
def test_without_a_comparison_the_calibration_claims_nothing(left):
    assert choice("platt", **left) == "Platt scaling turned scores into probabilities."
